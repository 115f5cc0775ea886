/** One connection to a peer: the handshake, requests with deadlines, and the reasons for which it is closed. */
import { randomBytes } from 'node:crypto';
import type { Socket } from 'node:net';
import { PARAMS } from '#addresses';
import { openSocket, type PeerAddress, type SocksProxy } from '#connections';
import type { BitcoinFamily, Network } from '#core/coin';
import type { Clock } from '#core/dates';
import { PROOF_PARAMS, type ProofParams } from '../proof-params.ts';
import { sha256d } from '../strict-reader.ts';
import {
  commandOf,
  createFrameReader,
  decodeMessage,
  encodeMessage,
  type FrameReader,
  frame,
  type Inventory,
  ITEM,
  isTransactionItem,
  type PeerMessage,
  type Version,
  type WireAddress,
  WireError,
  type WireHeader,
} from './messages.ts';

/** Times in milliseconds, and amounts for each minute. */
export type PeerLimits = {
  connectMs: number;
  handshakeMs: number;
  /** From a request to the whole answer. */
  headersMs: number;
  blockMs: number;
  /** From the first byte of any message to its last. */
  messageMs: number;
  pingEveryMs: number;
  pongMs: number;
  /** How often the deadlines are checked. */
  tickMs: number;
  /** What a peer may send without being asked. */
  unaskedBytes: number;
  unaskedMessages: number;
};
export const PEER_LIMITS: PeerLimits = {
  connectMs: 10_000,
  handshakeMs: 20_000,
  headersMs: 60_000,
  blockMs: 60_000,
  messageMs: 60_000,
  pingEveryMs: 120_000,
  pongMs: 60_000,
  tickMs: 1_000,
  unaskedBytes: 8_000_000,
  unaskedMessages: 6_000,
};
/** What we sent and the peer has not read. A peer that asks and does not read is closed. */
const MAX_UNREAD_BYTES = 1_000_000;
const MINUTE_MS = 60_000;
/** New blocks are announced by up to this many headers; after more of them peers announce hashes. */
const MAX_ANNOUNCED = 8;
/** Every Florin says the same, and nothing about its version, so that peers cannot tell payment servers from other light clients. */
const AGENT = '/light-client:1.0/';
const NO_ADDRESS: WireAddress = { services: 0n, ip: Buffer.alloc(16), port: 0 };
const NO_HASH = '0'.repeat(64);

/** A peer did not answer, broke the protocol or closed the connection. */
export class PeerError extends Error {
  constructor(message: string) {
    super(message);
    this.name = 'PeerError';
  }
}

/** What a peer says without being asked, and what becomes of it. */
export type PeerHandlers = {
  /** Up to eight headers of new blocks. */
  onHeaders(peer: Peer, headers: readonly WireHeader[]): void;
  onItems(peer: Peer, items: readonly Inventory[]): void;
  /** A transaction that was asked for with `askTransactions`; its bytes have this id. */
  onTransaction(peer: Peer, transaction: { txid: string; bytes: Buffer }): void;
  onAddresses(peer: Peer, addresses: readonly (WireAddress & { timeSeconds: number })[]): void;
  onClose(peer: Peer, reason: string): void;
};
type PeerStats = { bytesIn: number; bytesOut: number; sinceMs: number; pingMs: number | null };
export type Peer = {
  endpoint: PeerAddress;
  version: Version;
  /** Its clock minus ours, at the handshake. */
  clockAheadSeconds: number;
  /** The headers after the first hash that it knows, at most 2,000. Errors: PeerError. */
  readHeaders(locator: readonly string[]): Promise<readonly WireHeader[]>;
  /** The block with these 80 bytes of header, without witness. Errors: PeerError. */
  readBlock(block: { hash: string; header: Buffer }): Promise<Buffer>;
  /** Asks for transactions that it, or another peer, announced. */
  askTransactions(hashes: readonly string[]): void;
  askAddresses(): void;
  /** Announces a transaction, and sends it once if the peer asks for it. */
  offer(transaction: { txid: string; bytes: Uint8Array }): void;
  /** The lowest fee per 1,000 virtual bytes of transactions that it wants to hear of (BIP-133); null while it did not say. */
  feeFloor(): bigint | null;
  stats(): PeerStats;
  /** Why it is closed; null while it is open. */
  closed(): string | null;
  close(reason: string): void;
};

