/** A small chain of the Core family that a test mines: real bytes and merkle roots. */
import { createHash, randomBytes } from 'node:crypto';
import { addressOfScript, decodeAddress } from '../../src/addresses/address.ts';
import { isBitcoinLike } from '../../src/addresses/params.ts';
import { idOf, workHash } from '../../src/chains/bitcoin/header.ts';
import type { ProofStarts } from '../../src/chains/bitcoin/header-service.ts';
import { PROOF_PARAMS } from '../../src/chains/bitcoin/proof-params.ts';
import { type BitcoinFamily, COIN, type Coin, chainOf, type Network } from '../../src/core/coin.ts';
import { mergeMine } from './merge-mining.ts';

export type ChainInput = { txid: string; vout: number; address: string; units: bigint };
export type ChainOutput = { address: string; script: string; units: bigint };
export type ChainTx = {
  txid: string;
  raw: Buffer;
  inputs: ChainInput[];
  outputs: ChainOutput[];
  coinbase: boolean;
  feeUnits: bigint;
  seenAt: number;
};
export type ChainBlock = {
  height: number;
  hash: string;
  parent: string;
  merkleRoot: string;
  time: number;
  raw: Buffer;
  /** The header as nodes send it: on DOGE followed by the merge-mining proof, where it has one. */
  header: Buffer;
  txs: ChainTx[];
};

const sha256d = (bytes: Buffer): Buffer => createHash('sha256').update(createHash('sha256').update(bytes).digest()).digest();
const shown = (bytes: Buffer): string => Buffer.from(bytes).reverse().toString('hex');
const hidden = (hex: string): Buffer => Buffer.from(hex, 'hex').reverse();
const u32 = (n: number): Buffer => {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32LE(n >>> 0);
  return bytes;
};
const u64 = (n: bigint): Buffer => {
  const bytes = Buffer.alloc(8);
  bytes.writeBigUInt64LE(n);
  return bytes;
};
const count = (n: number): Buffer => (n < 0xfd ? Buffer.from([n]) : Buffer.from([0xfd, n & 0xff, n >> 8]));
const FEE = 10_000n;

/**
 * The work of blocks: `none` for chains that nobody proves, `real` as the rules of `provenBy` require it, `failed` with their difficulty but
 * without the work, `easy` with the work of a lower difficulty.
 */
export type Work = 'none' | 'real' | 'failed' | 'easy';
const BITS: Readonly<Record<Work, number>> = { none: 0x207fffff, real: 0x2007ffff, failed: 0x2007ffff, easy: 0x207fffff };
const TARGETS = { real: 0x07ffffn << 232n, failed: 0x07ffffn << 232n, easy: 0x7fffffn << 232n };
const meets = (work: Exclude<Work, 'none'>, hash: Buffer): boolean => BigInt(`0x${shown(hash)}`) <= TARGETS[work] === (work !== 'failed');
/** The lowest that the main networks still take. DOGE names itself in the upper half; every other block of it with work is merge-mined. */
const VERSION: Readonly<Record<BitcoinFamily, number>> = { BTC: 4, LTC: 0x20000000, DASH: 4, DOGE: 0x620004 };
const MERGE_MINED = 0x100;

/** The header and, on DOGE, its proof, with the work that is asked for. */
function mineHeader(coin: BitcoinFamily, work: Work, { height, rest }: { height: number; rest: Buffer }): Buffer {
  const merged = coin === 'DOGE' && work !== 'none' && height % 2 === 1;
  const header = Buffer.concat([
    u32(work === 'none' ? 4 : VERSION[coin] | (merged ? MERGE_MINED : 0)),
    rest,
    u32(BITS[work]),
    randomBytes(4),
  ]);
  if (work === 'none') return header;
  const sent = merged ? Buffer.concat([header, mergeMine(header)]) : header;
  const carrier = sent.subarray(-80);
  while (!meets(work, workHash(PROOF_PARAMS[coin].main.work, carrier))) randomBytes(4).copy(carrier, 76);
  return sent;
}

