/** Blocks of a node of the Bitcoin Core family as bytes, decoded from hex as they arrive. Their own hashes prove the content. */
import type { BitcoinFamily } from '#core/coin';
import { type BlockRef, ChainError, type ChainSource } from '../chain-source.ts';
import { createHexReader, fields, type ReplyFields } from '../reply.ts';
import { feeOfBlock } from './block-fees.ts';
import { BlockError, parseBlockOf } from './block-proof.ts';
import { type CoreCall, type CoreCalls, integer, text } from './core-calls.ts';
import { HEADER_BYTES } from './header.ts';
import { matchBlock, parseTransaction, type RawBlock, type RawTransaction, txidOf } from './raw-block.ts';

/** Buffers kept for the next blocks: one is written while others are read. */
const MAX_ROOMS = 3;
const MAX_ROOM_BYTES = 8 << 20;

type Room = Buffer<ArrayBuffer>;

/** Buffers of finished blocks, reused for the next ones, because allocating megabytes for each block costs more than reading it. */
export function createRooms(): { take(): Room | undefined; free(room: Room | null): void } {
  const rooms: Room[] = [];
  return {
    take: () => rooms.pop(),
    free: (room) => {
      if (room && room.length <= MAX_ROOM_BYTES && rooms.length < MAX_ROOMS) rooms.push(room);
    },
  };
}

type CoreBlocks = {
  bytesOf(hash: string): Promise<Buffer>;
  fetch: ChainSource['fetchBlock'];
};

export function createCoreBlocks({
  coin,
  calls: { read, failure },
  headers,
}: {
  coin: BitcoinFamily;
  calls: CoreCalls;
  headers: CoreHeaders;
}): CoreBlocks {
  const rooms = createRooms();
  const download = async (hash: string): Promise<{ bytes: Buffer; room: Room | null }> => {
    const { replies, reader } = await read([['getblock', hash, 0]], 0, () => {
      const hex = createHexReader(rooms.take());
      return { ...hex, taken: () => hex.bytes() !== null };
    });
    const bytes = reader.bytes();
    if (!replies && bytes) return { bytes, room: Buffer.from(bytes.buffer) };
    const [reply] = replies ?? [];
    if (!reply) throw new ChainError('outage', `the ${coin} node did not answer with block ${hash}`);
    if (reply.error) throw failure(reply.error, 'getblock');
    return { bytes: Buffer.from(text(reply.result), 'hex'), room: null };
  };
  return {
    bytesOf: async (hash) => (await download(hash)).bytes,
    fetch: async (hash) => {
      const [head, { bytes, room }] = await Promise.all([headers.read(hash), download(hash)]);
      const ref = coreHeader(head);
      const block = await readCoreBlock(bytes, { hash, coin, server: 'the node' });
      if (ref.hash !== hash || ref.parent !== block.parent || text(fields(head).merkleroot) !== block.merkleRoot) {
        headers.forget(hash);
        throw new ChainError('outage', `the header of ${hash} does not fit the block`);
      }
      return {
        ref,
        paid: feeOfBlock(block, { family: coin, height: ref.height }),
        scan: async (matcher) => ({ block: ref, ...(await matchBlock(block, matcher)) }),
        done: () => rooms.free(room),
      };
    },
  };
}

/**
 * Reads the bytes of the block with this hash and proves that nothing in them can be taken for something else. Errors: ChainError outage,
 * when they are not a block, or those of another one.
 */
export async function readCoreBlock(
  bytes: Buffer,
  { hash, coin, server }: { hash: string; coin: BitcoinFamily; server: string },
): Promise<RawBlock> {
  try {
    return await parseBlockOf(hash, bytes, coin);
  } catch (cause) {
    if (!(cause instanceof BlockError)) throw cause;
    throw new ChainError('outage', `block ${hash} of ${server} cannot be read: ${cause.message}`, { cause });
  }
}

/** The same for the hex of the transaction with this ID. */
export function readTransactionOf(txid: string, hex: string, { coin, server }: { coin: BitcoinFamily; server: string }): RawTransaction {
  let found: RawTransaction | null = null;
  try {
    found = parseTransaction(Buffer.from(hex, 'hex'), coin);
  } catch (error) {
    if (!(error instanceof RangeError)) throw error;
  }
  if (!found || txidOf(found) !== txid) throw new ChainError('outage', `${server} did not return the bytes of ${txid}`);
  return found;
}

// Block headers of a node of the Bitcoin Core family. A header never changes except for its depth, so the latest are kept.

/** Cached headers: those of the tip and of the current block are requested repeatedly. */
const HEADERS = 4;

export type CoreHeaders = {
  /** The header as the node shows it. Errors: ChainError not_found. */
  read(hash: string): Promise<ReplyFields>;
  /** Reads it again the next time. */
  forget(hash: string): void;
};

export function createCoreHeaders({ call }: Pick<CoreCalls, 'call'>): CoreHeaders {
  const known = new Map<string, ReplyFields>();
  return {
    read: async (hash) => {
      const kept = known.get(hash);
      if (kept) return kept;
      const found = fields(await call('getblockheader', hash));
      // Any other answer is requested again.
      if (found.hash === hash) known.set(hash, found);
      for (const oldest of known.keys()) if (known.size > HEADERS) known.delete(oldest);
      return found;
    },
    forget: (hash) => void known.delete(hash),
  };
}

export function coreHeader(value: unknown): BlockRef {
  const header = fields(value);
  return {
    height: integer(header.height),
    hash: text(header.hash),
    parent: text(header.previousblockhash),
    time: new Date(integer(header.time) * 1000),
  };
}

/** The headers of consecutive blocks as bytes, as far as the node has them. */
export async function readRawHeaders(
  { post, failure }: Pick<CoreCalls, 'post' | 'failure'>,
  from: number,
  count: number,
): Promise<Buffer[]> {
  const ask = async (calls: readonly CoreCall[]): Promise<string[]> => {
    const found: string[] = [];
    for (const [i, { result, error }] of (await post(calls)).entries()) {
      if (!error) found.push(text(result));
      // Its chain ends here, or changed meanwhile.
      else if (failure(error, '').kind === 'not_found') break;
      else throw failure(error, String(calls[i]![0]));
    }
    return found;
  };
  const hashes = await ask(Array.from({ length: count }, (_, i) => ['getblockhash', from + i] as const));
  const headers = await ask(hashes.map((hash) => ['getblockheader', hash, false] as const));
  return headers.map((hex, i) => {
    const header = Buffer.from(hex, 'hex');
    // A pruned Dogecoin node no longer has the proofs of merged mining: it shows an empty header, and no block has the bits 0.
    if (header.length >= HEADER_BYTES && header.readUInt32LE(72) === 0)
      throw new ChainError('pruned', `the node no longer has the header of block ${from + i}; it deleted the block (pruned)`);
    return header;
  });
}
