/**
 * Backup and restore: taken beside a running service under load, restored into a fresh install, refused where data would be lost or
 * mixed.
 */
import assert from 'node:assert/strict';
import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import {
  copyFileSync,
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { join, resolve } from 'node:path';
import { after, before, type TestContext, test } from 'node:test';
import { promisify } from 'node:util';
import { gunzipSync, gzipSync } from 'node:zlib';
import { HDKey } from '@scure/bip32';
import { acceptSecretKey, openCore, restore as restoreInstall } from '../../src/app.ts';
import { readConfig } from '../../src/config.ts';
import { claimServe } from '../../src/db/embedded.ts';
import { createLog } from '../../src/log.ts';
import { BackupError, restoreBackup, writeBackup } from '../../src/operate/backup.ts';
import { diagnose, verifyAddresses } from '../../src/operate/doctor.ts';
import { sealerOf } from '../../src/operate/seal.ts';
import { jumpRestored } from '../../src/wallets/wallets.ts';
import { rotateSecret } from '../../src/webhooks/endpoints.ts';
import { type Client, client, eventually, testEnvironment } from '../kit/app.ts';
import { base58check } from '../kit/base58.ts';
import { type TestDatabase, testDatabase } from '../kit/database.ts';
import { isLongRun, longTest } from '../kit/long.ts';
import { freePort, startLitecoind, type TestNode } from '../kit/nodes.ts';
import { type Service, startService } from '../kit/service.ts';

const log = createLog('silent');
const run = promisify(execFile);
const folder = mkdtempSync('/dev/shm/florin-backup-');
const file = join(folder, 'florin.backup');

let node: TestNode;
let source: Service;
const settings = () => ({
  LTC_NODE_URL: node.url,
  LTC_NETWORK: 'regtest',
  LTC_CONFIRMATIONS: '2',
  PRICES: 'static:LTC=100.00',
  PLANS: '{"enterprise":{"per_minute":0}}',
  // The key is the file in the data folder, as in a plain install.
  SECRET_KEY: '',
});
before(async () => {
  node = await startLitecoind();
  source = await startService({ environment: settings() });
  const account = HDKey.fromMasterSeed(new Uint8Array(32).fill(11)).derive("m/84'/1'/0'").publicExtendedKey;
  await source.florin(
    ...['wallet', 'set', '--merchant', source.merchantId, '--coin', 'LTC', '--mode', 'live'],
    ...['--key', base58check.respell(account, 0x043587cf), '--script', 'p2wpkh'],
  );
  await eventually(
    () => fetch(`${source.url}/readyz`).then((reply) => reply.json() as Promise<any>),
    (ready) => ready.followers?.LTC !== undefined,
    60_000,
  );
});
after(async () => {
  await restored?.end();
  await source?.destroy();
  await node?.destroy();
  rmSync(folder, { recursive: true, force: true });
});

/** An install with its own embedded database, as an operator runs it. */
let restored: {
  url: string;
  live: Client;
  test: Client;
  florin(...args: string[]): Promise<any>;
  start(): Promise<void>;
  end(): Promise<void>;
};
async function install(dataFolder: string) {
  const port = await freePort();
  const url = `http://127.0.0.1:${port}`;
  const env: Record<string, string> = {
    PATH: process.env.PATH ?? '',
    ...testEnvironment('', dataFolder, { PORT: String(port), PUBLIC_URL: url, LOG_LEVEL: 'fatal', ...settings() }),
  };
  let child: ChildProcess | null = null;
  return {
    url,
    live: client(url, keys.live),
    test: client(url, keys.test),
    florin: async (...args: string[]) => {
      // `doctor` exits with 1 and prints its JSON when the operator has to act.
      const { stdout, stderr } = await run(process.execPath, ['src/main.ts', ...args, '--json'], { env }).catch(
        (error: { stdout: string; stderr: string }) => error,
      );
      if (stdout === '') throw new Error(stderr.trim());
      return JSON.parse(stdout);
    },
    start: async () => {
      child = spawn(process.execPath, ['--disable-warning=ExperimentalWarning', 'src/main.ts', 'serve'], {
        env,
        stdio: ['ignore', 'ignore', 'inherit'],
      });
      await eventually(
        () =>
          fetch(`${url}/healthz`).then(
            (reply) => reply.ok,
            () => false,
          ),
        (up) => up,
        60_000,
      );
    },
    end: async () => {
      if (!child || child.exitCode !== null || child.signalCode !== null) return;
      const ended = once(child, 'exit');
      child.kill('SIGTERM');
      await ended;
    },
  };
}
const keys = { live: '', test: '' };

/** All pages of a list. */
async function walk(from: Client, path: string, id: (row: any) => string): Promise<{ rows: any[]; totals: Set<number> }> {
  const rows: any[] = [];
  const totals = new Set<number>();
  for (;;) {
    const page = (await from.get(`${path}?limit=100${rows.length > 0 ? `&starting_after=${id(rows.at(-1))}` : ''}`)).json;
    totals.add(page.total_count);
    rows.push(...page.data);
    if (!page.has_more) return { rows, totals };
  }
}
const payments = (from: Client) => walk(from, '/api/payments', (row) => row.transaction_id);
const events = (from: Client) => walk(from, '/v1/events', (row) => row.id);
const addressOf = async (from: Client, id: string) => (await from.get(`/api/payment/${id}`)).json.payment_address as string;
const create = async (from: Client): Promise<string> => {
  const reply = await from.post('/api/payment/create/simple', { amount_usd: 25, return_url: 'https://shop.example/' });
  assert.equal(reply.status, 201, reply.text);
  return reply.json.transaction_id;
};
async function choose(url: string, id: string): Promise<void> {
  const page = await (await fetch(`${url}/pay?id=${id}`)).text();
  const token = /name="token" value="([^"]+)"/.exec(page)![1]!;
  const reply = await fetch(`${url}/pay/select`, { method: 'POST', body: new URLSearchParams({ id, token, currency: 'LTC' }) });
  assert.ok(reply.ok, await reply.text());
}

