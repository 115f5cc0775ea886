/**
 * A database of version 0.1.0 with payments in every state: every payment reads as before, the followers continue from
 * its cursors, and new payments work. The fixture is a backup by that version, with the tables of the last version before the first release,
 * and the replies that it gave to the requests below.
 */
// Invariant: A database of 0.1.0 reads as before, its chains are followed from where that version stopped, and its payments complete.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { gunzipSync } from 'node:zlib';
import { type App, startApp } from '../../src/app.ts';
import { readConfig } from '../../src/config.ts';
import { COIN, type Coin } from '../../src/core/coin.ts';
import { readCsv } from '../../src/core/text.ts';
import { openDb } from '../../src/db/db.ts';
import { createFollower } from '../../src/follow/follow.ts';
import { createLog } from '../../src/log.ts';
import { restoreBackup } from '../../src/operate/backup.ts';
import { exportDays, exportFees, exportPayments, exportTransfers } from '../../src/queries/exports.ts';
import { NO_FILTER } from '../../src/queries/search.ts';
import { type AdversaryChain, createAdversaryChain, createAdversarySource, type OnChain } from '../kit/adversary.ts';
import { type Client, client, eventually, testEnvironment } from '../kit/app.ts';
import { type TestDatabase, testDatabase } from '../kit/database.ts';

const FOLDER = join(import.meta.dirname, '../fixtures/database');
type StoredTx = Omit<OnChain, 'outputs'> & { outputs: { key: string; units: string }[] };
const fixture = JSON.parse(gunzipSync(readFileSync(join(FOLDER, '0.1.0.json.gz'))).toString()) as {
  merchantId: string;
  keys: { liveSecret: string; testSecret: string };
  /** IDs by what happened to the payment. */
  payments: Record<string, string>;
  chains: Record<string, { blocks: [height: number, hash: string, parent: string][]; mempool: StoredTx[] }>;
  replies: Record<string, unknown>;
};
const CODES = ['BTC', 'LTC', 'DASH', 'DOGE', 'ETH'] as const;

const log = createLog('fatal');
let database: TestDatabase;
let name: string;
let app: App;
let clients: Record<string, Client>;
const environment = () =>
  testEnvironment(
    database.url.replace(database.connection.database, name),
    database.folder,
    Object.fromEntries(CODES.map((coin) => [`${coin}_NODE_URL`, 'http://florin:test@127.0.0.1:1'])),
  );
async function start(roles: readonly ('api' | 'worker')[]): Promise<void> {
  app = await startApp(readConfig(environment()), { log, roles });
  clients = { live: client(app.url!, fixture.keys.liveSecret), test: client(app.url!, fixture.keys.testSecret) };
}
before(async () => {
  database = await testDatabase();
  name = `${database.connection.database}_older`;
  await database.db.sql.unsafe(`create database ${name}`);
  const db = await openDb({ ...database.connection, database: name, log });
  const file = join(FOLDER, '0.1.0.backup');
  await restoreBackup({ db, dataFolder: database.folder, secretKey: 'a key for tests only', file, log, finish: async () => null });
  await db.close();
  // Without a worker, so that every payment is read as it was stored.
  await start(['api']);
});
after(async () => {
  await app?.stop();
  await database.db.sql.unsafe(`drop database ${name} with (force)`);
  await database?.drop();
});

