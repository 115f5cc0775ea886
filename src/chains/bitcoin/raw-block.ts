/** Reads raw blocks and transactions of the Core family: BTC segwit, LTC MWEB, DOGE AuxPoW, DASH special transactions. */

import { setImmediate } from 'node:timers/promises';
import type { BitcoinFamily } from '../../core/coin.ts';
import type { TransferKind } from '../../core/payment.ts';
import type { Conflict, Matcher, Output, Sighting } from '../chain.ts';
import { PARAMS, type Params } from './params.ts';
import { hashTwice } from './sha256d.ts';

export type RawOutput = { n: number; units: bigint; script: Uint8Array };
/** The offsets of a transaction's parts in its bytes. Rarely needed parts are read on demand. */
export type RawTransaction = {
  bytes: Buffer;
  /** The offsets of the whole transaction. */
  extent: readonly [from: number, to: number];
  /** Its id is in `ids` at `idAt`, in the chain's byte order; displays reverse the bytes. */
  ids: Buffer;
  idAt: number;
  inputsAt: number;
  inputCount: number;
  outputsAt: number;
  outputCount: number;
  lockAt: number;
  coinbase: boolean;
  /** LTC: the block's last transaction, whose outputs are the peg-outs. */
  hogEx: boolean;
  /** LTC: has an MWEB part, which these bytes do not show; a node may even hide that there is one (`rpcserialversion=1`). */
  mweb: boolean;
};
/** `hash` is that of the header by SHA-256 twice: the block's id on BTC, LTC and DOGE, but not on DASH, whose ids are X11 hashes. */
export type RawBlock = { hash: string; parent: string; merkleRoot: string; time: Date; transactions: RawTransaction[] };

/** Displayed hashes have their bytes reversed. */
const shown = (hash: Uint8Array): string => Buffer.from(hash).reverse().toString('hex');
/** The most work between two turns of the event loop. */
const TURN_MS = 8;
/** Transactions or hashes between two checks of the time. */
const STEP = 128;

/** Version bit of a merge-mined block, and the rules for the coinbase of its parent. */
const AUXPOW = 0x100;
const PARENT: Params = { ...PARAMS.BTC };
const SEGWIT_FLAG = 1;
const MWEB_FLAG = 8;
/** LTC: first bytes of the 34-byte scripts of a peg-in (witness version 9) and of a HogEx's first output (version 8). */
const PEGIN = 0x59;
const HOGADDR = 0x58;
const isMwebScript = (bytes: Buffer, at: number, length: number, version: number): boolean =>
  length === 34 && bytes[at] === version && bytes[at + 1] === 32;

type Cursor = { bytes: Buffer; at: number };

function readVarInt(cursor: Cursor): number {
  const first = cursor.bytes[cursor.at++];
  if (first === undefined) throw new RangeError('the bytes end too early');
  if (first < 0xfd) return first;
  const size = first === 0xfd ? 2 : first === 0xfe ? 4 : 8;
  const value = size === 8 ? Number(cursor.bytes.readBigUInt64LE(cursor.at)) : cursor.bytes.readUIntLE(cursor.at, size);
  cursor.at += size;
  if (value > cursor.bytes.length) throw new RangeError('a count in the block is larger than the block');
  return value;
}
const skipBytes = (cursor: Cursor): void => {
  const length = readVarInt(cursor);
  cursor.at += length;
};

