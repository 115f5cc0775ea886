/**
 * Whether the bytes of a block are the block of a header: the transactions give its merkle root, in one way only. Nodes of the merkle tree
 * cannot pose as transactions (CVE-2017-12842), because the first transaction must be a coinbase; a transaction of their size, 64 bytes, is
 * valid beside one and cannot pay an address. The header itself is proven by the header chain.
 */
import { setImmediate } from 'node:timers/promises';
import { AUXPOW_BIT, takeAuxpow } from './auxpow.ts';
import { HEADER_BYTES, sha256d } from './header.ts';
import { PARAMS } from './params.ts';
import type { ProofParams } from './proof-params.ts';
import { type StrictReader, strippedSize, type TransactionExtent, takeCount, takeTransaction } from './strict-reader.ts';

/**
 * The bytes are not that block; another peer may have it. The header is not to blame. `fault`: `sender` when these bytes cannot be the
 * block; `unknown` when they cannot be read, which may be a fault of this reader.
 */
export class BlockError extends Error {
  readonly fault: 'sender' | 'unknown';
  constructor(fault: BlockError['fault'], message: string) {
    super(message);
    this.name = 'BlockError';
    this.fault = fault;
  }
}

/** The shortest transaction that a block can have. */
const LEAST_TRANSACTION = 10;
const NO_OUTPOINT = Buffer.concat([Buffer.alloc(32), Buffer.alloc(4, 0xff)]);
/** The most work between two turns of the event loop. */
const TURN_MS = 8;
/** Transactions or hashes between two checks of the time. */
const STEP = 64;

const isCoinbase = (bytes: Buffer, { inputs, outpointAt }: TransactionExtent): boolean =>
  inputs === 1 && bytes.compare(NO_OUTPOINT, 0, 36, outpointAt, outpointAt + 36) === 0;

/** Reads all transactions; writes their ids to one buffer. Returns it. */
function* readIds(params: ProofParams, reader: StrictReader): Generator<void, Buffer> {
  const { segwit, mweb, extraPayload } = PARAMS[params.coin];
  const { bytes } = reader;
  const count = takeCount(reader, LEAST_TRANSACTION);
  if (count === 0) throw new BlockError('unknown', 'a block has no transaction');
  const ids = Buffer.allocUnsafe(count * 32);
  let total = HEADER_BYTES;
  let hasMweb = false;
  for (let i = 0; i < count; i++) {
    const extent = takeTransaction(reader, { witness: segwit, mweb: mweb && i === count - 1, extra: extraPayload });
    hasMweb = extent.hasMweb;
    if (isCoinbase(bytes, extent) !== (i === 0))
      throw new BlockError('unknown', i === 0 ? 'the first transaction of a block is not its coinbase' : 'a block has a second coinbase');
    total += strippedSize(extent);
    if (total > params.maxBlockBytes) throw new BlockError('sender', `a block has more than ${params.maxBlockBytes} bytes`);
    const { from, body, tail } = extent;
    sha256d(Buffer.concat([bytes.subarray(from, from + 4), bytes.subarray(...body), bytes.subarray(...tail)])).copy(ids, 32 * i);
    if (i % STEP === STEP - 1) yield;
  }
  // LTC: an extension block may follow, which the merkle root does not cover and which nothing here reads.
  if (reader.at < bytes.length && !hasMweb) throw new BlockError('unknown', 'bytes follow the transactions of a block');
  return ids;
}

/**
 * The merkle root. CVE-2012-2459: a list whose tail repeats has the same root as the list without it, so equal neighbors are refused on
 * every level, except for the hash that an odd level adds.
 */
function* rootOf(ids: Buffer): Generator<void, Buffer> {
  const level = Buffer.concat([ids, Buffer.alloc(32)]);
  for (let count = ids.length / 32; count > 1; count = Math.ceil(count / 2)) {
    for (let at = 0; at + 1 < count; at += 2)
      if (level.compare(level, 32 * at, 32 * at + 32, 32 * at + 32, 32 * at + 64) === 0)
        throw new BlockError('sender', 'a block lists transactions twice (CVE-2012-2459)');
    if (count % 2 === 1) level.copyWithin(32 * count, 32 * count - 32, 32 * count);
    for (let i = 0; 2 * i < count; i++) {
      sha256d(level.subarray(64 * i, 64 * i + 64)).copy(level, 32 * i);
      if (i % STEP === STEP - 1) yield;
    }
  }
  return level.subarray(0, 32);
}

function* steps(params: ProofParams, header: Buffer, block: Buffer): Generator<void, void> {
  if (block.length < HEADER_BYTES || block.compare(header, 0, HEADER_BYTES, 0, HEADER_BYTES) !== 0)
    throw new BlockError('sender', 'a block has another header than was asked for');
  const reader = { bytes: block, at: HEADER_BYTES };
  // The proof of a merge-mined header was checked with the header.
  if (params.auxpow && header.readUInt32LE(0) & AUXPOW_BIT) takeAuxpow(reader);
  const ids = yield* readIds(params, reader);
  const root = yield* rootOf(ids);
  if (!root.equals(header.subarray(36, 68))) throw new BlockError('sender', 'the transactions do not have the merkle root of the header');
}

/** Checks that these bytes are the block of a proven header of 80 bytes. Yields to the event loop. Errors: BlockError. */
export async function checkBlock(params: ProofParams, header: Buffer, block: Buffer): Promise<void> {
  const work = steps(params, header, block);
  try {
    for (let since = performance.now(); !work.next().done; ) {
      if (performance.now() - since < TURN_MS) continue;
      await setImmediate();
      since = performance.now();
    }
  } catch (error) {
    throw error instanceof RangeError ? new BlockError('unknown', error.message) : error;
  }
}
