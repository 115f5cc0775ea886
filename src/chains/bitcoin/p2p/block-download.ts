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

/**
 * Reads a block whose header is known. `check` throws a BlockError when the bytes are not that block, and any other Error when they are,
 * but cannot be used: then no other peer is asked, because all have the same. Errors: an Error when no peer has it.
 */
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
  /** A peer sent something else than the block, for certain: its bytes cannot be it, or another peer sent it. */
  refuse(peer: Peer, reason: string): void;
  delivered?(peer: Peer): void;
  nextPeerMs?: number;
}): Promise<T> {
  const over = new AbortController();
  const waiting = [...peers];
  /** Open requests: the peer, and how many bytes it had sent before. */
  const asked = new Map<Promise<void>, { peer: Peer; before: number }>();
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
    while (found.length === 0 && (waiting.length > 0 || asked.size > 0)) {
      const next = sending() < MAX_SENDING ? waiting.shift() : undefined;
      if (next) {
        const before = next.stats().bytesIn;
        const answer = askOne(next).finally(() => asked.delete(answer));
        asked.set(answer, { peer: next, before });
      }
      const pause = waiting.length > 0 ? [sleep(nextPeerMs, undefined, { signal: over.signal }).catch(() => {})] : [];
      await Promise.race([...asked.keys(), ...pause]);
    }
  } finally {
    over.abort();
  }
  const [first] = found;
  if (first) {
    for (const one of unreadable) refuse(one.peer, one.reason);
    return first.value;
  }
  if (unreadable.length > 0)
    throw new Error(
      `block ${block.hash} cannot be read as ${unreadable.length === 1 ? 'a peer sends' : `${unreadable.length} peers send`} it: ${reason}`,
    );
  throw new Error(`no peer sends block ${block.hash}: ${reason}`);
}
