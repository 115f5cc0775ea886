/** The messages that peers and Florin exchange. What is decoded encodes to the same bytes; anything else is refused with a reason. */

import { PARAMS } from '#addresses';
import type { BitcoinFamily } from '#core/coin';
import { MAX_CHAIN_BRANCH } from '../auxpow.ts';
import { MAX_COUNT, sha256d } from '../strict-reader.ts';

// Frames of the peer-to-peer protocol: magic, command, length, checksum, payload. Sizes are limited before memory is used.

/** A peer broke the protocol. The message says how; the connection is closed. */
export class WireError extends Error {
  constructor(message: string) {
    super(message);
    this.name = 'WireError';
  }
}

const HEAD_BYTES = 24;
const COMMAND_BYTES = 12;
/** Memory for a payload is reserved in steps, so that a length alone costs nothing. */
const FIRST_BYTES = 16_384;

/** The most items of an `inv`, `getdata` or `notfound` message (MAX_INV_SZ). */
export const MAX_ITEMS = 50_000;
/**
 * The largest payload of a message: MAX_PROTOCOL_MESSAGE_LENGTH of Bitcoin and Dogecoin. Litecoin allows 32 MB and uses them for nothing that
 * is asked for here; Dash allows less. A lower limit of our own would let strangers stop a chain: one merge-mined Dogecoin block with a
 * large proof makes every message of 2,000 headers that contains it larger than usual ones.
 */
export const MAX_PAYLOAD = 4_000_000;

/** A whole message as it is sent. */
export function frame(magic: Buffer, command: string, payload: Buffer): Buffer {
  const bytes = Buffer.alloc(HEAD_BYTES + payload.length);
  magic.copy(bytes, 0);
  bytes.write(command, 4, COMMAND_BYTES, 'latin1');
  bytes.writeUInt32LE(payload.length, 16);
  sha256d(payload).copy(bytes, 20, 0, 4);
  payload.copy(bytes, HEAD_BYTES);
  return bytes;
}

type Body = { command: string; length: number; checksum: number; room: Buffer; received: number };

/** The command of a frame's first 24 bytes: printable ASCII, then zeros only. */
function commandIn(head: Buffer): string {
  let length = 0;
  while (length < COMMAND_BYTES && head[4 + length] !== 0) {
    const character = head[4 + length]!;
    if (character < 0x21 || character > 0x7e) throw new WireError('the command of a message has invalid characters');
    length++;
  }
  if (length === 0) throw new WireError('a message has no command');
  for (let at = length; at < COMMAND_BYTES; at++) {
    if (head[4 + at] !== 0) throw new WireError('the command of a message is not padded with zeros');
  }
  return head.toString('latin1', 4, 4 + length);
}

export type FrameReader = {
  /**
   * Takes bytes as they arrive and calls `onFrame` for each complete message. Stops when `onFrame` returns false. Errors: WireError on a
   * wrong magic, command, length or checksum.
   */
  read(chunk: Buffer): void;
  /** The message that has arrived in part, or null. */
  partial(): { command: string; length: number; received: number } | null;
};