/** The rules of a main network with a difficulty that a test can mine, from the first block of a chain with `real` work. */
export const provenBy =
  (chain: Pick<TestChain, 'blocks' | 'coin'>): ProofStarts =>
  (family) => {
    if (family !== chain.coin) return null;
    const { auxpow, ...rules } = PROOF_PARAMS[family].main;
    return {
      params: { ...rules, powLimit: TARGETS.real, retarget: { kind: 'fixed' }, auxpow: auxpow && { ...auxpow, from: 0 } },
      start: { height: 0, headers: [chain.blocks[0]!.raw.subarray(0, 80)] },
    };
  };

export type TestChain = {
  readonly coin: Coin;
  readonly network: Network;
  readonly blocks: ChainBlock[];
  /** Blocks that a reorganization left behind. */
  readonly stale: Map<string, ChainBlock>;
  readonly mempool: Map<string, ChainTx>;
  tip(): ChainBlock;
  find(txid: string): { tx: ChainTx; block: ChainBlock | null } | null;
  /** Mines the pending transactions; `times` in seconds since 1970, by default now. */
  mine(blocks?: number, options?: { times?: number[]; empty?: boolean }): ChainBlock[];
  /** Pays to addresses from coins of the chain; `spend` names the coins of another transaction to spend again. */
  pay(outputs: readonly (readonly [address: string, units: bigint])[], options?: { replaces?: string; from?: string }): string;
  /** Removes the last blocks; their payments are pending again, unless they are forgotten. */
  rewind(depth: number, options?: { forget?: boolean }): void;
  /** Another chain with the same history. `work`: of its further blocks. */
  copy(options?: { work?: Work }): TestChain;
  /** Called after each change with what happened. */
  on(listener: (change: { block?: ChainBlock; tx?: ChainTx }) => void): void;
};

