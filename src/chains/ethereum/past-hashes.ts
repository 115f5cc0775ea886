/**
 * Hashes of older blocks, proven by one that is proven: a contract keeps the last 8,191 of them in its storage (EIP-2935). A gap of hours is
 * linked with a few requests instead of one for each header.
 */
import { hexToBytes } from '@noble/hashes/utils.js';
import type { BlockRef, ChainSource } from '../chain.ts';
import { readAccountProof } from './account-proof.ts';
import { provenHeader } from './block-header.ts';
import { ProofError } from './proof-values.ts';

const HISTORY = '0x0000f90827f1c53a10cb7a02335b175320002935';
/** The number of hashes that the contract keeps: that of block n in slot n mod 8191. */
const KEPT = 8_191;
/** Slots in one request: about half a megabyte of proofs. */
const AT_ONCE = 256;

/** The lowest block whose hash a proven one can prove. */
export const lowestPast = ({ height }: BlockRef): number => Math.max(0, height - KEPT);

/**
 * The hashes of the blocks `from` to `to` below a proven one, by height. Null when the node does not prove them: it lacks the method, or
 * the contract did not exist yet. Errors: ChainError when the node cannot be reached.
 */
export async function provePastHashes(
  { ask }: Pick<ChainSource, 'ask'>,
  proven: BlockRef,
  { from, to }: { from: number; to: number },
): Promise<Map<number, string> | null> {
  if (!ask || from < lowestPast(proven) || to >= proven.height) return null;
  try {
    const [block] = await ask([['eth_getBlockByHash', proven.hash, false]]);
    const { stateRoot } = provenHeader(block?.result, hexToBytes(proven.hash.slice(2)));
    const hashes = new Map<number, string>();
    for (let first = from; first <= to; first += AT_ONCE) {
      const heights = Array.from({ length: Math.min(AT_ONCE, to - first + 1) }, (_, i) => first + i);
      const slots = heights.map((height) => BigInt(height % KEPT));
      const keys = slots.map((slot) => `0x${slot.toString(16).padStart(64, '0')}`);
      const [reply] = await ask([['eth_getProof', HISTORY, keys, { blockHash: proven.hash }]]);
      if (!reply || reply.error) return null;
      const { slots: read } = readAccountProof(reply.result, { stateRoot, address: hexToBytes(HISTORY.slice(2)), slots });
      for (const [i, { value }] of read.entries()) {
        if (value === 0n) return null;
        hashes.set(heights[i]!, `0x${value.toString(16).padStart(64, '0')}`);
      }
    }
    return hashes;
  } catch (error) {
    if (error instanceof ProofError) return null;
    throw error;
  }
}
