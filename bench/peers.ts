/**
 * What reading the four networks without a node costs beside an idle process: memory and disk of their header chains from the checkpoints
 * of this release up to now, and the time until a new wallet can be paid on regtest. Headers are made up: their work is not checked here.
 * Run it with --expose-gc.
 */

import { spawnSync } from 'node:child_process';
import { HDKey } from '@scure/bip32';
import { createChainStore } from '../src/chain-store/chain-store.ts';
import { CHECKPOINTS, startOf } from '../src/chains/bitcoin/checkpoints.ts';
import { HEADER_BYTES } from '../src/chains/bitcoin/header.ts';
import type { HeaderChain } from '../src/chains/bitcoin/header-chain.ts';
import { openHeaderChain } from '../src/chains/bitcoin/header-store.ts';
import { peerNetwork } from '../src/chains/bitcoin/p2p/peer.ts';
import { PROOF_PARAMS, type ProofParams } from '../src/chains/bitcoin/proof-params.ts';
import { sha256d } from '../src/chains/bitcoin/strict-reader.ts';
import { type Db, openDb } from '../src/db/db.ts';
import { createLog } from '../src/log.ts';
import { setWallet } from '../src/wallets/wallets.ts';
import { eventually, startTestApp } from '../test/kit/app.ts';
import { base58check } from '../test/kit/base58.ts';
import { testDatabase } from '../test/kit/database.ts';
import { createServedChain } from '../test/kit/regtest-chain.ts';
import { startScriptedPeer } from '../test/kit/scripted-peer.ts';

const MIB = 2 ** 20;
const rss = (): number => {
  for (let i = 0; i < 3; i++) globalThis.gc?.();
  return process.memoryUsage().rss;
};

/** Linked headers above another, in their bytes. */
function headersAbove(last: Buffer, count: number): Buffer {
  const all = Buffer.alloc(count * HEADER_BYTES);
  let parent = sha256d(last);
  for (let i = 0; i < count; i++) {
    const header = all.subarray(i * HEADER_BYTES, (i + 1) * HEADER_BYTES);
    last.copy(header);
    parent.copy(header, 4);
    header.writeUInt32LE(i, 36);
    parent = sha256d(header);
  }
  return all;
}

const COINS = ['BTC', 'LTC', 'DASH', 'DOGE'] as const;
type BenchCoin = (typeof COINS)[number];
/** DASH hashes with X11, which would take a minute here; the size of a header is the same. */
const paramsOf = (coin: BenchCoin): ProofParams => ({ ...PROOF_PARAMS[coin].main, id: 'sha256d' });
const openChain = (db: Db, coin: BenchCoin) =>
  openHeaderChain({
    ...{
      pages: createChainStore(db).headers(paramsOf(coin)),
      params: paramsOf(coin),
      start: startOf(CHECKPOINTS[coin]),
      hashWork: async () => [],
    },
    nowSeconds: () => Math.floor(Date.now() / 1000),
  });

/** In a process of its own, because it needs much more memory than reading. */
async function fill(url: string): Promise<void> {
  const db = await openDb({ url, log: createLog('error') });
  for (const coin of COINS) {
    const last = startOf(CHECKPOINTS[coin]).headers.at(-1)!;
    const count = Math.floor((Date.now() / 1000 - last.readUInt32LE(68)) / paramsOf(coin).spacingSeconds);
    const { chain, save } = await openChain(db, coin);
    await chain.restore(async (take) => take(headersAbove(last, count)));
    await save();
    console.log(`${coin.padEnd(5)} ${count} headers since the checkpoint, ${(chain.sizes().bytes / MIB).toFixed(0)} MiB in memory`);
  }
  await db.close();
}
if (process.argv[2] === 'fill') {
  await fill(process.argv[3]!);
  process.exit(0);
}

const database = await testDatabase();
spawnSync(process.execPath, ['--disable-warning=ExperimentalWarning', import.meta.filename, 'fill', database.url], { stdio: 'inherit' });
const idle = rss();
const since0 = performance.now();
const chains: HeaderChain[] = [];
for (const coin of COINS) chains.push((await openChain(database.db, coin)).chain);
const [disk] = await database.db.sql<{ bytes: number }[]>`select pg_total_relation_size('header_pages')::float8 as bytes`;
const headers = chains.reduce((sum, chain) => sum + chain.sizes().headers, 0);
console.log(
  `all four, ${headers} headers: ${((rss() - idle) / MIB).toFixed(0)} MiB of memory above idle (${(idle / MIB).toFixed(0)} MiB), ${(disk!.bytes / MIB).toFixed(0)} MiB of disk, read in ${((performance.now() - since0) / 1000).toFixed(1)} s`,
);
await database.drop();

const peer = await startScriptedPeer({ network: peerNetwork('BTC', 'regtest'), chain: createServedChain(2_000) });
const since = performance.now();
const app = await startTestApp({ BTC_NETWORK: 'regtest', BTC_PEERS: peer.name });
const started = performance.now();
const { publicExtendedKey } = HDKey.fromMasterSeed(new Uint8Array(32).fill(7)).derive("m/84'/1'/0'");
await setWallet(app.app.ctx, {
  merchantId: app.merchant.merchantId,
  coin: 'BTC',
  accountKey: base58check.respell(publicExtendedKey, 0x043587cf),
  script: 'p2wpkh',
});
await eventually(
  async () => ((await (await fetch(`${app.url}/readyz`)).json()) as { ready: boolean }).ready,
  (ready) => ready,
);
console.log(
  `regtest with 2,000 blocks: started in ${(started - since).toFixed(0)} ms, ready to be paid ${(performance.now() - started).toFixed(0)} ms later`,
);
await app.stop();
await peer.close();
