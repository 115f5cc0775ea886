/**
 * An Ethereum source whose blocks count only below the newest block that the sync committee signed. Its header leads to its parent by
 * hash, that one to its own, and so on: the source can withhold a block but not invent one.
 */
import { hexToBytes } from '@noble/hashes/utils.js';
import { ProofError } from '#evm';
import { type BlockRef, ChainError, type ChainSource, NO_FINALITY } from '../chain-source.ts';
import type { Proof } from '../sources.ts';
import { provenHeader } from './block-header.ts';
import type { LightService } from './light-client/light-service.ts';
import { readAccountProof } from './trie.ts';

/** Blocks asked for at the same time while headers are linked. */
const AT_ONCE = 32;
/** Gaps of more blocks than this are linked by the hashes that the newest block proves. */
const LONG_GAP = 64;
/** Links that are kept below the newest block, unless the follower is further behind. */
const KEPT = 4_096;
/** The protocol proves no safe block; this depth stands for it (Ethereum loses no block that deep unless finality fails). */
const SAFE_DEPTH = 32;

/** The proof of the chain, for its followers. */
export const committeeProof = (light: LightService): Proof => ({
  requireProof: () => light.open(),
  provenWork: () => ({ heights: null, holds: light.holds() }),
  witnesses: { check: () => light.check() },
});

type Link = { hash: string; parent: string };

/** The proven chain: hashes by height, without a gap up to its newest block. */
function createLinks(source: ChainSource, name: string) {
  const links = new Map<number, Link>();
  let top: BlockRef | null = null;
  /** The lowest height that was asked for last: what is below it is not needed. */
  let floor = 0;
  const lowest = () => top!.height - links.size + 1;
  const unproven = (height: number) =>
    new ChainError('unproven', `${name}: block ${height} that it shows is not on the chain that the sync committee signed`);
  const byHash = async (hash: string): Promise<BlockRef> => {
    const ref = await source.block(hash);
    if (ref?.hash !== hash) throw new ChainError('behind', `${name} does not have block ${hash}, which the sync committee vouches for`);
    return ref;
  };

  /** Links a long gap below the lowest block with the hashes that the newest one proves. The rest is left to headers. */
  const reachBack = async (to: number): Promise<void> => {
    const newest = top!;
    // One more, because a link names its parent.
    const from = Math.max(to - 1, lowestPast(newest));
    if (lowest() - to <= LONG_GAP || lowest() - from <= 1) return;
    const hashes = await provePastHashes(source, newest, { from, to: lowest() - 1 });
    if (hashes === null || top !== newest) return;
    for (let height = lowest() - 1; height > from; height--)
      links.set(height, { hash: hashes.get(height)!, parent: hashes.get(height - 1)! });
  };

  /** Links the parents of the lowest block down to a height. Blocks are asked for by number, and must have the hash that a child names. */
  const reachDown = async (to: number): Promise<void> => {
    await reachBack(to);
    while (lowest() > to) {
      const from = Math.max(to, lowest() - AT_ONCE);
      const refs = await Promise.all(Array.from({ length: lowest() - from }, (_, i) => source.blockAt(from + i)));
      for (const ref of refs.reverse()) {
        const height = lowest() - 1;
        if (!ref) throw new ChainError('behind', `${name} does not show block ${height}`);
        if (ref.hash !== links.get(lowest())!.parent || ref.height !== height) throw unproven(height);
        links.set(height, ref);
      }
    }
  };
  return {
    /** Takes a block that the committee signed as the newest one. */
    raise: async (hash: string): Promise<BlockRef> => {
      if (top?.hash === hash) return top;
      const path = [await byHash(hash)];
      // Down to a block that is known, by the hashes of parents: blocks that were replaced are noticed here.
      while (top !== null) {
        const last = path.at(-1)!;
        if (links.get(last.height - 1)?.hash === last.parent) break;
        if (last.height <= lowest() || last.height - top.height > LONG_GAP || path.length > KEPT) {
          links.clear();
          break;
        }
        path.push(await byHash(last.parent));
      }
      const joint = path.at(-1)!.height;
      if (top !== null) for (let height = top.height; height >= joint && links.delete(height); height--);
      for (const { height, hash: own, parent } of path) links.set(height, { hash: own, parent });
      [top] = path as [BlockRef];
      for (let height = lowest(); links.size > KEPT && height < floor; height++) links.delete(height);
      return top;
    },
    /** The hash of the proven block at a height; null above the newest one. */
    at: async (height: number): Promise<string | null> => {
      if (top === null || height > top.height) return null;
      floor = Math.max(0, height - SAFE_DEPTH);
      if (height < lowest()) await reachDown(height);
      return links.get(height)!.hash;
    },
    unproven,
  };
}

