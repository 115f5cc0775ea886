/**
 * Unconfirmed transactions as peers announce them. They prove nothing: one counts as seen when two peers have announced it, or when one has
 * and another, which announced it before it was connected, sends it.
 */
import type { Clock } from '#core/dates';
import { type Inventory, ITEM } from './messages.ts';
import type { Peer } from './peer.ts';

export type RelayLimits = {
  /** Transactions that one peer announced, of all peers and of one, and those that two announced. */
  once: number;
  onceOfPeer: number;
  seen: number;
  /** Bytes that wait to be read by the follower. */
  waitingBytes: number;
  /** Announcements of one peer in a minute. A peer that sends more is left. */
  announcedPerMinute: number;
  /** Requests of one peer that are open; what else it announced waits for its turn, as many as one peer may announce alone. */
  open: number;
  /** A peer that did not send this many of what it announced, and less than that of it, is left. Honest ones lose some to eviction. */
  unsent: number;
  /** Of what each peer alone announced, how much the others are asked for at a time. */
  second: number;
};
export const RELAY_LIMITS: RelayLimits = {
  once: 60_000,
  onceOfPeer: 30_000,
  seen: 150_000,
  waitingBytes: 32_000_000,
  announcedPerMinute: 20_000,
  open: 500,
  unsent: 100,
  second: 20,
};
const MINUTE_MS = 60_000;
/** What a peer was asked for and did not send within this time will not come. */
const ANSWER_MS = MINUTE_MS;
/** Nobody is judged for the time in which this process stood still: the answers may have arrived. */
const STOOD_STILL_MS = 5_000;
/** When the others are asked for what one peer alone announced: after the first pause, and after each that is twice as long. */
const SECOND_MS = 5_000;
const LONGEST_SECOND_MS = 160_000;

export type RelayedTransaction = { txid: string; bytes: Buffer };
export type Relay = {
  onItems(peer: Peer, items: readonly Inventory[]): void;
  onTransaction(peer: Peer, transaction: RelayedTransaction): void;
  onClose(peer: Peer): void;
  /** Called every second: asks peers for what waits for its turn and for what another one alone announced, and leaves those that do not send. */
  tick(relaying: readonly Peer[]): void;
  /** What enough peers announced and `done` was not called for. */
  fresh(): readonly RelayedTransaction[];
  done(transactions: readonly RelayedTransaction[]): void;
  /** Whether nothing that was announced and sent had to be passed over since the last call. */
  tookAll(): boolean;
  /** Whether enough peers announced it. */
  has(txid: string): boolean;
  /** Transactions that are remembered. */
  size(): number;
};
/** What one peer announced. `askAtMs`: when others are asked for it, after a pause of `pauseMs`. */
type Once = { witness: string; account: Account; askAtMs: number; pauseMs: number };
type Account = {
  witness: string;
  once: number;
  announced: number;
  sinceMs: number;
  /** What it was asked for, and when; and what it will be asked for when there is room. */
  open: Map<string, number>;
  later: Set<string>;
  /** What it was asked for and sent, and did not send, most of it in the last minutes. */
  sent: number;
  unsent: number;
};
type State = {
  clock: Clock;
  limits: RelayLimits;
  witnesses: 1 | 2;
  witnessOf(peer: Peer): string;
  leave(peer: Peer, reason: string, options: { ban: boolean }): void;
  /** Announced by one peer: which one, and on whose account. */
  once: Map<string, Once>;
  /** Announced by enough peers: by which, as long as it is not read. */
  seen: Map<string, readonly string[]>;
  /** Received, and not read yet. */
  waiting: Map<string, Buffer>;
  /** Received and read. */
  read: Set<string>;
  waitingBytes: number;
  /** When the follower read last, and when peers were judged last. */
  readMs: number;
  judgedMs: number;
  /**
   * The follower does not read, and a transaction that was sent had no room. What peers announce and do not send never counts, and neither
   * does a flood that the follower cannot read: both cost strangers nothing, so two of them could keep every payment from expiring. Each
   * peer has its own requests, so they do not keep an honest one from sending what it has.
   */
  lost: boolean;
  accounts: Map<Peer, Account>;
};
const READ: readonly string[] = [];

function accountOf(state: State, peer: Peer): Account {
  const known = state.accounts.get(peer);
  if (known) return known;
  const account: Account = {
    ...{ witness: state.witnessOf(peer), once: 0, announced: 0, sinceMs: state.clock.monotonicMs() },
    ...{ open: new Map(), later: new Set(), sent: 0, unsent: 0 },
  };
  state.accounts.set(peer, account);
  return account;
}
function drop(state: State, txid: string): void {
  const bytes = state.waiting.get(txid);
  if (!bytes) return;
  state.waitingBytes -= bytes.length;
  state.waiting.delete(txid);
}
function forgetOnce(state: State, txid: string): void {
  const first = state.once.get(txid);
  if (first) first.account.once--;
  state.once.delete(txid);
}
/** Forgets what is oldest: a Map and a Set keep the order in which entries were added. */
function prune(state: State): void {
  const { limits, once, seen, read } = state;
  for (const txid of once.keys()) {
    if (once.size <= limits.once) break;
    forgetOnce(state, txid);
    drop(state, txid);
  }
  for (const txid of seen.keys()) {
    if (seen.size <= limits.seen) break;
    seen.delete(txid);
    drop(state, txid);
  }
  for (const txid of read) {
    if (read.size <= limits.seen) break;
    read.delete(txid);
  }
}

