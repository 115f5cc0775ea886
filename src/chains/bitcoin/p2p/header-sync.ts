/** Brings the headers of peers into the header chain, and knows which peer has which block. One peer's fault stops no other. */
import type { Clock } from '#core/dates';
import type { Log } from '#log';
import type { Giving, HeaderReader, KnownHeader } from '../header-chain.ts';
import { type Inventory, ITEM, MAX_HEADERS, type WireHeader } from './messages.ts';
import { type Peer, PeerError } from './peer.ts';
import { endpointName } from './peer-book.ts';

/** The header chain, as peers need it. */
export type HeaderView = {
  /** Hashes that tell a peer where we are: newest first, then further and further apart, the lowest last. */
  locator(): readonly string[];
  /** Adds headers in their order; `last` is the hash of the last one. `peer`: who sent them. Errors: HeaderFault. */
  add(headers: readonly WireHeader[], peer: string, giving: Giving): Promise<{ added: number; last: string }>;
  tip(): KnownHeader;
  find(hash: string): KnownHeader | null;
  /** The hash of a header, known or not. */
  hashOf(header: WireHeader): string;
} & Pick<HeaderReader, 'knows' | 'waiting' | 'leadsTo' | 'setAside' | 'admit'>;
/**
 * Why headers cannot be added. `invalid`: the peer broke the rules. `unlinked`: their parent is not known. `early`: they are ahead of our
 * clock, so they may be added later.
 */
export class HeaderFault extends Error {
  readonly kind: 'invalid' | 'unlinked' | 'early';
  constructor(kind: HeaderFault['kind'], message: string) {
    super(message);
    this.name = 'HeaderFault';
    this.kind = kind;
  }
}

/** How many full answers in a row may end at or below what was known: a peer could send the same headers forever. */
const MAX_USELESS = 2;
/**
 * Before the first peer has told everything, this many peers are read at the same time, and only one as soon as it sends something new: the
 * others would send the same. One that sends nothing new for a while does not keep the others waiting.
 */
const FIRST_AT_ONCE = 2;
const SLOW_MS = 5_000;
/**
 * After so many new headers another peer is asked as well, each in its turn: headers can be made almost without work, without an end, and
 * the first ones of a chain with more work end that.
 */
export const MOST_UNCOMPARED = 50_000;
/** It sends, though slowly: others would only send the same a second time. At half of this rate its answer would come too late anyway. */
const LEAST_BYTES_A_SECOND = 20_000;
/** Hashes in a request. */
const MAX_LOCATOR = 101;
/** Announcements of one peer that wait. More are asked for later, all at once. */
const MAX_WAITING = 16;

export type HeaderSync = {
  onOpen(peer: Peer): void;
  onHeaders(peer: Peer, headers: readonly WireHeader[]): void;
  onItems(peer: Peer, items: readonly Inventory[]): void;
  onClose(peer: Peer): void;
  /** The height up to which a peer showed that it has our chain; -1 while it showed nothing. */
  heightOf(peer: Peer): number;
  /** The last block that a peer showed, on our chain or not; null while it showed nothing. */
  shownBy(peer: Peer): string | null;
  /** Whether a peer had the chance to show what it has, and is not showing something new right now. */
  wasAsked(peer: Peer): boolean;
  /** Whether headers are being read that we did not have, or no peer has told everything yet. */
  isSyncing(): boolean;
  /** Called every second: asks other peers where the ones that were asked are slow. */
  tick(): void;
};
type Progress = {
  peer: Peer;
  height: number;
  shown: string | null;
  state: 'new' | 'asking' | 'done';
  /** Its last answer had something new. */
  delivers: boolean;
  /** When it was asked, sent something new, or was last seen sending; and the bytes that it had sent by then. */
  sinceMs: number;
  bytes: number;
  /** It announced something meanwhile. */
  again: boolean;
  waiting: number;
  /** The last request for headers, which may still be open when it is asked again. */
  open: Promise<unknown>;
};
type HeaderSyncOptions = {
  view: HeaderView;
  /** Nobody reads the blocks of these peers, so only what is served counts. */
  watch?: boolean;
  leave(peer: Peer, reason: string, options?: { ban?: boolean }): void;
  /** New headers are on the chain. */
  onGrown(): void;
  clock: Clock;
  log: Log;
};
/** `uncompared`: new headers since the last peer was asked for the first time, or again. */
type State = HeaderSyncOptions & { peers: Map<Peer, Progress>; complete: boolean; uncompared: number };

