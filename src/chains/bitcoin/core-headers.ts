/** Block headers of a node of the Bitcoin Core family. A header never changes except for its depth, so the latest are kept. */
import type { BlockRef } from '../chain.ts';
import { type Fields, fields } from '../reply.ts';
import { type CoreCalls, integer, text } from './core-calls.ts';

/** Cached headers: those of the tip and of the current block are requested repeatedly. */
const HEADERS = 4;

export type CoreHeaders = {
  /** The header as the node shows it. Errors: ChainError not_found. */
  read(hash: string): Promise<Fields>;
  /** Reads it again the next time. */
  forget(hash: string): void;
};

export function createCoreHeaders({ call }: Pick<CoreCalls, 'call'>): CoreHeaders {
  const known = new Map<string, Fields>();
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

export function headerOf(value: unknown): BlockRef {
  const header = fields(value);
  return {
    height: integer(header.height),
    hash: text(header.hash),
    parent: text(header.previousblockhash),
    time: new Date(integer(header.time) * 1000),
  };
}
