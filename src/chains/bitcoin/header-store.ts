/** The best chain of headers in the store, so that a restart downloads nothing twice. Only headers that were checked are stored. */

import type { HeaderPages } from '../store.ts';
import { createHeaderChain, type HeaderChain } from './header-chain.ts';

export type StoredChain = {
  chain: HeaderChain;
  /** Writes what changed since the last time. Errors: those of the database; what was not written is written the next time. */
  save(): Promise<void>;
  /** Reads what another process wrote above our tip. False: it is on another branch, so the chain must be opened again. */
  catchUp(): Promise<boolean>;
};

/** The chain that begins at this release's checkpoint, with the headers that are stored above it. */
export async function openHeaderChain({
  pages,
  ...options
}: { pages: HeaderPages } & Parameters<typeof createHeaderChain>[0]): Promise<StoredChain> {
  const chain = createHeaderChain(options);
  const base = chain.checkpointHeight + 1;
  try {
    await chain.restore((take) => pages.read(base, take));
  } catch (error) {
    // Another chain than the checkpoint's, or a damaged row: what follows is downloaded again.
    if (!(error instanceof RangeError)) throw error;
  }
  let unsaved: number | null = chain.tip().height === chain.checkpointHeight ? base : null;
  const saveNow = async (): Promise<void> => {
    // A chain that became shorter changed at its tip, which may be the checkpoint.
    let from = Math.max(base, Math.min(chain.takeChangedFrom() ?? Number.POSITIVE_INFINITY, unsaved ?? Number.POSITIVE_INFINITY));
    while (from <= chain.tip().height) {
      unsaved = from;
      const upTo = Math.min(chain.tip().height, pages.lastOfSave(from));
      const headers = Buffer.concat(Array.from({ length: upTo - from + 1 }, (_, i) => chain.at(from + i)!.bytes));
      try {
        await pages.save({ base, from, headers });
      } catch (error) {
        // Somebody removed rows: all of it is written the next time.
        if (error instanceof RangeError) unsaved = base;
        throw error;
      }
      // The best chain may have changed meanwhile.
      from = Math.min(chain.takeChangedFrom() ?? Number.POSITIVE_INFINITY, upTo + 1);
    }
    unsaved = null;
  };
  let queue: Promise<unknown> = Promise.resolve();
  return {
    chain,
    save: () => {
      const result = queue.then(saveNow);
      queue = result.catch(() => {});
      return result;
    },
    catchUp: async () => {
      try {
        await chain.restore((take) => pages.read(chain.tip().height + 1, take));
        return true;
      } catch (error) {
        if (error instanceof RangeError) return false;
        throw error;
      }
    },
  };
}
