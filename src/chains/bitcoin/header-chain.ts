/**
 * The header chain of one network: every header is checked, the branch with the most work wins, and forks are bounded. It begins at a
 * checkpoint; nothing below it can be replaced.
 */
import { setImmediate } from 'node:timers/promises';
import { DAY_MS } from '#core/dates';
import type { BlockRef } from '../chain-source.ts';
import type { WorkView } from './chain-work.ts';
import { HEADER_BYTES, HeaderError, hashBytes, idOf, meetsTarget, showHash } from './header.ts';
import {
  admitFork,
  type Branches,
  branchFrom,
  createBranches,
  dropForks,
  followBranch,
  isBelow,
  selectBest,
  selectDropped,
  slotOfHeight,
  slotsOff,
  tipHeight,
} from './header-branches.ts';
import { checkHeader, type SentHeader, type WorkClaim, workOf } from './header-rules.ts';
import type { ProofParams } from './proof-params.ts';

/** Hashes headers for their work, in order. Long lists must not hold up the event loop. */
export type HashWork = (kind: ProofParams['work'], headers: readonly Buffer[]) => Promise<Buffer[]>;

/** Where a chain begins: consecutive headers, the last one at `height`. Those before it are what the difficulty rule needs. */
export type Start = { height: number; headers: readonly Buffer[] };

/** A header of the chain. `bytes`: its 80 bytes. */
export type KnownHeader = { height: number; hash: string; parent: string; timeSeconds: number; bytes: Buffer };
/** The block of a header, as followers see it. */
export const refOf = ({ height, hash, parent, timeSeconds }: KnownHeader): BlockRef => ({
  height,
  hash,
  parent,
  time: new Date(timeSeconds * 1000),
});
/**
 * `unserved`: nobody vouches that the blocks of these headers can be had. Those that do not continue the best chain are then set aside
 * until `admit` says that their blocks were served; with `all`, those that continue it as well.
 */
export type Giving = { unserved: boolean; all?: boolean };
/** How many headers were new; the hash of the last one, new or not. */
type Added = { added: number; last: string };

/** Headers that are hashed at a time. Nothing behind a fault is hashed. */
const STEP = 64;
/** Headers off the best chain: of one peer in a day, and in all. A better branch needs few of them, because only work counts. */
const LIMITS = { forks: 10_000, forkOfPeer: 4_000 };
const DAY_SECONDS = DAY_MS / 1_000;
/** Peers whose headers off the best chain are remembered, connected or not; those are forgotten first that sent none for the longest time. */
const MOST_GIVERS = 2_000;
/** Headers that are dropped without a break. */
const DROPPED_AT_ONCE = 2_000;
/** A branch of more blocks than this does not compete at the tip, where all of them are asked for before it is followed. */
const MOST_WAITING = 288;

type State = {
  params: ProofParams;
  checkpointHeight: number;
  /** Hashes of checkpoints above it, by height: every branch has them. */
  passes: ReadonlyMap<number, Buffer>;
  hashWork: HashWork;
  nowSeconds(): number;
  limits: typeof LIMITS;
  branches: Branches;
  /**
   * Headers off the best chain that each peer has sent, at a time in seconds. It is one budget, whether the peer connects again, whether
   * what it sent is dropped, and whatever blocks it brings first.
   */
  forkOf: Map<string, { headers: number; at: number }>;
  /** The lowest height at which the best chain changed since this was last asked. */
  changedFrom: number | null;
};

/** Appends the headers of one step that pass all checks but that of the work, and tells where they are and what their work must be. */
function appendStep(
  state: State,
  headers: readonly SentHeader[],
  parent: number,
  { claims, slots }: { claims: WorkClaim[]; slots: number[] },
): HeaderError | null {
  const { params, branches, nowSeconds } = state;
  let below = parent;
  for (const sent of headers) {
    const height = branches.arena.heightOf(below) + 1;
    try {
      claims.push(checkHeader(params, sent, { height, at: branchFrom(branches, below), lowest: branches.lowest }, nowSeconds()));
    } catch (error) {
      if (error instanceof HeaderError) return error;
      throw error;
    }
    below = branches.arena.append(sent.bytes, below, height);
    slots.push(below);
  }
  return null;
}