/** Creates a reader of one connection. Its memory is at most twice what the peer has sent of the current message. */
export function createFrameReader({ magic, onFrame }: { magic: Buffer; onFrame(command: string, payload: Buffer): boolean }): FrameReader {
  const head = Buffer.alloc(HEAD_BYTES);
  let headBytes = 0;
  let body: Body | null = null;
  let stopped = false;

  const openBody = (): Body => {
    const command = commandIn(head);
    const length = head.readUInt32LE(16);
    if (length > MAX_PAYLOAD) throw new WireError(`a ${command} message of ${length} bytes is larger than ${MAX_PAYLOAD}`);
    const room = Buffer.allocUnsafeSlow(Math.min(length, FIRST_BYTES));
    return { command, length, checksum: head.readUInt32LE(20), room, received: 0 };
  };
  const takeHead = (chunk: Buffer, at: number): number => {
    const taken = Math.min(HEAD_BYTES - headBytes, chunk.length - at);
    chunk.copy(head, headBytes, at, at + taken);
    headBytes += taken;
    const seen = Math.min(headBytes, magic.length);
    if (head.compare(magic, 0, seen, 0, seen) !== 0) throw new WireError('the peer is on another network: wrong magic');
    if (headBytes === HEAD_BYTES) body = openBody();
    return taken;
  };
  const takeBody = (into: Body, chunk: Buffer, at: number): number => {
    const taken = Math.min(into.length - into.received, chunk.length - at);
    if (into.received + taken > into.room.length) {
      const larger = Buffer.allocUnsafeSlow(Math.min(into.length, Math.max(into.room.length * 2, into.received + taken)));
      into.room.copy(larger, 0, 0, into.received);
      into.room = larger;
    }
    chunk.copy(into.room, into.received, at, at + taken);
    into.received += taken;
    return taken;
  };
  return {
    read: (chunk) => {
      for (let at = 0; at < chunk.length && !stopped; ) {
        at += body ? takeBody(body, chunk, at) : takeHead(chunk, at);
        // `takeHead` may have set it, which the type check does not see.
        const whole = body as Body | null;
        if (!whole || whole.received < whole.length) continue;
        if (sha256d(whole.room).readUInt32LE(0) !== whole.checksum) throw new WireError(`a ${whole.command} message has a wrong checksum`);
        body = null;
        headBytes = 0;
        stopped = !onFrame(whole.command, whole.room);
      }
    },
    partial: () => body && { command: body.command, length: body.length, received: body.received },
  };
}

/** Types of items. Florin asks for blocks and transactions without witness: ids cover nothing else. */
export const ITEM = { transaction: 1, block: 2 } as const;
/** Whether a peer asks for a transaction, in any form: the highest bits ask for its witness, and on LTC for its MWEB part. */
export const isTransactionItem = ({ type }: Inventory): boolean => (type & 0x1fffffff) === ITEM.transaction;
/** `hash` as it is displayed, in reversed bytes. */
export type Inventory = { type: number; hash: string };
/** 80 bytes, and on DOGE the merge-mining proof of a header that has one. */
export type WireHeader = { bytes: Buffer; auxpow: Buffer | null };
/** An address as in `version` and `addr`: 16 bytes of IPv6, where IPv4 is mapped. */
export type WireAddress = { services: bigint; ip: Buffer; port: number };
export type Version = {
  version: number;
  services: bigint;
  timeSeconds: bigint;
  to: WireAddress;
  from: WireAddress;
  nonce: bigint;
  agent: string;
  height: number;
  /** What follows the height: whether transactions are wanted, and on DASH a challenge. */
  tail: Buffer;
};
export type PeerMessage =
  | ({ command: 'version' } & Version)
  | { command: 'verack' | 'sendheaders' | 'sendaddrv2' | 'wtxidrelay' | 'getaddr' | 'mempool' }
  | { command: 'ping' | 'pong'; nonce: Buffer }
  | { command: 'getheaders'; version: number; locator: readonly string[]; stop: string }
  | { command: 'headers'; headers: readonly WireHeader[] }
  | { command: 'inv' | 'getdata' | 'notfound'; items: readonly Inventory[] }
  | { command: 'block' | 'tx'; bytes: Buffer }
  | { command: 'addr'; addresses: readonly (WireAddress & { timeSeconds: number })[] }
  | { command: 'addrv2'; addresses: readonly { timeSeconds: number; services: bigint; network: number; bytes: Buffer; port: number }[] }
  | { command: 'feefilter'; rate: bigint }
  | { command: 'sendcmpct'; announce: number; version: bigint }
  | { command: 'reject'; message: string; code: number; reason: string; rest: Buffer }
  /** Any other command: its payload is not read. */
  | { command: 'other'; name: string; payload: Buffer };

export const MAX_HEADERS = 2_000;
export const MAX_LOCATOR = 101;
export const MAX_ADDRESSES = 1_000;
export const MAX_AGENT_BYTES = 256;
/** BIP-155 limits an address to this. */
export const MAX_ADDRESS_BYTES = 512;
export const MAX_REFUSED_BYTES = 12;
export const MAX_REFUSAL_BYTES = 111;
const HEADER_BYTES = 80;
/** DOGE: version bit of a header with a merge-mining proof. */
const AUXPOW = 0x100;

/** A position in bytes from outside. */
type Cursor = { bytes: Buffer; at: number };

