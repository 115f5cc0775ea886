/** The worker's loop over what is due by time: settling, folding counts, waiting keys, deleting old replies, requests and payers' data. */
import type { Context } from '../context.ts';
import { forgetReplies } from '../db/batch.ts';
import { startLoop } from '../db/loop.ts';
import { forgetRequests } from '../keys/requests.ts';
import { applyDueChanges } from '../wallets/wallet-changes.ts';
import { foldDays } from './days.ts';
import { foldCounts } from './queries.ts';
import { endOutages } from './readiness.ts';
import { erasePayerData } from './retention.ts';
import { settleDuePayments } from './settle-payments.ts';

const POLL_MS = 250;
const BATCH = 200;
const HOUSEKEEPING_MS = 10_000;

/** Starts the loop; `stop` waits for the current round. Several workers may run: rows are taken with SKIP LOCKED. */
export function startSweep(ctx: Context): { stop(): Promise<void> } {
  let housekeepingAt = 0;
  return startLoop({
    pollMs: POLL_MS,
    failed: (error, failures) => ctx.log.error({ err: error, failures }, 'Could not settle due payments; retrying'),
    round: async (stopping) => {
      const settled = await settleDuePayments(ctx, { limit: BATCH });
      if (ctx.clock.monotonicMs() >= housekeepingAt) {
        while (!stopping.aborted && (await foldCounts(ctx, { limit: 5_000 })) === 5_000);
        while (!stopping.aborted && (await foldDays(ctx, { limit: 5_000 })) === 5_000);
        await forgetReplies(ctx.db);
        await applyDueChanges(ctx);
        await endOutages(ctx);
        await erasePayerData(ctx);
        while (!stopping.aborted && (await forgetRequests(ctx)));
        housekeepingAt = ctx.clock.monotonicMs() + HOUSEKEEPING_MS;
      }
      return settled === BATCH;
    },
  });
}