/** Whether a header with this hash has the place of a checkpoint. */
const leaves = ({ passes }: State, height: number, id: Buffer): boolean => passes.get(height)?.equals(id) === false;
/** The highest checkpoint on the best chain: nothing below it can be replaced. */
const lastPassed = ({ passes, branches, checkpointHeight }: State): number =>
  [...passes.keys()].reduce((highest, height) => (height <= tipHeight(branches) ? Math.max(highest, height) : highest), checkpointHeight);

type Step = { slot: number; count: number; error: HeaderError | null };

/** Adds the headers of one step above a parent. What comes before a fault is kept. `links`: the hash that each must have. */
async function addStep(state: State, headers: readonly SentHeader[], links: readonly Buffer[], parent: number): Promise<Step> {
  const { params, branches, hashWork } = state;
  const { arena } = branches;
  const slots: number[] = [];
  const claims: WorkClaim[] = [];
  let count = 0;
  try {
    const error = appendStep(state, headers, parent, { claims, slots });
    const hashes = await hashWork(
      params.work,
      claims.map(({ hashed }) => hashed),
    );
    for (let slot = parent; ; count++) {
      if (count === claims.length) return { slot, count, error };
      const height = arena.heightOf(slot) + 1;
      const hash = hashes[count]!;
      const id = params.id === params.work ? hash : idOf(params, headers[count]!.bytes);
      const refuse = (fault: 'work' | 'link' | 'checkpoint', why: string): Step => ({ slot, count, error: new HeaderError(fault, why) });
      if (!meetsTarget(hash, claims[count]!.target)) return refuse('work', `block ${height} does not have the work that its bits claim`);
      if (!id.equals(links[count]!)) return refuse('link', `the header after block ${height} names another parent`);
      if (leaves(state, height, id)) return refuse('checkpoint', `block ${height} is not the checkpoint of this release`);
      slot = slots[count]!;
      admitFork(branches, slot, id);
    }
  } finally {
    for (const slot of slots.slice(count).reverse()) arena.remove(slot);
  }
}

/** Where headers begin that are not known yet, and the slot below them. */
function skipKnown(
  { branches: { arena } }: State,
  headers: readonly SentHeader[],
  links: readonly Buffer[],
): { from: number; slot: number } {
  let slot = arena.find(headers[0]!.bytes.subarray(4, 36));
  for (const [from, { bytes }] of headers.entries()) {
    const known = arena.find(links[from]!);
    if (known < 0) return { from, slot };
    if (!arena.headerOf(known).equals(bytes)) throw new HeaderError('link', 'a header names another parent than the one before it');
    slot = known;
  }
  return { from: headers.length, slot };
}

function follow(state: State, slot: number): void {
  state.changedFrom = Math.min(followBranch(state.branches, slot), state.changedFrom ?? Number.POSITIVE_INFINITY);
}

/** Whether a header has more work than the best chain. */
const isHeavier = ({ arena, best }: Branches, slot: number): boolean => arena.workOf(slot) > arena.workOf(best);

/** Whether the best chain may continue with this header. A branch that is too long to be had at once is not set aside. */
function mayFollow(branches: Branches, slot: number): boolean {
  if (!isHeavier(branches, slot)) return false;
  const off = slotsOff(branches, slot);
  if (off.length > MOST_WAITING) for (const one of off) branches.aside.delete(one);
  return !off.some((one) => branches.aside.has(one));
}

/** Headers off the best chain that count against a peer now. They are forgiven little by little, within a day. */
function forksOf({ forkOf, limits, nowSeconds }: State, peer: string): number {
  const spent = forkOf.get(peer);
  if (!spent) return 0;
  const forgiven = (limits.forkOfPeer * Math.max(0, nowSeconds() - spent.at)) / DAY_SECONDS;
  return Math.max(0, spent.headers - forgiven);
}