/** Moves the cursor on; returns where it was. */
function skip(cursor: Cursor, length: number): number {
  const from = cursor.at;
  if (length > cursor.bytes.length - from) throw new WireError('a message ends too early');
  cursor.at += length;
  return from;
}
const take = (cursor: Cursor, length: number): Buffer => {
  const from = skip(cursor, length);
  return cursor.bytes.subarray(from, from + length);
};
const readU16BE = (cursor: Cursor): number => cursor.bytes.readUInt16BE(skip(cursor, 2));
const readU32 = (cursor: Cursor): number => cursor.bytes.readUInt32LE(skip(cursor, 4));
const readI32 = (cursor: Cursor): number => cursor.bytes.readInt32LE(skip(cursor, 4));
const readU64 = (cursor: Cursor): bigint => cursor.bytes.readBigUInt64LE(skip(cursor, 8));
const readI64 = (cursor: Cursor): bigint => cursor.bytes.readBigInt64LE(skip(cursor, 8));
const readHash = (cursor: Cursor): string => Buffer.from(take(cursor, 32)).reverse().toString('hex');

/** A number in its compact form, which must be the shortest one. */
function readCompact(cursor: Cursor): bigint {
  const first = cursor.bytes[skip(cursor, 1)]!;
  if (first < 0xfd) return BigInt(first);
  const [value, least] =
    first === 0xfd
      ? [BigInt(cursor.bytes.readUInt16LE(skip(cursor, 2))), 0xfdn]
      : first === 0xfe
        ? [BigInt(readU32(cursor)), 0x10000n]
        : [readU64(cursor), 0x100000000n];
  if (value < least) throw new WireError('a count is not in its shortest form');
  return value;
}
/** A count of items that take at least `each` bytes: more than the message has bytes for is refused before memory is used. */
function readCount(cursor: Cursor, { most, each, what }: { most: number; each: number; what: string }): number {
  const count = readCompact(cursor);
  if (count > BigInt(Math.min(most, MAX_COUNT))) throw new WireError(`a message has ${count} ${what}; ${most} are allowed`);
  if (Number(count) * each > cursor.bytes.length - cursor.at) throw new WireError(`a message has fewer ${what} than it says`);
  return Number(count);
}
const readText = (cursor: Cursor, most: number, what: string): string =>
  take(cursor, readCount(cursor, { most, each: 1, what })).toString('latin1');
const readRows = <T>(cursor: Cursor, limits: Parameters<typeof readCount>[1], read: () => T): T[] =>
  Array.from({ length: readCount(cursor, limits) }, read);

/** Skips a transaction: the parent's coinbase in a merge-mining proof. */
function skipTransaction(cursor: Cursor): void {
  const any = (each: number, what: string) => readCount(cursor, { most: MAX_COUNT, each, what });
  const skipAny = () => skip(cursor, any(1, 'bytes'));
  skip(cursor, 4);
  // BIP-144: a zero in place of the input count is a marker.
  const hasWitness = cursor.bytes[cursor.at] === 0 && cursor.bytes[cursor.at + 1] === 1;
  if (hasWitness) skip(cursor, 2);
  const inputs = any(41, 'inputs');
  for (let i = 0; i < inputs; i++) {
    skip(cursor, 36);
    skipAny();
    skip(cursor, 4);
  }
  for (let outputs = any(9, 'outputs'); outputs > 0; outputs--) {
    skip(cursor, 8);
    skipAny();
  }
  for (let i = 0; i < inputs && hasWitness; i++) for (let items = any(1, 'witness items'); items > 0; items--) skipAny();
  skip(cursor, 4);
}
/** The merge-mining proof behind a header: parent coinbase, block hash, two branches with an index each, parent header. */
function takeAuxpow(cursor: Cursor): Buffer {
  const from = cursor.at;
  skipTransaction(cursor);
  skip(cursor, 32);
  for (const most of [MAX_COUNT, MAX_CHAIN_BRANCH]) {
    skip(cursor, readCount(cursor, { most, each: 32, what: 'branch hashes' }) * 32);
    skip(cursor, 4);
  }
  skip(cursor, HEADER_BYTES);
  return cursor.bytes.subarray(from, cursor.at);
}
function readHeader(cursor: Cursor, family: BitcoinFamily): WireHeader {
  const bytes = take(cursor, HEADER_BYTES);
  const auxpow = PARAMS[family].mergeMined && bytes.readUInt32LE(0) & AUXPOW ? takeAuxpow(cursor) : null;
  if (cursor.bytes[skip(cursor, 1)] !== 0) throw new WireError('a header says that transactions follow');
  return { bytes, auxpow };
}