/** The same source, of which only blocks below a signed head count. Before a follower asks for proof it is the source as it is. */
export function syncedSource({ source, name, light }: { source: ChainSource; name: string; light: LightService }): ChainSource {
  const links = createLinks(source, name);
  let isOpen = false;
  /** The newest final block that was asked for. */
  let final: BlockRef | null = null;
  /** One walk at a time: two would link the same blocks. */
  let turn: Promise<unknown> = Promise.resolve();
  const inTurn = <T>(work: () => Promise<T>): Promise<T> => {
    const done = turn.then(work, work);
    turn = done.catch(() => {});
    return done;
  };
  const head = async (): Promise<BlockRef> => {
    const heads = light.heads();
    if (!heads) throw new ChainError('outage', light.trouble() ?? 'no block that the sync committee signed is known yet');
    return links.raise(heads.optimistic.executionHash);
  };
  return {
    ...source,
    requireProof: async () => {
      await light.open();
      isOpen = true;
    },
    health: async () => {
      const health = await source.health();
      if (!isOpen || health.syncing) return health;
      if (!light.heads())
        return { ...health, syncing: true, progress: light.trouble() ?? 'waiting for a block that the sync committee signed' };
      const tip = await inTurn(head);
      return { ...health, tip, headers: Math.max(health.headers, tip.height) };
    },
    tip: async () => (isOpen ? inTurn(head) : source.tip()),
    blockAt: async (height) => {
      const found = await source.blockAt(height);
      if (!isOpen || found === null) return found;
      const proven = await inTurn(() => links.at(height));
      if (proven === null) return null;
      if (found.hash !== proven) throw links.unproven(height);
      return found;
    },
    fetchBlock: async (hash) => {
      const fetched = await source.fetchBlock(hash);
      if (!isOpen) return fetched;
      const proven = await inTurn(async () => {
        await head();
        return links.at(fetched.ref.height);
      });
      if (proven !== hash) throw links.unproven(fetched.ref.height);
      return { ...fetched, verifiedBy: 'sync_committee' as const };
    },
    // The tip of the source may be newer than what is proven, so the two do not belong together.
    fetchMempool: async (health) => {
      const { beside: _, ...fetched } = await source.fetchMempool(health);
      return fetched;
    },
    finality: async () => {
      const heads = light.heads();
      if (!isOpen || !heads) return NO_FINALITY;
      const tip = await inTurn(head);
      const { executionHash } = heads.finalized;
      if (final?.hash !== executionHash) final = await source.block(executionHash);
      const finalized = final?.hash === executionHash ? final.height : null;
      return { safe: Math.max(finalized ?? 0, tip.height - SAFE_DEPTH), finalized, chainlock: null, tip: tip.hash };
    },
    onHint: (wake) => light.onHead(wake),
  };
}

// Hashes of older blocks, proven by one that is proven: a contract keeps the last 8,191 of them in its storage (EIP-2935). A gap of hours
// is linked with a few requests instead of one for each header.

const HISTORY = '0x0000f90827f1c53a10cb7a02335b175320002935';
/** The number of hashes that the contract keeps: that of block n in slot n mod 8191. */
const PAST_KEPT = 8_191;
/** Slots in one request: about half a megabyte of proofs. */
const HASHES_AT_ONCE = 256;

/** The lowest block whose hash a proven one can prove. */
const lowestPast = ({ height }: BlockRef): number => Math.max(0, height - PAST_KEPT);

/**
 * The hashes of the blocks `from` to `to` below a proven one, by height. Null when the node does not prove them: it lacks the method, or
 * the contract did not exist yet. Errors: ChainError when the node cannot be reached.
 */
async function provePastHashes(
  { ask }: Pick<ChainSource, 'ask'>,
  proven: BlockRef,
  { from, to }: { from: number; to: number },
): Promise<Map<number, string> | null> {
  if (!ask || from < lowestPast(proven) || to >= proven.height) return null;
  try {
    const [block] = await ask([['eth_getBlockByHash', proven.hash, false]]);
    const { stateRoot } = provenHeader(block?.result, hexToBytes(proven.hash.slice(2)));
    const hashes = new Map<number, string>();
    for (let first = from; first <= to; first += HASHES_AT_ONCE) {
      const heights = Array.from({ length: Math.min(HASHES_AT_ONCE, to - first + 1) }, (_, i) => first + i);
      const slots = heights.map((height) => BigInt(height % PAST_KEPT));
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
