/**
 * Reads blocks from the peers that announced them. A header whose block nobody serves is set aside: the best chain continues without it, and
 * comes back to it once a peer serves its block and all below it. So a branch that is only announced stops nothing.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import type { Clock } from '#core/dates';
import type { Log } from '#log';
import { BlockError, parseBlockOf } from '../block-proof.ts';
import type { KnownHeader } from '../header-chain.ts';
import type { HeaderSync, HeaderView } from './header-sync.ts';
import { LIMITED_BLOCKS, type Peer, type PeerNetwork, SERVICE } from './peer.ts';
import type { Peers } from './peers.ts';

/** A block that the chain can do without is waited for as long as so many peers are asked, one after the other. */
const PATIENCE_PEERS = 2;

export type BlockReader = {
  /**
   * A block of which the header is known. `check` throws when the bytes are not that block. `next`: it is above everything that was read, so
   * the chain may continue without it. Errors: an Error when no peer has it.
   */
  read<T>(block: KnownHeader, check: (bytes: Buffer) => Promise<T>, options?: { next?: boolean }): Promise<T>;
  /** Called every second: asks for the blocks of a branch that has more work than the best chain. */
  tick(): void;
  /** How many blocks a peer delivered. */
  delivered(peer: Peer): number;
};
type Options = {
  network: PeerNetwork;
  view: HeaderView;
  peers(): Pick<Peers, 'connected'>;
  sync: Pick<HeaderSync, 'shownBy'>;
  leave(peer: Peer, reason: string, options?: { ban?: boolean }): void;
  /** The best chain changed. */
  onChange(): void;
  clock: Clock;
  log: Log;
  nextPeerMs?: number;
  /** How long a branch waits before its blocks are asked for, because a node may bring them. */
  waitsMs?: number;
};
type State = Options & {
  /** The block that the branch of each peer lacks, and since when. */
  lacking: WeakMap<Peer, { hash: string; sinceMs: number }>;
  nextPeerMs: number;
  /** Blocks that each peer delivered. */
  counts: WeakMap<Peer, number>;
  /** The last block that each peer sent in a form that cannot be read. */
  unread: WeakMap<Peer, string>;
  /** Blocks that are being downloaded, by hash. */
  open: Set<string>;
  /** Peers that are asked for a block of the branch that they show: one at a time, so that nobody can show many. */
  probed: Set<Peer>;
};

/**
 * Peers in the order in which they are asked for a block: those that showed that they have it. Others do not answer, and would be left
 * for it, so they are asked only for blocks that every peer had before.
 */
function peersFor({ peers, sync, view, counts, unread }: State, block: KnownHeader, isNext: boolean): Peer[] {
  const depth = view.tip().height - block.height;
  const keeps = ({ version }: Peer): boolean => (version.services & SERVICE.network) !== 0n || depth < LIMITED_BLOCKS;
  const shows = (peer: Peer): boolean => {
    const shown = sync.shownBy(peer);
    return shown !== null && view.leadsTo(block.hash, shown);
  };
  return peers()
    .connected()
    .filter((peer) => keeps(peer) && unread.get(peer) !== block.hash)
    .map((peer) => ({ peer, shown: shows(peer), count: counts.get(peer) ?? 0 }))
    .filter(({ shown }) => shown || !isNext)
    .toSorted((a, b) => Number(b.shown) - Number(a.shown) || b.count - a.count)
    .map(({ peer }) => peer);
}

function download<T>(
  state: State,
  block: KnownHeader,
  { check, isNext, onLate }: { check(bytes: Buffer): Promise<T>; isNext: boolean; onLate?(reason: string, silent: readonly Peer[]): void },
): Promise<T> {
  const { leave, counts, unread, open, nextPeerMs } = state;
  open.add(block.hash);
  return downloadBlock({
    block: { hash: block.hash, header: block.bytes },
    peers: () => peersFor(state, block, isNext),
    check,
    refuse: (peer, reason) => leave(peer, reason, { ban: true }),
    unread: (peer) => unread.set(peer, block.hash),
    delivered: (peer) => counts.set(peer, (counts.get(peer) ?? 0) + 1),
    late: onLate ? { afterMs: PATIENCE_PEERS * nextPeerMs, call: onLate } : null,
    nextPeerMs,
  }).finally(() => open.delete(block.hash));
}