/** Fields that were added since, and one that has other values: it named the network in words. */
const RENAMED: Readonly<Record<string, string>> = {
  ...{ Bitcoin: 'bitcoin', 'Ethereum mainnet': 'ethereum', Litecoin: 'litecoin', Dash: 'dash', Dogecoin: 'dogecoin' },
};
/** What a payment says since it counts money as received that came late or is held. Before, only `amount_held` did. */
const RECEIVED = ['amount_received', 'amount_received_usd', 'transaction_hash', 'confirmations'];
const holdsMoney = (held: unknown): held is string => typeof held === 'string' && /[1-9]/.test(held);
/** Where a reply differs from an older one in more than additional fields. */
function differences(older: any, newer: any, at = ''): string[] {
  if (Array.isArray(older)) {
    if (!Array.isArray(newer) || newer.length !== older.length) return [`${at}: ${newer?.length} in place of ${older.length} rows`];
    return older.flatMap((one, i) => differences(one, newer[i], `${at}[${i}]`));
  }
  // Stored events stay as they were.
  if (typeof older === 'object' && holdsMoney(older?.amount_held) && older.amount_received !== newer?.amount_received) {
    assert.deepEqual([older.amount_received, newer.amount_received], ['0.00000000', older.amount_held]);
    assert.notEqual(newer.transaction_hash, null);
    return differences(Object.fromEntries(Object.entries(older).filter(([key]) => ![...RECEIVED, 'amount_held'].includes(key))), newer, at);
  }
  // What is in no block was received before; now it is announced.
  if (holdsMoney(newer?.amount_announced) && older?.amount_received === newer.amount_announced) {
    const rest = Object.entries(older).filter(([key]) => key !== 'amount_received' && key !== 'amount_received_usd');
    return differences(Object.fromEntries(rest), newer, at);
  }
  if (typeof older === 'object' && older !== null)
    return Object.entries(older).flatMap(([key, value]) => differences(value, newer?.[key], `${at}.${key}`));
  // A test payment had 1,001 confirmations; now it has as many as it needs.
  const isEnough = at.endsWith('.confirmations') && older === 1_001 && newer >= 1 && newer < older;
  const same = older === newer || isEnough || (at.endsWith('.network') && RENAMED[older] === newer);
  return same ? [] : [`${at}: ${JSON.stringify(newer)} in place of ${JSON.stringify(older)}`];
}

test('every payment, list and event reads as before', async () => {
  let compared = 0;
  for (const [request, older] of Object.entries(fixture.replies)) {
    const [mode, path] = request.split(/ (.*)/s) as [string, string];
    if (!path.startsWith('/')) continue;
    const reply = await clients[mode]!.get(path);
    assert.equal(reply.status, 200, `${request} ${reply.text}`);
    assert.deepEqual(differences(older, reply.json), [], request);
    compared++;
  }
  assert.ok(compared > 150, `${compared} replies`);
});

const rowsOf = (text: string): (readonly string[])[] => {
  const rows = readCsv(text);
  assert.ok(Array.isArray(rows));
  return rows.map(({ cells }) => cells);
};
test('the files have the same lines, with new columns at the end', async () => {
  for (const mode of ['live', 'test'] as const) {
    const of = { merchantId: fixture.merchantId, mode };
    const files = {
      payments: exportPayments(app.ctx, { ...of, filter: NO_FILTER, columns: null }),
      fees: exportFees(app.ctx, { ...of, filter: NO_FILTER }),
      transfers: exportTransfers(app.ctx, { ...of, from: new Date('2020-01-01'), until: new Date('2100-01-01') }),
      days: exportDays(app.ctx, { ...of, from: '2026-11-01', until: '2026-11-30' }),
    };
    for (const [file, parts] of Object.entries(files)) {
      let text = '';
      for await (const part of parts) text += part;
      const renamed = (line: string) =>
        line.replaceAll(/,(Bitcoin|Ethereum mainnet|Litecoin|Dash|Dogecoin),/g, (_, one) => `,${RENAMED[one]},`);
      const older = rowsOf(renamed(String(fixture.replies[`${mode} ${file}.csv`])));
      const newer = rowsOf(text);
      assert.equal(newer.length, older.length, file);
      const [names] = older;
      const held = names!.indexOf('amount_held');
      for (const [i, row] of older.entries()) {
        const since = i > 0 && holdsMoney(row[held]) ? RECEIVED : [];
        if (since.length > 0) assert.equal(newer[i]![names!.indexOf('amount_received')], row[held]);
        const compared = (cells: readonly string[]) => row.map((_, at) => (since.includes(names![at]!) ? '' : cells[at]));
        assert.deepEqual(compared(newer[i]!), compared(row), file);
      }
    }
  }
});

