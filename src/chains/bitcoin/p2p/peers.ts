/** Keeps connections to peers of one network: discovery, one peer for each network group, rotation, and what is remembered on disk. */
import { randomInt } from 'node:crypto';
import type { PeerAddress, SocksProxy } from '#connections';
import { isPublicAddress } from '#connections';
import type { Clock } from '#core/dates';
import type { Log } from '#log';
import type { Inventory, WireAddress, WireHeader } from './messages.ts';
import { connectPeer, PEER_LIMITS, type Peer, type PeerLimits, type PeerNetwork, SERVICE } from './peer.ts';
import { createPeerBook, endpointName, networkGroup, type PeerBook } from './peer-book.ts';

export type PeersLimits = {
  /** Connections that are kept, and how many of them announce transactions. */
  connections: number;
  relaying: number;
  /** Connections that are being opened at the same time. */
  opening: number;
  /** How often missing connections are opened. */
  tickMs: number;
  /** Pauses after a failure of a peer that the operator named: the first, and the longest. */
  againMs: number;
  longestAgainMs: number;
  /** How often an address that nobody tried is tried, and how often the seeds may be asked. */
  feelerMs: number;
  seedsMs: number;
  /** While the tip is stale, one peer more is tried this often. */
  rotateMs: number;
};
export const PEERS_LIMITS: PeersLimits = {
  connections: 8,
  relaying: 3,
  opening: 4,
  tickMs: 500,
  againMs: 1_000,
  longestAgainMs: 10_000,
  feelerMs: 120_000,
  seedsMs: 600_000,
  rotateMs: 30_000,
};
/** Peers that were connected longest: after a restart they are connected to first, so that nobody can wait for a restart. */
const ANCHORS = 2;
const STORE_EVERY_MS = 300_000;
/** Peers that were connected longest, which are never exchanged, and peers that announce transactions: no fewer are left. */
const PROTECTED = 2;
const LEAST_RELAYING = 2;
/** Addresses of the fallback list that are tried beside those of the seeds. */
const MIXED_IN = 8;
/** An address in `addr` that nobody saw for this long is not taken. */
const MAX_ADDRESS_AGE_SECONDS = 10 * 86_400;

/** What is kept on disk: two peers that were connected, and peers that worked. */
export type StoredPeers = { anchors: readonly PeerAddress[]; proven: readonly PeerAddress[] };
export type PeerStore = { load(): Promise<StoredPeers>; save(peers: StoredPeers): Promise<void> };

/** What connected peers say. Peers that break rules are reported back with `leave`. */
type PeersHandlers = {
  onOpen(peer: Peer): void;
  onHeaders(peer: Peer, headers: readonly WireHeader[]): void;
  onItems(peer: Peer, items: readonly Inventory[]): void;
  onTransaction(peer: Peer, transaction: { txid: string; bytes: Buffer }): void;
  onClose(peer: Peer): void;
  /** A peer cannot be reached, or was left. */
  onLost?(endpoint: PeerAddress, reason: string): void;
};
export type Peers = {
  start(): Promise<void>;
  connected(): readonly Peer[];
  /** Those that announce transactions to us. */
  relaying(): readonly Peer[];
  /** The network groups that are connected: two peers of one group may be one operator. */
  groups(): number;
  /** Closes a connection. `ban`: it broke the rules, so that it is not tried again soon. */
  leave(peer: Peer, reason: string, options?: { ban?: boolean }): void;
  known(): number;
  close(): Promise<void>;
};

