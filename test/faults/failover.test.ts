/** Databases that restart, hang and fail over: what was acknowledged stays, no address is issued twice, and one process follows each chain. */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { type Db, openDb } from '../../src/db/db.ts';
import { createLog } from '../../src/log.ts';
import { diagnose } from '../../src/operate/doctor.ts';
import { eventually } from '../kit/app.ts';
import { missingServer, type Pair, type Template } from '../kit/database-pair.ts';
import { countLost, createShopTemplate, type Drill, startDrill } from '../kit/failover.ts';

const skip = missingServer;
let template: Template;
/** A pair that does not wait for its standby. */
let loose: Pair;
before(async () => {
  if (skip) return;
  template = await createShopTemplate();
  loose = await template.pair({ synchronous: false });
});
after(async () => {
  await loose?.stop();
  template?.remove();
});

const database = async ({ api }: Drill) => (await diagnose(api.ctx)).findings.find(({ check }) => check === 'database')!;
const ready = async ({ api }: Drill) => fetch(`${api.url}/readyz`);

/** With the name that the certificate is for, which is checked. */
const encrypted = (pair: Pair): Pair => ({
  ...pair,
  url: `${pair.url.replaceAll('127.0.0.1', 'localhost')}?sslmode=verify-full&sslrootcert=${pair.certificate}`,
});

test('a primary that restarts, and one that hangs, is left for its synchronous standby: nothing acknowledged is lost, one process follows', {
  skip,
}, async (t) => {
  const drill = await startDrill(encrypted(await template.pair({ synchronous: true })));
  t.after(drill.stop);
  const { primary, standby } = drill.pair;
  await drill.oneFollows(primary);
  assert.match((await database(drill)).detail, /a primary on timeline 1, .*every commit is on disk and on a standby/);
  const known = async () => ((await (await ready(drill)).json()) as { database: object | null }).database;
  assert.deepEqual(await known(), { role: 'primary', timeline: 1 });
  await primary.kill();
  await primary.start();
  await drill.works();
  await drill.oneFollows(primary);
  primary.hang();
  await eventually(
    () => ready(drill),
    ({ status }) => status === 503,
  );
  assert.deepEqual(await (await ready(drill)).json().then((body: any) => body.reasons), ['the database does not answer']);
  assert.equal(await known(), null);
  const { status, json, headers } = await drill.test.get('/api/payment/list');
  assert.deepEqual([status, json.error.code, headers.get('retry-after')], [503, 'database_unavailable', '2']);
  await standby.promote();
  await standby.ask(`alter system set synchronous_standby_names = ''`);
  await standby.ask('select pg_reload_conf()');
  await drill.works();
  await drill.oneFollows(standby);
  assert.deepEqual(await known(), { role: 'primary', timeline: 2 });
  assert.match(await (await fetch(`${drill.api.url}/metrics`)).text(), /^florin_database_timeline 2$/m);
  assert.equal(await countLost(drill), 0);
  assert.equal(new Set(drill.shown.values()).size, drill.shown.size);
});

/** Whether the connections of a database are encrypted: those of the pool, of its lane and of a session. */
async function isEncrypted({ sql, lane, session }: Db): Promise<boolean[]> {
  const own = session();
  const replies = [sql, lane, own.sql].map(
    async (tag) => (await tag<{ ssl: boolean }[]>`select ssl from pg_stat_ssl where pid = pg_backend_pid()`)[0]!.ssl,
  );
  return Promise.all(replies).finally(own.close);
}

test('connections are encrypted, and the certificate is checked, as DATABASE_URL says', { skip }, async () => {
  const { primary, standby, certificate } = loose;
  const open = (query: string, host = 'localhost', before = '') =>
    openDb({ url: `postgres://florin@${before}${host}:${primary.port}/florin?${query}`, log: createLog('silent') });
  for (const [query, expected, host] of [
    ['sslmode=disable', false],
    ['sslmode=prefer', true],
    ['sslmode=require', true],
    [`sslmode=require&sslrootcert=${certificate}`, true, '127.0.0.1'],
    [`sslmode=verify-ca&sslrootcert=${certificate}`, true, '127.0.0.1'],
    [`sslmode=verify-full&sslrootcert=${certificate}`, true],
  ] as const) {
    const db = await open(query, host, `localhost:${standby.port},`);
    assert.deepEqual(await isEncrypted(db), [expected, expected, expected], query);
    await db.close();
  }
  for (const [query, why, host] of [
    ['sslmode=verify-full', /self-signed certificate/],
    ['sslmode=require&sslrootcert=system', /self-signed certificate/],
    [`sslmode=verify-full&sslrootcert=${certificate}`, /altnames/, '127.0.0.1'],
  ] as const)
    await assert.rejects(open(query, host), { code: 'CONNECTION_INSECURE', message: why }, query);
  await assert.rejects(open(`sslmode=verify-full&sslrootcert=${certificate}.gone`), { code: 'ENOENT' });
});

test('after a failover to a standby that was behind, no address is issued again, not even by a process with another data folder', {
  skip,
}, async (t) => {
  const drill = await startDrill(loose);
  t.after(drill.stop);
  const { primary, standby } = drill.pair;
  await drill.oneFollows(primary);
  const { ok, detail } = await database(drill);
  assert.deepEqual([ok, /a failover to it loses the last payments/.test(detail)], [false, true]);
  const alone = `postgres://florin@127.0.0.1:${standby.port}/florin`;
  await assert.rejects(openDb({ url: alone, log: createLog('silent') }), { code: 'CONNECTION_NOT_PRIMARY', message: /is a standby/ });
  // A server that accepts no writes for a while: orders get a 503, not a 500.
  const refused = drill.refused();
  await primary.ask('alter system set default_transaction_read_only = on');
  await primary.ask('select pg_reload_conf()');
  await eventually(
    async () => drill.refused(),
    (now) => now > refused,
  );
  await primary.ask('alter system reset default_transaction_read_only');
  await primary.ask('select pg_reload_conf()');
  await drill.works();
  for (let i = 0; i < 3; i++) await drill.order();
  await drill.order(drill.api);
  const [there] = await primary.ask('select pg_current_wal_lsn() as lsn');
  await eventually(
    () => standby.ask(`select pg_last_wal_replay_lsn() >= '${there!.lsn}' as same`),
    ([row]) => row!.same,
  );
  await standby.ask(`alter system set primary_conninfo = ''`);
  await standby.ask('select pg_reload_conf()');
  await eventually(
    () => primary.ask('select 1 from pg_stat_replication'),
    (rows) => rows.length === 0,
  );
  for (let i = 0; i < 8; i++) assert.ok(await drill.order());
  for (let i = 0; i < 4; i++) assert.ok(await drill.order(drill.api));
  await primary.kill();
  await standby.promote();
  await drill.works();
  for (let i = 0; i < 10; i++) assert.ok(await drill.order(i % 2 === 0 ? undefined : drill.api));
  await drill.oneFollows(standby);
  assert.equal(new Set(drill.shown.values()).size, drill.shown.size);
});