/** Reads one transaction. Its ID is written to `ids` at `idAt`. */
function readTransaction(cursor: Cursor, params: Params, index: number, ids: Buffer, idAt: number): RawTransaction {
  const { bytes } = cursor;
  const start = cursor.at;
  const version = bytes.readUInt32LE(cursor.at);
  cursor.at += 4;
  let flags = 0;
  // BIP-144: a zero in place of the input count is a marker, followed by the flags.
  if (params.segwit && bytes[cursor.at] === 0 && bytes[cursor.at + 1] !== 0) {
    flags = bytes[cursor.at + 1]!;
    cursor.at += 2;
  }
  const bodyStart = cursor.at;
  const inputCount = readVarInt(cursor);
  const inputsAt = cursor.at;
  for (let i = 0; i < inputCount; i++) {
    cursor.at += 36;
    skipBytes(cursor);
    cursor.at += 4;
  }
  const outputCount = readVarInt(cursor);
  const outputsAt = cursor.at;
  let peggedIn = false;
  for (let n = 0; n < outputCount; n++) {
    cursor.at += 8;
    const length = readVarInt(cursor);
    peggedIn ||= isMwebScript(bytes, cursor.at, length, PEGIN);
    cursor.at += length;
  }
  const bodyEnd = cursor.at;
  if (flags & SEGWIT_FLAG) {
    for (let i = 0; i < inputCount; i++) for (let items = readVarInt(cursor); items > 0; items--) skipBytes(cursor);
  }
  // LTC: the MWEB part of a HogEx in a block is one zero byte; of any other transaction these are its own bytes to the end.
  const flagged = (flags & MWEB_FLAG) !== 0;
  const hogEx = flagged && bytes[cursor.at] === 0;
  if (flagged) cursor.at = hogEx ? cursor.at + 1 : bytes.length - 4;
  const lockAt = cursor.at;
  cursor.at += 4;
  if (params.extraPayload && (version & 0xffff) >= 3 && version >>> 16 !== 0) skipBytes(cursor);
  if (cursor.at > bytes.length) throw new RangeError('the transaction ends too early');
  // BIP-141: an id is the hash of version, inputs, outputs and lock time.
  hashTwice(bytes, start, bodyStart, bodyEnd, lockAt, cursor.at, ids, idAt);
  return {
    bytes,
    extent: [start, cursor.at],
    ids,
    idAt,
    inputsAt,
    inputCount,
    outputsAt,
    outputCount,
    lockAt,
    coinbase: index === 0 && inputCount === 1 && isZero(bytes, inputsAt, inputsAt + 32),
    hogEx,
    mweb: flagged || (params.mweb && (outputCount === 0 || peggedIn)),
  };
}

const isZero = (bytes: Buffer, from: number, to: number): boolean => {
  for (let at = from; at < to; at++) if (bytes[at] !== 0) return false;
  return true;
};

export const txidOf = ({ ids, idAt }: RawTransaction): string => shown(ids.subarray(idAt, idAt + 32));

/** The bytes that its ID covers: without witnesses and, on LTC, without its MWEB part. */
export function strippedOf(tx: RawTransaction): Buffer {
  const { bytes, extent, inputsAt, outputsAt, outputCount } = tx;
  // The count of inputs, in its shortest form, is before the first input.
  const countBytes = tx.inputCount < 0xfd ? 1 : tx.inputCount <= 0xffff ? 3 : 5;
  const cursor: Cursor = { bytes, at: outputsAt };
  for (let n = 0; n < outputCount; n++) {
    cursor.at += 8;
    skipBytes(cursor);
  }
  return Buffer.concat([
    bytes.subarray(extent[0], extent[0] + 4),
    bytes.subarray(inputsAt - countBytes, cursor.at),
    bytes.subarray(tx.lockAt, extent[1]),
  ]);
}

/** Outpoints as `txid:n`, only those that `isWanted` accepts by their 36 bytes. */
export function inputsOf(tx: RawTransaction, isWanted = (_bytes: Buffer, _from: number, _to: number): boolean => true): string[] {
  const { bytes } = tx;
  const cursor: Cursor = { bytes, at: tx.inputsAt };
  const found: string[] = [];
  for (let i = 0; i < tx.inputCount; i++) {
    const { at } = cursor;
    if (isWanted(bytes, at, at + 36)) found.push(`${shown(bytes.subarray(at, at + 32))}:${bytes.readUInt32LE(at + 32)}`);
    cursor.at += 36;
    skipBytes(cursor);
    cursor.at += 4;
  }
  return found;
}

/** Calls back for each output with the offsets of its amount and script, without creating objects. */
function forEachOutput(tx: RawTransaction, take: (n: number, unitsAt: number, from: number, to: number) => void): void {
  const cursor: Cursor = { bytes: tx.bytes, at: tx.outputsAt };
  for (let n = 0; n < tx.outputCount; n++) {
    const unitsAt = cursor.at;
    cursor.at += 8;
    const length = readVarInt(cursor);
    const from = cursor.at;
    cursor.at += length;
    take(n, unitsAt, from, cursor.at);
  }
}

