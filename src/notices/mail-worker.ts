/** The worker that sends emails and digests. */
import type { Context } from '../context.ts';
import { startLoop } from '../db/loop.ts';
import { startQueue } from '../db/work.ts';
import { sendHeldMails } from './digests.ts';
import { createOutbox } from './mails.ts';

/** How often due emails are tried again while there is no room for them. */
const AGAIN_MS = 1_000;
const HOUSEKEEPING_MS = 60_000;
const KEPT_DAYS = 90;

async function forgetOld(ctx: Context): Promise<void> {
  await ctx.db.sql`delete from mails where created_at < clock_timestamp() - make_interval(days => ${KEPT_DAYS})`;
  // Left over when the mail server is no longer configured.
  await ctx.db.sql`delete from held_mails where due_at < clock_timestamp() - make_interval(days => ${KEPT_DAYS})`;
  await ctx.db.sql`delete from notices where at < clock_timestamp() - make_interval(days => ${KEPT_DAYS})`;
}

/** Starts the loops. Once a minute it also runs `chores`, the regular work of other folders. `stop` waits for what is being sent. */
export function startMails(
  ctx: Context,
  { chores = [] }: { chores?: readonly ((ctx: Context) => Promise<void>)[] } = {},
): { stop(): Promise<void> } {
  const failed = (error: unknown, failures: number) =>
    ctx.log.error({ err: error, failures }, 'Could not send emails and alerts; retrying');
  const outbox = createOutbox(ctx, { ended: () => sending.nudge() });
  const sending = startQueue(ctx, {
    name: 'mails',
    due: (sql) => (ctx.mail ? sql`least((select min(due_at) from mails), (select min(due_at) from held_mails))` : sql`null::timestamptz`),
    againMs: AGAIN_MS,
    failed,
    round: async () => {
      const held = await sendHeldMails(ctx);
      await outbox.send();
      return held > 0;
    },
  });
  const keeping = startLoop({
    pollMs: HOUSEKEEPING_MS,
    failed,
    round: async () => {
      for (const chore of [...chores, forgetOld]) await chore(ctx);
      return false;
    },
  });
  return {
    stop: async () => {
      await Promise.all([sending.stop(), keeping.stop()]);
      await outbox.settle();
    },
  };
}
