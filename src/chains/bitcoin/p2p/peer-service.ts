/** One network read from its peers: their headers, blocks of the best chain, and what they announce. */
import { randomInt } from 'node:crypto';
import { setTimeout } from 'node:timers/promises';
import { PARAMS } from '#addresses';
import type { PeerAddress, SocksProxy } from '#connections';
import { type Clock, MINUTE_MS } from '#core/dates';
import type { Log } from '#log';
import { ChainError } from '../../chain-source.ts';
import { type BlockReader, createBlockReader } from './block-reader.ts';
import { createHeaderSync, type HeaderSync, type HeaderView } from './header-sync.ts';
import { type Inventory, ITEM } from './messages.ts';
import { connectPeer, type Peer, type PeerLimits, type PeerNetwork } from './peer.ts';
import { endpointName, networkGroup } from './peer-book.ts';
import { createPeers, type PeerStore, type Peers, type PeersLimits } from './peers.ts';
import { createRelay, type Relay } from './relay.ts';

/** A peer that shows no block of the newest chain for this long is left. */
const MAX_BEHIND_MS = 20 * 60_000;
const CHECK_MS = 1_000;
/** A node mostly has a block within seconds of its announcement. */
const NODE_MS = 90_000;
/** Peers that were left are replaced within this time, or something that is announced may be missed. */
const REPLACED_MS = 60_000;
/** A tip older than this many block intervals is stale, but none that chance alone lets be so old a few times a day. */
const STALE_INTERVALS = 3;
const LEAST_STALE_SECONDS = 600;

export type PeerServiceOptions = {
  network: PeerNetwork;
  view: HeaderView;
  given: readonly PeerAddress[];
  fallback?: readonly PeerAddress[];
  proxy?: SocksProxy | null;
  store: PeerStore;
  resolve(name: string): Promise<readonly string[]>;
  /** Whether an address that seeds or peers tell is used: without it, only public ones. */
  isUsable?(host: string): boolean;
  spacingSeconds: number;
  clock: Clock;
  log: Log;
  /** A block, or a transaction that enough peers announced, is new. */
  onHint(): void;
  nextPeerMs?: number;
  /** The peers are only compared with a node: they bring headers, and blocks of a branch that the node does not have after a while. */
  watch?: boolean;
  /** How long the first offer of a transaction of ours waits until it is seen at another peer. */
  seenMs?: number;
  /** How often slow peers are looked for. */
  checkMs?: number;
  limits?: PeersLimits;
  peerLimits?: PeerLimits;
};
type PeerStatus = {
  connected: number;
  relaying: number;
  /** Since when, in monotonic time, at least as many peers as needed announce transactions; null while they do not. */
  relayedSinceMs: number | null;
  syncing: boolean;
  bytesIn: number;
  bytesOut: number;
  /** The middle of what the peers' clocks are ahead of ours. */
  clockAheadSeconds: number | null;
  /** Why no peer stays, as the end of a sentence; null while one does. */
  trouble: string | null;
};
export type PeerService = {
  view: HeaderView;
  relay: Relay;
  sender: Sender;
  start(): Promise<void>;
  readBlock: BlockReader['read'];
  status(): PeerStatus;
  close(): Promise<void>;
};
type State = PeerServiceOptions & {
  peers: Peers;
  sync: HeaderSync;
  relay: Relay;
  sender: Sender;
  witnesses: 1 | 2;
  blocks: BlockReader;
  behindSince: WeakMap<Peer, number>;
  relayedSinceMs: number | null;
  /** When enough peers announced transactions. */
  enoughMs: number;
  closedBytes: { in: number; out: number };
  losses: Losses;
  /** A second connection to the only peer, which hears whether it took what it was offered on the first. */
  listener: Peer | null;
  timer: NodeJS.Timeout | null;
};

/** Leaves peers that have been behind for too long, and notes since when enough of them announce transactions. */
function check(state: State): void {
  state.sync.tick();
  state.blocks.tick();
  state.relay.tick(state.peers.relaying());
  noteRelaying(state);
  const { peers, sync, view, clock, behindSince, given } = state;
  const nowMs = clock.monotonicMs();
  for (const peer of peers.connected()) {
    if (sync.heightOf(peer) >= view.tip().height - 1) behindSince.delete(peer);
    else if (!behindSince.has(peer)) behindSince.set(peer, nowMs);
    else if (given.length === 0 && nowMs - behindSince.get(peer)! > MAX_BEHIND_MS) peers.leave(peer, 'it is behind the other peers');
  }
}
/** While others are connected in place of peers that were left, one is enough: those are asked for what it announces meanwhile. */
function noteRelaying(state: State): void {
  const count = state.peers.relaying().length;
  const nowMs = state.clock.monotonicMs();
  if (count >= state.witnesses) state.enoughMs = nowMs;
  if (count >= state.witnesses) state.relayedSinceMs ??= nowMs;
  else if (count === 0 || nowMs - state.enoughMs > REPLACED_MS) state.relayedSinceMs = null;
}

