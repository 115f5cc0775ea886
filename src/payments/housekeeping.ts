/** The worker's loops over what is due by time: settling, folding counts, waiting keys, deleting old replies, requests and payers' data. */
import type { Context } from '../context.ts';
import { forgetReplies } from '../db/batch.ts';
import type { Fragment, Sql } from '../db/db.ts';
import { startLoop } from '../db/loop.ts';
import { dueWork, startQueue } from '../db/work.ts';
import { forgetRequests } from '../keys/requests.ts';
import { applyDueChanges } from '../wallets/wallet-changes.ts';
import { foldDays } from './days.ts';
import { foldCounts } from './queries.ts';
import { endOutages } from './readiness.ts';
import { erasePayerData } from './retention.ts';
import { type SettleKind, settleDuePayments } from './settle-payments.ts';

const BATCH = 200;
const HOUSEKEEPING_MS = 10_000;

/** Starts the loops; `stop` waits for the current rounds. Several workers may run: rows are taken with SKIP LOCKED. */
export function startHousekeeping(ctx: Context): { stop(): Promise<void> } {
  const settling = (kind: SettleKind, due: (sql: Sql) => Fragment) =>
    startQueue(ctx, {
      name: kind,
      due,
      round: async () => (await settleDuePayments(ctx, { limit: BATCH, kinds: [kind] })) === BATCH,
      failed: (error, failures) => ctx.log.error({ err: error, failures }, 'Could not settle due payments; retrying'),
    });
  const loops = [
    settling('payments', (sql) => sql`(select min(due_at) from payments)`),
    settling('settle', dueWork('settle')),
    startLoop({
      pollMs: HOUSEKEEPING_MS,
      round: async (stopping) => {
        await keepHouse(ctx, stopping);
        return false;
      },
      failed: (error, failures) => ctx.log.error({ err: error, failures }, 'Could not fold counts and delete old rows; retrying'),
    }),
  ];
  return { stop: async () => void (await Promise.all(loops.map((loop) => loop.stop()))) };
}

async function keepHouse(ctx: Context, stopping: AbortSignal): Promise<void> {
  while (!stopping.aborted && (await foldCounts(ctx, { limit: 5_000 })) === 5_000);
  while (!stopping.aborted && (await foldDays(ctx, { limit: 5_000 })) === 5_000);
  await forgetReplies(ctx.db);
  await applyDueChanges(ctx);
  await endOutages(ctx);
  await erasePayerData(ctx);
  while (!stopping.aborted && (await forgetRequests(ctx)));
}