// Invariant: A backup under load contains everything acknowledged; after a restore, no address is issued twice.
test('a fresh install continues from a backup made beside a service under load', async (t) => {
  keys.live = (await source.florin('key', 'create', '--merchant', source.merchantId, '--mode', 'live', '--type', 'secret')).key;
  keys.test = (await source.florin('key', 'create', '--merchant', source.merchantId, '--mode', 'test', '--type', 'secret')).key;
  const simulated = await create(source.test);
  await source.test.post(`/v1/test/payments/${simulated}/simulate`, { scenario: 'success', currency: 'BTC' });
  await eventually(
    () => source.test.get(`/api/payment/${simulated}`),
    (reply) => reply.json.status === 'completed',
  );

  // Four callers create payments until stopped; every other payment gets an address.
  const acknowledged: string[] = [];
  const withAddress: string[] = [];
  let loaded = true;
  const caller = async () => {
    for (let turn = 0; loaded; turn++) {
      const id = await create(source.live);
      if (turn % 2 === 0) {
        await choose(source.url, id);
        withAddress.push(id);
      }
      acknowledged.push(id);
      // The backup needs the processor too.
      await new Promise((done) => setTimeout(done, 20));
    }
  };
  const callers = Array.from({ length: 4 }, caller);
  await eventually(
    async () => acknowledged.length,
    (count) => count > (isLongRun ? 120 : 50),
    120_000,
  );
  source.receiver.answer(500);
  const undelivered = [await create(source.live), await create(source.live)];
  const sure = [...acknowledged, ...undelivered];
  const sureWithAddress = [...withAddress];
  const made = await source.florin('backup', '--file', file);
  const during = acknowledged.length - sure.length;
  // The backup does not contain what is issued after it.
  const whenMade = withAddress.length;
  await eventually(
    async () => withAddress.length,
    (count) => count > whenMade + 25,
    120_000,
  );
  loaded = false;
  await Promise.all(callers);
  const there = { live: await payments(source.live), test: await payments(source.test), events: await events(source.live) };
  const details = new Map<string, any>();
  for (const id of [...sure, simulated]) {
    const { json } = await (id === simulated ? source.test : source.live).get(`/api/payment/${id}`);
    details.set(id, json);
  }
  const everIssued = new Map<string, string>();
  for (const id of withAddress) everIssued.set(await addressOf(source.live, id), id);
  await source.end('SIGKILL');

  assert.equal(statSync(file).mode & 0o777, 0o600);
  assert.deepEqual(
    readdirSync(folder).filter((name) => name.endsWith('.partial')),
    [],
  );
  const fresh = join(folder, 'fresh');
  mkdirSync(fresh, { mode: 0o711 });
  copyFileSync(join(source.database.folder, 'wallet-indexes.json'), join(fresh, 'wallet-indexes.json'));
  restored = await install(fresh);
  const back = await restored.florin('restore', '--file', file);
  assert.deepEqual(back.tables, made.tables);
  assert.ok(back.tables.payments >= sure.length + 1);
  assert.deepEqual(back.migrated, []);
  assert.equal(readFileSync(join(fresh, 'secret.key'), 'utf8'), readFileSync(join(source.database.folder, 'secret.key'), 'utf8'));

  source.receiver.answer(200);
  await restored.start();
  await t.test('payments, lists, exact totals and events are as they were when the backup was made', async () => {
    const live = await payments(restored.live);
    const ids = live.rows.map((row) => row.transaction_id);
    assert.deepEqual(ids, there.live.rows.map((row) => row.transaction_id).slice(-ids.length));
    for (const id of sure) assert.ok(ids.includes(id), `${id} was acknowledged before the backup began`);
    assert.deepEqual([...live.totals], [ids.length]);
    const { rows, totals } = await payments(restored.test);
    assert.deepEqual(rows, there.test.rows);
    assert.deepEqual(totals, there.test.totals);
    for (const [id, known] of details) {
      const url = (text: string) => text.replaceAll(restored.url, source.url);
      const reply = await (id === simulated ? restored.test : restored.live).get(`/api/payment/${id}`);
      assert.deepEqual(JSON.parse(url(reply.text)), known);
    }
    const told = (await events(restored.live)).rows;
    const known = new Map(there.events.rows.map((row) => [row.id, row]));
    assert.equal(new Set(told.map((row) => row.id)).size, told.length);
    for (const event of told) assert.deepEqual(event, known.get(event.id));
    const createdIn = new Set(told.filter((row) => row.type === 'payment.created').map((row) => row.data.id));
    for (const id of ids) assert.ok(createdIn.has(id), `the creation of ${id} has its event`);
  });
  await t.test('webhooks that were not delivered are delivered after the restore', async () => {
    for (const id of undelivered) {
      await eventually(
        async () => source.eventsOf(id),
        (seen) => seen.join() === 'created',
        // The endpoint may be paused for up to a minute, as it was when the backup was made.
        90_000,
      );
    }
  });
  await t.test('no address is issued twice, although the backup does not contain them all', async () => {
    const held = new Set((await payments(restored.live)).rows.map((row) => row.transaction_id));
    const lost = [...everIssued.values()].filter((id) => !held.has(id));
    assert.ok(lost.length > 20, `only ${lost.length} addresses were given since, the reserve would do`);
    for (let i = 0; i < 10; i++) {
      const id = await create(restored.live);
      await choose(restored.url, id);
      assert.ok(!everIssued.has(await addressOf(restored.live, id)));
    }
    assert.equal((await restored.florin('verify')).ok, true);
  });
  await t.test('a payment in the backup completes, and a deposit to an address issued later is reported until it is claimed', async () => {
    const known = sureWithAddress[0]!;
    const held = new Set((await payments(restored.live)).rows.map((row) => row.transaction_id));
    const [lostAddress] = [...everIssued].find(([, id]) => !held.has(id))!;
    await node.pay(await addressOf(restored.live, known), '0.25000000');
    const txid = await node.pay(lostAddress, '0.25000000');
    await node.mine(2);
    await eventually(
      () => restored.live.get(`/api/payment/${known}`),
      (reply) => reply.json.status === 'completed',
      90_000,
    );
    const named = await eventually(
      async () => (await restored.florin('doctor')).findings.filter((f: any) => f.check === 'LTC deposit'),
      (found) => found.length > 0,
      90_000,
    );
    assert.equal(named.length, 1);
    assert.equal(named[0].ok, false);
    assert.match(named[0].detail, new RegExp(`0\\.25000000 came to ${lostAddress} `));
    const [ref] = new RegExp(`${txid}:\\d+`).exec(named[0].detail)!;
    assert.equal((await restored.florin('deposit', 'claim', '--coin', 'ltc', '--ref', ref)).claimed, true);
    assert.deepEqual(
      (await restored.florin('doctor')).findings.filter((f: any) => f.check === 'LTC deposit'),
      [],
    );
    await assert.rejects(restored.florin('deposit', 'claim', '--coin', 'LTC', '--ref', `${txid}:77`), /this deposit does not exist/);
  });
  await t.test('a restore over a running service or over existing data is refused', async () => {
    const before = (await payments(restored.live)).rows;
    await assert.rejects(restored.florin('restore', '--file', file), /Florin is running on this database/);
    await restored.end();
    await assert.rejects(restored.florin('restore', '--file', file), /This install is not empty/);
    await restored.start();
    assert.deepEqual((await payments(restored.live)).rows, before);
  });
  t.diagnostic(
    `${made.rows} rows, ${made.bytes} bytes, written in ${made.duration_ms} ms (${during} creates acknowledged meanwhile), restored in ${back.duration_ms} ms`,
  );
});