const readAddress = (cursor: Cursor): WireAddress => ({ services: readU64(cursor), ip: take(cursor, 16), port: readU16BE(cursor) });
function readVersion(cursor: Cursor): Version {
  return {
    version: readI32(cursor),
    services: readU64(cursor),
    timeSeconds: readI64(cursor),
    to: readAddress(cursor),
    from: readAddress(cursor),
    nonce: readU64(cursor),
    agent: readText(cursor, MAX_AGENT_BYTES, 'bytes of its name'),
    height: readI32(cursor),
    // Later versions of the protocol may add fields.
    tail: take(cursor, cursor.bytes.length - cursor.at),
  };
}

const READERS: Readonly<Record<string, (cursor: Cursor, family: BitcoinFamily) => PeerMessage>> = {
  version: (cursor) => ({ command: 'version', ...readVersion(cursor) }),
  verack: () => ({ command: 'verack' }),
  sendheaders: () => ({ command: 'sendheaders' }),
  sendaddrv2: () => ({ command: 'sendaddrv2' }),
  wtxidrelay: () => ({ command: 'wtxidrelay' }),
  getaddr: () => ({ command: 'getaddr' }),
  mempool: () => ({ command: 'mempool' }),
  ping: (cursor) => ({ command: 'ping', nonce: readNonce(cursor) }),
  pong: (cursor) => ({ command: 'pong', nonce: readNonce(cursor) }),
  getheaders: (cursor) => ({
    command: 'getheaders',
    version: readU32(cursor),
    locator: readRows(cursor, { most: MAX_LOCATOR, each: 32, what: 'hashes' }, () => readHash(cursor)),
    stop: readHash(cursor),
  }),
  headers: (cursor, family) => ({
    command: 'headers',
    headers: readRows(cursor, { most: MAX_HEADERS, each: HEADER_BYTES + 1, what: 'headers' }, () => readHeader(cursor, family)),
  }),
  inv: (cursor) => ({ command: 'inv', items: readItems(cursor) }),
  getdata: (cursor) => ({ command: 'getdata', items: readItems(cursor) }),
  notfound: (cursor) => ({ command: 'notfound', items: readItems(cursor) }),
  block: (cursor) => ({ command: 'block', bytes: takeAll(cursor) }),
  tx: (cursor) => ({ command: 'tx', bytes: takeAll(cursor) }),
  addr: (cursor) => ({
    command: 'addr',
    addresses: readRows(cursor, { most: MAX_ADDRESSES, each: 30, what: 'addresses' }, () => ({
      timeSeconds: readU32(cursor),
      ...readAddress(cursor),
    })),
  }),
  addrv2: (cursor) => ({
    command: 'addrv2',
    addresses: readRows(cursor, { most: MAX_ADDRESSES, each: 9, what: 'addresses' }, () => ({
      timeSeconds: readU32(cursor),
      services: readCompact(cursor),
      network: cursor.bytes[skip(cursor, 1)]!,
      bytes: take(cursor, readCount(cursor, { most: MAX_ADDRESS_BYTES, each: 1, what: 'bytes in an address' })),
      port: readU16BE(cursor),
    })),
  }),
  feefilter: (cursor) => ({ command: 'feefilter', rate: readU64(cursor) }),
  sendcmpct: (cursor) => ({ command: 'sendcmpct', announce: cursor.bytes[skip(cursor, 1)]!, version: readU64(cursor) }),
  reject: (cursor) => ({
    command: 'reject',
    message: readText(cursor, MAX_REFUSED_BYTES, 'bytes of a command'),
    code: cursor.bytes[skip(cursor, 1)]!,
    reason: readText(cursor, MAX_REFUSAL_BYTES, 'bytes of a reason'),
    rest: takeAll(cursor),
  }),
};
const takeAll = (cursor: Cursor): Buffer => take(cursor, cursor.bytes.length - cursor.at);
/** Old versions of the protocol have no nonce. */
const readNonce = (cursor: Cursor): Buffer => take(cursor, cursor.bytes.length === 0 ? 0 : 8);
const readItems = (cursor: Cursor): Inventory[] =>
  readRows(cursor, { most: MAX_ITEMS, each: 36, what: 'items' }, () => ({ type: readU32(cursor), hash: readHash(cursor) }));