type Request = { key: string; deadlineMs: number; what: string; resolve(answer: never): void; reject(error: Error): void };
type State = {
  peer: Peer;
  socket: Socket;
  network: PeerNetwork;
  clock: Clock;
  limits: PeerLimits;
  handlers: PeerHandlers;
  reader: FrameReader;
  phase: 'greeting' | 'acknowledging' | 'ready' | 'closed';
  reason: string | null;
  /** Resolves or rejects the handshake. */
  greeted: { resolve(): void; reject(error: Error): void };
  /** By kind and what was asked for. */
  requests: Map<string, Request>;
  asked: Set<string>;
  /** Our transactions that the peer may ask for, by ID. */
  offers: Map<string, Buffer>;
  startedMs: number;
  partialSinceMs: number | null;
  /** The ping that was sent and not answered. */
  ping: { nonce: Buffer; sentMs: number } | null;
  pingedMs: number;
  unasked: { sinceMs: number; bytes: number; messages: number };
  feeFloor: bigint | null;
  stats: PeerStats;
};

/** At most this many transactions are waited for; the oldest are forgotten first. */
const MAX_ASKED = 1_000;
/** At most this many of our transactions are offered; the oldest are forgotten first. */
const MAX_OFFERS = 100;
const HEADERS = 'headers';

function send(state: State, message: PeerMessage): void {
  if (state.phase === 'closed') return;
  const bytes = frame(state.network.magic, commandOf(message), encodeMessage(message));
  state.stats.bytesOut += bytes.length;
  state.socket.write(bytes);
  if (state.socket.writableLength > MAX_UNREAD_BYTES) close(state, 'it asks and does not read the answers');
}

function close(state: State, reason: string): void {
  if (state.phase === 'closed') return;
  const wasReady = state.phase === 'ready';
  state.phase = 'closed';
  state.reason = reason;
  state.socket.destroy();
  const error = new PeerError(reason);
  state.greeted.reject(error);
  for (const request of state.requests.values()) request.reject(error);
  state.requests.clear();
  if (wasReady) state.handlers.onClose(state.peer, reason);
}

function request<T>(
  state: State,
  key: string,
  { what, withinMs, message }: { what: string; withinMs: number; message: PeerMessage },
): Promise<T> {
  if (state.phase !== 'ready') return Promise.reject(new PeerError(state.reason ?? 'the handshake is not complete'));
  if (state.requests.has(key)) return Promise.reject(new PeerError(`${what} was already asked for`));
  return new Promise<T>((resolve, reject) => {
    const deadlineMs = state.clock.monotonicMs() + withinMs;
    state.requests.set(key, { key, deadlineMs, what, resolve: resolve as Request['resolve'], reject });
    send(state, message);
  });
}
/** Answers a request; false when nothing like it was asked for. */
function answer(state: State, key: string, value: unknown): boolean {
  const waiting = state.requests.get(key);
  if (!waiting) return false;
  state.requests.delete(key);
  waiting.resolve(value as never);
  return true;
}

/** Counts what was not asked for. Errors: WireError when it is too much for a minute. */
function countUnasked(state: State, bytes: number): void {
  const { unasked, limits } = state;
  const nowMs = state.clock.monotonicMs();
  if (nowMs - unasked.sinceMs >= MINUTE_MS) Object.assign(unasked, { sinceMs: nowMs, bytes: 0, messages: 0 });
  unasked.bytes += bytes;
  unasked.messages++;
  if (unasked.bytes > limits.unaskedBytes || unasked.messages > limits.unaskedMessages)
    throw new WireError('it sends too much that was not asked for');
}

