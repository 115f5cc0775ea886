/**
 * Blocks crafted to cost much more than they carry, each read by a separate process. Goal: at most 400 MB above the idle process, at most
 * 100 ms of the event loop at a time, and an honest payment in the same block completes.
 */
import { spawnSync } from 'node:child_process';
import type { Figures, Flood, FloodedCoin } from './poison/blocks.ts';

const NODE = ['--disable-warning=ExperimentalWarning', '--expose-gc'];
type Size = Pick<Flood, 'transactions' | 'inputs' | 'outputs'>;
/** What a block of the coin can hold: as the network relays it, and in one transaction that only a miner can include. */
const LARGEST: Readonly<Record<FloodedCoin, { relayed: Size; mined: Size; many: Size }>> = {
  BTC: {
    relayed: { transactions: 10, inputs: 1_000, outputs: 1_650 },
    mined: { transactions: 1, inputs: 12_000, outputs: 14_000 },
    many: { transactions: 11_000, inputs: 1, outputs: 1 },
  },
  LTC: {
    relayed: { transactions: 10, inputs: 1_000, outputs: 1_650 },
    mined: { transactions: 1, inputs: 12_000, outputs: 14_000 },
    many: { transactions: 11_000, inputs: 1, outputs: 1 },
  },
  DASH: {
    relayed: { transactions: 20, inputs: 300, outputs: 1_400 },
    mined: { transactions: 20, inputs: 1_200, outputs: 1_400 },
    many: { transactions: 10_000, inputs: 1, outputs: 1 },
  },
  DOGE: {
    relayed: { transactions: 10, inputs: 300, outputs: 1_400 },
    mined: { transactions: 1, inputs: 12_000, outputs: 14_000 },
    many: { transactions: 5_200, inputs: 1, outputs: 1 },
  },
};
/** More than any block holds. */
const HUNDRED_THOUSAND: Size = { transactions: 72, inputs: 1, outputs: 1_400 };

const number = (value: number): string => value.toLocaleString('en');
function run(coin: FloodedCoin, name: string, size: Size): void {
  const { status, stdout } = spawnSync(process.execPath, [...NODE, 'bench/poison/blocks.ts', coin, JSON.stringify(size)], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  if (status !== 0) process.exit(status ?? 1);
  const figures = JSON.parse(stdout.toString()) as Figures;
  const { transactions, inputs, outputs } = size;
  console.log(`${coin} ${name}: ${number(transactions)} x ${number(inputs)} inputs x ${number(outputs)} outputs to one payment, ${number(figures.blockBytes)} bytes
  florin    ${figures.seconds.toFixed(1)} s, ${(figures.memoryBytes / 1e6).toFixed(0)} MB above idle
  held      event loop ${figures.heldMs.toFixed(0)} ms at most (${figures.heldCpuMs.toFixed(0)} ms of processor time)
  stored    ${number(figures.transfers)} transfers, ${number(figures.outpoints)} outpoints
  payments  flooded ${figures.flooded}, honest ${figures.honest}`);
}

console.log('poison: blocks made to cost much more than they carry; goal: 400 MB above idle, 100 ms of the event loop, honest completed');
for (const coin of ['BTC', 'LTC', 'DASH', 'DOGE'] as const) {
  run(coin, 'as relayed', LARGEST[coin].relayed);
  run(coin, 'as mined', LARGEST[coin].mined);
  run(coin, 'many transactions', LARGEST[coin].many);
  run(coin, '100,000 outputs', HUNDRED_THOUSAND);
}
for (const script of ['bench/poison/traces.ts', 'bench/poison/mempool.ts']) {
  const { status } = spawnSync(process.execPath, [...NODE, script], { stdio: 'inherit' });
  if (status !== 0) process.exit(status ?? 1);
}