type PeersOptions = {
  network: PeerNetwork;
  /** Peers that the operator named: no others are used. */
  given: readonly PeerAddress[];
  fallback: readonly PeerAddress[];
  proxy: SocksProxy | null;
  store: PeerStore;
  handlers: PeersHandlers;
  /** Whether the best chain has not grown for too long: we may be cut off from honest peers. */
  isStale(): boolean;
  /** Whether a peer brought a block or headers; null: it cannot be judged yet. */
  brought(peer: Peer): boolean | null;
  resolve(name: string): Promise<readonly string[]>;
  /** Whether an address that seeds or peers tell is used: without it, only public ones. */
  isUsable?(host: string): boolean;
  clock: Clock;
  log: Log;
  limits?: PeersLimits;
  peerLimits?: PeerLimits;
};
type Slot = { endpoint: PeerAddress; peer: Peer | null; relays: boolean; feeler: boolean; sinceMs: number };
type State = PeersOptions & {
  isUsable(host: string): boolean;
  limits: PeersLimits;
  book: PeerBook;
  slots: Map<string, Slot>;
  anchors: PeerAddress[];
  /** Peers that the operator named: when each may be tried again. */
  again: Map<string, { failures: number; notBeforeMs: number }>;
  seedsAskedMs: number | null;
  felt: number;
  rotatedMs: number;
  /** One connection more than usual, while no block arrives. */
  extra: 0 | 1;
  storedMs: number;
  /** Whether the stored peers were read. Until then nothing is saved, so that they are not lost. */
  loaded: boolean;
  timer: NodeJS.Timeout | null;
  closed: boolean;
};

const someOf = <T>(list: readonly T[], count: number): T[] =>
  list.length === 0 ? [] : Array.from({ length: Math.min(count, list.length) }, () => list[randomInt(list.length)]!);

const slotsOf = (state: State): Slot[] => [...state.slots.values()].filter(({ feeler }) => !feeler);
const inUse = (state: State): Set<string> => new Set([...state.slots.values()].map(({ endpoint }) => networkGroup(endpoint.host)));
const relayCount = (state: State): number => slotsOf(state).filter(({ relays }) => relays).length;

/** The next peer to connect to; null when there is none now. */
function nextEndpoint(state: State): PeerAddress | null {
  const nowMs = state.clock.monotonicMs();
  if (state.given.length > 0) {
    const free = state.given.filter((one) => !state.slots.has(endpointName(one)));
    return free.find((one) => (state.again.get(endpointName(one))?.notBeforeMs ?? 0) <= nowMs) ?? null;
  }
  for (let anchor = state.anchors.shift(); anchor; anchor = state.anchors.shift()) {
    if (!inUse(state).has(networkGroup(anchor.host))) return anchor;
  }
  return pickListed(state) ?? state.book.pick(inUse(state));
}
/**
 * A peer of the list in this release, unless one is connected: the server that answers for the seeds may lie, and then those that it named,
 * all that they tell and all that is stored are one liar's, but not this one.
 */
function pickListed(state: State): PeerAddress | null {
  const { book, fallback } = state;
  const listed = new Set(fallback.map(endpointName));
  if (slotsOf(state).some(({ endpoint }) => listed.has(endpointName(endpoint)))) return null;
  const pick = (): PeerAddress | null => book.pick(inUse(state), { among: listed });
  const known = pick();
  if (known) return known;
  book.add(someOf(fallback, MIXED_IN), { kind: 'fallback', teller: 'fallback' });
  return pick();
}

function noteFailure(state: State, endpoint: PeerAddress): void {
  state.book.failed(endpoint);
  const name = endpointName(endpoint);
  const failures = (state.again.get(name)?.failures ?? 0) + 1;
  const pauseMs = Math.min(state.limits.longestAgainMs, state.limits.againMs * 2 ** (failures - 1));
  state.again.set(name, { failures, notBeforeMs: state.clock.monotonicMs() + pauseMs });
}

/** Addresses from a peer: only public ones that serve blocks. What it may add is limited for its network group. */
function takeAddresses(state: State, from: Peer, addresses: readonly (WireAddress & { timeSeconds: number })[]): void {
  if (state.given.length > 0) return;
  const nowSeconds = state.clock.now().getTime() / 1000;
  const found = addresses
    .filter(({ services, timeSeconds }) => (services & SERVICE.network) !== 0n && timeSeconds > nowSeconds - MAX_ADDRESS_AGE_SECONDS)
    .map(({ ip, port }) => ({ host: addressText(ip), port }))
    .filter(({ host, port }) => port === state.network.port && state.isUsable(host));
  state.book.add(found, { kind: 'peer', teller: networkGroup(from.endpoint.host) });
}
/** IPv4 is mapped into IPv6. */
export function addressText(ip: Buffer): string {
  if (ip.readBigUInt64BE(0) === 0n && ip.readUInt32BE(8) === 0xffff) return [...ip.subarray(12)].join('.');
  return Array.from({ length: 8 }, (_, i) => ip.readUInt16BE(i * 2).toString(16)).join(':');
}