function greet(state: State, version: Version): void {
  if (state.phase !== 'greeting') throw new WireError('it sent its version twice');
  const { leastVersion, needs } = state.network;
  if (version.version < leastVersion) throw new WireError(`it speaks version ${version.version}; ${leastVersion} is needed`);
  if ((version.services & (SERVICE.network | SERVICE.limited)) === 0n) throw new WireError('it does not serve blocks');
  if ((version.services & needs) !== needs) throw new WireError('it does not follow the current rules of the network');
  state.peer.version = version;
  state.peer.clockAheadSeconds = Number(version.timeSeconds) - Math.floor(state.clock.now().getTime() / 1000);
  state.phase = 'acknowledging';
  send(state, { command: 'verack' });
}
function acknowledge(state: State): void {
  if (state.phase !== 'acknowledging') throw new WireError('it sent verack out of turn');
  state.phase = 'ready';
  send(state, { command: 'sendheaders' });
  state.greeted.resolve();
}

/** Text from a peer as it may be logged. */
const printable = (text: string): string => text.replace(/[^\x20-\x7e]/g, '?');

/** Whether a message answers a request. */
function isAnswer(state: State, message: PeerMessage, bytes: Buffer): boolean {
  if (message.command === 'headers') return answer(state, HEADERS, message.headers);
  if (message.command !== 'block') return false;
  if (bytes.length < 80) throw new WireError('it sent a block without a header');
  return answer(state, blockKey(bytes), bytes);
}
const blockKey = (bytes: Buffer): string => `block ${bytes.toString('hex', 0, 80)}`;

/** Handles a message of the handshake; false when it is another. */
function handshake(state: State, message: PeerMessage): boolean {
  if (message.command === 'version') greet(state, message);
  else if (message.command === 'verack') acknowledge(state);
  else return false;
  return true;
}
/** Takes a transaction that was asked for; false when it is something else. */
function takeTransaction(state: State, message: PeerMessage): boolean {
  if (message.command !== 'tx') return false;
  // Without witness, the hash of all bytes is the id.
  const txid = sha256d(message.bytes).reverse().toString('hex');
  if (!state.asked.delete(txid)) return false;
  state.handlers.onTransaction(state.peer, { txid, bytes: message.bytes });
  return true;
}
function handle(state: State, message: PeerMessage, payload: Buffer): void {
  if (handshake(state, message)) return;
  if (state.phase !== 'ready') {
    if (message.command === 'reject') throw new WireError(`it refuses the connection: ${printable(message.reason)}`);
    // Before the handshake ends, peers may only say what they support.
    countUnasked(state, payload.length);
    return;
  }
  if (isAnswer(state, message, payload) || takeTransaction(state, message)) return;
  countUnasked(state, payload.length);
  handleUnasked(state, message);
}
function handleUnasked(state: State, message: PeerMessage): void {
  const { peer, handlers } = state;
  switch (message.command) {
    case 'ping':
      send(state, { command: 'pong', nonce: message.nonce });
      break;
    case 'pong':
      if (!state.ping?.nonce.equals(message.nonce)) break;
      state.stats.pingMs = state.clock.monotonicMs() - state.ping.sentMs;
      state.ping = null;
      break;
    case 'getheaders':
      send(state, { command: 'headers', headers: [] });
      break;
    case 'headers':
      // More come only as answers; one that is too late will be asked for again.
      if (message.headers.length > 0 && message.headers.length <= MAX_ANNOUNCED) handlers.onHeaders(peer, message.headers);
      break;
    case 'inv':
      handlers.onItems(peer, message.items);
      break;
    case 'getdata':
      sendOffers(state, message.items);
      break;
    case 'notfound':
      for (const { hash } of message.items) state.asked.delete(hash);
      break;
    case 'feefilter':
      state.feeFloor = message.rate;
      break;
    case 'addr':
      handlers.onAddresses(peer, message.addresses);
      break;
    default:
    // The rest is of no use to us: blocks and items that were not asked for, and messages of later versions.
  }
}

