/** The messages that peers and Florin exchange. What is decoded encodes to the same bytes; anything else is refused with a reason. */
import type { BitcoinFamily } from '../../../core/coin.ts';
import { MAX_CHAIN_BRANCH } from '../auxpow.ts';
import { PARAMS } from '../params.ts';
import { MAX_COUNT } from '../strict-reader.ts';
import { MAX_ITEMS, WireError } from './message.ts';

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