/** Two installs for the cases that need no service: one with a few rows, and an empty one. */
async function pair(t: { after(fn: () => Promise<void>): void }): Promise<{ full: TestDatabase; empty: TestDatabase; path: string }> {
  const full = await testDatabase();
  const empty = await testDatabase();
  t.after(async () => {
    await full.drop();
    await empty.drop();
  });
  await fill(full);
  return { full, empty, path: join(full.folder, 'florin.backup') };
}
async function fill({ db }: Pick<TestDatabase, 'db'>): Promise<void> {
  await db.sql`insert into install (event_key) values ('\\x00ff')`;
  await db.sql`insert into merchants (id, name, plan) values ('mer_1', ${'line\nbreak \\. \\N tab\t \u{1F980}'}, 'starter')`;
  await db.sql`
    insert into wallets (id, merchant_id, family, network, chain_key, account_key, script, path, next_index)
    values ('wal_1', 'mer_1', 'BTC', 'mainnet', 'a', 'a', 'p2wpkh', 'm', 5), ('wal_2', 'mer_1', 'LTC', 'mainnet', 'b', 'b', 'p2wpkh', 'm', 7)`;
  await db.sql`
    insert into payment_count_deltas (merchant_id, mode, status, coin, payments) select 'mer_1', 'live', 'pending', repeat('x', i % 300), i from generate_series(1, 4000) i`;
}
const restore = ({ db, folder: dataFolder }: Pick<TestDatabase, 'db' | 'folder'>, path: string, secretKey?: string) =>
  restoreBackup({ db, dataFolder, secretKey, file: path, log, finish: (tx) => jumpRestored(tx, { dataFolder }) });