async function setAside({ view, peers, onChange, network, log }: State, { height, hash }: KnownHeader, reason: string): Promise<void> {
  // Without a peer nothing is known about the block.
  if (peers().connected().length === 0) return;
  log.warn({ coin: network.family, height, hash, reason }, 'No peer serves a block, so the chain continues without it until one does');
  await view.setAside(hash);
  onChange();
}
async function admit({ view, onChange }: State, hash: string): Promise<void> {
  await view.admit(hash);
  onChange();
}

/** A block that the chain can do without: after a while without an answer it does, and the answer may still come. */
async function readNext<T>(state: State, block: KnownHeader, check: (bytes: Buffer) => Promise<T>): Promise<T> {
  const late = Promise.withResolvers<never>();
  late.promise.catch(() => {});
  let aside: Promise<void> | null = null;
  const onLate = (reason: string, silent: readonly Peer[]): void => {
    aside = setAside(state, block, reason);
    for (const peer of silent) state.leave(peer, `it announced block ${block.hash} and does not send it`);
    aside.then(() => late.reject(new UnservedBlock(`no peer sends block ${block.hash}: ${reason}`)), late.reject);
  };
  const whole = download(state, block, { check, isNext: true, onLate }).then(
    async (value) => {
      await aside;
      if (aside) await admit(state, block.hash);
      return value;
    },
    async (error: unknown) => {
      // What was served and cannot be used is not without its block.
      if (error instanceof UnservedBlock) await (aside ?? setAside(state, block, error.message));
      throw error;
    },
  );
  return Promise.race([whole, late.promise]);
}

/** Whether the branch of a peer lacks this block for too short a time to ask for it. */
function isEarly({ lacking, clock, waitsMs = 0 }: State, peer: Peer, hash: string): boolean {
  const nowMs = clock.monotonicMs();
  const known = lacking.get(peer);
  const sinceMs = known?.hash === hash ? known.sinceMs : nowMs;
  lacking.set(peer, { hash, sinceMs });
  return nowMs - sinceMs < waitsMs;
}

/** Downloads the lowest block that is not known to be served of the branch that a peer shows, then the one above it, as long as it can. */
async function probe(state: State, peer: Peer): Promise<void> {
  const { sync, view, open, network } = state;
  for (let isFirst = true; ; isFirst = false) {
    const [block] = view.waiting(sync.shownBy(peer) ?? '');
    if (!block || open.has(block.hash) || state.unread.get(peer) === block.hash) return;
    if (isFirst && isEarly(state, peer, block.hash)) return;
    const { hash } = block;
    await download(state, block, { check: (bytes) => parseBlockOf(hash, bytes, network.family), isNext: true });
    await admit(state, hash);
  }
}

/** Creates the reader. Nothing is asked before `read` and `tick`. */
export function createBlockReader(options: Options): BlockReader {
  const state: State = {
    ...options,
    nextPeerMs: options.nextPeerMs ?? NEXT_PEER_MS,
    counts: new WeakMap(),
    lacking: new WeakMap(),
    unread: new WeakMap(),
    open: new Set(),
    probed: new Set(),
  };
  const { log, network, probed } = state;
  return {
    read: (block, check, { next = false } = {}) =>
      next ? readNext(state, block, check) : download(state, block, { check, isNext: false }),
    tick: () => {
      for (const peer of state.peers().connected()) {
        if (probed.has(peer)) continue;
        probed.add(peer);
        probe(state, peer)
          .catch((error: unknown) => log.debug({ coin: network.family, err: error }, 'A branch is announced without its blocks'))
          .finally(() => probed.delete(peer));
      }
    },
    delivered: (peer) => state.counts.get(peer) ?? 0,
  };
}

// Downloads blocks from peers: when one does not send a block in time the next one is asked as well, and what is wrong is not taken.

/** After this long the next peer is asked too. */
const NEXT_PEER_MS = 10_000;
/** Peers that send one block at the same time: more would share a slow line. Those that send nothing keep no place. */
const MAX_SENDING = 3;
/** Fewer bytes since it was asked are nothing. */
const LEAST_BYTES = 10_000;
/** While nobody is asked, peers that announce the block are looked for this often. */
const LOOK_MS = 500;

/** No peer sends a block. */
class UnservedBlock extends Error {}

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
