/** Writes what a chain shows in one step, or in small parts if the database cannot take that: a follower always makes progress. */
import type { Context } from '../context.ts';
import { InvariantError } from '../core/invariant.ts';
import type { Tx } from '../db/db.ts';
import { lockAndSettleLater, lockAndSettleMany } from '../payments/settle-payments.ts';
import { ROWS_AT_ONCE } from './sightings.ts';

/** `atOnce`: rows in one statement. `lockAndSettle`: the entry point for changing payments. */
export type PartsWay = {
  atOnce: number;
  lockAndSettle(tx: Tx, paymentIds: readonly string[], write: (tx: Tx) => Promise<void>): Promise<void>;
};
/** Few enough for any server, with nothing else in the same transaction. */
const ROWS_IN_A_SMALL_PART = 50;

/** Whether a statement asked for more than the server or this process can provide: memory, size or time. */
export function isTooMuch(error: unknown): boolean {
  if (error instanceof RangeError) return true;
  const code = (error as { code?: unknown } | null)?.code;
  // Insufficient resources, program limits, statement timeout, memory requests above the server's maximum.
  return typeof code === 'string' && (/^5[34]/.test(code) || ['57014', 'XX000', 'MAX_PARAMETERS_EXCEEDED'].includes(code));
}

/**
 * Runs `write` in a transaction, then in small parts if it was too large, or if a payment in it cannot be settled: the worker then
 * settles each payment alone, and one that fails stops neither the chain nor the others. `about`: for the log.
 */
export async function writeBounded<T>(ctx: Context, about: object, write: (tx: Tx, way: PartsWay) => Promise<T>): Promise<T> {
  try {
    return await ctx.db.begin((tx) =>
      write(tx, { atOnce: ROWS_AT_ONCE, lockAndSettle: (_, ids, facts) => lockAndSettleMany(ctx, tx, ids, facts) }),
    );
  } catch (error) {
    if (!isTooMuch(error) && !(error instanceof InvariantError)) throw error;
    ctx.log.error({ err: error, ...about }, 'Could not write chain data in one step; writing it in small parts');
  }
  return ctx.db.begin((tx) => write(tx, { atOnce: ROWS_IN_A_SMALL_PART, lockAndSettle: lockAndSettleLater }));
}