function note({ view }: State, progress: Progress, hash: string): void {
  if (view.knows(hash)) progress.shown = hash;
  const found = view.find(hash);
  if (found) progress.height = Math.max(progress.height, found.height);
}

/** Adds headers: how many were new, or why they are not added. A peer that broke the rules is left. */
async function take(state: State, progress: Progress, headers: readonly WireHeader[]): Promise<number | HeaderFault['kind']> {
  try {
    const { watch = false, complete } = state;
    // Until a peer has told everything, the chain with the most work is searched, and its blocks are not asked for.
    const giving = { unserved: watch || complete, all: watch };
    const { added, last } = await state.view.add(headers, endpointName(progress.peer.endpoint), giving);
    note(state, progress, last);
    state.uncompared += added;
    if (added > 0) state.onGrown();
    return added;
  } catch (error) {
    if (!(error instanceof HeaderFault)) throw error;
    if (error.kind === 'invalid') state.leave(progress.peer, error.message, { ban: true });
    return error.kind;
  }
}

/** What comes of reading a peer: it told everything, it is left, or others are already being read that tell the same. */
type Reading = 'told' | 'left' | 'later';
type Request = { headers: Promise<readonly WireHeader[]>; knownHeight: number };

/** The locator without the tip, so that a peer on our chain answers at least the tip, and shows that it has it. */
function locatorOf({ view }: State): readonly string[] {
  const { hash, parent } = view.tip();
  const others = view.locator().filter((one) => one !== hash && one !== parent);
  return view.find(parent) ? [parent, ...others] : [hash, ...others];
}

/** Asks for the headers after these, or after those that we know. */
function request(state: State, progress: Progress, after: WireHeader | null): Request {
  const knownHeight = state.view.tip().height;
  const known = locatorOf(state);
  const headers = progress.peer.readHeaders(after ? [state.view.hashOf(after), ...known.slice(0, MAX_LOCATOR - 1)] : known);
  // A failure is handled where the answer is needed.
  progress.open = headers.catch(() => {});
  return { headers, knownHeight };
}

function noteSending({ clock }: State, progress: Progress): void {
  progress.sinceMs = clock.monotonicMs();
  progress.bytes = progress.peer.stats().bytesIn;
}
/** Whether a peer sends what it was asked for. What it sends is read only once all of it has arrived. */
function isSending({ clock }: State, { state, peer, bytes, sinceMs }: Progress): boolean {
  const seconds = (clock.monotonicMs() - sinceMs) / 1000;
  return state === 'asking' && seconds >= 1 && peer.stats().bytesIn - bytes >= seconds * LEAST_BYTES_A_SECOND;
}

const othersDeliver = (state: State, progress: Progress): boolean =>
  [...state.peers.values()].some((one) => one !== progress && one.delivers && one.state === 'asking');

/** Reads everything that a peer has and we do not. The next headers are on their way while the work of the last ones is checked. */
async function readAll(state: State, progress: Progress): Promise<Reading> {
  const { peer } = progress;
  await progress.open;
  let asked = request(state, progress, null);
  for (let useless = 0; useless < MAX_USELESS; ) {
    const { knownHeight } = asked;
    const headers = await asked.headers;
    const isFull = headers.length >= MAX_HEADERS;
    if (isFull) asked = request(state, progress, headers.at(-1)!);
    const added = headers.length > 0 ? await take(state, progress, headers) : 0;
    if (added === 'invalid') return 'left';
    if (added === 'unlinked') {
      state.leave(peer, 'its headers do not follow from those that it was asked about');
      return 'left';
    }
    progress.delivers = typeof added === 'number' && added > 0;
    if (progress.delivers) noteSending(state, progress);
    if (!isFull || added === 'early') return 'told';
    if (!progress.delivers && !state.complete && othersDeliver(state, progress)) return 'later';
    // Another peer may have sent the same a moment before.
    useless = progress.delivers || progress.height > knownHeight ? 0 : useless + 1;
  }
  state.leave(peer, 'it sends the same headers again and again');
  return 'left';
}

