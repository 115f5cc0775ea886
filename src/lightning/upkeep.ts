/**
 * What is due for the back ends themselves: one whose wait is over is used, and each is checked every day. What a credential may do can be
 * widened later, so one that can spend by then is turned off.
 */
import type { Context } from '#context';
import { InvoiceError } from '#core/bolt11';
import { startQueue } from '#db';
import type { Loop } from '#loop';
import { notifyMembers } from '#notices';
import { writeAudit } from '#people';
import { type ActiveBackEnd, applyLightning, asProblem, openBackEnd, readActive, readLightning } from './access.ts';
import { BackEndError } from './back-end.ts';

const MOST = 20;
const CHECK_HOURS = 24;
/** After a check that failed. */
const AGAIN_HOURS = 1;
/** Who turns off what can spend. */
const FLORIN = { userId: '', name: 'Florin', ip: '' };

/** Applies changes and checks back ends when they are due. */
export const startLightningUpkeep = (ctx: Context): Pick<Loop, 'stop'> =>
  startQueue(ctx, {
    name: 'lightning_upkeep',
    due: (sql) =>
      sql`(select min(case when active then check_at else due_at end) from lightning_backends where active or due_at is not null)`,
    round: async () => {
      const waiting = await ctx.db.sql<{ merchantId: string }[]>`
        select merchant_id as "merchantId" from lightning_backends where due_at <= clock_timestamp() order by due_at limit ${MOST}`;
      for (const one of waiting) await applyLightning(ctx, one);
      const due = await ctx.db.sql<ActiveBackEnd[]>`
        with taken as (
          update lightning_backends set check_at = clock_timestamp() + ${AGAIN_HOURS} * interval '1 hour' where id in (
            select id from lightning_backends where active and check_at <= clock_timestamp() order by check_at limit ${MOST} for update skip locked)
          returning *)
        select id, merchant_id as "merchantId", kind, name, access, payee, least_msat as "leastMsat" from taken`;
      await Promise.all(
        due.map((one) =>
          checkBackEnd(ctx, one).catch((error: unknown) => {
            const { merchantId } = one;
            if (isUnusable(error)) ctx.log.warn({ merchantId, reason: error.message }, 'Lightning cannot be used');
            else ctx.log.error({ err: error, merchantId }, 'Could not check Lightning');
          }),
        ),
      );
      return waiting.length === MOST || due.length === MOST;
    },
    failed: (error, failures) => ctx.log.error({ err: error, failures }, 'Could not check Lightning; retrying'),
  });

/** Asks the back end for an invoice, as every day. Errors: parameter_invalid with the reason. */
export async function checkLightning(ctx: Context, { merchantId }: { merchantId: string }) {
  await asProblem(checkBackEnd(ctx, await readActive(ctx, { merchantId })));
  return (await readLightning(ctx, { merchantId }))!;
}

const isUnusable = (error: unknown): error is BackEndError | InvoiceError => error instanceof BackEndError || error instanceof InvoiceError;

/**
 * Checks a back end with an invoice that nobody pays, and records what it takes, or why it cannot be used. One that can spend by now is turned
 * off. Errors: BackEndError, InvoiceError.
 */
async function checkBackEnd(ctx: Context, row: ActiveBackEnd): Promise<void> {
  try {
    const { leastMsat, mostMsat, payee } = await openBackEnd(ctx, row).check();
    if (row.payee !== null && payee !== row.payee) throw new BackEndError('its invoices pay another node than the one that was set up');
    await ctx.db.sql`
      update lightning_backends set least_msat = ${leastMsat.toString()}, most_msat = ${mostMsat.toString()}, failure = null, away_until = null,
        check_at = clock_timestamp() + ${CHECK_HOURS} * interval '1 hour' where id = ${row.id}`;
  } catch (error) {
    if (error instanceof BackEndError && error.canSpend) await turnOff(ctx, row, error.message);
    else if (isUnusable(error))
      await ctx.db.sql`update lightning_backends set failure = ${error.message.slice(0, 300)} where id = ${row.id}`;
    throw error;
  }
}

/** Invoices that customers were shown are still looked at. */
const turnOff = (ctx: Context, { id, merchantId, name }: ActiveBackEnd, reason: string): Promise<void> =>
  ctx.db.begin(async (tx) => {
    const off = await tx`update lightning_backends set active = false, failure = ${reason.slice(0, 300)} where id = ${id} and active`;
    if (off.count === 0) return;
    await writeAudit(tx, { merchantId, mode: 'live', actor: FLORIN, action: 'lightning.turned_off', object: name, after: { reason } });
    await notifyMembers(ctx, tx, [
      { merchantId, mode: 'live', kind: 'wallet_changed', detail: { coin: 'Lightning', off: reason.slice(0, 200) } },
    ]);
  });

/** A back end in use. `failure`: why its last request or check failed. `unseen`: open invoices that could not be looked at. */
type LightningHealth = { merchantId: string; kind: string; name: string; failure: string | null; open: number; unseen: number };
/** All back ends in use, those that fail first. */
export const readLightningHealth = (ctx: Context): Promise<LightningHealth[]> =>
  ctx.db.sql<LightningHealth[]>`
    select b.merchant_id as "merchantId", b.kind, b.name, b.failure, count(i.payment_hash)::int as open,
      count(i.payment_hash) filter (where i.failures > 0)::int as unseen
    from lightning_backends b left join lightning_invoices i on i.backend_id = b.id and i.state = 'open'
    where b.active group by b.id order by b.failure is null, b.id`;