const backup = ({ db, folder: dataFolder }: Pick<TestDatabase, 'db' | 'folder'>, path: string, secretKey?: string) =>
  writeBackup({ db, dataFolder, secretKey, file: path });
const refused = (reason: RegExp) => (error: Error) => error instanceof BackupError && reason.test(error.message);

const unpacked = (bytes: Uint8Array): Buffer | null => {
  try {
    return gunzipSync(bytes);
  } catch {
    return null;
  }
};

// Invariant: A damaged backup is not restored, not even in part.
test('truncated, altered and foreign files are refused and leave nothing behind; the complete file is then restored', async (t) => {
  const { full, empty, path } = await pair(t);
  writeFileSync(join(full.folder, 'secret.key'), 'the key\n');
  await backup(full, path);
  const whole = readFileSync(path);
  const bad = join(folder, 'bad.backup');
  const refuses = async (bytes: Uint8Array, reason: RegExp, what: string) => {
    writeFileSync(bad, bytes);
    await assert.rejects(restore(empty, bad), refused(reason), what);
    const [row] = await empty.db.sql<
      { count: bigint }[]
    >`select (select count(*) from merchants) + (select count(*) from payment_count_deltas) as count`;
    assert.equal(row!.count, 0n, what);
    assert.ok(!existsSync(join(empty.folder, 'secret.key')), what);
  };
  for (const share of isLongRun ? [0, 0.001, 0.1, 0.5, 0.9, 0.999] : [0, 0.001, 0.9]) {
    const length = Math.floor(whole.length * share);
    await refuses(whole.subarray(0, length), /is damaged or cut off|is not a backup/, `cut to ${length} bytes`);
  }
  await refuses(whole.subarray(0, -1), /is damaged or cut off/, 'cut by one byte');
  const content = gunzipSync(whole);
  const flips = isLongRun ? 40 : 10;
  for (let i = 0; i < flips; i++) {
    // After the ten bytes of the gzip header.
    const at = 10 + Math.floor(((whole.length - 11) * i) / (flips - 1));
    const altered = Buffer.from(whole);
    altered[at]! ^= 1 << (i % 8);
    // Some bits of a gzip file are never read.
    if (unpacked(altered)?.equals(content)) continue;
    await refuses(altered, /is damaged or cut off|is not a backup/, `bit ${i % 8} of byte ${at} of ${whole.length}`);
  }
  // Altered before it was compressed: the gzip checksums match, but those of the tables do not.
  const plain = gunzipSync(whole).toString('latin1');
  const rewrite = (text: string) => gzipSync(Buffer.from(text, 'latin1'));
  const changed = plain.replace('\tpending\txx\t', '\tpending\txy\t');
  assert.notEqual(changed, plain);
  await refuses(rewrite(changed), /is damaged or cut off/, 'a value changed');
  await refuses(rewrite(plain.slice(0, plain.lastIndexOf('{'))), /is damaged or cut off/, 'without its last line');
  await refuses(rewrite(`${plain}more\n`), /is damaged or cut off/, 'with more behind it');
  const [header, , ...rest] = plain.split('\n');
  const headed = (text: string) => {
    assert.notEqual(text, header);
    return rewrite([text, createHash('sha256').update(text).digest('hex'), ...rest].join('\n'));
  };
  await refuses(headed(header!.replace('"name":"merchants"', '"name":"pg_class"')), /a table that Florin does not have/, 'a foreign table');
  await refuses(headed(header!.replace('"florin_backup":1', '"florin_backup":2')), /newer Florin/, 'a newer form');
  await refuses(headed(header!.replace('.sql"]', '.sql","9999_later.sql"]')), /newer Florin .*9999_later\.sql/, 'a newer schema');
  await refuses(rewrite(plain.replace('"the key"', '"a key"')), /is damaged or cut off/, 'a header changed');
  await refuses(Buffer.from('id,name\n1,x\n'), /is not a backup/, 'a table of another program');
  await refuses(gzipSync('select 1;\n'), /is not a backup/, 'a compressed file of another program');
  await refuses(gzipSync(Buffer.alloc(3_000_000)), /is not a backup/, 'a compressed file without lines');
  // Rows begin after the header, its checksum and the line of the first table.
  const endless = Buffer.from([...plain.split('\n').slice(0, 3), 'x'.repeat(70_000_000)].join('\n'), 'latin1');
  await refuses(gzipSync(endless, { level: 1 }), /a row of more than 64 MB/, 'a row that does not end');
  await assert.rejects(restore(empty, join(folder, 'missing.backup')), refused(/cannot be read/));

  const { tables } = await restore(empty, path);
  assert.equal(tables.payment_count_deltas, 4_000);
  assert.equal(readFileSync(join(empty.folder, 'secret.key'), 'utf8'), 'the key\n');
  const rows = ({ db }: TestDatabase) =>
    db.sql`select m.*, d.deltas from merchants m, lateral (select md5(string_agg(d::text, ',' order by id)) as deltas from payment_count_deltas d) d`;
  assert.deepEqual([...(await rows(empty))], [...(await rows(full))]);
  const [next] = await empty.db.sql<{ id: bigint }[]>`
    insert into payment_count_deltas (merchant_id, mode, status, coin, payments) values ('mer_1', 'live', 'pending', '', 1) returning id`;
  assert.equal(next!.id, 4_001n, 'numbers go on where they were');
  await assert.rejects(restore(empty, path), refused(/This install is not empty/));
});

