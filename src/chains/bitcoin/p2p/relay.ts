/**
 * Unconfirmed transactions as peers announce them. They prove nothing: one counts as seen when two peers have announced it, or when one has
 * and another, which announced it before it was connected, sends it.
 */
import type { Clock } from '../../../core/clock.ts';
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
  /** Requests of one peer that are open. */
  open: number;
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
  second: 20,
};
const MINUTE_MS = 60_000;
/** When the others are asked for what one peer alone announced: after the first pause, and after each that is twice as long. */
const SECOND_MS = 5_000;
const LONGEST_SECOND_MS = 160_000;

export type RelayedTransaction = { txid: string; bytes: Buffer };
export type Relay = {
  onItems(peer: Peer, items: readonly Inventory[]): void;
  onTransaction(peer: Peer, transaction: RelayedTransaction): void;
  onClose(peer: Peer): void;
  /** Called every second: asks peers for what another one alone announced. */
  tick(relaying: readonly Peer[]): void;
  /** What enough peers announced and `done` was not called for. */
  fresh(): readonly RelayedTransaction[];
  done(transactions: readonly RelayedTransaction[]): void;
  /** Whether nothing that was announced had to be passed over since the last call. */
  tookAll(): boolean;
  /** Whether enough peers announced it. */
  has(txid: string): boolean;
  /** Transactions that are remembered. */
  size(): number;
};
/** What one peer announced. `askAtMs`: when others are asked for it, after a pause of `pauseMs`. */
type Once = { witness: string; account: Account; askAtMs: number; pauseMs: number };
type Account = { once: number; announced: number; open: number; sinceMs: number };
type State = {
  clock: Clock;
  limits: RelayLimits;
  witnesses: 1 | 2;
  witnessOf(peer: Peer): string;
  /** Announced by one peer: which one, and on whose account. */
  once: Map<string, Once>;
  /** Announced by enough peers. */
  seen: Set<string>;
  /** Received, and not read yet. */
  waiting: Map<string, Buffer>;
  /** A peer was asked for it. */
  asked: Set<string>;
  /** Received and read. */
  read: Set<string>;
  waitingBytes: number;
  /**
   * A transaction was announced, and there was no peer to ask for it or no room for it here. A transaction that peers were asked for and did
   * not send does not count: announcing one that does not exist is free, so two strangers could keep every payment from expiring. If it
   * exists, a block will contain it.
   */
  lost: boolean;
  accounts: Map<Peer, Account>;
};

function accountOf({ accounts, clock }: State, peer: Peer): Account {
  const nowMs = clock.monotonicMs();
  const account = accounts.get(peer) ?? { once: 0, announced: 0, open: 0, sinceMs: nowMs };
  accounts.set(peer, account);
  // What a peer did not send within a minute will not come.
  if (nowMs - account.sinceMs >= MINUTE_MS) Object.assign(account, { announced: 0, open: 0, sinceMs: nowMs });
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
  const { limits, once, seen, asked, read } = state;
  for (const txid of once.keys()) {
    if (once.size <= limits.once) break;
    forgetOnce(state, txid);
    drop(state, txid);
  }
  for (const all of [seen, asked, read]) {
    for (const txid of all) {
      if (all.size <= limits.seen) break;
      all.delete(txid);
    }
  }
}

/** Gives up what only one peer announced, oldest first; the next peer that announces it sends it again. False: it is not enough. */
function makeRoom(state: State, bytes: number): boolean {
  const isFull = (): boolean => state.waitingBytes + bytes > state.limits.waitingBytes;
  if (!isFull()) return true;
  for (const txid of state.waiting.keys()) {
    if (!state.seen.has(txid)) drop(state, txid);
    if (!isFull()) return true;
  }
  return false;
}

/** Records an announcement; whether the peer should be asked for the transaction. */
function announce(state: State, peer: Peer, account: Account, txid: string): boolean {
  const { once, seen, limits, witnesses } = state;
  const first = once.get(txid);
  const witness = state.witnessOf(peer);
  if (seen.has(txid)) return !state.waiting.has(txid) && !state.read.has(txid);
  if (first?.witness === witness) return false;
  if (first === undefined && witnesses > 1) {
    // One peer alone announced too much: what others announce too counts by their announcements.
    if (account.once >= limits.onceOfPeer) return false;
    account.once++;
    once.set(txid, { witness, account, askAtMs: state.clock.monotonicMs() + SECOND_MS, pauseMs: SECOND_MS });
    return true;
  }
  forgetOnce(state, txid);
  seen.add(txid);
  // The first peer may have announced it and not sent it.
  return !state.waiting.has(txid);
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
    ...{ clock, limits, witnesses, witnessOf, once: new Map(), seen: new Set(), waiting: new Map(), asked: new Set(), read: new Set() },
    ...{ waitingBytes: 0, lost: false, accounts: new Map() },
  };
  const isFresh = (txid: string): boolean => state.seen.has(txid) && state.waiting.has(txid);
  return {
    onItems: (peer, items) => {
      const account = accountOf(state, peer);
      const wanted: string[] = [];
      let grown = false;
      for (const { type, hash } of items) {
        if (type !== ITEM.transaction) continue;
        if (++account.announced > limits.announcedPerMinute) {
          leave(peer, 'it announces too many transactions', { ban: true });
          return;
        }
        const before = isFresh(hash);
        if (announce(state, peer, account, hash)) wanted.push(hash);
        grown ||= !before && isFresh(hash);
      }
      prune(state);
      const free = Math.max(0, limits.open - account.open);
      // The next peer that announces it is asked for it; after enough of them nobody may be left.
      if (wanted.slice(free).some((txid) => state.seen.has(txid) && !state.asked.has(txid))) state.lost = true;
      for (const txid of wanted.slice(0, free)) state.asked.add(txid);
      account.open += Math.min(free, wanted.length);
      peer.askTransactions(wanted.slice(0, free));
      if (grown) onSeen();
    },
    onTransaction: (peer, { txid, bytes }) => {
      const account = accountOf(state, peer);
      account.open = Math.max(0, account.open - 1);
      const first = state.once.get(txid);
      if (first && first.witness !== witnessOf(peer)) {
        forgetOnce(state, txid);
        state.seen.add(txid);
        if (state.waiting.has(txid)) onSeen();
      }
      if (state.waiting.has(txid) || state.read.has(txid) || !(state.once.has(txid) || state.seen.has(txid))) return;
      if (!makeRoom(state, bytes.length)) {
        if (state.seen.has(txid)) state.lost = true;
        return;
      }
      state.waiting.set(txid, bytes);
      state.waitingBytes += bytes.length;
      if (state.seen.has(txid)) onSeen();
    },
    onClose: (peer) => {
      state.accounts.delete(peer);
    },
    tick: (relaying) => {
      for (const [peer, txids] of secondAsks(state, relaying)) if (txids.length > 0) peer.askTransactions(txids);
    },
    fresh: () => [...state.waiting].filter(([txid]) => state.seen.has(txid)).map(([txid, bytes]) => ({ txid, bytes })),
    done: (transactions) => {
      for (const { txid } of transactions) {
        drop(state, txid);
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
