/**
 * Catching up: the real follower with the real database reads full blocks, compared with fetching the same blocks one after the other
 * with the same client. Goal: >= 0.5 of that speed.
 */
import { openCore } from '../src/app.ts';
import { createCoreSource } from '../src/chains/bitcoin/core-rpc.ts';
import { readConfig } from '../src/config.ts';
import { createFollower } from '../src/follow/follow.ts';
import { createLog } from '../src/log.ts';
import { testEnvironment } from '../test/kit/app.ts';
import { testDatabase } from '../test/kit/database.ts';
import { median, startChild } from './kit.ts';

const TRANSACTIONS = 3_000;
const TURN = 20;
const ROUNDS = 15;
const WATCHED = 200_000;
/** Addresses that blocks pay, one per block. */
const PAID = 20;

const log = createLog('error');
const database = await testDatabase({ parent: '/var/tmp' });
const core = await openCore(readConfig(testEnvironment(database.url, database.folder, { PRICES: 'static:BTC=97000.00' })), log);
const { ctx } = core;
await ctx.prices.start();
await ctx.db.sql`
  insert into deposit_addresses (family, key, address, payment_id, merchant_id, wallet_id, index, created_at)
  select 'BTC', '0014' || substr(encode(sha256(n::text::bytea), 'hex'), 1, 40), 'bcrt1q' || n, 'pay_' || lpad(n::text, 24, '0'),
    'mer_' || lpad('', 24, '0'), 'wal_' || lpad('', 24, '0'), n, clock_timestamp() from generate_series(1, ${WATCHED}::int) as n`;
const paid = await ctx.db.sql<{ key: string }[]>`select key from deposit_addresses order by index limit ${PAID}`;
await ctx.db.sql`analyze`;

const blocks = 1 + TURN * (ROUNDS + 1);
const node = await startChild('bench/block-server.ts', {}, [String(blocks), String(TRANSACTIONS), paid.map((row) => row.key).join()]);
const url = `http://127.0.0.1:${node.line}`;
const source = createCoreSource({ coin: 'BTC', network: 'regtest', url, outgoing: ctx.outgoing, log, clock: ctx.clock });
const follower = createFollower(ctx, source);

const ask = async (method: string, ...params: unknown[]): Promise<Buffer> => {
  const body = Buffer.from(JSON.stringify({ id: 0, method, params }));
  const { outgoing } = ctx;
  const reply = await outgoing.request({ url, method: 'POST', body, timeoutMs: 30_000, maxReplyBytes: 64 << 20, over: 'refuse' });
  return Buffer.from(reply.body.buffer, reply.body.byteOffset, reply.body.length);
};
const hashAt = async (height: number): Promise<string> => JSON.parse((await ask('getblockhash', height)).toString()).result;
/** Only the bytes. */
async function fetchThrough(to: number): Promise<void> {
  for (let height = to - TURN + 1; height <= to; height++) {
    const { length } = await ask('getblock', await hashAt(height), 0);
    if (length < TRANSACTIONS * 500) throw new Error(`block ${height} did not come`);
  }
}
async function followThrough(to: number): Promise<void> {
  await follower.step();
  const [tip] = await ctx.db.sql<{ height: bigint }[]>`select height from tips where chain = 'BTC'`;
  if (tip!.height !== BigInt(to)) throw new Error(`the follower is at ${tip!.height}, not at ${to}`);
}
const timed = async (work: Promise<void>): Promise<number> => {
  const started = performance.now();
  await work;
  return performance.now() - started;
};

// The install starts at the first block; the first turn warms up.
await follower.step();
const turns: { fetched: number; followed: number }[] = [];
for (let to = TURN; to < blocks; to += TURN) {
  await ask('grow', to);
  turns.push({ fetched: await timed(fetchThrough(to)), followed: await timed(followThrough(to)) });
}
turns.shift();
const [recorded] = await ctx.db.sql<{ n: number }[]>`select count(*)::int as n from transfers where block_height is not null`;
if (recorded!.n !== blocks - 1) throw new Error(`${recorded!.n} of ${blocks - 1} transfers were recorded`);
const ratios = turns.map((turn) => turn.fetched / turn.followed);
const perSecond = (values: number[]): string => ((TURN * 1_000) / median(values)).toFixed(1);
console.log(`catchup: ${blocks - 1} blocks of ${TRANSACTIONS.toLocaleString('en')} transactions, one of each to one of ${WATCHED.toLocaleString('en')} watched addresses
  florin    ${perSecond(turns.map((turn) => turn.followed))} blocks/s, read, proven, matched and recorded
  baseline  ${perSecond(turns.map((turn) => turn.fetched))} blocks/s, fetched one after the other
  ratio     ${median(ratios).toFixed(2)} (${ratios.map((ratio) => ratio.toFixed(2)).join(' ')})
  goal      ratio >= 0.5`);
source.close();
await node.stop();
await core.close();
await database.drop();