/** Sends what a peer asks for of what it was offered, each once, so that nobody makes this service send the same again and again. */
function sendOffers(state: State, items: readonly Inventory[]): void {
  for (const item of items) {
    const bytes = isTransactionItem(item) ? state.offers.get(item.hash) : undefined;
    if (!bytes) continue;
    state.offers.delete(item.hash);
    send(state, { command: 'tx', bytes });
  }
}

/** What is too late, as the reason to close the connection. */
function lateness({ clock, limits, reader, requests, phase, startedMs, partialSinceMs, ping }: State): string | null {
  const nowMs = clock.monotonicMs();
  if (phase !== 'ready' && nowMs - startedMs > limits.handshakeMs) return 'it did not complete the handshake in time';
  const partial = reader.partial();
  if (partial && partialSinceMs !== null && nowMs - partialSinceMs > limits.messageMs)
    return `it sends a ${partial.command} message too slowly`;
  for (const { deadlineMs, what } of requests.values()) if (nowMs > deadlineMs) return `it did not send ${what} in time`;
  return ping && nowMs - ping.sentMs > limits.pongMs ? 'it does not answer' : null;
}
function tick(state: State): void {
  const late = lateness(state);
  if (late) close(state, late);
  const nowMs = state.clock.monotonicMs();
  if (state.phase !== 'ready' || state.ping || nowMs - state.pingedMs < state.limits.pingEveryMs) return;
  state.pingedMs = nowMs;
  state.ping = { nonce: randomBytes(8), sentMs: nowMs };
  send(state, { command: 'ping', nonce: state.ping.nonce });
}

function listen(state: State): void {
  const { socket } = state;
  const timer = setInterval(() => tick(state), state.limits.tickMs);
  timer.unref();
  socket.on('data', (chunk: Buffer) => {
    state.stats.bytesIn += chunk.length;
    try {
      state.reader.read(chunk);
      state.partialSinceMs = state.reader.partial() ? (state.partialSinceMs ?? state.clock.monotonicMs()) : null;
    } catch (error) {
      // Nothing that one peer sends may stop the others.
      close(state, error instanceof WireError ? error.message : `its message cannot be handled: ${(error as Error).message}`);
    }
  });
  socket.on('error', (error) => close(state, error.message));
  socket.on('close', () => {
    clearInterval(timer);
    close(state, 'it closed the connection');
  });
}

const versionOf = (network: PeerNetwork, clock: Clock, wantsTransactions: boolean): PeerMessage => ({
  command: 'version',
  version: network.version,
  services: 0n,
  timeSeconds: BigInt(Math.floor(clock.now().getTime() / 1000)),
  to: NO_ADDRESS,
  from: NO_ADDRESS,
  nonce: randomBytes(8).readBigUInt64LE(),
  agent: AGENT,
  height: 0,
  tail: Buffer.from([wantsTransactions ? 1 : 0]),
});

