/** Whether a node is believed: one that showed a block that does not fit its hash is left out for a while, with the reason. */
import { ChainError } from '../chain.ts';
import { ProofError } from './proof-values.ts';

/** How long such a node has no vote. Then it is asked again, because it may have been one machine of several. */
const DOUBT_MS = 60_000;

export type EthDoubt = {
  /** What was read; a ProofError becomes a ChainError `unproven`. */
  prove<T>(read: () => T | Promise<T>): Promise<T>;
  /** The same for the contents of a block, and the node is left out from then on. */
  proveBlock<T>(read: () => T | Promise<T>): Promise<T>;
  /** Errors: ChainError `unproven` while the node is left out. */
  check(): void;
};

export function createEthDoubt(doubtMs: number = DOUBT_MS): EthDoubt {
  let doubted: { reason: string; untilMs: number } | null = null;
  const prove: EthDoubt['prove'] = async (read) => {
    try {
      return await read();
    } catch (error) {
      if (!(error instanceof ProofError)) throw error;
      throw new ChainError('unproven', error.message, { cause: error });
    }
  };
  return {
    prove,
    proveBlock: async (read) => {
      try {
        return await prove(read);
      } catch (error) {
        if (error instanceof ChainError && error.kind === 'unproven')
          doubted = { reason: error.message, untilMs: performance.now() + doubtMs };
        throw error;
      }
    },
    check: () => {
      if (doubted && performance.now() < doubted.untilMs) throw new ChainError('unproven', doubted.reason);
      doubted = null;
    },
  };
}