test('each wallet skips the reserve, and the addresses that the file in the data folder says may have been issued', async (t) => {
  const { full, empty, path } = await pair(t);
  await backup(full, path);
  writeFileSync(join(empty.folder, 'wallet-indexes.json'), '{"wal_2": 60}');
  const { finished } = await restore(empty, path);
  assert.deepEqual(finished, [
    { walletId: 'wal_1', coin: 'BTC', from: 5n, to: 25n },
    { walletId: 'wal_2', coin: 'LTC', from: 7n, to: 60n },
  ]);
  const rows = await empty.db.sql`
    select w.id, w.next_index, s.first_index, s.end_index, s.reason from wallets w join skipped_indexes s on s.wallet_id = w.id order by w.id`;
  assert.deepEqual(
    rows.map((row) => Object.values(row)),
    [
      ['wal_1', 25n, 5n, 25n, 'restore'],
      ['wal_2', 60n, 7n, 60n, 'restore'],
    ],
  );
});

test('a backup without its key is refused during the restore, not found unreadable afterwards', async (t) => {
  const { full, empty, path } = await pair(t);
  await backup(full, path, 'the right key');
  assert.ok(!gunzipSync(readFileSync(path)).includes('the right key'), 'a key that was given is not in the file');
  await assert.rejects(restore(empty, path), refused(/Set SECRET_KEY to what it was then/));
  await assert.rejects(restore(empty, path, 'a wrong key'), refused(/Set SECRET_KEY to what it was then/));
  await restore(empty, path, 'the right key');
});

