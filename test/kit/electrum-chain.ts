/** Blocks as an Electrum server indexes them: histories by script, branches by position. The blocks are of a real node, or made here. */
import { parseBlock } from '../../src/chains/bitcoin/block-proof.ts';
import { scriptHashOf } from '../../src/chains/bitcoin/electrum/electrum-proof.ts';
import { hashBytes, showHash } from '../../src/chains/bitcoin/header.ts';
import { regtestProof } from '../../src/chains/bitcoin/p2p/network-peers.ts';
import { inputsOf, outputsOfTransaction, parseTransaction, type RawTransaction, txidOf } from '../../src/chains/bitcoin/raw-block.ts';
import { sha256d } from '../../src/chains/bitcoin/strict-reader.ts';
import { GENESIS, mineBlock } from './regtest-chain.ts';

type Indexed = {
  txid: string;
  hex: string;
  height: number;
  position: number;
  scripts: Set<string>;
  outputs: Map<string, [string, bigint]>;
  spends: string[];
};
export type History = { tx_hash: string; height: number; fee?: number }[];

/** A regtest chain of BTC and what is waiting, as a server shows them. */
export type ElectrumChain = {
  tip(): { height: number; hex: string; hash: string };
  header(height: number): string | undefined;
  transaction(txid: string): Indexed | undefined;
  history(scriptHash: string): History;
  balance(scriptHash: string): { confirmed: number; unconfirmed: number };
  branch(txid: string): { block_height: number; merkle: string[]; pos: number } | undefined;
  txidAt(height: number, position: number): string | undefined;
  addBlock(bytes: Buffer): void;
  addWaiting(bytes: Buffer): string;
  /** Mines a block that pays its coins to a script, with everything that is waiting and these transactions. */
  mine(script?: string, transactions?: readonly Buffer[]): { hash: string; coinbase: string };
  /** The same blocks and waiting transactions, from now on with changes of their own. `upTo`: without the blocks above. */
  copy(upTo?: number): ElectrumChain;
};

/** The siblings from a leaf to the root. */
function branchOf(txids: readonly string[], position: number): string[] {
  const siblings: string[] = [];
  let level: Buffer[] = txids.map(hashBytes);
  for (let at = position; level.length > 1; at >>= 1) {
    if (level.length % 2 === 1) level.push(level.at(-1)!);
    siblings.push(showHash(level[at ^ 1]!));
    level = Array.from({ length: level.length / 2 }, (_, i) => sha256d(Buffer.concat([level[2 * i]!, level[2 * i + 1]!])));
  }
  return siblings;
}

/** A transaction that spends these outpoints (`txid:n`) and pays these scripts. */
export function spend(from: readonly string[], to: readonly { script: string; units: bigint }[]): Buffer {
  const parts: Buffer[] = [Buffer.from([2, 0, 0, 0, from.length])];
  for (const outpoint of from) {
    const n = Buffer.alloc(4);
    n.writeUInt32LE(Number(outpoint.slice(65)));
    parts.push(hashBytes(outpoint.slice(0, 64)), n, Buffer.from([1, 0x51]), Buffer.alloc(4, 0xff));
  }
  parts.push(Buffer.from([to.length]));
  for (const { script, units } of to) {
    const amount = Buffer.alloc(8);
    amount.writeBigUInt64LE(units);
    parts.push(amount, Buffer.from([script.length / 2]), Buffer.from(script, 'hex'));
  }
  return Buffer.concat([...parts, Buffer.alloc(4)]);
}
export const txidOfBytes = (bytes: Buffer): string => txidOf(parseTransaction(bytes, 'BTC'));

export function createElectrumChain(blocks: readonly Buffer[] = [], pending: readonly Buffer[] = []): ElectrumChain {
  const headers: Buffer[] = [...regtestProof('BTC').start.headers];
  const bodies: Buffer[] = [];
  const all = new Map<string, Indexed>();
  const byHeight: string[][] = [[]];
  let waiting: Buffer[] = [];

  const index = (raw: RawTransaction, height: number, position: number): void => {
    const txid = txidOf(raw);
    const outputs = new Map(
      outputsOfTransaction(raw).map(({ n, units, script }) => [
        `${txid}:${n}`,
        [scriptHashOf(Buffer.from(script).toString('hex')), units] as [string, bigint],
      ]),
    );
    const spends = inputsOf(raw);
    const scripts = new Set([...outputs.values()].map(([script]) => script));
    for (const one of spends) {
      const [script] = all.get(one.slice(0, 64))?.outputs.get(one) ?? [];
      if (script !== undefined) scripts.add(script);
    }
    all.set(txid, { txid, hex: raw.bytes.toString('hex', raw.extent.from, raw.extent.to), height, position, scripts, outputs, spends });
  };
  const touching = (script: string): Indexed[] => [...all.values()].filter(({ scripts }) => scripts.has(script));
  const chain: ElectrumChain = {
    tip: () => ({ height: headers.length - 1, hex: headers.at(-1)!.toString('hex'), hash: showHash(sha256d(headers.at(-1)!)) }),
    header: (height) => headers[height]?.toString('hex'),
    transaction: (txid) => all.get(txid),
    history: (script) =>
      touching(script)
        .toSorted((a, b) => (a.height || 1e9) - (b.height || 1e9) || a.position - b.position)
        .map(({ txid, height }) => ({ tx_hash: txid, height, ...(height === 0 && { fee: 100 }) })),
    balance: (script) => {
      const sum = { confirmed: 0, unconfirmed: 0 };
      for (const { height, outputs, spends } of touching(script)) {
        const part = height > 0 ? 'confirmed' : 'unconfirmed';
        for (const [to, units] of outputs.values()) if (to === script) sum[part] += Number(units);
        for (const one of spends) {
          const [to, units] = all.get(one.slice(0, 64))?.outputs.get(one) ?? [];
          if (to === script) sum[part] -= Number(units);
        }
      }
      return sum;
    },
    branch: (txid) => {
      const found = all.get(txid);
      if (!found || found.height === 0) return undefined;
      return { block_height: found.height, merkle: branchOf(byHeight[found.height]!, found.position), pos: found.position };
    },
    txidAt: (height, position) => byHeight[height]?.[position],
    addBlock: (bytes) => {
      const { transactions } = parseBlock(bytes, 'BTC');
      headers.push(bytes.subarray(0, 80));
      bodies.push(bytes);
      const height = headers.length - 1;
      byHeight[height] = transactions.map(txidOf);
      for (const [position, raw] of transactions.entries()) index(raw, height, position);
      waiting = waiting.filter((one) => all.get(txidOfBytes(one))!.height === 0);
    },
    addWaiting: (bytes) => {
      waiting.push(bytes);
      index(parseTransaction(bytes, 'BTC'), 0, 0);
      return txidOfBytes(bytes);
    },
    mine: (script = '51', transactions = []) => {
      const parent = headers.length === 1 ? GENESIS : chain.tip().hash;
      const timeSeconds = 1_700_000_000 + headers.length * 600;
      const block = mineBlock(parent, { timeSeconds, transactions: [...waiting, ...transactions], script });
      chain.addBlock(block.bytes);
      return { hash: block.hash, coinbase: byHeight.at(-1)![0]! };
    },
    copy: (upTo = bodies.length) => createElectrumChain(bodies.slice(0, upTo), upTo === bodies.length ? waiting : []),
  };
  for (const bytes of blocks) chain.addBlock(bytes);
  for (const bytes of pending) chain.addWaiting(bytes);
  return chain;
}
