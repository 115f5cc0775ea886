/** Downloads blocks from peers: when one does not send a block in time the next one is asked as well, and what is wrong is not taken. */
import { setTimeout as sleep } from 'node:timers/promises';
import { BlockError } from '../block-proof.ts';
import type { Peer } from './peer.ts';

/** After this long the next peer is asked too. */
export const NEXT_PEER_MS = 10_000;
/** Peers that send one block at the same time: more would share a slow line. Those that send nothing keep no place. */
const MAX_SENDING = 3;
/** Fewer bytes since it was asked are nothing. */
const LEAST_BYTES = 10_000;
/** While nobody is asked, peers that announce the block are looked for this often. */
const LOOK_MS = 500;

/** No peer sends a block. */
export class UnservedBlock extends Error {}

/**
 * Reads a block whose header is known. `check` throws a BlockError when the bytes are not that block, and any other Error when they are,
 * but cannot be used: then no other peer is asked, because all have the same. `late`: a block that others may have. It is called once when
 * nobody sends it for so long, with the peers that had the time to answer; until then peers that announce it later are waited for. Errors:
 * UnservedBlock; what `check` throws.
 */
export async function downloadBlock<T>({
  block,
  peers,
  check,
  refuse,
  unread,
  delivered,
  late = null,
  nextPeerMs = NEXT_PEER_MS,
}: {
  block: { hash: string; header: Buffer };
  /** Those that may have it now, in the order in which they are asked. */
  peers(): readonly Peer[];
  check(bytes: Buffer): Promise<T>;
  /** A peer sent something else than the block, for certain: its bytes cannot be it, or another peer sent it. */
  refuse(peer: Peer, reason: string): void;
  /** A peer sent what cannot be read, and no other peer sent anything better. */
  unread?(peer: Peer): void;
  delivered?(peer: Peer): void;
  late?: { afterMs: number; call(reason: string, silent: readonly Peer[]): void } | null;
  nextPeerMs?: number;
}): Promise<T> {
  const over = new AbortController();
  const tried = new Set<Peer>();
  const nextOf = (): Peer | undefined => peers().find((peer) => !tried.has(peer));
  /** Open requests: the peer, and how many bytes it had sent before. */
  const asked = new Map<Promise<void>, { peer: Peer; before: number; sinceMs: number }>();
  const sending = (): number => [...asked.values()].filter(({ peer, before }) => peer.stats().bytesIn - before >= LEAST_BYTES).length;
  const found: { value: T }[] = [];
  /** Peers whose bytes cannot be read, by them or by us. */
  const unreadable: { peer: Peer; reason: string }[] = [];
  let reason = 'no peer is connected';
  const judge = (peer: Peer, error: unknown): void => {
    if (!(error instanceof BlockError)) throw error;
    reason = error.message;
    if (error.fault === 'sender') refuse(peer, reason);
    else unreadable.push({ peer, reason });
  };
  const pauseOf = (ms: number): Promise<unknown> => sleep(ms, undefined, { signal: over.signal }).catch(() => {});
  let [isLate, isTold] = [late === null, late === null];
  const lateness = pauseOf(late?.afterMs ?? 0).then(() => {
    isLate = true;
  });
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
      judge(peer, error);
    }
  };
  try {
    for (let next = nextOf(); found.length === 0 && (next || asked.size > 0 || !isLate); next = nextOf()) {
      if (next && sending() < MAX_SENDING) {
        tried.add(next);
        const before = next.stats().bytesIn;
        const answer = askOne(next).finally(() => asked.delete(answer));
        asked.set(answer, { peer: next, before, sinceMs: performance.now() });
      }
      if (isLate && !isTold && sending() === 0) {
        isTold = true;
        late?.call(
          reason,
          [...asked.values()].flatMap(({ peer, sinceMs }) => (performance.now() - sinceMs >= nextPeerMs ? peer : [])),
        );
      }
      const pause = pauseOf(asked.size > 0 ? nextPeerMs : Math.min(nextPeerMs, LOOK_MS));
      await Promise.race([...asked.keys(), pause, ...(isLate ? [] : [lateness])]);
    }
  } finally {
    over.abort();
  }
  const [first] = found;
  if (first) {
    for (const one of unreadable) refuse(one.peer, one.reason);
    return first.value;
  }
  for (const { peer } of unreadable) unread?.(peer);
  if (unreadable.length > 0)
    throw new UnservedBlock(
      `block ${block.hash} cannot be read as ${unreadable.length === 1 ? 'a peer sends' : `${unreadable.length} peers send`} it: ${reason}`,
    );
  throw new UnservedBlock(`no peer sends block ${block.hash}: ${reason}`);
}