const RIGHT = 'the right key';
/** Starts what every start and every command opens, and returns it. */
const open = ({ url, folder: dataFolder }: TestDatabase, SECRET_KEY: string) =>
  openCore(readConfig(testEnvironment(url, dataFolder, { SECRET_KEY })), log);
const seals = ({ db }: TestDatabase, id: string, key: string) => db.sql`
  insert into endpoints (id, dialect, merchant_id, mode, url, events, state, secret)
  values (${id}, 'florin', 'mer_1', 'live', 'https://shop.example/', '{*}', 'enabled', ${Buffer.from(sealerOf(key).seal('endpoint secret', Buffer.from('whsec_')))})`;
const hasCheck = async ({ db }: TestDatabase): Promise<boolean> =>
  (await db.sql`select 1 from install where key_check is not null`).length > 0;

test('every start after the first one needs the first key, and so does every backup', async (t) => {
  const { full, empty, path } = await pair(t);
  await (await open(full, RIGHT)).close();
  assert.ok(await hasCheck(full));
  // Nothing but the check value is sealed yet.
  for (const [key, reason] of [
    ['a wrong key', /SECRET_KEY is not the key that the secrets of this install were sealed with\. Set it to what it was then/],
    ['', /SECRET_KEY is not set, and there is no .*secret\.key\. Set SECRET_KEY to what it was, or FLORIN_DATA to/],
  ] as const) {
    await assert.rejects(open(full, key), reason);
    await assert.rejects(backup(full, path, key === '' ? undefined : key), refused(reason));
    assert.ok(!existsSync(path) && !existsSync(join(full.folder, 'secret.key')), 'nothing is written');
  }
  writeFileSync(join(full.folder, 'secret.key'), 'a file of another install\n');
  await assert.rejects(open(full, ''), /secret\.key is not the key that the secrets/);
  await assert.rejects(backup(full, path), refused(/secret\.key is not the key/));
  writeFileSync(join(full.folder, 'secret.key'), `${RIGHT}\n`);
  await assert.rejects(open(full, 'a wrong key'), /that is the one in .*secret\.key\. Unset SECRET_KEY/);
  assert.equal((await backup(full, path)).secret_key, 'included');
  assert.equal((await backup(full, path, RIGHT)).secret_key, 'not included: a restore needs the same SECRET_KEY');
  await assert.rejects(restore(empty, path, 'a wrong key'), refused(/Set SECRET_KEY to what it was then/));
  await restore(empty, path, RIGHT);
  await (await open(empty, RIGHT)).close();
});