/** Counts headers off the best chain against a peer, or for it. */
function charge(state: State, peer: string, headers: number): void {
  const { forkOf, nowSeconds } = state;
  const charged = forksOf(state, peer) + headers;
  forkOf.delete(peer);
  if (charged > 0) forkOf.set(peer, { headers: charged, at: nowSeconds() });
  for (const oldest of forkOf.keys()) if (forkOf.size > MOST_GIVERS) forkOf.delete(oldest);
}

/** Makes a branch the best one when it has more work, and keeps forks within their limits. Returns the slot; -1 when it was dropped. */
async function settleStep(state: State, { slot, count }: Step, peer: string, { unserved, all = false }: Giving): Promise<number> {
  const { branches, limits } = state;
  const { arena } = branches;
  const added = [slot];
  while (added.length < count) added.push(arena.parentOf(added.at(-1)!));
  if (unserved && (all || arena.parentOf(added.at(-1)!) !== branches.best)) for (const one of added) branches.aside.add(one);
  if (mayFollow(branches, slot)) {
    // What came before these headers was counted when it came.
    charge(state, peer, count - slotsOff(branches, slot).length);
    follow(state, slot);
  } else charge(state, peer, count);
  if (branches.forks.size <= limits.forks) return slot;
  const dropped = selectDropped(branches, limits.forks >> 1);
  const isDropped = dropped.includes(slot);
  for (let from = 0; from < dropped.length; from += DROPPED_AT_ONCE) {
    if (from > 0) await setImmediate();
    dropForks(branches, dropped.slice(from, from + DROPPED_AT_ONCE));
  }
  return isDropped ? -1 : slot;
}

async function addHeaders(state: State, headers: readonly SentHeader[], peer: string, giving: Giving): Promise<Added> {
  const { params, branches, limits } = state;
  const last = headers.at(-1);
  if (!last) return { added: 0, last: showHash(branches.arena.idOf(branches.best)) };
  if (headers.some(({ bytes }) => bytes.length !== HEADER_BYTES)) throw new HeaderError('malformed', 'a header does not have 80 bytes');
  // Each header has the hash that the next one names; this is checked together with the work.
  const links = headers.map((_, i) => headers[i + 1]?.bytes.subarray(4, 36) ?? idOf(params, last.bytes));
  const { from: firstNew, slot: below } = skipKnown(state, headers, links);
  let slot = below;
  for (let from = firstNew; from < headers.length; from += STEP) {
    if (slot < 0)
      throw from === firstNew
        ? new HeaderError('unknown_parent', 'the parent of a header is not known')
        : new HeaderError('flood', 'a branch has less work than the other forks');
    if (branches.arena.heightOf(slot) < lastPassed(state)) throw new HeaderError('checkpoint', 'a branch begins below the checkpoint');
    if (from === firstNew && !headers[from]!.bytes.subarray(4, 36).equals(branches.arena.idOf(slot)))
      throw new HeaderError('link', 'a header names another parent than the one before it');
    if (slot !== branches.best && forksOf(state, peer) >= limits.forkOfPeer)
      throw new HeaderError('flood', 'a peer sent too many headers off the best chain');
    const step = await addStep(state, headers.slice(from, from + STEP), links.slice(from, from + STEP), slot);
    slot = step.count > 0 ? await settleStep(state, step, peer, giving) : slot;
    if (step.error) throw step.error;
    // Hashes that cost little are ready at once, and 2,000 headers would hold up everything else.
    if (from + STEP < headers.length) await setImmediate();
  }
  return { added: headers.length - firstNew, last: showHash(links.at(-1)!) };
}

/** The best chain continues without this header and what follows it, until its block is served. Nothing below the checkpoint is set aside. */
function setAside(state: State, slot: number): void {
  const { branches, checkpointHeight } = state;
  const { arena, aside } = branches;
  const height = arena.heightOf(slot);
  if (height <= checkpointHeight || slotOfHeight(branches, height) !== slot) return;
  for (let at = height; at <= tipHeight(branches); at++) aside.add(slotOfHeight(branches, at));
  follow(state, selectBest(branches));
}