async function open(state: State, endpoint: PeerAddress, { relays, feeler }: { relays: boolean; feeler: boolean }): Promise<void> {
  const name = endpointName(endpoint);
  const slot: Slot = { endpoint, peer: null, relays, feeler, sinceMs: state.clock.monotonicMs() };
  state.slots.set(name, slot);
  const { handlers, network, proxy, clock, log } = state;
  try {
    const peer = await connectPeer({
      ...{ endpoint, network, proxy, clock, wantsTransactions: relays, limits: state.peerLimits ?? PEER_LIMITS },
      handlers: {
        ...handlers,
        onAddresses: (from, addresses) => takeAddresses(state, from, addresses),
        onClose: (closed, reason) => {
          if (state.slots.get(name) !== slot) return;
          state.slots.delete(name);
          log.debug({ coin: network.family, peer: name, reason }, 'A peer was left');
          noteFailure(state, endpoint);
          if (feeler) return;
          handlers.onLost?.(endpoint, reason);
          handlers.onClose(closed);
        },
      },
    });
    slot.peer = peer;
    state.book.worked(endpoint);
    state.again.delete(name);
    if (state.closed || feeler) peer.close('it was only tried');
    else {
      log.debug({ coin: network.family, peer: name, agent: peer.version.agent }, 'Connected to a peer');
      if (state.given.length === 0) peer.askAddresses();
      handlers.onOpen(peer);
    }
  } catch (error) {
    state.slots.delete(name);
    const reason = (error as Error).message;
    log.debug({ coin: network.family, peer: name, reason }, 'A peer cannot be reached');
    noteFailure(state, endpoint);
    if (!state.closed && !feeler) handlers.onLost?.(endpoint, reason);
  }
}

/** Opens the connections that are missing. */
function fill(state: State): void {
  const { limits } = state;
  const wanted = state.given.length > 0 ? state.given.length : limits.connections + state.extra;
  while (slotsOf(state).length < wanted) {
    if (slotsOf(state).filter(({ peer }) => !peer).length >= limits.opening) return;
    const endpoint = nextEndpoint(state);
    if (!endpoint) return;
    void open(state, endpoint, { relays: relayCount(state) < limits.relaying, feeler: false });
  }
}

/** Asks the seeds, and takes the fallback list where they tell too little. Through a proxy no name is resolved here. */
async function discover(state: State): Promise<void> {
  const { given, network, limits, book, clock, log } = state;
  if (given.length > 0 || book.size() >= limits.connections * 4) return;
  const nowMs = clock.monotonicMs();
  if (state.seedsAskedMs !== null && nowMs - state.seedsAskedMs < limits.seedsMs) return;
  state.seedsAskedMs = nowMs;
  const ask = async (seed: string): Promise<void> => {
    const hosts = await state.resolve(seed).catch((error: Error) => {
      log.debug({ coin: network.family, seed, reason: error.message }, 'A seed does not answer');
      return [];
    });
    const found = hosts.filter(state.isUsable).map((host) => ({ host, port: network.port }));
    book.add(found, { kind: 'seed', teller: seed });
  };
  // The proxy resolves a seed's name to one peer behind it, which then tells addresses.
  if (state.proxy)
    book.add(
      network.seeds.map((host) => ({ host, port: network.port })),
      { kind: 'seed', teller: 'seeds' },
    );
  else await Promise.all(network.seeds.map(ask));
  // The server that answers for the seeds may lie, so a few of the list are always among those that are tried.
  const few = book.size() < limits.connections * 2;
  book.add(few ? state.fallback : someOf(state.fallback, MIXED_IN), { kind: 'fallback', teller: 'fallback' });
}

/** The peer that is given up for another one: the newest that brought nothing, never one of those that are connected longest. */
function leastUseful(state: State): Peer | null {
  const connected = slotsOf(state)
    .filter(({ peer }) => peer)
    .toSorted((a, b) => a.sinceMs - b.sinceMs);
  const enoughRelay = connected.filter(({ relays }) => relays).length > LEAST_RELAYING;
  const judged = connected
    .slice(PROTECTED)
    .flatMap(({ peer, relays }) => (peer && (enoughRelay || !relays) ? [{ peer, brought: state.brought(peer) }] : []));
  // The newest one may still bring something.
  if (judged.some(({ brought }) => brought === null)) return null;
  return (judged.findLast(({ brought }) => !brought) ?? judged.at(-1))?.peer ?? null;
}