/** Makes a chain of `length` blocks at the coin's usual pace, the last one `age` seconds old. */
export function createTestChain({
  coin,
  network = 'mainnet',
  length = 30,
  age = 0,
  work = 'none',
  from,
}: {
  coin: Coin;
  /** Bitcoin-like chains only. */
  work?: Work;
  network?: Network;
  length?: number;
  age?: number;
  from?: TestChain;
}): TestChain {
  const blocks: ChainBlock[] = from ? [...from.blocks] : [];
  const stale = new Map<string, ChainBlock>(from?.stale);
  const mempool = new Map<string, ChainTx>(from?.mempool);
  const listeners: ((change: { block?: ChainBlock; tx?: ChainTx }) => void)[] = [];
  const tell = (change: { block?: ChainBlock; tx?: ChainTx }) => {
    for (const listener of listeners) listener(change);
  };
  const now = () => Math.floor(Date.now() / 1000);
  const { family } = COIN[coin];
  if (!isBitcoinLike(family)) throw new Error(`${coin} is not a coin of the Core family`);
  const ownScript = `76a914${'11'.repeat(20)}88ac`;
  const ownAddress = addressOfScript(ownScript, { coin, network })!;
  const scriptOf = (address: string) => decodeAddress(address, { coin, network }).key;

  const build = (inputs: ChainInput[], outputs: ChainOutput[], coinbaseHeight: number | null): ChainTx => {
    const parts: Buffer[] = [u32(1)];
    if (coinbaseHeight !== null) {
      // BIP-34 and a few random bytes: no two coinbases are alike.
      const script = Buffer.concat([Buffer.from([4]), u32(coinbaseHeight), Buffer.from([8]), randomBytes(8)]);
      parts.push(count(1), Buffer.alloc(32), u32(0xffffffff), count(script.length), script, u32(0xffffffff));
    } else {
      parts.push(count(inputs.length));
      for (const { txid, vout } of inputs) parts.push(hidden(txid), u32(vout), count(0), u32(0xfffffffd));
    }
    parts.push(count(outputs.length));
    for (const { script, units } of outputs) parts.push(u64(units), count(script.length / 2), Buffer.from(script, 'hex'));
    parts.push(u32(0));
    const raw = Buffer.concat(parts);
    const total = (list: readonly { units: bigint }[]) => list.reduce((sum, one) => sum + one.units, 0n);
    return {
      txid: shown(sha256d(raw)),
      raw,
      inputs,
      outputs,
      coinbase: coinbaseHeight !== null,
      feeUnits: coinbaseHeight === null ? total(inputs) - total(outputs) : 0n,
      seenAt: now(),
    };
  };
  const rootOf = (txs: readonly ChainTx[]): Buffer => {
    let level = txs.map((tx) => hidden(tx.txid));
    while (level.length > 1) {
      const next: Buffer[] = [];
      for (let i = 0; i < level.length; i += 2) next.push(sha256d(Buffer.concat([level[i]!, level[i + 1] ?? level[i]!])));
      level = next;
    }
    return level[0]!;
  };
  const mineOne = (at: number, empty: boolean): ChainBlock => {
    const height = blocks.length;
    // With work, times must rise.
    const time = work === 'none' ? at : Math.max(at, (blocks.at(-1)?.time ?? 0) + 1);
    const parent = blocks.at(-1)?.hash ?? '00'.repeat(32);
    const waiting = empty ? [] : [...mempool.values()];
    for (const { txid } of waiting) mempool.delete(txid);
    const coinbase = build([], [{ address: ownAddress, script: ownScript, units: 5_000_000_000n }], height);
    const txs = [coinbase, ...waiting];
    const root = rootOf(txs);
    const header = mineHeader(family, work, { height, rest: Buffer.concat([hidden(parent), root, u32(time)]) });
    const block = {
      height,
      hash: shown(idOf(PROOF_PARAMS[family].main, header.subarray(0, 80))),
      parent,
      merkleRoot: shown(root),
      time,
      raw: Buffer.concat([header, count(txs.length), ...txs.map((tx) => tx.raw)]),
      header,
      txs,
    };
    blocks.push(block);
    tell({ block });
    return block;
  };
  const spent = () =>
    new Set([...blocks.flatMap((b) => b.txs), ...mempool.values()].flatMap((tx) => tx.inputs.map((i) => `${i.txid}:${i.vout}`)));

  const chain: TestChain = {
    coin,
    network,
    blocks,
    stale,
    mempool,
    tip: () => blocks.at(-1)!,
    find: (txid) => {
      const waiting = mempool.get(txid);
      if (waiting) return { tx: waiting, block: null };
      for (const block of blocks) {
        const tx = block.txs.find((one) => one.txid === txid);
        if (tx) return { tx, block };
      }
      return null;
    },
    mine: (n = 1, { times, empty = false } = {}) => Array.from({ length: n }, (_, i) => mineOne(times?.[i] ?? now(), empty)),
    pay: (wanted, { replaces, from: sender } = {}) => {
      const outputs = wanted.map(([address, units]) => ({ address, script: scriptOf(address), units }));
      const needed = outputs.reduce((sum, o) => sum + o.units, 0n) + FEE;
      let inputs: ChainInput[];
      if (replaces !== undefined) {
        inputs = mempool.get(replaces)!.inputs;
        mempool.delete(replaces);
      } else {
        const gone = spent();
        const holder = sender ?? ownAddress;
        inputs = [];
        let total = 0n;
        for (const tx of blocks.flatMap((b) => b.txs)) {
          for (const [vout, output] of tx.outputs.entries()) {
            if (total >= needed || output.address !== holder || gone.has(`${tx.txid}:${vout}`)) continue;
            inputs.push({ txid: tx.txid, vout, address: holder, units: output.units });
            total += output.units;
          }
        }
        if (total < needed) throw new Error(`the chain has no ${needed} units to pay with`);
      }
      const change = inputs.reduce((sum, i) => sum + i.units, 0n) - needed;
      const tx = build(inputs, change > 0n ? [...outputs, { address: ownAddress, script: ownScript, units: change }] : outputs, null);
      mempool.set(tx.txid, tx);
      tell({ tx });
      return tx.txid;
    },
    rewind: (depth, { forget = false } = {}) => {
      for (const block of blocks.splice(blocks.length - depth)) {
        stale.set(block.hash, block);
        if (!forget) for (const tx of block.txs) if (!tx.coinbase) mempool.set(tx.txid, tx);
      }
    },
    copy: (options) => createTestChain({ coin, network, work, ...options, from: chain }),
    on: (listener) => listeners.push(listener),
  };
  if (!from) {
    const pace = chainOf(coin).blockSeconds;
    for (let i = 0; i < length; i++) mineOne(now() - age - (length - 1 - i) * pace, true);
  }
  return chain;
}