/** Which of the names of its chain a hash is. */
const numberOf = (hash: string): number => Number.parseInt(hash.slice(1), 16);
/** The chain that the older version followed: the same blocks on top, and what waited in its mempool. */
function chainOfFixture(code: string): AdversaryChain {
  const { blocks, mempool } = fixture.chains[code]!;
  const chain = createAdversaryChain({ height: 0, now: () => new Date() });
  while (chain.tip().height < blocks[0]![0] - 1) chain.mine();
  for (const [height, hash] of blocks) {
    // Blocks are named by a counter, which other things that happened on the chain moved too.
    for (let at = numberOf(chain.tip().hash) + 1; at < numberOf(hash); at++) chain.nameOf('x');
    const block = chain.mine();
    assert.deepEqual([block.height, block.hash], [height, hash]);
  }
  for (const tx of mempool) chain.accept({ ...tx, outputs: tx.outputs.map(({ key, units }) => ({ key, units: BigInt(units) })) });
  return chain;
}

test('followers continue from the stored cursors, and payments of then and now complete', async () => {
  // The copy was made long ago: what was open then is as old now as it was in the copy, so that the test passes on any day.
  await app.ctx.db.sql`
    with open as (select id, clock_timestamp() - created_at - interval '1 minute' as passed from payments where mode = 'live' and completed_at is null),
      moved as (update transfers t set first_seen_at = first_seen_at + passed from open where t.payment_id = open.id returning 1)
    update payments p set created_at = created_at + passed, expires_at = expires_at + passed from open where p.id = open.id`;
  await app.stop();
  await start(['api', 'worker']);
  const { sql } = app.ctx.db;
  const detail = async (id: string) => (await clients.live!.get(`/api/payment/${id}`)).json;
  for (const code of CODES) {
    const chain = chainOfFixture(code);
    const source = createAdversarySource({ chain, coin: code as 'BTC', interrupt: async () => {} });
    const txState = async () => ({ state: 'mempool' as const, blockHash: null, lock: null });
    const follower = createFollower(app.ctx, { ...source, txState });
    await follower.step();
    assert.equal((await sql`select 1 from chain_guard where chain = ${code} and reorg_depth is not null`).length, 0, 'no reorganization');
    const seen = fixture.payments[`live ${code} seen`]!;
    const body = { crypto: code, amount: 60, currency_fiat: 'USD' };
    const made = await clients.live!.post('/v1/transactions/create', body);
    assert.equal(made.status, 201, made.text);
    const [given] = await sql<{ key: string; index: bigint }[]>`
      select key, index from deposit_addresses where payment_id = ${made.json.id}`;
    const [before] = await sql<{ index: bigint }[]>`
      select max(d.index) as index from deposit_addresses d join payments p on p.id = d.payment_id
      where d.family = ${COIN[code as Coin].family} and d.payment_id <> ${made.json.id}`;
    assert.equal(given!.index, before!.index + 1n, 'the next address of the wallet');
    const [whole, fraction] = made.json.amount.split('.') as [string, string];
    const units = BigInt(whole + fraction.padEnd(COIN[code].decimals, '0'));
    const txid = chain.nameOf('8');
    const kind = code === 'ETH' ? ('direct' as 'output') : 'output';
    const paid: OnChain = { txid, kind, inputs: [`${txid}-in:0`], outputs: [{ key: given!.key, units }] };
    chain.accept(paid);
    await follower.step();
    chain.mine([...chain.mempool.values()]);
    for (let i = 0; i < 45; i++) chain.mine();
    await follower.step();
    for (const id of [seen, made.json.id]) {
      const done = await eventually(
        () => detail(id),
        ({ status }) => status === 'completed',
      );
      assert.deepEqual([done.currency, done.network], [code, COIN[code].chain]);
    }
  }
  for (const code of CODES) {
    const done = (await detail(fixture.payments[`live ${code} completed`]!)) as { status: string };
    assert.equal(done.status, 'completed');
  }
});