export function outputsOf(tx: RawTransaction): RawOutput[] {
  const { bytes } = tx;
  const found: RawOutput[] = [];
  forEachOutput(tx, (n, unitsAt, from, to) => {
    found.push({ n, units: bytes.readBigInt64LE(unitsAt), script: bytes.subarray(from, to) });
  });
  return found;
}

const isSame = (bytes: Buffer, one: { from: number; to: number }, from: number, to: number): boolean => {
  if (one.to - one.from !== to - from) return false;
  for (let i = to - from - 1; i >= 0; i--) if (bytes[one.from + i] !== bytes[from + i]) return false;
  return true;
};

/** Outputs of a transaction to each watched key, by key. */
function outputsByKey(tx: RawTransaction, matcher: Matcher): Map<string, Output[]> {
  const { bytes } = tx;
  const found = new Map<string, Output[]>();
  // A script that is paid a thousand times is looked up once.
  let last: { from: number; to: number; outputs: Output[] | null } | null = null;
  const outputsTo = (from: number, to: number): Output[] | null => {
    if (matcher.quick?.pays(bytes, from, to) === false) return null;
    const key = bytes.toString('hex', from, to);
    const known = found.get(key);
    if (known || !matcher.has(key)) return known ?? null;
    const outputs: Output[] = [];
    found.set(key, outputs);
    return outputs;
  };
  forEachOutput(tx, (n, unitsAt, from, to) => {
    if (!last || !isSame(bytes, last, from, to)) last = { from, to, outputs: outputsTo(from, to) };
    if (!last.outputs) return;
    const units = bytes.readBigInt64LE(unitsAt);
    if (units > 0n) last.outputs.push([n, units]);
  });
  return found;
}

/** What a transaction pays to watched keys, and which watched outpoints it spends. */
function matchTransaction(tx: RawTransaction, matcher: Matcher, kind: TransferKind, sightings: Sighting[], conflicts: Conflict[]): void {
  const found = outputsByKey(tx, matcher);
  const txid = found.size > 0 ? txidOf(tx) : '';
  // All of them spend the same outpoints, so these are added once.
  const spends = found.size > 0 && kind === 'output' ? inputsOf(tx) : [];
  for (const [key, outputs] of found) {
    if (outputs.length === 0) continue;
    const sighting = { key, txid, kind, spends, lock: null };
    // Peg-outs of one transaction come from many payers, so each is separate.
    if (kind === 'pegout') for (const [n, units] of outputs) sightings.push({ ...sighting, ref: `${txid}:${n}`, units });
    else {
      const units = outputs.reduce((sum, output) => sum + output[1], 0n);
      sightings.push({ ...sighting, ref: `${txid}:${outputs[0]![0]}`, units, ...(outputs.length > 1 && { outputs }) });
    }
  }
  // A HogEx spends the previous HogEx and not the payer's coins, so its inputs are not double-spend keys.
  if (!matcher.watchesSpends || kind !== 'output') return;
  for (const outpoint of inputsOf(tx, matcher.quick?.spends)) if (matcher.spends(outpoint)) conflicts.push({ outpoint, txid: txidOf(tx) });
}

const kindOf = (tx: RawTransaction): TransferKind => (tx.coinbase ? 'coinbase' : tx.hogEx ? 'pegout' : 'output');

/** The same for all transactions of a block, yielding to the event loop in between. */
export const matchBlock = (block: RawBlock, matcher: Matcher): Promise<{ sightings: Sighting[]; conflicts: Conflict[] }> =>
  matchInTurns(block.transactions, matcher, kindOf);

/** The same for any transactions. */
export async function matchInTurns(
  transactions: readonly RawTransaction[],
  matcher: Matcher,
  kindOf: (tx: RawTransaction) => TransferKind,
): Promise<{ sightings: Sighting[]; conflicts: Conflict[] }> {
  const sightings: Sighting[] = [];
  const conflicts: Conflict[] = [];
  let since = performance.now();
  for (const tx of transactions) {
    matchTransaction(tx, matcher, kindOf(tx), sightings, conflicts);
    if (performance.now() - since < TURN_MS) continue;
    await setImmediate();
    since = performance.now();
  }
  return { sightings, conflicts };
}