test('an install from before the check value gets one from the key that opens what is sealed, from no other', async (t) => {
  const { full, path } = await pair(t);
  await seals(full, 'we_right', RIGHT);
  for (const key of ['a wrong key', '']) await assert.rejects(open(full, key), /sealed with/);
  await assert.rejects(backup(full, path, 'a wrong key'), refused(/No backup was written/));
  assert.ok(!(await hasCheck(full)) && !existsSync(join(full.folder, 'secret.key')));
  // It ran with another key for a while: it still starts, names what that key sealed, and keeps waiting.
  await seals(full, 'we_wrong', 'a wrong key');
  // Its account keys are made up.
  await full.db.sql`delete from wallets`;
  const mixed = await open(full, RIGHT);
  const named = (await diagnose(mixed.ctx)).findings.filter(({ check }) => check === 'secret key');
  assert.deepEqual([named[0]!.ok, /we_wrong/.test(named[0]!.detail), /we_right/.test(named[0]!.detail)], [false, true, false]);
  assert.equal((await verifyAddresses(mixed.ctx)).unreadable.join(), 'the signing secret of we_wrong');
  assert.ok(!(await hasCheck(full)));
  // What nobody can read any more is replaced, without an overlap that could not be signed.
  await mixed.ctx.db.sql`update merchants set plan = 'enterprise'`;
  const rolled = await mixed.ctx.db.begin((tx) =>
    rotateSecret(mixed.ctx, tx, { merchantId: 'mer_1', mode: 'live', endpointId: 'we_wrong' }),
  );
  assert.equal(rolled.previousSecretUntil, null);
  await mixed.close();
  const whole = await open(full, RIGHT);
  writeFileSync(join(full.folder, 'secret.key'), 'a file that nothing uses\n');
  const findings = (await diagnose(whole.ctx)).findings.filter(({ check }) => /key/.test(check));
  assert.deepEqual(
    findings.map(({ check, ok }) => [check, ok]),
    [
      ['secret key', true],
      ['key file', true],
    ],
  );
  await whole.close();
  assert.ok(await hasCheck(full));
  await full.db.sql`delete from endpoints`;
  await assert.rejects(open(full, 'a wrong key'), /SECRET_KEY is not the key/);
});

longTest('a backup that an older version made with a wrong key is restored with the key that opens its secrets', async (t) => {
  const { full, empty, path } = await pair(t);
  await seals(full, 'we_right', RIGHT);
  await backup(full, path, RIGHT);
  const [header, , ...rest] = gunzipSync(readFileSync(path)).toString('latin1').split('\n');
  const check = Buffer.from(sealerOf('a wrong key').seal('backup', Buffer.from('florin'))).toString('base64');
  const text = JSON.stringify({ ...JSON.parse(header!), key_check: check, secret_key: 'a wrong key' });
  writeFileSync(path, gzipSync(Buffer.from([text, createHash('sha256').update(text).digest('hex'), ...rest].join('\n'), 'latin1')));
  for (const key of ['a wrong key', 'another key', undefined])
    await assert.rejects(restore(empty, path, key), refused(/Set SECRET_KEY to what it was then/));
  await restore(empty, path, RIGHT);
});

test('a lost key is replaced by the operator, who learns what cannot be read any more', async (t) => {
  const { full } = await pair(t);
  await seals(full, 'we_lost', RIGHT);
  await (await open(full, RIGHT)).close();
  const config = readConfig(testEnvironment(full.url, full.folder, { SECRET_KEY: 'a new key' }));
  assert.deepEqual(await acceptSecretKey(config, { log }), { closed: ['the signing secret of we_lost'] });
  await (await open(full, 'a new key')).close();
  await assert.rejects(open(full, RIGHT), /SECRET_KEY is not the key/);
});

longTest('a refused restore into a new folder leaves nothing there', async () => {
  const fresh = join(folder, 'refused');
  const environment = testEnvironment('', fresh, { SECRET_KEY: 'a key' });
  const bad = join(folder, 'not-a.backup');
  writeFileSync(bad, 'no backup');
  await assert.rejects(restoreInstall(readConfig(environment), { file: bad, log }), refused(/is not a backup/));
  assert.ok(!existsSync(fresh));
  mkdirSync(fresh, { mode: 0o711 });
  writeFileSync(join(fresh, 'wallet-indexes.json'), '{}');
  await assert.rejects(restoreInstall(readConfig(environment), { file: bad, log }), refused(/is not a backup/));
  assert.deepEqual(readdirSync(fresh), ['wallet-indexes.json']);
});

longTest('the key in a backup replaces a key that never sealed anything, and the old key is kept', async (t) => {
  const { full, empty, path } = await pair(t);
  writeFileSync(join(full.folder, 'secret.key'), 'the right key\n');
  await backup(full, path);
  await assert.rejects(restore(empty, path, 'another key'), refused(/Unset SECRET_KEY/));
  writeFileSync(join(empty.folder, 'secret.key'), 'another key\n');
  await restore(empty, path);
  assert.equal(readFileSync(join(empty.folder, 'secret.key'), 'utf8'), 'the right key\n');
  const [old] = readdirSync(empty.folder).filter((name) => name.endsWith('.old'));
  assert.equal(readFileSync(join(empty.folder, old!), 'utf8'), 'another key\n');
});

