/** Reads raw blocks and transactions of the Core family: BTC segwit, LTC MWEB, DOGE AuxPoW, DASH special transactions. */
import { hash } from 'node:crypto';

export type RawOutput = { n: number; units: bigint; script: Uint8Array };
export type RawTransaction = {
  txid: string;
  /** Outpoints as `txid:n`; computed when asked for. */
  inputs(): string[];
  outputs: readonly RawOutput[];
  coinbase: boolean;
  /** LTC: the block's last transaction, whose outputs are the peg-outs. */
  hogEx: boolean;
  /** LTC: has an MWEB part, which these bytes do not show; a node may even hide that there is one (`rpcserialversion=1`). */
  mweb: boolean;
};
/** `hash` is that of the header by SHA-256 twice: the block's id on BTC, LTC and DOGE, but not on DASH, whose ids are X11 hashes. */
export type RawBlock = { hash: string; parent: string; merkleRoot: string; time: Date; transactions: RawTransaction[] };
export type Family = 'BTC' | 'LTC' | 'DASH' | 'DOGE';

const sha256d = (bytes: Uint8Array): Buffer => hash('sha256', hash('sha256', bytes, 'buffer'), 'buffer');
/** Hashes are shown with their bytes reversed. */
const shown = (hash: Uint8Array): string => Buffer.from(hash).reverse().toString('hex');

/** DOGE: version bit of a merge-mined block. */
const AUXPOW = 0x100;
const SEGWIT_FLAG = 1;
const MWEB_FLAG = 8;
const NULL_OUTPOINT = '00'.repeat(32);
/** LTC: first bytes of the 34-byte scripts of a peg-in (witness version 9) and of a HogEx's first output (version 8). */
const PEGIN = 0x59;
const HOGADDR = 0x58;
const isMwebScript = (output: RawOutput | undefined, version: number): boolean =>
  output !== undefined && output.script.length === 34 && output.script[0] === version && output.script[1] === 32;

type Cursor = { bytes: Buffer; at: number };

function readVarInt(cursor: Cursor): number {
  const first = cursor.bytes.readUInt8(cursor.at++);
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

function readTransaction(cursor: Cursor, family: Family, index: number): RawTransaction {
  const { bytes } = cursor;
  const start = cursor.at;
  const version = bytes.readUInt32LE(cursor.at);
  cursor.at += 4;
  let flags = 0;
  // BIP-144: a zero where the input count stands is a marker, the flags follow.
  if ((family === 'BTC' || family === 'LTC') && bytes[cursor.at] === 0 && bytes[cursor.at + 1] !== 0) {
    flags = bytes[cursor.at + 1]!;
    cursor.at += 2;
  }
  const bodyStart = cursor.at;
  const inputCount = readVarInt(cursor);
  const inputsAt: number[] = [];
  for (let i = 0; i < inputCount; i++) {
    inputsAt.push(cursor.at);
    cursor.at += 36;
    skipBytes(cursor);
    cursor.at += 4;
  }
  const outputCount = readVarInt(cursor);
  const outputs: RawOutput[] = [];
  for (let n = 0; n < outputCount; n++) {
    const units = bytes.readBigInt64LE(cursor.at);
    cursor.at += 8;
    const length = readVarInt(cursor);
    outputs.push({ n, units, script: bytes.subarray(cursor.at, cursor.at + length) });
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
  if (family === 'DASH' && (version & 0xffff) >= 3 && version >>> 16 !== 0) skipBytes(cursor);
  if (cursor.at > bytes.length) throw new RangeError('the transaction ends too early');
  const id =
    flags === 0
      ? bytes.subarray(start, cursor.at)
      : Buffer.concat([bytes.subarray(start, start + 4), bytes.subarray(bodyStart, bodyEnd), bytes.subarray(lockAt, lockAt + 4)]);
  const first = inputsAt[0];
  return {
    txid: shown(sha256d(id)),
    inputs: () => inputsAt.map((at) => `${shown(bytes.subarray(at, at + 32))}:${bytes.readUInt32LE(at + 32)}`),
    outputs,
    coinbase: index === 0 && inputCount === 1 && first !== undefined && bytes.toString('hex', first, first + 32) === NULL_OUTPOINT,
    hogEx,
    mweb: flagged || (family === 'LTC' && (outputCount === 0 || outputs.some((output) => isMwebScript(output, PEGIN)))),
  };
}

/** Parses one transaction. Errors: RangeError when the bytes are not one. */
export function parseTransaction(bytes: Buffer, family: Family): RawTransaction {
  return readTransaction({ bytes, at: 0 }, family, 1);
}

/** Parses a block and proves it by the merkle root of its header. Errors: RangeError when it is not one or the root differs. */
export function parseBlock(bytes: Buffer, family: Family): RawBlock {
  const cursor: Cursor = { bytes, at: 80 };
  const version = bytes.readUInt32LE(0);
  if (family === 'DOGE' && version & AUXPOW) {
    // Parent coinbase, block hash, two branches of hashes with an index each, parent header.
    readTransaction(cursor, 'BTC', 1);
    cursor.at += 32;
    for (let branch = 0; branch < 2; branch++) {
      const hashes = readVarInt(cursor);
      cursor.at += hashes * 32 + 4;
    }
    cursor.at += 80;
  }
  const count = readVarInt(cursor);
  const transactions: RawTransaction[] = [];
  for (let i = 0; i < count; i++) transactions.push(readTransaction(cursor, family, i));
  const last = transactions.at(-1);
  if (family === 'LTC' && last && isMwebScript(last.outputs[0], HOGADDR)) last.hogEx = true;
  const merkleRoot = shown(bytes.subarray(36, 68));
  if (merkleRootOf(transactions.map((t) => t.txid)) !== merkleRoot)
    throw new RangeError('the transactions do not have the merkle root of the header');
  return {
    hash: shown(sha256d(bytes.subarray(0, 80))),
    parent: shown(bytes.subarray(4, 36)),
    merkleRoot,
    time: new Date(bytes.readUInt32LE(68) * 1000),
    transactions,
  };
}

/** The root over transaction ids in the order of their block. */
export function merkleRootOf(txids: readonly string[]): string {
  let level = txids.map((txid) => Buffer.from(txid, 'hex').reverse());
  while (level.length > 1) {
    const next: Buffer[] = [];
    for (let i = 0; i < level.length; i += 2)
      next.push(sha256d(Buffer.concat([level[i]!, level[i + 1] ?? level[i]!])) as Buffer<ArrayBuffer>);
    level = next as typeof level;
  }
  return level[0] ? shown(level[0]) : '';
}
