/** Writes what a chain shows at once, and where the database cannot take that, in small parts: a follower always makes progress. */
import type { Context } from '../context.ts';
import type { Tx } from '../db/db.ts';
import { lockAndSettleLater, lockAndSettleMany } from './settle-payments.ts';
import { ROWS_AT_ONCE } from './sightings.ts';

/** `atOnce`: rows in one statement. `lockAndSettle`: the door through which payments change. */
export type Way = {
  atOnce: number;
  lockAndSettle(tx: Tx, paymentIds: readonly string[], write: (tx: Tx) => Promise<void>): Promise<void>;
};
/** Few enough for any server, with nothing else to do in the same transaction. */
const ROWS_IN_A_SMALL_PART = 50;

/** Whether a statement asked for more than the server or this process can give: memory, size or time. */
export function isTooMuch(error: unknown): boolean {
  if (error instanceof RangeError) return true;
  const code = (error as { code?: unknown } | null)?.code;
  // Insufficient resources, program limits, statement timeout, requests for memory that no server allows.
  return typeof code === 'string' && (/^5[34]/.test(code) || ['57014', 'XX000', 'MAX_PARAMETERS_EXCEEDED'].includes(code));
}

/** Runs `write` in a transaction, once more in small parts if it was too much; the settling is then left to the worker. `about`: for the log. */
export async function writeBounded<T>(ctx: Context, about: object, write: (tx: Tx, way: Way) => Promise<T>): Promise<T> {
  try {
    return await ctx.db.begin((tx) =>
      write(tx, { atOnce: ROWS_AT_ONCE, lockAndSettle: (_, ids, facts) => lockAndSettleMany(ctx, tx, ids, facts) }),
    );
  } catch (error) {
    if (!isTooMuch(error)) throw error;
    ctx.log.error({ err: error, ...about }, 'Could not write chain data in one step; writing it in small parts');
  }
  return ctx.db.begin((tx) => write(tx, { atOnce: ROWS_IN_A_SMALL_PART, lockAndSettle: lockAndSettleLater }));
}