/** Decodes a payload; parts of it are not copied. Errors: WireError when it is not a valid message of that command. */
export function decodeMessage(command: string, payload: Buffer, family: BitcoinFamily): PeerMessage {
  const read = Object.hasOwn(READERS, command) ? READERS[command]! : null;
  if (!read) return { command: 'other', name: command, payload };
  const cursor = { bytes: payload, at: 0 };
  const message = read(cursor, family);
  if (cursor.at !== payload.length) throw new WireError(`a ${command} message has ${payload.length - cursor.at} bytes too many`);
  return message;
}

const u16BE = (value: number): Buffer => Buffer.from([value >>> 8, value & 0xff]);
const u32 = (value: number): Buffer => {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32LE(value >>> 0);
  return bytes;
};
const u64 = (value: bigint): Buffer => {
  const bytes = Buffer.alloc(8);
  bytes.writeBigUInt64LE(BigInt.asUintN(64, value));
  return bytes;
};
const hash = (hex: string): Buffer => Buffer.from(hex, 'hex').reverse();
function compact(value: number | bigint): Buffer {
  const count = Number(value);
  if (count < 0xfd) return Buffer.from([count]);
  if (count <= 0xffff) return Buffer.from([0xfd, count & 0xff, count >>> 8]);
  if (count <= 0xffffffff) return Buffer.concat([Buffer.from([0xfe]), u32(count)]);
  return Buffer.concat([Buffer.from([0xff]), u64(BigInt(value))]);
}
const textOf = (text: string): Buffer => Buffer.concat([compact(text.length), Buffer.from(text, 'latin1')]);
const list = <T>(items: readonly T[], parts: (item: T) => readonly Buffer[]): Buffer =>
  Buffer.concat([compact(items.length), ...items.flatMap(parts)]);
const addressParts = ({ services, ip, port }: WireAddress): Buffer[] => [u64(services), ip, u16BE(port)];

/** The payload of a message. */
export function encodeMessage(message: PeerMessage): Buffer {
  switch (message.command) {
    case 'version':
      return Buffer.concat([
        ...[u32(message.version), u64(message.services), u64(message.timeSeconds)],
        ...[...addressParts(message.to), ...addressParts(message.from)],
        ...[u64(message.nonce), textOf(message.agent), u32(message.height), message.tail],
      ]);
    case 'verack':
    case 'sendheaders':
    case 'sendaddrv2':
    case 'wtxidrelay':
    case 'getaddr':
    case 'mempool':
      return Buffer.alloc(0);
    case 'ping':
    case 'pong':
      return message.nonce;
    case 'getheaders':
      return Buffer.concat([u32(message.version), list(message.locator, (one) => [hash(one)]), hash(message.stop)]);
    case 'headers':
      return list(message.headers, ({ bytes, auxpow }) => [bytes, ...(auxpow ? [auxpow] : []), Buffer.alloc(1)]);
    case 'inv':
    case 'getdata':
    case 'notfound':
      return list(message.items, (item) => [u32(item.type), hash(item.hash)]);
    case 'block':
    case 'tx':
      return message.bytes;
    case 'addr':
      return list(message.addresses, (one) => [u32(one.timeSeconds), ...addressParts(one)]);
    case 'addrv2':
      return list(message.addresses, (one) => [
        ...[u32(one.timeSeconds), compact(one.services), Buffer.from([one.network])],
        ...[compact(one.bytes.length), one.bytes, u16BE(one.port)],
      ]);
    case 'feefilter':
      return u64(message.rate);
    case 'sendcmpct':
      return Buffer.concat([Buffer.from([message.announce]), u64(message.version)]);
    case 'reject':
      return Buffer.concat([textOf(message.message), Buffer.from([message.code]), textOf(message.reason), message.rest]);
    case 'other':
      return message.payload;
  }
}
/** The command that a message is sent with. */
export const commandOf = (message: PeerMessage): string => (message.command === 'other' ? message.name : message.command);