/** The block of this header was served: with `through`, those of all below it too. */
function admit(state: State, slot: number, through: boolean): void {
  const { branches, forkOf } = state;
  const served = (through ? slotsOff(branches, slot) : [slot]).filter((one) => branches.aside.delete(one));
  if (served.length === 0) return;
  const best = selectBest(branches);
  if (best === branches.best) return;
  follow(state, best);
  // What peers sent of it was off the best chain until now.
  forkOf.clear();
}

/**
 * Adds headers that were checked before they were stored: consecutive, 80 bytes each, above the tip. Only their links are checked again, on
 * networks whose block hashes cost little. Errors: RangeError.
 */
function restoreHeaders(state: State, stored: Buffer): void {
  const { params, branches } = state;
  const { arena } = branches;
  const checksHashes = params.id === 'sha256d';
  for (let at = 0; at < stored.length; at += HEADER_BYTES) {
    const header = stored.subarray(at, at + HEADER_BYTES);
    const next = stored.subarray(at + HEADER_BYTES, at + 2 * HEADER_BYTES);
    const parent = branches.best;
    const linked = next.length > 0 ? next.subarray(4, 36) : null;
    const id = checksHashes || !linked ? idOf(params, header) : linked;
    if (header.length < HEADER_BYTES || header.compare(arena.idOf(parent), 0, 32, 4, 36) !== 0 || linked?.equals(id) === false)
      throw new RangeError(`the stored headers do not continue block ${arena.heightOf(parent)}`);
    if (leaves(state, arena.heightOf(parent) + 1, id))
      throw new RangeError(`the stored header after block ${arena.heightOf(parent)} is not the checkpoint of this release`);
    const slot = arena.append(header, parent, arena.heightOf(parent) + 1);
    arena.admit(slot, id);
    followBranch(branches, slot);
  }
}

/** The headers that a chain starts with: no work counts up to the checkpoint. */
function createState(params: ProofParams, start: Start, rest: Pick<State, 'passes' | 'hashWork' | 'nowSeconds' | 'limits'>): State {
  const branches = createBranches({
    lowest: start.height - start.headers.length + 1,
    lowestParent: start.headers[0]!.subarray(4, 36),
    workOfBits: (bits) => workOf(bits, params.powLimit),
  });
  for (const [i, header] of start.headers.entries()) {
    const slot = branches.arena.append(header, i - 1, branches.lowest + i);
    branches.arena.admit(slot, idOf(params, header), { counts: false });
    followBranch(branches, slot);
  }
  return { params, checkpointHeight: start.height, branches, forkOf: new Map(), changedFrom: null, ...rest };
}

function describeHeader({ arena }: Branches, slot: number): KnownHeader {
  const bytes = arena.headerOf(slot);
  return {
    height: arena.heightOf(slot),
    hash: showHash(arena.idOf(slot)),
    parent: showHash(bytes.subarray(4, 36)),
    timeSeconds: arena.timeOf(slot),
    bytes,
  };
}

/** Ten hashes from the tip down, then each twice as far as the one before, the checkpoint last. */
function locatorOf({ branches, checkpointHeight }: State): string[] {
  const hashes: string[] = [];
  const show = (height: number) => hashes.push(showHash(branches.arena.idOf(slotOfHeight(branches, height))));
  for (let height = tipHeight(branches), step = 1; height > checkpointHeight; height -= step) if (show(height) >= 10) step *= 2;
  show(checkpointHeight);
  return hashes;
}

export type HeaderChain = ReturnType<typeof createHeaderChain>;
/** The same without what only its store uses. */
export type HeaderReader = Omit<HeaderChain, 'restore' | 'takeChangedFrom'>;

type ChainOptions = {
  params: ProofParams;
  start: Start;
  /** Checkpoints above it, which the chain must contain. */
  later?: readonly Start[];
  hashWork: HashWork;
  nowSeconds(): number;
  limits?: typeof LIMITS;
};

