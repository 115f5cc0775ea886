/**
 * Reads the bytes of a block in one pass and proves that they are the block of its header: the transactions give its merkle root, in one way
 * only. Nodes of the merkle tree cannot pose as transactions (CVE-2017-12842), because the first transaction must be a coinbase; a
 * transaction of their size, 64 bytes, is valid beside one and cannot pay an address. The header itself is proven by the header chain.
 */
import { setImmediate } from 'node:timers/promises';
import { PARAMS } from '#addresses';
import type { BitcoinFamily } from '#core/coin';
import { AUXPOW_BIT, takeAuxpow } from './auxpow.ts';
import { HEADER_BYTES, idOf, showHash } from './header.ts';
import { PROOF_PARAMS } from './proof-params.ts';
import { formsOf, paysHogAddress, type RawBlock, type RawTransaction, readRawTransaction } from './raw-block.ts';
import { hashRange, type StrictReader, sha256d, skip, strippedSize, takeCount } from './strict-reader.ts';

/**
 * The bytes are not that block; another source may have it. The header is not to blame. `fault`: `sender` when these bytes cannot be the
 * block; `unknown` when they cannot be read, which may be a fault of this reader.
 */
export class BlockError extends RangeError {
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

const spendsNothing = ({ bytes, extent: { inputs, inputsAt } }: RawTransaction): boolean =>
  inputs === 1 && bytes[inputsAt] === 0 && bytes.compare(NO_OUTPOINT, 0, 36, inputsAt, inputsAt + 36) === 0;

/** Reads all transactions of a block; their ids are in one buffer, one after the other. */
function* readTransactions(reader: StrictReader, family: BitcoinFamily): Generator<void, { transactions: RawTransaction[]; ids: Buffer }> {
  const params = PARAMS[family];
  const { inner, last } = formsOf(params);
  const { bytes } = reader;
  // The shortest transaction limits the count, so that a false one cannot allocate more memory than a few times the bytes.
  const count = takeCount(reader, LEAST_TRANSACTION);
  if (count === 0) throw new RangeError('a block has no transaction');
  const ids = Buffer.allocUnsafeSlow(count * 32);
  const transactions: RawTransaction[] = [];
  let total = HEADER_BYTES;
  for (let i = 0; i < count; i++) {
    const tx = readRawTransaction(reader, i === count - 1 ? last : inner, params, ids, i * 32);
    tx.coinbase = spendsNothing(tx);
    if (tx.coinbase !== (i === 0))
      throw new RangeError(i === 0 ? 'the first transaction of a block is not its coinbase' : 'a block has a second coinbase');
    total += strippedSize(tx.extent);
    if (total > params.maxBlockBytes) throw new BlockError('sender', `a block has more than ${params.maxBlockBytes} bytes`);
    transactions.push(tx);
    if (i % STEP === STEP - 1) yield;
  }
  const hogEx = transactions.at(-1)!;
  // LTC: an extension block may follow, which the merkle root does not cover and which nothing here reads.
  if (reader.at < bytes.length && !hogEx.hogEx) throw new RangeError('bytes follow the transactions of a block');
  if (params.mweb) hogEx.hogEx ||= paysHogAddress(hogEx);
  return { transactions, ids };
}

/**
 * The merkle root over ids of 32 bytes each. CVE-2012-2459: a list whose tail repeats has the same root as the list without it, so equal
 * neighbors are refused on every level, except for the hash that an odd level adds.
 */
function* merkleSteps(ids: Buffer): Generator<void, string> {
  const level = Buffer.allocUnsafeSlow(ids.length + 32);
  ids.copy(level);
  for (let count = ids.length / 32; count > 1; count = Math.ceil(count / 2)) {
    for (let at = 0; at + 1 < count; at += 2)
      if (level[32 * at] === level[32 * at + 32] && level.compare(level, 32 * at, 32 * at + 32, 32 * at + 32, 32 * at + 64) === 0)
        throw new BlockError('sender', 'a block lists transactions twice (CVE-2012-2459)');
    if (count % 2 === 1) level.copyWithin(32 * count, 32 * count - 32, 32 * count);
    for (let i = 0; 2 * i < count; i++) {
      hashRange(level, 64 * i, 64 * i + 64, level, 32 * i);
      if (i % STEP === STEP - 1) yield;
    }
  }
  return showHash(level.subarray(0, 32));
}

function* blockSteps(bytes: Buffer, family: BitcoinFamily): Generator<void, RawBlock> {
  const reader: StrictReader = { bytes, at: 0 };
  skip(reader, HEADER_BYTES);
  // The proof of a merge-mined header is checked with the header.
  if (PARAMS[family].mergeMined && bytes.readUInt32LE(0) & AUXPOW_BIT) takeAuxpow(reader);
  const { transactions, ids } = yield* readTransactions(reader, family);
  const merkleRoot = showHash(bytes.subarray(36, 68));
  if ((yield* merkleSteps(ids)) !== merkleRoot)
    throw new BlockError('sender', 'the transactions do not have the merkle root of the header');
  return {
    hash: showHash(sha256d(bytes.subarray(0, HEADER_BYTES))),
    parent: showHash(bytes.subarray(4, 36)),
    merkleRoot,
    time: new Date(bytes.readUInt32LE(68) * 1000),
    transactions,
  };
}

const asBlockError = (error: unknown): unknown =>
  error instanceof RangeError && !(error instanceof BlockError) ? new BlockError('unknown', error.message) : error;

function finish<T>(steps: Generator<void, T>): T {
  for (;;) {
    const step = steps.next();
    if (step.done) return step.value;
  }
}

/** Reads and proves a block. Errors: BlockError when the bytes are not the block of their header. */
export function parseBlock(bytes: Buffer, family: BitcoinFamily): RawBlock {
  try {
    return finish(blockSteps(bytes, family));
  } catch (error) {
    throw asBlockError(error);
  }
}

/** The same, yielding to the event loop in between, because a full block takes too long in one piece. */
export async function parseBlockInTurns(bytes: Buffer, family: BitcoinFamily): Promise<RawBlock> {
  const steps = blockSteps(bytes, family);
  try {
    for (let since = performance.now(); ; ) {
      const step = steps.next();
      if (step.done) return step.value;
      if (performance.now() - since < TURN_MS) continue;
      await setImmediate();
      since = performance.now();
    }
  } catch (error) {
    throw asBlockError(error);
  }
}

/** The same for the block with this hash. */
export async function parseBlockOf(hash: string, bytes: Buffer, family: BitcoinFamily): Promise<RawBlock> {
  const header = bytes.subarray(0, HEADER_BYTES);
  if (header.length === HEADER_BYTES && showHash(idOf(PROOF_PARAMS[family].main, header)) !== hash)
    throw new BlockError('sender', 'the bytes are another block than was asked for');
  return parseBlockInTurns(bytes, family);
}

/** The root over transaction ids in the order of their block. Errors: RangeError when some are listed twice. */
export const merkleRootOf = (txids: readonly string[]): string =>
  txids.length === 0 ? '' : finish(merkleSteps(Buffer.concat(txids.map((txid) => Buffer.from(txid, 'hex').reverse()))));
