/** Block headers of a node of the Bitcoin Core family. A header never changes except for its depth, so the latest are kept. */
import { type BlockRef, ChainError } from '../chain.ts';
import { fields, type ReplyFields } from '../reply.ts';
import { type CoreCall, type CoreCalls, integer, text } from './core-calls.ts';
import { HEADER_BYTES } from './header.ts';

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