/** Leaves a peer, or what connected as it before. What nobody else announced does not count any longer. */
function dismiss(state: State, witness: string, reason: string): void {
  for (const [peer, account] of state.accounts) {
    if (account.witness !== witness) continue;
    state.accounts.delete(peer);
    state.leave(peer, reason, { ban: true });
  }
  for (const [txid, one] of state.once) {
    if (one.witness !== witness) continue;
    forgetOnce(state, txid);
    drop(state, txid);
  }
  for (const [txid, by] of state.seen) {
    if (!by.includes(witness)) continue;
    const others = by.filter((other) => other !== witness);
    state.seen.set(txid, others);
    if (others.length > 0) continue;
    state.seen.delete(txid);
    drop(state, txid);
  }
}
/** Who announced the most bytes of what waits to be read. */
function heaviest({ waiting, seen }: State): string | null {
  const held = new Map<string, number>();
  for (const [txid, bytes] of waiting) for (const by of seen.get(txid) ?? []) held.set(by, (held.get(by) ?? 0) + bytes.length);
  return [...held].toSorted(([, a], [, b]) => b - a)[0]?.[0] ?? null;
}

/**
 * Gives up what only one peer announced, oldest first; the next peer that announces it sends it again. Then leaves those that announced most
 * of what waits: no honest peer has so much in the time in which a follower reads. False: the follower does not read, and there is no room.
 */
function makeRoom(state: State, bytes: number): boolean {
  const isFull = (): boolean => state.waitingBytes + bytes > state.limits.waitingBytes;
  if (!isFull()) return true;
  for (const txid of state.waiting.keys()) {
    if (!state.seen.has(txid)) drop(state, txid);
    if (!isFull()) return true;
  }
  if (state.witnesses === 1 || state.clock.monotonicMs() - state.readMs > MINUTE_MS) return false;
  for (let flooder = heaviest(state); flooder !== null && isFull(); flooder = heaviest(state))
    dismiss(state, flooder, 'it sends more transactions than can be read');
  return !isFull();
}

/** Records an announcement; whether the peer should be asked for the transaction. */
function announce(state: State, account: Account, txid: string): boolean {
  const { once, seen, limits, witnesses, waiting, read } = state;
  const { witness } = account;
  const by = seen.get(txid);
  if (by) {
    if (!read.has(txid) && !by.includes(witness)) seen.set(txid, [...by, witness]);
    return !waiting.has(txid) && !read.has(txid);
  }
  const first = once.get(txid);
  if (first?.witness === witness) return false;
  if (first === undefined && witnesses > 1) {
    // One peer alone announced too much: what others announce too counts by their announcements.
    if (account.once >= limits.onceOfPeer) return false;
    account.once++;
    once.set(txid, { witness, account, askAtMs: state.clock.monotonicMs() + SECOND_MS, pauseMs: SECOND_MS });
    return true;
  }
  forgetOnce(state, txid);
  seen.set(txid, first ? [first.witness, witness] : [witness]);
  // The first peer may have announced it and not sent it.
  return !waiting.has(txid);
}

/** Asks a peer for what it announced, as much as may be open, and once more for what it announces once more. */
function askLater({ limits, waiting, read, clock }: State, peer: Peer, { open, later }: Account, again: readonly string[] = []): void {
  const nowMs = clock.monotonicMs();
  const txids = [...again];
  for (const txid of later) {
    if (open.size >= limits.open) break;
    later.delete(txid);
    if (waiting.has(txid) || read.has(txid)) continue;
    open.set(txid, nowMs);
    txids.push(txid);
  }
  if (txids.length > 0) peer.askTransactions(txids);
}
/** Counts what peers did not send in time, and leaves those that do not send most of what they announce. */
function judge(state: State): void {
  const nowMs = state.clock.monotonicMs();
  const stoodStillMs = nowMs - state.judgedMs > STOOD_STILL_MS ? nowMs - state.judgedMs : 0;
  state.judgedMs = nowMs;
  for (const [peer, account] of state.accounts) {
    const { open, sinceMs } = account;
    if (stoodStillMs > 0) for (const [txid, askedMs] of open) open.set(txid, askedMs + stoodStillMs);
    for (const [txid, askedMs] of open) {
      if (nowMs - askedMs < ANSWER_MS) break;
      open.delete(txid);
      account.unsent++;
    }
    if (account.unsent >= state.limits.unsent && account.unsent > account.sent)
      dismiss(state, account.witness, 'it does not send the transactions that it announces');
    else askLater(state, peer, account);
    if (nowMs - sinceMs < MINUTE_MS) continue;
    Object.assign(account, { announced: 0, sinceMs: nowMs, sent: account.sent / 2, unsent: account.unsent / 2 });
  }
}