/** Asks the peers whose turn it is. One request at a time to each. */
function askNext(state: State): void {
  const all = [...state.peers.values()];
  const nowMs = state.clock.monotonicMs();
  for (const progress of all) if (isSending(state, progress)) noteSending(state, progress);
  const isBusy = (one: Progress): boolean => one.state === 'asking' && nowMs - one.sinceMs < SLOW_MS;
  const atOnce = () => (all.some((one) => isBusy(one) && one.delivers) ? 1 : FIRST_AT_ONCE);
  const mayAsk = (): boolean => state.complete || all.filter(isBusy).length < atOnce() || state.uncompared >= MOST_UNCOMPARED;
  for (const progress of all) {
    if (progress.state === 'asking' || (progress.state === 'done' && !progress.again)) continue;
    if (progress.state === 'new') {
      if (!mayAsk()) continue;
      state.uncompared = 0;
    }
    void ask(state, progress);
  }
}
async function ask(state: State, progress: Progress): Promise<void> {
  const { peer } = progress;
  progress.state = 'asking';
  noteSending(state, progress);
  progress.again = false;
  try {
    const reading = await readAll(state, progress);
    progress.state = reading === 'later' ? 'new' : 'done';
    // The others have their turn before it is asked again.
    if (reading === 'later' && state.peers.delete(peer)) state.peers.set(peer, progress);
    if (reading === 'told' && peer.closed() === null) state.complete = true;
  } catch (error) {
    if (!(error instanceof PeerError)) {
      state.log.error({ err: error }, 'Headers of a peer could not be added');
      state.leave(peer, 'its headers could not be added');
    }
  } finally {
    progress.delivers = false;
    askNext(state);
  }
}

/** Creates the part that reads headers from all connected peers. */
export function createHeaderSync(options: HeaderSyncOptions): HeaderSync {
  const state: State = { ...options, peers: new Map(), complete: false, uncompared: 0 };
  const askAgain = (progress: Progress): void => {
    progress.again = true;
    askNext(state);
  };
  return {
    onOpen: (peer) => {
      state.peers.set(peer, {
        peer,
        height: -1,
        shown: null,
        state: 'new',
        delivers: false,
        sinceMs: 0,
        bytes: 0,
        again: false,
        waiting: 0,
        open: Promise.resolve(),
      });
      askNext(state);
    },
    onHeaders: (peer, headers) => {
      const progress = state.peers.get(peer);
      if (!progress) return;
      if (progress.waiting >= MAX_WAITING) {
        askAgain(progress);
        return;
      }
      progress.waiting++;
      take(state, progress, headers)
        .then((added) => {
          if (added === 'unlinked') askAgain(progress);
        })
        .catch((error: unknown) => state.log.error({ err: error }, 'Headers of a peer could not be added'))
        .finally(() => progress.waiting--);
    },
    onItems: (peer, items) => {
      const progress = state.peers.get(peer);
      const blocks = items.filter(({ type }) => type === ITEM.block);
      if (!progress || blocks.length === 0) return;
      for (const { hash } of blocks) note(state, progress, hash);
      if (blocks.some(({ hash }) => !state.view.knows(hash))) askAgain(progress);
    },
    onClose: (peer) => {
      state.peers.delete(peer);
      askNext(state);
    },
    tick: () => askNext(state),
    heightOf: (peer) => state.peers.get(peer)?.height ?? -1,
    shownBy: (peer) => state.peers.get(peer)?.shown ?? null,
    wasAsked: (peer) => {
      const progress = state.peers.get(peer);
      if (!progress || progress.state === 'new') return false;
      return progress.state === 'done' || state.clock.monotonicMs() - progress.sinceMs >= SLOW_MS;
    },
    isSyncing: () => {
      const all = [...state.peers.values()];
      return all.some(({ delivers }) => delivers) || all.every((one) => one.state !== 'done');
    },
  };
}
