/** Blocks on Bitcoin's regtest genesis with real proof of work, and the header chain that takes them. */
import { randomBytes } from 'node:crypto';
import { merkleRootOf } from '../../src/chains/bitcoin/block-proof.ts';
import { workHash } from '../../src/chains/bitcoin/header.ts';
import { createHeaderChain } from '../../src/chains/bitcoin/header-chain.ts';
import type { HeaderView } from '../../src/chains/bitcoin/p2p/header-sync.ts';
import { regtestProof, viewHeaders } from '../../src/chains/bitcoin/p2p/network-peers.ts';
import { sha256d } from '../../src/chains/bitcoin/strict-reader.ts';
import { emptyChain, type ServedChain } from './scripted-peer.ts';

export const GENESIS = '0f9188f13cb7b2c71f2a335e3a4fc328bf5beb436012afca590b1a11466e2206';
const BITS = 0x207fffff;
export const shownHash = (bytes: Buffer): string => Buffer.from(sha256d(bytes)).reverse().toString('hex');
const hidden = (hash: string): Buffer => Buffer.from(hash, 'hex').reverse();
/** On regtest a hash needs one leading zero bit. */
const meets = (hash: string): boolean => Number.parseInt(hash.slice(0, 2), 16) < 0x80;

/** A transaction with one input and outputs to these scripts. */
export function transaction(
  outputs: readonly { script: string; units: bigint }[],
  { coinbase = false }: { coinbase?: boolean } = {},
): Buffer {
  const parts = [Buffer.from([1, 0, 0, 0, 1])];
  parts.push(coinbase ? Buffer.concat([Buffer.alloc(32), Buffer.alloc(4, 0xff)]) : Buffer.concat([randomBytes(32), Buffer.alloc(4)]));
  parts.push(Buffer.from([8]), randomBytes(8), Buffer.alloc(4, 0xff), Buffer.from([outputs.length]));
  for (const { script, units } of outputs) {
    const amount = Buffer.alloc(8);
    amount.writeBigUInt64LE(units);
    parts.push(amount, Buffer.from([script.length / 2]), Buffer.from(script, 'hex'));
  }
  return Buffer.concat([...parts, Buffer.alloc(4)]);
}

export type MinedBlock = { hash: string; header: Buffer; bytes: Buffer };
/** Mines one block on a parent. `script`: what its coins are paid to. */
export function mineBlock(
  parent: string,
  { timeSeconds, transactions = [], script = '51' }: { timeSeconds: number; transactions?: readonly Buffer[]; script?: string },
): MinedBlock {
  const all = [transaction([{ script, units: 5_000_000_000n }], { coinbase: true }), ...transactions];
  const header = Buffer.alloc(80);
  header.writeInt32LE(0x20000000);
  hidden(parent).copy(header, 4);
  hidden(merkleRootOf(all.map(shownHash))).copy(header, 36);
  header.writeUInt32LE(timeSeconds, 68);
  header.writeUInt32LE(BITS, 72);
  while (!meets(shownHash(header))) header.writeUInt32LE(header.readUInt32LE(76) + 1, 76);
  return { hash: shownHash(header), header, bytes: Buffer.concat([header, Buffer.from([all.length]), ...all]) };
}
/** Mines blocks on top of a served chain, or on the genesis block. */
export function extend(
  chain: ServedChain,
  blocks: number,
  {
    from,
    transactions = [],
    timeSeconds = (height) => 1_700_000_000 + height * 600,
  }: { from?: string; transactions?: readonly Buffer[]; timeSeconds?(height: number): number } = {},
): MinedBlock[] {
  const mined: MinedBlock[] = [];
  for (let i = 0; i < blocks; i++) {
    const parent = mined.at(-1)?.hash ?? from ?? chain.headers.at(-1)?.hash ?? GENESIS;
    const block = mineBlock(parent, { timeSeconds: timeSeconds(chain.headers.length), ...(i === blocks - 1 && { transactions }) });
    chain.headers.push({ hash: block.hash, header: { bytes: block.header, auxpow: null } });
    chain.blocks.set(block.hash, block.bytes);
    mined.push(block);
  }
  return mined;
}
export function createServedChain(blocks: number): ServedChain {
  const chain = emptyChain();
  extend(chain, blocks);
  return chain;
}
/** Another chain with the same past up to a height. */
export const forkOf = (chain: ServedChain, height: number): ServedChain => ({
  headers: chain.headers.slice(0, height),
  blocks: new Map(chain.blocks),
  transactions: new Map(),
});

/** Bitcoin's regtest header chain with all its rules, as peers fill it. */
export const createRegtestHeaders = (): HeaderView =>
  viewHeaders(
    createHeaderChain({
      ...regtestProof('BTC'),
      hashWork: async (kind, headers) => headers.map((header) => workHash(kind, header)),
      nowSeconds: () => Math.floor(Date.now() / 1000),
    }),
  );
