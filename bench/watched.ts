/**
 * 10,000 merchants with 2,000,000 watched addresses, and the unissued ones that are watched ahead: what the service and its database need
 * in memory, and how long after a start the chain is followed. Goal: 2 GB in all. `MERCHANTS` is how many there are; all but a hundred have
 * been followed before, so that their unissued addresses are stored.
 */
import { createECDH, createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { setTimeout } from 'node:timers/promises';
import { deriveAddress } from '../src/addresses/address.ts';
import { eventually, testEnvironment } from '../test/kit/app.ts';
import { testDatabase } from '../test/kit/database.ts';
import { cpuOf, postmasterOf, startChild } from './kit.ts';

const MERCHANTS = Number(process.env.MERCHANTS ?? 10_000);
const ADDRESSES_EACH = 200;
const NEW_MERCHANTS = 100;
const AHEAD = 100;
const AT_ONCE = 500;
/** The first block, and two for each of two starts. */
const BLOCKS = 5;

const database = await testDatabase({ parent: '/var/tmp' });
const { sql } = database.db;
const idOf = (kind: string, n: number) => `${kind}_${String(n).padStart(24, '0')}`;
/** An account key of its own for each merchant: a public key and a chain code. */
function chainKeyOf(n: number): string {
  const curve = createECDH('secp256k1');
  curve.setPrivateKey(createHash('sha256').update(`key ${n}`).digest());
  return curve.getPublicKey('hex', 'compressed') + createHash('sha256').update(`code ${n}`).digest('hex');
}
for (let from = 1; from <= MERCHANTS; from += AT_ONCE) {
  const rows = Array.from({ length: Math.min(AT_ONCE, MERCHANTS + 1 - from) }, (_, i) => ({
    merchant: idOf('mer', from + i),
    wallet: idOf('wal', from + i),
    key: chainKeyOf(from + i),
  }));
  await sql`
    with r as (select * from jsonb_to_recordset(${sql.json(rows)}) as r (merchant text, wallet text, key text)),
      m as (insert into merchants (id, name, plan) select merchant, merchant, 'enterprise' from r)
    insert into wallets (id, merchant_id, family, network, chain_key, account_key, script, path, next_index)
    select wallet, merchant, 'BTC', 'regtest', key, key, 'p2wpkh', 'm/84h/0h/0h', ${ADDRESSES_EACH} from r`;
}
/** An output script as good as any other, in SQL. */
const key = (m: string, n: string) => `'0014' || substr(encode(sha256((${m} || ' ' || ${n})::bytea), 'hex'), 1, 40)`;
await database.db.begin(async (tx) => {
  await tx`set local statement_timeout = 0`;
  await tx.unsafe(`
    insert into deposit_addresses (family, key, address, payment_id, merchant_id, wallet_id, index, created_at)
    select 'BTC', ${key('m', 'n')}, 'bcrt1q' || m || 'q' || n, 'pay_' || lpad((m * ${ADDRESSES_EACH} + n)::text, 24, '0'),
      'mer_' || lpad(m::text, 24, '0'), 'wal_' || lpad(m::text, 24, '0'), n, clock_timestamp()
    from generate_series(1, ${MERCHANTS}) m, generate_series(0, ${ADDRESSES_EACH - 1}) n`);
  await tx.unsafe(`
    insert into spare_addresses (family, key, address, wallet_id, index)
    select 'BTC', ${key('m', 'n')}, 'bcrt1q' || m || 'q' || n, 'wal_' || lpad(m::text, 24, '0'), n
    from generate_series(${NEW_MERCHANTS + 1}, ${MERCHANTS}) m, generate_series(${ADDRESSES_EACH}, ${ADDRESSES_EACH + AHEAD - 1}) n`);
});
await sql`analyze`;

const [issued] = await sql<{ key: string }[]>`select key from deposit_addresses where wallet_id = ${idOf('wal', MERCHANTS)} limit 1`;
const of = { chainKey: chainKeyOf(1), script: 'p2wpkh', coin: 'BTC', network: 'regtest' } as const;
const { key: spare } = deriveAddress({ ...of, index: BigInt(ADDRESSES_EACH + 7) });
const node = await startChild('bench/block-server.ts', {}, [String(BLOCKS), '2000', [issued!.key, spare].join()]);
const nodeUrl = `http://127.0.0.1:${node.line}`;
const growTo = (height: number) => fetch(nodeUrl, { method: 'POST', body: JSON.stringify({ id: 0, method: 'grow', params: [height] }) });

/** Memory of a process and its children, each page counted by its share, in megabytes. */
function memoryOf(pid: number): number {
  const own = Number(/^Pss: +(\d+)/m.exec(readFileSync(`/proc/${pid}/smaps_rollup`, 'utf8'))![1]) / 1_024;
  const children = readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').trim().split(' ').filter(Boolean);
  return children.reduce((sum, child) => sum + memoryOf(Number(child)), own);
}
const postmaster = await postmasterOf(sql);
const environment = testEnvironment(database.url, database.folder, { BTC_NODE_URL: nodeUrl, BTC_NETWORK: 'regtest' });
const readHeight = async (): Promise<number> =>
  Number((await sql<{ h: bigint }[]>`select height as h from tips where chain = 'BTC'`)[0]?.h ?? -1);
const PATIENCE_MS = 3_600_000;
const REST_SECONDS = 30;
const commitsOf = async (): Promise<number> => {
  await sql`select pg_stat_clear_snapshot()`;
  const [row] = await sql<
    { n: number }[]
  >`select (xact_commit + xact_rollback)::int as n from pg_stat_database where datname = current_database()`;
  return row!.n;
};

console.log(`watched: ${(MERCHANTS * ADDRESSES_EACH).toLocaleString('en')} addresses of ${MERCHANTS.toLocaleString('en')} merchants`);
for (const [start, height] of [
  ['first start', 2],
  ['next start', 4],
] as const) {
  const began = performance.now();
  const florin = await startChild('bench/serve.ts', environment);
  const pid = florin.process.pid!;
  await eventually(readHeight, (at) => at >= 0, PATIENCE_MS);
  await growTo(height);
  await eventually(readHeight, (at) => at === height, PATIENCE_MS);
  const [followed, used] = [(performance.now() - began) / 1_000, cpuOf(pid)];
  const [found] = await sql<{ transfers: number; strays: number }[]>`
    select (select count(*)::int from transfers) as transfers, (select count(*)::int from stray_deposits) as strays`;
  console.log(`  ${start}
    two blocks read after ${followed.toFixed(1)} s and ${used.toFixed(1)} s of CPU: ${found!.transfers} deposits, ${found!.strays} at unissued addresses
    ${memoryOf(pid).toFixed(0)} MB and PostgreSQL ${memoryOf(postmaster).toFixed(0)} MB`);
  const [idle, database] = [cpuOf(pid), await commitsOf()];
  await setTimeout(REST_SECONDS * 1_000);
  console.log(
    `    at rest ${(((cpuOf(pid) - idle) / REST_SECONDS) * 100).toFixed(1)} % of a processor, ${((await commitsOf()) - database) / REST_SECONDS} transactions a second`,
  );
  await florin.stop();
}
console.log('  goal: 2 GB in all');
await node.stop();
await database.drop();