/** The program of the next version: this one with a migration more. */
function nextVersion(t: TestContext): string {
  const next = mkdtempSync('/dev/shm/florin-next-');
  t.after(() => rmSync(next, { recursive: true, force: true }));
  cpSync('src', join(next, 'src'), { recursive: true, filter: (path) => !path.endsWith('.test.ts') });
  for (const name of ['package.json', 'node_modules', 'sdk', 'dashboard']) symlinkSync(resolve(name), join(next, name));
  writeFileSync(
    join(next, 'src/db/migrations/0002_more.sql'),
    "-- ! breaking\nalter table keys add column more text not null default 'more';\ncreate table more (number int primary key);\n",
  );
  return next;
}

test('a backup of the previous version is upgraded; a backup or a database of the next version is refused', async (t) => {
  const { full, empty, path } = await pair(t);
  const { sql } = full.db;
  const next = nextVersion(t);
  const florin = async (on: TestDatabase, ...args: string[]) => {
    const env = { PATH: process.env.PATH ?? '', ...testEnvironment(on.url, on.folder, { SECRET_KEY: '' }) };
    return JSON.parse((await run(process.execPath, ['src/main.ts', ...args, '--json'], { cwd: next, env })).stdout);
  };
  await sql`insert into keys (id, merchant_id, mode, kind, hash, hint) values ('key_1', 'mer_1', 'live', 'secret', '', '')`;
  await backup(full, path);
  const report = await florin(empty, 'restore', '--file', path);
  assert.deepEqual(report.migrated, ['0002_more.sql']);
  assert.deepEqual([...(await empty.db.sql`select id, more from keys`)], [{ id: 'key_1', more: 'more' }]);
  assert.deepEqual([...(await empty.db.sql`select number from more`)], []);

  await assert.rejects(backup(empty, path), refused(/newer Florin .*0002_more\.sql/));
  await florin(empty, 'backup', '--file', path);
  await assert.rejects(restore(full, path), refused(/newer Florin .*0002_more\.sql/));

  await sql`update migrations set name = '0001_initial.sql'`;
  await assert.rejects(backup(full, path), refused(/from before the first release/));
});

test('a service with its own database blocks a restore while it runs, and a restore blocks the service', async (t) => {
  const { full, empty, path } = await pair(t);
  await backup(full, path);
  const leave = await claimServe(empty.db, { alone: false });
  const leaveToo = await claimServe(empty.db, { alone: false });
  await leaveToo();
  await assert.rejects(restore(empty, path), refused(/Florin is running on this database/));
  await leave();
  await restoreBackup({
    db: empty.db,
    dataFolder: empty.folder,
    secretKey: undefined,
    file: path,
    log,
    finish: () => assert.rejects(claimServe(empty.db, { alone: false }), /A backup is being restored/),
  });
});

test('a backup that cannot be completed leaves no file, and keeps the previous backup', async (t) => {
  const { full, path } = await pair(t);
  await full.db.sql`
    insert into events (id, merchant_id, mode, payment_id, type, sequence, body, created_at)
    select 'evt_' || i, 'mer_1', 'live', 'pay_' || i, 'payment.created', 1, sha512(i::text::bytea), clock_timestamp() from generate_series(1, 40000) i`;
  writeFileSync(path, 'the backup of yesterday');
  // Like a full disk: the file may not grow beyond 64 blocks.
  const env = { PATH: process.env.PATH ?? '', ...testEnvironment(full.url, full.folder) };
  const limited = run('sh', ['-c', 'ulimit -f 64; exec "$@"', 'sh', process.execPath, 'src/main.ts', 'backup', '--file', path], {
    env,
    timeout: 30_000,
  });
  await assert.rejects(limited, (error: { code: unknown; stderr: string }) => error.code === 1 && /EFBIG/.test(error.stderr));
  assert.equal(readFileSync(path, 'utf8'), 'the backup of yesterday');
  assert.deepEqual(
    readdirSync(full.folder).filter((name) => name.endsWith('.partial')),
    [],
  );
});