/**
 * While no block arrives, one more peer is tried, and then the least useful one is left, so that hostile peers cannot isolate this service.
 * Honest peers of long standing, the best defense against that, stay.
 */
function rotate(state: State): void {
  const { limits, given, clock } = state;
  const nowMs = clock.monotonicMs();
  if (given.length > 0 || nowMs - state.rotatedMs < limits.rotateMs) return;
  state.extra = state.isStale() ? 1 : 0;
  if (slotsOf(state).filter(({ peer }) => peer).length <= limits.connections) return;
  state.rotatedMs = nowMs;
  leastUseful(state)?.close('another peer was tried in its place, because no block arrived');
}

/** Tries an address that nobody tried, so that enough proven ones are known before they are needed. */
function feel(state: State): void {
  const nowMs = state.clock.monotonicMs();
  if (state.given.length > 0 || nowMs - state.felt < state.limits.feelerMs) return;
  state.felt = nowMs;
  const endpoint = state.book.pick(inUse(state), { untried: true });
  if (endpoint) void open(state, endpoint, { relays: false, feeler: true });
}

/** Reads the stored peers. Without them, seeds are asked, so a failing database does not keep this process from its network. */
async function load(state: State): Promise<void> {
  if (state.given.length > 0) return;
  try {
    const { anchors, proven } = await state.store.load();
    state.anchors.push(...anchors);
    state.book.add([...anchors, ...proven], { kind: 'proven', teller: 'proven' });
    state.loaded = true;
  } catch (error) {
    state.log.warn({ coin: state.network.family, err: error }, 'Could not read the stored peers of this network');
  }
}

async function save(state: State): Promise<void> {
  if (state.given.length > 0 || !state.loaded) return;
  const oldest = slotsOf(state)
    .filter(({ peer }) => peer)
    .toSorted((a, b) => a.sinceMs - b.sinceMs);
  const anchors = oldest.slice(0, ANCHORS).map(({ endpoint }) => endpoint);
  await state.store.save({ anchors, proven: state.book.proven() }).catch((error: unknown) => {
    state.log.warn({ coin: state.network.family, err: error }, 'Could not save the peers of this network');
  });
}

function tick(state: State): void {
  if (state.closed) return;
  rotate(state);
  feel(state);
  fill(state);
  void discover(state);
  const nowMs = state.clock.monotonicMs();
  if (nowMs - state.storedMs < STORE_EVERY_MS) return;
  state.storedMs = nowMs;
  void (state.loaded ? save(state) : load(state));
}

/** Creates the connections of one network. Nothing is opened before `start`. */
export function createPeers({ limits = PEERS_LIMITS, ...options }: PeersOptions): Peers {
  const nowMs = options.clock.monotonicMs();
  const state: State = {
    ...options,
    isUsable: options.isUsable ?? isPublicAddress,
    limits,
    book: createPeerBook({ clock: options.clock }),
    slots: new Map(),
    anchors: [],
    again: new Map(),
    seedsAskedMs: null,
    ...{ felt: nowMs, rotatedMs: nowMs, extra: 0, storedMs: nowMs, loaded: false, timer: null, closed: false },
  };
  const peersOf = (is: (slot: Slot) => boolean): Peer[] => slotsOf(state).flatMap((slot) => (slot.peer && is(slot) ? slot.peer : []));
  return {
    start: async () => {
      await load(state);
      await discover(state);
      if (state.closed) return;
      state.timer = setInterval(() => tick(state), limits.tickMs);
      state.timer.unref();
      tick(state);
    },
    connected: () => peersOf(() => true),
    relaying: () => peersOf(({ relays }) => relays),
    groups: () => new Set(peersOf(() => true).map(({ endpoint }) => networkGroup(endpoint.host))).size,
    leave: (peer, reason, { ban = false } = {}) => {
      peer.close(reason);
      if (ban) state.book.ban(peer.endpoint);
    },
    known: () => state.book.size(),
    close: async () => {
      state.closed = true;
      if (state.timer) clearInterval(state.timer);
      await save(state);
      for (const { peer } of state.slots.values()) peer?.close('Florin is stopping');
    },
  };
}