/** Parses one transaction. Errors: RangeError when the bytes are not a transaction. */
export function parseTransaction(bytes: Buffer, family: BitcoinFamily): RawTransaction {
  return readTransaction({ bytes, at: 0 }, PARAMS[family], 1, Buffer.alloc(32), 0);
}

/** Parses a block and checks the merkle root of its header. Errors: RangeError when it is not a block or the root differs. */
export function parseBlock(bytes: Buffer, family: BitcoinFamily): RawBlock {
  const steps = blockSteps(bytes, PARAMS[family]);
  for (;;) {
    const step = steps.next();
    if (step.done) return step.value;
  }
}

/** The same, yielding to the event loop in between, because a full block takes too long in one piece. */
export async function parseBlockInTurns(bytes: Buffer, family: BitcoinFamily): Promise<RawBlock> {
  const steps = blockSteps(bytes, PARAMS[family]);
  for (let since = performance.now(); ; ) {
    const step = steps.next();
    if (step.done) return step.value;
    if (performance.now() - since < TURN_MS) continue;
    await setImmediate();
    since = performance.now();
  }
}

function* blockSteps(bytes: Buffer, params: Params): Generator<void, RawBlock> {
  const cursor: Cursor = { bytes, at: 80 };
  const version = bytes.readUInt32LE(0);
  if (params.mergeMined && version & AUXPOW) {
    // Coinbase of a Bitcoin-like parent, block hash, two branches of hashes with an index each, parent header.
    readTransaction(cursor, PARENT, 1, Buffer.alloc(32), 0);
    cursor.at += 32;
    for (let branch = 0; branch < 2; branch++) {
      const hashes = readVarInt(cursor);
      cursor.at += hashes * 32 + 4;
    }
    cursor.at += 80;
  }
  const count = readVarInt(cursor);
  // The shortest transaction has 10 bytes, so a false count cannot allocate more memory than the block has bytes.
  if (count * 10 > bytes.length) throw new RangeError('the block has fewer transactions than it says');
  const ids = Buffer.allocUnsafeSlow(count * 32);
  const transactions: RawTransaction[] = [];
  for (let i = 0; i < count; i++) {
    transactions.push(readTransaction(cursor, params, i, ids, i * 32));
    if (i % STEP === STEP - 1) yield;
  }
  const last = transactions.at(-1);
  const [first] = last ? outputsOf(last) : [];
  if (params.mweb && last && first && isMwebScript(bytes, first.script.byteOffset - bytes.byteOffset, first.script.length, HOGADDR))
    last.hogEx = true;
  const merkleRoot = shown(bytes.subarray(36, 68));
  if ((yield* merkleSteps(ids)) !== merkleRoot) throw new RangeError('the transactions do not have the merkle root of the header');
  const hash = Buffer.alloc(32);
  hashTwice(bytes, 0, 4, 80, 80, 80, hash, 0);
  return {
    hash: shown(hash),
    parent: shown(bytes.subarray(4, 36)),
    merkleRoot,
    time: new Date(bytes.readUInt32LE(68) * 1000),
    transactions,
  };
}

/** The root over ids of 32 bytes each, one after the other. */
function* merkleSteps(ids: Buffer): Generator<void, string> {
  let count = ids.length / 32;
  if (count === 0) return '';
  const level = Buffer.alloc(ids.length + 32);
  ids.copy(level);
  while (count > 1) {
    // The last hash of an odd level counts twice.
    if (count % 2 === 1) level.copyWithin(count * 32, (count - 1) * 32, count * 32);
    count = Math.ceil(count / 2);
    for (let i = 0; i < count; i++) {
      const at = i * 64;
      hashTwice(level, at, at + 4, at + 64, at + 64, at + 64, level, i * 32);
      if (i % STEP === STEP - 1) yield;
    }
  }
  return shown(level.subarray(0, 32));
}

/** The root over transaction ids in the order of their block. */
export function merkleRootOf(txids: readonly string[]): string {
  const steps = merkleSteps(Buffer.concat(txids.map((txid) => Buffer.from(txid, 'hex').reverse())));
  for (;;) {
    const step = steps.next();
    if (step.done) return step.value;
  }
}