const middle = (values: readonly number[]): number | null => values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)] ?? null;
function statusOf({ peers, sync, relayedSinceMs, closedBytes, losses }: State): PeerStatus {
  const connected = peers.connected();
  const sum = (of: (peer: Peer) => number): number => connected.reduce((total, peer) => total + of(peer), 0);
  return {
    connected: connected.length,
    relaying: peers.relaying().length,
    relayedSinceMs,
    syncing: sync.isSyncing(),
    bytesIn: closedBytes.in + sum((peer) => peer.stats().bytesIn),
    bytesOut: closedBytes.out + sum((peer) => peer.stats().bytesOut),
    clockAheadSeconds: middle(connected.map((peer) => peer.clockAheadSeconds)),
    // One that has our chain can be read; until then it may be left like those before it.
    trouble: connected.some((peer) => sync.heightOf(peer) >= 0) ? null : losses.explain(),
  };
}

function connect(state: State): Peers {
  const {
    network,
    given,
    fallback = [],
    proxy = null,
    store,
    resolve,
    isUsable,
    clock,
    log,
    limits,
    peerLimits,
    sync,
    relay,
    sender,
  } = state;
  return createPeers({
    ...{
      network,
      given,
      fallback,
      proxy,
      store,
      resolve,
      clock,
      log,
      ...(isUsable && { isUsable }),
      ...(limits && { limits }),
      ...(peerLimits && { peerLimits }),
    },
    isStale: () =>
      clock.now().getTime() / 1000 - state.view.tip().timeSeconds > Math.max(STALE_INTERVALS * state.spacingSeconds, LEAST_STALE_SECONDS),
    brought: (peer) => (sync.wasAsked(peer) ? state.blocks.delivered(peer) > 0 : null),
    handlers: {
      onOpen: (peer) => {
        noteRelaying(state);
        sync.onOpen(peer);
      },
      onHeaders: sync.onHeaders,
      onItems: (peer, items) => {
        sync.onItems(peer, items);
        sender.onItems(peer, items);
        relay.onItems(peer, items);
      },
      onTransaction: relay.onTransaction,
      onLost: state.losses.add,
      onClose: (peer) => {
        const { bytesIn, bytesOut } = peer.stats();
        state.closedBytes.in += bytesIn;
        state.closedBytes.out += bytesOut;
        noteRelaying(state);
        sync.onClose(peer);
        relay.onClose(peer);
      },
    },
  });
}

const unheard = (): void => {};
/** Opens the second connection to a peer, and keeps it while it is of use. Without it, only a block shows that a transaction is out. */
async function listen(state: State, { endpoint }: Peer): Promise<void> {
  const { network, clock, proxy = null, sender, peerLimits, log } = state;
  if (state.listener?.closed() === null) return;
  try {
    state.listener = await connectPeer({
      ...{ endpoint, network, clock, proxy, wantsTransactions: true, ...(peerLimits && { limits: peerLimits }) },
      handlers: {
        ...{ onHeaders: unheard, onTransaction: unheard, onAddresses: unheard, onClose: unheard },
        onItems: (_, items) => sender.onItems(null, items),
      },
    });
  } catch (error) {
    log.debug({ coin: network.family, reason: (error as Error).message }, 'A second connection to the only peer cannot be opened');
  }
}

