/** What random schedules of sweeps and refunds share: seeded numbers, a node that only takes what it could mine, and other wallets. */
import { addressOfScript } from '../../src/addresses/address.ts';
import { inputsOf, outputsOfTransaction, parseTransaction, strippedOf, txidOf } from '../../src/chains/bitcoin/raw-block.ts';
import { ChainError } from '../../src/chains/chain-source.ts';
import { Problem } from '../../src/core/problem.ts';
import type { ChainTx, TestChain } from './test-chain.ts';

/** Numbers below one, the same for the same seed (mulberry32). */
export function randomOf(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let t = Math.imul(state ^ (state >>> 15), state | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
  };
}

const outpointsOf = (tx: Pick<ChainTx, 'inputs'>): string[] => tx.inputs.map(({ txid, vout }) => `${txid}:${vout}`);
/** Every output that a block of the chain spends. */
export const minedOutpoints = (chain: TestChain): Set<string> => new Set(chain.blocks.flatMap(({ txs }) => txs.flatMap(outpointsOf)));

/** A node that takes what it can mine: unspent outputs of blocks, and instead of a waiting transaction only one that pays a higher fee. */
export function nodeOf(chain: TestChain) {
  const outputs = () =>
    new Map<string, ChainTx['outputs'][number]>(
      chain.blocks.flatMap(({ txs }) => txs.flatMap((tx) => tx.outputs.map((one, n) => [`${tx.txid}:${n}`, one] as const))),
    );
  const read = (hex: string): ChainTx => {
    const tx = parseTransaction(Buffer.from(hex, 'hex'), 'BTC');
    const known = outputs();
    const inputs = inputsOf(tx).map((outpoint) => ({
      ...{ txid: outpoint.slice(0, 64), vout: Number(outpoint.slice(65)) },
      ...{ address: known.get(outpoint)?.address ?? '', units: known.get(outpoint)?.units ?? 0n },
    }));
    const paid = outputsOfTransaction(tx).map(({ units, script }) => ({
      units,
      script: Buffer.from(script).toString('hex'),
      address: addressOfScript(Buffer.from(script).toString('hex'), { coin: 'BTC', network: 'mainnet' }) ?? '',
    }));
    const sum = (list: readonly { units: bigint }[]) => list.reduce((total, { units }) => total + units, 0n);
    return { txid: txidOf(tx), raw: strippedOf(tx), inputs, outputs: paid, coinbase: false, feeUnits: sum(inputs) - sum(paid), seenAt: 0 };
  };
  /** Why not; null: it was taken. */
  const take = (tx: ChainTx): string | null => {
    if (chain.mempool.has(tx.txid)) return null;
    const known = outputs();
    const spent = minedOutpoints(chain);
    if (outpointsOf(tx).some((one) => !known.has(one) || spent.has(one))) return '-25: bad-txns-inputs-missingorspent';
    const rivals = [...chain.mempool.values()].filter((other) => outpointsOf(other).some((one) => outpointsOf(tx).includes(one)));
    if (rivals.some(({ feeUnits }) => feeUnits >= tx.feeUnits)) return '-26: txn-mempool-conflict';
    for (const { txid } of rivals) chain.mempool.delete(txid);
    chain.mempool.set(tx.txid, tx);
    return null;
  };
  return {
    read,
    take,
    /** Blocks fall off; what they contained waits again where it can. */
    rewind: (depth: number) => {
      chain.rewind(depth);
      const waiting = [...chain.mempool.values()];
      chain.mempool.clear();
      for (const tx of waiting) take(tx);
    },
  };
}

/** Documented refusals and a source that is away are part of life. */
export const mayFail = async <T>(work: Promise<T>): Promise<T | null> => {
  try {
    return await work;
  } catch (error) {
    if (error instanceof Problem || error instanceof ChainError) return null;
    throw error;
  }
};

/** A transaction of another wallet, whose signatures nobody checks here. */
export function spendingOf(input: ChainTx['inputs'][number], outputs: ChainTx['outputs']): ChainTx {
  const u64 = Buffer.alloc(8);
  u64.writeBigUInt64LE(outputs[0]!.units);
  const vout = Buffer.alloc(4);
  vout.writeUInt32LE(input.vout);
  const script = Buffer.from(outputs[0]!.script, 'hex');
  const raw = Buffer.concat([
    ...[Buffer.from('0200000001', 'hex'), Buffer.from(input.txid, 'hex').reverse(), vout, Buffer.from('00fdffffff01', 'hex')],
    ...[u64, Buffer.of(script.length), script, Buffer.alloc(4)],
  ]);
  return { txid: txidOf(parseTransaction(raw, 'BTC')), raw, inputs: [input], outputs, coinbase: false, feeUnits: 90_000n, seenAt: 0 };
}