export function createHeaderChain({ params, start, later = [], hashWork, nowSeconds, limits = LIMITS }: ChainOptions) {
  const passes = new Map(later.map(({ height, headers }) => [height, idOf(params, headers.at(-1)!)]));
  const state = createState(params, start, { passes, hashWork, nowSeconds, limits });
  const { branches } = state;
  const slotOf = (hash: string): number => (/^[0-9a-f]{64}$/.test(hash) ? branches.arena.find(hashBytes(hash)) : -1);
  const onBest = (height: number): number => {
    const slot = slotOfHeight(branches, height);
    if (slot < 0) throw new RangeError(`the chain has no block ${height}`);
    return slot;
  };
  const work: WorkView = {
    tipHeight: () => tipHeight(branches),
    checkpointHeight: start.height,
    workAt: (height) => branches.arena.workOf(onBest(height)),
    timeAt: (height) => branches.arena.timeOf(onBest(height)),
    blockWork: (height) => workOf(branches.arena.bitsOf(onBest(height)), params.powLimit),
  };
  /** One list of headers after another: a step leaves headers in the arena that do not count yet while their work is hashed. */
  let queue: Promise<unknown> = Promise.resolve();
  const inTurn = <T>(change: () => Promise<T>): Promise<T> => {
    const result = queue.then(change);
    queue = result.catch(() => {});
    return result;
  };
  return {
    params,
    checkpointHeight: start.height,
    /** The work of the best chain, for `chain-work.ts`. */
    work,
    /** Adds consecutive headers that a peer sent. What comes before a faulty one is kept. Errors: HeaderError. */
    add: (headers: readonly SentHeader[], peer = '', giving: Giving = { unserved: false }): Promise<Added> =>
      inTurn(() => addHeaders(state, headers, peer, giving)),
    /** Nobody serves the block of a header: the best chain is now the best one without it. */
    setAside: (hash: string): Promise<void> =>
      inTurn(async () => {
        const slot = slotOf(hash);
        if (slot >= 0) setAside(state, slot);
      }),
    /** The block of a header was served, so it may be on the best chain. `through`: those of all headers below it, too. */
    admit: (hash: string, { through = false }: { through?: boolean } = {}): Promise<void> =>
      inTurn(async () => {
        const slot = slotOf(hash);
        if (slot >= 0) admit(state, slot, through);
      }),
    /** The headers up to this one that are set aside, lowest first; none unless it has more work than the best chain. */
    waiting: (hash: string): KnownHeader[] => {
      const slot = slotOf(hash);
      if (slot < 0 || !isHeavier(branches, slot)) return [];
      return slotsOff(branches, slot).flatMap((one) => (branches.aside.has(one) ? [describeHeader(branches, one)] : []));
    },
    /** Whether a header is known, on the best chain or not. */
    knows: (hash: string): boolean => slotOf(hash) >= 0,
    /** Whether the chain up to the header `above` contains this one. */
    leadsTo: (hash: string, above: string): boolean => {
      const [slot, last] = [slotOf(hash), slotOf(above)];
      return slot >= 0 && last >= 0 && isBelow(branches, slot, last);
    },
    /**
     * Adds headers from the database, where only checked ones are stored. `load` hands them over; the tip does not change in any other way
     * until it is done. Errors: RangeError; those of `load`.
     */
    restore: (load: (take: (stored: Buffer) => void) => Promise<void>): Promise<void> =>
      inTurn(() => load((stored) => restoreHeaders(state, stored))),
    tip: (): KnownHeader => describeHeader(branches, branches.best),
    /** A header of the best chain by its hash. */
    find: (hash: string): KnownHeader | null => {
      const slot = slotOf(hash);
      return slot >= 0 && slotOfHeight(branches, branches.arena.heightOf(slot)) === slot ? describeHeader(branches, slot) : null;
    },
    /** The header of the best chain at a height. */
    at: (height: number): KnownHeader | null => {
      const slot = slotOfHeight(branches, height);
      return slot < 0 ? null : describeHeader(branches, slot);
    },
    /** Hashes that tell a peer where the chain is. */
    locator: (): string[] => locatorOf(state),
    /** The lowest height at which the best chain changed since the last call; null when it did not. */
    takeChangedFrom: (): number | null => {
      const { changedFrom } = state;
      state.changedFrom = null;
      return changedFrom;
    },
    sizes: () => ({ headers: branches.arena.size(), forks: branches.forks.size, bytes: branches.arena.bytes() }),
  };
}