/** Creates the reader of one network. It connects after `start`. */
export function createPeerService(options: PeerServiceOptions): PeerService {
  const { view, given, clock, log, onHint, nextPeerMs } = options;
  const leave = (peer: Peer, reason: string, how?: { ban?: boolean }): void => {
    log.info({ coin: options.network.family, peer: endpointName(peer.endpoint), reason }, 'A peer was left');
    state.peers.leave(peer, reason, how);
  };
  const witnesses = given.length === 1 ? 1 : 2;
  // Peers that the operator named may share a network; others are one for each.
  const witnessOf = ({ endpoint }: Peer): string => (given.length > 0 ? endpointName(endpoint) : networkGroup(endpoint.host));
  const onGrown = (): void => {
    onHint();
    state.blocks.tick();
  };
  const sync = createHeaderSync({ view, leave, onGrown, clock, log, ...(options.watch && { watch: true }) });
  const state: State = {
    ...options,
    witnesses,
    peers: null as never,
    sync,
    blocks: createBlockReader({
      ...{ network: options.network, view, peers: () => state.peers, sync, leave, onChange: onHint, clock, log },
      ...(options.watch && { waitsMs: NODE_MS }),
      ...(nextPeerMs !== undefined && { nextPeerMs }),
    }),
    relay: createRelay({ clock, witnesses, witnessOf, onSeen: onHint, leave }),
    sender: createSender({
      peers: () => state.peers,
      isSeen: (txid) => state.relay.has(txid),
      listen: (peer) => listen(state, peer),
      lowest: PARAMS[options.network.family].floorPerKilobyte,
      ...(options.seenMs !== undefined && { seenMs: options.seenMs }),
    }),
    listener: null,
    behindSince: new WeakMap(),
    relayedSinceMs: null,
    enoughMs: Number.NEGATIVE_INFINITY,
    closedBytes: { in: 0, out: 0 },
    losses: createLosses(clock),
    timer: null,
  };
  state.peers = connect(state);
  return {
    view,
    relay: state.relay,
    sender: state.sender,
    start: async () => {
      state.timer = setInterval(() => check(state), options.checkMs ?? CHECK_MS);
      state.timer.unref();
      await state.peers.start();
    },
    readBlock: state.blocks.read,
    status: () => statusOf(state),
    close: async () => {
      if (state.timer) clearInterval(state.timer);
      state.listener?.close('Florin is stopping');
      await state.peers.close();
    },
  };
}

// Why peers were left or cannot be reached, so that operators learn why no peer stays.

/** What was longer ago explains nothing, and no more peers than this are remembered. */
const REMEMBERED_MS = 15 * MINUTE_MS;
const MOST = 64;
/** So many peers with the same reason are not at fault themselves. */
const ALIKE = 3;

type Losses = {
  add(endpoint: PeerAddress, reason: string): void;
  /** In words; null when no peer was lost lately. */
  explain(): string | null;
};

/** The last reason of each peer. Reasons about blocks and sizes are alike when they differ only in numbers and hashes. */
function createLosses(clock: Clock): Losses {
  const lost = new Map<string, { reason: string; atMs: number }>();
  const kindOf = (reason: string): string => reason.replace(/[0-9a-f]{8,}|[0-9]+/g, '#');
  return {
    add: (endpoint, reason) => {
      const name = endpointName(endpoint);
      lost.delete(name);
      lost.set(name, { reason, atMs: clock.monotonicMs() });
      for (const oldest of lost.keys()) if (lost.size > MOST) lost.delete(oldest);
    },
    explain: () => {
      const nowMs = clock.monotonicMs();
      const reasons = [...lost.values()].filter(({ atMs }) => nowMs - atMs <= REMEMBERED_MS).map(({ reason }) => reason);
      const last = reasons.at(-1);
      if (last === undefined) return null;
      const alike = reasons.filter((reason) => kindOf(reason) === kindOf(last)).length;
      if (alike < ALIKE) return `the last peer was lost: ${last}`;
      return `${alike} peers were lost for the same reason: ${last}. If this does not end, check the connection and install the newest release`;
    },
  };
}

// Sends our transactions to peers. A peer asks for a transaction before it knows its fee, and refuses it in silence, so asking proves
// nothing: a transaction is out when a peer announces it that it was not offered to, because peers announce only what their mempools have.

/** Peers to which a transaction is offered at a time, and peers that must be left to announce it, where there are enough. */
const OFFERED_TO = 4;
const LISTENERS = 2;
/** Transactions that are remembered; the oldest are forgotten first. */
const MOST_OFFERS = 1_000;

/** How long the first offer waits until another peer announces the transaction. */
const SEEN_MS = 10_000;
/** The same, after one waited in vain: others of the chain wait meanwhile. */
const AFTER_SILENCE_MS = 1_000;
const LOOK_MS = 100;

