/** The worker that sends emails and digests. */
import type { Context } from '../context.ts';
import { startLoop } from '../db/loop.ts';
import { sendHeldMails } from './digests.ts';
import { createOutbox } from './mails.ts';

const POLL_MS = 1_000;
const HOUSEKEEPING_MS = 60_000;
const KEPT_DAYS = 90;

async function forgetOld(ctx: Context): Promise<void> {
  await ctx.db.sql`delete from mails where created_at < clock_timestamp() - make_interval(days => ${KEPT_DAYS})`;
  // Left over when the mail server is no longer configured.
  await ctx.db.sql`delete from held_mails where due_at < clock_timestamp() - make_interval(days => ${KEPT_DAYS})`;
  await ctx.db.sql`delete from notices where at < clock_timestamp() - make_interval(days => ${KEPT_DAYS})`;
}

/** Starts the loop. Once a minute it also runs `chores`, the regular work of other folders. `stop` waits for what is being sent. */
export function startMails(
  ctx: Context,
  { chores = [] }: { chores?: readonly ((ctx: Context) => Promise<void>)[] } = {},
): { stop(): Promise<void> } {
  let housekeepingAt = ctx.clock.monotonicMs();
  const outbox = createOutbox(ctx, { ended: () => loop.nudge() });
  const loop = startLoop({
    pollMs: POLL_MS,
    failed: (error, failures) => ctx.log.error({ err: error, failures }, 'Could not send emails and alerts; retrying'),
    round: async () => {
      const held = await sendHeldMails(ctx);
      await outbox.send();
      if (ctx.clock.monotonicMs() >= housekeepingAt) {
        housekeepingAt = ctx.clock.monotonicMs() + HOUSEKEEPING_MS;
        for (const chore of [...chores, forgetOld]) await chore(ctx);
      }
      return held > 0;
    },
  });
  return {
    stop: async () => {
      await loop.stop();
      await outbox.settle();
    },
  };
}
