/**
 * How fast a header chain takes in headers, against nothing but hashing them: BTC by SHA-256 twice, LTC and DOGE by scrypt, DASH by X11.
 * Everything else should cost little beside the work. Figures are ratios; the machine cancels out. Then the memory of a year of headers.
 */
import { createChainStore } from '../src/chain-store/chain-store.ts';
import { parseBlockInTurns } from '../src/chains/bitcoin/block-proof.ts';
import { workHash } from '../src/chains/bitcoin/header.ts';
import { createHeaderArena } from '../src/chains/bitcoin/header-branches.ts';
import { createHeaderChain } from '../src/chains/bitcoin/header-chain.ts';
import type { SentHeader } from '../src/chains/bitcoin/header-rules.ts';
import { openHeaderChain } from '../src/chains/bitcoin/header-store.ts';
import { PROOF_PARAMS, type ProofParams } from '../src/chains/bitcoin/proof-params.ts';
import { sha256d } from '../src/chains/bitcoin/strict-reader.ts';
import { testDatabase } from '../test/kit/database.ts';
import { headersOf, sentOf } from '../test/kit/headers.ts';
import { firstHeader, mineHeaders, sent } from '../test/kit/miner.ts';
import { median } from './kit.ts';

const ROUNDS = 9;
const { BTC, LTC, DOGE, DASH } = PROOF_PARAMS;

/** Headers per second into a new chain that starts with the first ones. */
async function measureChain(params: ProofParams, lowest: number, starts: number, headers: readonly SentHeader[]): Promise<number> {
  const chain = createHeaderChain({
    params,
    start: { height: lowest + starts - 1, headers: headers.slice(0, starts).map(({ bytes }) => bytes) },
    hashWork: async (kind, list) => list.map((header) => workHash(kind, header)),
    nowSeconds: () => 2 ** 32,
  });
  const since = performance.now();
  const { added } = await chain.add(headers.slice(starts));
  return added / ((performance.now() - since) / 1_000);
}
function measureHashes(params: ProofParams, headers: readonly SentHeader[]): number {
  const since = performance.now();
  for (const { bytes } of headers) workHash(params.work, bytes);
  return headers.length / ((performance.now() - since) / 1_000);
}

console.log('headers: into the chain per second, bare hashes per second, ratio (more is better)');
for (const [name, params, lowest, starts, count] of [
  ['btc-main-822528.hex', BTC.main, 822_528, 1, 4_033],
  ['ltc-main-2859498.hex', LTC.main, 2_859_498, 1, 208],
  ['doge-main-5610330-auxpow.hex', DOGE.main, 5_610_330, 2, 400],
  ['dash-main-999900.hex', DASH.main, 999_900, 24, 500],
] as const) {
  const headers = sentOf(name).slice(0, count);
  const runs: { chain: number; bare: number }[] = [];
  for (let i = 0; i < ROUNDS; i++)
    runs.push({ chain: await measureChain(params, lowest, starts, headers), bare: measureHashes(params, headers) });
  const chain = median(runs.map((run) => run.chain)).toFixed(0);
  const bare = median(runs.map((run) => run.bare)).toFixed(0);
  console.log(`${params.coin.padEnd(5)} ${chain}/s  ${bare}/s  ${median(runs.map((run) => run.chain / run.bare)).toFixed(2)}`);
}

const YEAR = 365 * 86_400;
console.log('memory of a year of headers');
for (const params of [BTC.main, LTC.main, DOGE.main, DASH.main]) {
  const count = YEAR / params.spacingSeconds;
  const arena = createHeaderArena(Buffer.alloc(32), () => 1n);
  const id = Buffer.alloc(32);
  const header = Buffer.alloc(80);
  for (let i = 0; i < count; i++) {
    id.writeUInt32LE(Math.imul(i, 2_654_435_761) >>> 0);
    arena.admit(arena.append(header, i - 1, i), id);
  }
  console.log(`${params.coin.padEnd(5)} ${count.toFixed(0)} headers, ${(arena.bytes() / 2 ** 20).toFixed(1)} MiB`);
}

console.log('a block of 100 kB: checks per second, its bytes hashed once per second, ratio (more is better)');
const block = headersOf('btc-block-951658.hex')[0]!;
const checks: { check: number; bare: number }[] = [];
for (let i = 0; i < ROUNDS; i++) {
  let since = performance.now();
  for (let n = 0; n < 50; n++) await parseBlockInTurns(block, 'BTC');
  const check = 50_000 / (performance.now() - since);
  since = performance.now();
  for (let n = 0; n < 50; n++) sha256d(block);
  checks.push({ check, bare: 50_000 / (performance.now() - since) });
}
const rate = (of: (run: (typeof checks)[0]) => number) => median(checks.map(of));
console.log(`BTC   ${rate((r) => r.check).toFixed(0)}/s  ${rate((r) => r.bare).toFixed(0)}/s  ${rate((r) => r.check / r.bare).toFixed(2)}`);

console.log('a database of 40,000 headers, saved in steps of 2,000');
const database = await testDatabase();
const first = firstHeader();
const stored = await openHeaderChain({
  pages: createChainStore(database.db).headers(BTC.regtest),
  params: BTC.regtest,
  start: { height: first.height, headers: [first.bytes] },
  hashWork: async (kind, list) => list.map((header) => workHash(kind, header)),
  nowSeconds: () => 2 ** 32,
});
const mined = mineHeaders(BTC.regtest, first, 40_000);
for (let i = 0; i < mined.length; i += 2_000) {
  await stored.chain.add(sent(mined.slice(i, i + 2_000)));
  await stored.save();
}
await database.db.sql.unsafe('vacuum full header_pages');
const [size] = await database.db.sql<{ bytes: bigint }[]>`select pg_total_relation_size('header_pages') as bytes`;
console.log(`${(Number(size!.bytes) / 40_000).toFixed(1)} bytes of disk for each header`);
await database.drop();