export type Sender = {
  /**
   * Offers a transaction to some peers, and waits the first time until another one announces it; no effect for those that have it.
   * Errors: ChainError outage when no peer is connected, unseen when no other peer has announced it.
   */
  send(transaction: { txid: string; bytes: Uint8Array }): Promise<void>;
  /** What a peer announced; null: on a connection on which nothing is offered. */
  onItems(peer: Peer | null, items: readonly Inventory[]): void;
  /** Whether a peer announced a transaction that it was not offered. */
  isOut(txid: string): boolean;
  /** The lowest fee per 1,000 virtual bytes that most peers take, as they tell; null while none told. */
  floor(): bigint | null;
};
type Offer = { to: Set<string>; isOut: boolean };

/** An amount for each 1,000 bytes as it is shown for each byte: `8`, `1.5`, `0.1`. */
const perByte = (perKilobyte: bigint): string => String(Number(perKilobyte) / 1_000);

/** `listen`: opens another connection to a peer, which hears what the first one does not, because it was offered there. */
export function createSender({
  peers,
  isSeen,
  listen,
  lowest,
  seenMs = SEEN_MS,
}: {
  peers(): Pick<Peers, 'connected' | 'relaying'>;
  /** Whether enough peers announced it. */
  isSeen(txid: string): boolean;
  listen(peer: Peer): Promise<void>;
  /** The lowest fee that the network takes at all. */
  lowest: bigint;
  seenMs?: number;
}): Sender {
  const offers = new Map<string, Offer>();
  let isSilent = false;
  const isOut = (txid: string): boolean => offers.get(txid)?.isOut === true || isSeen(txid);
  const waitFor = async (txid: string): Promise<void> => {
    const looks = Math.ceil((isSilent ? Math.min(seenMs, AFTER_SILENCE_MS) : seenMs) / LOOK_MS);
    for (let i = 0; i < looks && !isOut(txid); i++) await setTimeout(LOOK_MS);
    isSilent = !isOut(txid);
  };
  const floor = (): bigint | null => {
    const told = peers()
      .connected()
      .flatMap((peer) => peer.feeFloor() ?? [])
      .toSorted((a, b) => (a < b ? -1 : a > b ? 1 : 0));
    // Half of the peers or more take this. One alone, or the few that take nothing while they start, do not decide.
    return told[told.length >> 1] ?? null;
  };
  /** Those first that announce nothing to us and take the lowest fees; others than before, while enough are left to announce it. */
  const chooseFrom = (connected: readonly Peer[], { to }: Offer): readonly Peer[] => {
    const relaying = new Set(peers().relaying());
    const nameOf = ({ endpoint }: Peer): string => endpointName(endpoint);
    const ranked = connected
      .map((peer) => ({ peer, relays: relaying.has(peer) ? 1 : 0, fee: peer.feeFloor() ?? 0n, chance: randomInt(1_000) }))
      .toSorted((a, b) => a.relays - b.relays || (a.fee < b.fee ? -1 : a.fee > b.fee ? 1 : a.chance - b.chance))
      .map(({ peer }) => peer);
    const fresh = ranked.filter((peer) => !to.has(nameOf(peer)));
    const most = Math.min(OFFERED_TO, fresh.length - (to.size === 0 ? LISTENERS : 1));
    const chosen = most > 0 ? fresh.slice(0, most) : to.size === 0 ? fresh.slice(0, 1) : ranked.filter((peer) => to.has(nameOf(peer)));
    for (const peer of chosen) to.add(nameOf(peer));
    return chosen;
  };
  return {
    isOut,
    floor,
    send: async (transaction) => {
      const { txid } = transaction;
      const connected = peers().connected();
      const [only] = connected;
      if (!only) throw new ChainError('outage', 'no peer is connected');
      const isFirst = !offers.has(txid);
      const offer: Offer = offers.get(txid) ?? { to: new Set(), isOut: false };
      offers.set(txid, offer);
      for (const oldest of offers.keys()) if (offers.size > MOST_OFFERS) offers.delete(oldest);
      // Nobody else could announce it.
      if (connected.length === 1) await listen(only);
      for (const peer of chooseFrom(connected, offer)) peer.offer(transaction);
      if (isFirst) await waitFor(txid);
      if (isOut(txid)) return;
      const told = floor() ?? 0n;
      const least = told > lowest ? told : lowest;
      throw new ChainError('unseen', `announced, and not seen at another peer yet; peers take fees from ${perByte(least)} sat/vB`);
    },
    onItems: (peer, items) => {
      if (offers.size === 0) return;
      for (const { type, hash } of items) {
        const offer = type === ITEM.transaction ? offers.get(hash) : undefined;
        if (offer && !(peer && offer.to.has(endpointName(peer.endpoint)))) offer.isOut = true;
      }
    },
  };
}