/** Connects to a peer and completes the handshake. Errors: an Error that says why not. */
export async function connectPeer({
  endpoint,
  network,
  wantsTransactions,
  handlers,
  clock,
  proxy = null,
  limits = PEER_LIMITS,
}: {
  endpoint: PeerAddress;
  network: PeerNetwork;
  /** Whether it announces transactions to us. */
  wantsTransactions: boolean;
  handlers: PeerHandlers;
  clock: Clock;
  proxy?: SocksProxy | null;
  limits?: PeerLimits;
}): Promise<Peer> {
  const socket = await openSocket({ to: endpoint, proxy, timeoutMs: limits.connectMs });
  const { promise, ...greeted } = Promise.withResolvers<void>();
  const nowMs = clock.monotonicMs();
  const onFrame = (command: string, payload: Buffer): boolean => {
    state.partialSinceMs = null;
    handle(state, decodeMessage(command, payload, network.family), payload);
    return state.phase !== 'closed';
  };
  const state: State = {
    peer: {
      endpoint,
      version: null as never,
      clockAheadSeconds: 0,
      readHeaders: (locator) =>
        request(state, HEADERS, {
          what: 'headers',
          withinMs: limits.headersMs,
          message: { command: 'getheaders', version: network.version, locator, stop: NO_HASH },
        }),
      readBlock: ({ hash, header }) =>
        request(state, blockKey(header), {
          what: `block ${hash}`,
          withinMs: limits.blockMs,
          message: { command: 'getdata', items: [{ type: ITEM.block, hash }] },
        }),
      askTransactions: (hashes) => askTransactions(state, hashes),
      askAddresses: () => send(state, { command: 'getaddr' }),
      offer: ({ txid, bytes }) => {
        state.offers.set(txid, Buffer.from(bytes));
        for (const oldest of state.offers.keys()) if (state.offers.size > MAX_OFFERS) state.offers.delete(oldest);
        send(state, { command: 'inv', items: [{ type: ITEM.transaction, hash: txid }] });
      },
      feeFloor: () => state.feeFloor,
      stats: () => ({ ...state.stats }),
      closed: () => state.reason,
      close: (reason) => close(state, reason),
    },
    ...{ socket, network, clock, limits, handlers, greeted },
    reader: createFrameReader({ magic: network.magic, onFrame }),
    phase: 'greeting',
    reason: null,
    requests: new Map(),
    asked: new Set(),
    offers: new Map(),
    startedMs: nowMs,
    partialSinceMs: null,
    ping: null,
    pingedMs: nowMs,
    unasked: { sinceMs: nowMs, bytes: 0, messages: 0 },
    feeFloor: null,
    stats: { bytesIn: 0, bytesOut: 0, sinceMs: nowMs, pingMs: null },
  };
  listen(state);
  send(state, versionOf(network, clock, wantsTransactions));
  await promise;
  return state.peer;
}

function askTransactions(state: State, hashes: readonly string[]): void {
  for (const hash of hashes) state.asked.add(hash);
  for (const oldest of state.asked) if (state.asked.size > MAX_ASKED) state.asked.delete(oldest);
  if (hashes.length > 0) send(state, { command: 'getdata', items: hashes.map((hash) => ({ type: ITEM.transaction, hash })) });
}

// The peer-to-peer network of a chain, from the rows that describe its networks.

export type PeerNetwork = {
  family: BitcoinFamily;
  network: Network;
  magic: Buffer;
  port: number;
  version: number;
  leastVersion: number;
  /** Services that a peer must have, beside its blocks. */
  needs: bigint;
  seeds: readonly string[];
};

/** Service bits: all blocks, the last 288 blocks only, blocks with witness (without it a node does not follow today's rules). */
export const SERVICE = { network: 1n, witness: 8n, limited: 1024n } as const;
/** How many blocks a node with `SERVICE.limited` alone keeps. */
export const LIMITED_BLOCKS = 288;

/** `testnet` is testnet4 on BTC. Errors: Error when Florin does not read the network from peers. */
export function peerNetwork(family: BitcoinFamily, network: Network): PeerNetwork {
  const rows: Readonly<Partial<Record<ProofParams['network'], ProofParams>>> = PROOF_PARAMS[family];
  const row = network === 'mainnet' ? rows.main : network === 'regtest' ? rows.regtest : (rows.testnet4 ?? rows.testnet);
  if (!row?.peers) throw new Error(`${family} is not read from peers on ${network}`);
  const { magic, port, seeds = [] } = row.peers;
  return {
    ...{ family, network, magic: Buffer.from(magic, 'hex'), port, seeds },
    ...{ version: row.protocol.version, leastVersion: row.protocol.least, needs: PARAMS[family].segwit ? SERVICE.witness : 0n },
  };
}
