/** Downloads blocks from peers: when one does not send a block in time the next one is asked as well, and what is wrong is not taken. */
import { setTimeout as sleep } from 'node:timers/promises';
import type { Peer } from './peer.ts';

/** After this long the next peer is asked too. */
export const NEXT_PEER_MS = 10_000;
/** Peers that are asked for one block at the same time. */
const MAX_ASKED = 3;

/** Reads a block whose header is known. `check` throws when the bytes are not that block. Errors: an Error when no peer has it. */
export async function downloadBlock<T>({
  block,
  peers,
  check,
  refuse,
  delivered,
  nextPeerMs = NEXT_PEER_MS,
}: {
  block: { hash: string; header: Buffer };
  /** In the order in which they are asked. */
  peers: readonly Peer[];
  check(bytes: Buffer): Promise<T>;
  /** A peer sent something else than the block. */
  refuse(peer: Peer, reason: string): void;
  delivered?(peer: Peer): void;
  nextPeerMs?: number;
}): Promise<T> {
  const over = new AbortController();
  const waiting = [...peers];
  const asked = new Set<Promise<void>>();
  const found: { value: T }[] = [];
  let reason = 'no peer is connected';
  const askOne = async (peer: Peer): Promise<void> => {
    let bytes: Buffer;
    try {
      bytes = await peer.readBlock(block);
    } catch (error) {
      reason = (error as Error).message;
      return;
    }
    try {
      const value = await check(bytes);
      found.push({ value });
      delivered?.(peer);
    } catch (error) {
      reason = (error as Error).message;
      refuse(peer, reason);
    }
  };
  try {
    while (found.length === 0 && (waiting.length > 0 || asked.size > 0)) {
      const next = asked.size < MAX_ASKED ? waiting.shift() : undefined;
      if (next) {
        const answer = askOne(next).finally(() => asked.delete(answer));
        asked.add(answer);
      }
      const pause =
        waiting.length > 0 && asked.size < MAX_ASKED ? [sleep(nextPeerMs, undefined, { signal: over.signal }).catch(() => {})] : [];
      await Promise.race([...asked, ...pause]);
    }
  } finally {
    over.abort();
  }
  const [first] = found;
  if (!first) throw new Error(`no peer sends block ${block.hash}: ${reason}`);
  return first.value;
}