/** What each peer is asked for now. What one peer announces in masses takes no turn of what another one announced. */
function secondAsks({ waiting, once, clock, limits, witnessOf }: State, relaying: readonly Peer[]): Map<Peer, string[]> {
  const nowMs = clock.monotonicMs();
  const asks = new Map(relaying.map((peer) => [peer, [] as string[]]));
  const taken = new Map<string, number>();
  for (const txid of waiting.keys()) {
    const one = once.get(txid);
    const turns = taken.get(one?.witness ?? '') ?? 0;
    if (!one || one.askAtMs > nowMs || turns >= limits.second) continue;
    taken.set(one.witness, turns + 1);
    one.pauseMs *= 2;
    one.askAtMs = one.pauseMs > LONGEST_SECOND_MS ? Number.POSITIVE_INFINITY : nowMs + one.pauseMs;
    for (const [peer, list] of asks) if (witnessOf(peer) !== one.witness) list.push(txid);
  }
  return asks;
}

/**
 * `witnesses`: how many peers must announce a transaction. One is enough only where the operator named a single peer. `witnessOf`: who a
 * peer is, also after it connected again.
 */
export function createRelay({
  clock,
  witnesses,
  witnessOf,
  onSeen,
  leave,
  limits = RELAY_LIMITS,
}: {
  clock: Clock;
  witnesses: 1 | 2;
  witnessOf(peer: Peer): string;
  onSeen(): void;
  leave(peer: Peer, reason: string, options: { ban: boolean }): void;
  limits?: RelayLimits;
}): Relay {
  const state: State = {
    ...{ clock, limits, witnesses, witnessOf, leave, once: new Map(), seen: new Map(), waiting: new Map(), read: new Set() },
    ...{ waitingBytes: 0, readMs: Number.NEGATIVE_INFINITY, judgedMs: clock.monotonicMs(), lost: false, accounts: new Map() },
  };
  const isFresh = (txid: string): boolean => state.seen.has(txid) && state.waiting.has(txid);
  return {
    onItems: (peer, items) => {
      const account = accountOf(state, peer);
      const again: string[] = [];
      let grown = false;
      for (const { type, hash } of items) {
        if (type !== ITEM.transaction) continue;
        if (++account.announced > limits.announcedPerMinute || account.later.size > limits.onceOfPeer) {
          dismiss(state, account.witness, 'it announces too many transactions');
          return;
        }
        const before = isFresh(hash);
        if (announce(state, account, hash)) {
          if (account.open.has(hash)) again.push(hash);
          else account.later.add(hash);
        }
        grown ||= !before && isFresh(hash);
      }
      prune(state);
      askLater(state, peer, account, again);
      if (grown) onSeen();
    },
    onTransaction: (peer, { txid, bytes }) => {
      const account = accountOf(state, peer);
      if (account.open.delete(txid)) account.sent++;
      if (account.open.size * 2 <= limits.open) askLater(state, peer, account);
      const first = state.once.get(txid);
      if (first && first.witness !== account.witness) {
        forgetOnce(state, txid);
        state.seen.set(txid, [first.witness, account.witness]);
        if (state.waiting.has(txid)) onSeen();
      }
      if (state.waiting.has(txid) || state.read.has(txid) || !(state.once.has(txid) || state.seen.has(txid))) return;
      if (!makeRoom(state, bytes.length)) {
        if (state.seen.has(txid)) state.lost = true;
        return;
      }
      // Not if everybody who announced it was left.
      if (!state.once.has(txid) && !state.seen.has(txid)) return;
      state.waiting.set(txid, bytes);
      state.waitingBytes += bytes.length;
      if (state.seen.has(txid)) onSeen();
    },
    onClose: (peer) => {
      state.accounts.delete(peer);
    },
    tick: (relaying) => {
      judge(state);
      for (const [peer, txids] of secondAsks(state, relaying)) if (txids.length > 0) peer.askTransactions(txids);
    },
    fresh: () => [...state.waiting].filter(([txid]) => state.seen.has(txid)).map(([txid, bytes]) => ({ txid, bytes })),
    done: (transactions) => {
      state.readMs = clock.monotonicMs();
      for (const { txid } of transactions) {
        drop(state, txid);
        if (state.seen.has(txid)) state.seen.set(txid, READ);
        state.read.add(txid);
      }
    },
    tookAll: () => {
      const all = !state.lost;
      state.lost = false;
      return all;
    },
    has: (txid) => state.seen.has(txid),
    size: () => state.once.size + state.seen.size,
  };
}
