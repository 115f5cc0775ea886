/**
 * The worker that reports payments to shops. It compares what a shop knows with how the payment is stored now, and queues the events that
 * lead from one to the other, in one transaction: so nothing is reported before it is stored, and each event once and in order.
 */
import type { Context } from '../context.ts';
import type { Mode } from '../core/coin.ts';
import type { Tx } from '../db/db.ts';
import { startLoop } from '../db/loop.ts';
import { type OnChain, readOnChain } from '../payments/queries.ts';
import { ERASE_WORK, RESEND_WORK, SHOP_NOTE, SHOP_WORK } from '../payments/shop-queue.ts';
import { recordShopEvents, type ShopEvent } from '../webhooks/events.ts';
import { chargeNews, currentCharge } from './commerce/charge-news.ts';
import { currentNews, greenfieldNews } from './greenfield/greenfield-news.ts';
import { eraseInvoices, lockTold, type News, type ToldInvoice, writeTold } from './shop-invoices.ts';
import type { ShopDialect } from './shop-keys.ts';

const POLL_MS = 1_000;
const BATCH = 100;
const FAILED_RETRY_SECONDS = 10;

/** Starts the loop; `stop` waits for the current round. Several workers may run: rows are taken with SKIP LOCKED. */
export function startShops(ctx: Context): { stop(): Promise<void> } {
  const loop = startLoop({
    pollMs: POLL_MS,
    failed: (error, failures) => ctx.log.error({ err: error, failures }, 'Could not report payments to shops; retrying'),
    round: async () => {
      const told = await tellShops(ctx);
      const resent = await resendDue(ctx);
      const erased = await eraseDue(ctx);
      return told === BATCH || resent === BATCH || erased === BATCH;
    },
  });
  const listening = ctx.db.sql
    .listen(SHOP_NOTE, () => loop.nudge())
    .catch((error: unknown) => {
      ctx.log.warn({ err: error }, 'Cannot listen for payments of shops; polling only');
      return null;
    });
  return {
    stop: async () => {
      await (await listening)?.unlisten().catch(() => {});
      await loop.stop();
    },
  };
}

type Work = (ctx: Context, tx: Tx, paymentIds: readonly string[]) => Promise<void>;
/** Does the work of a kind that is due. A payment that cannot be reported does not stop the others. Returns how many were due. */
async function drain(ctx: Context, kind: string, work: Work): Promise<number> {
  let taken: string[] = [];
  const tell = (only?: string) =>
    ctx.db.begin(async (tx) => {
      taken = await takeDue(tx, kind, only);
      await work(ctx, tx, taken);
    });
  try {
    await tell();
    return taken.length;
  } catch (error) {
    if (taken.length === 0) throw error;
    ctx.log.warn({ err: error, payments: taken.length }, 'Could not report payments to shops together; trying one at a time');
  }
  const all = taken;
  for (const paymentId of all) {
    try {
      await tell(paymentId);
    } catch (error) {
      await postpone(ctx, kind, paymentId);
      ctx.log.error({ err: error, payment: paymentId }, 'Could not report a payment to its shop; retrying');
    }
  }
  return all.length;
}
/** Reports what is due. Returns how many payments that are. */
export const tellShops = (ctx: Context): Promise<number> => drain(ctx, SHOP_WORK, tellAll);
/** Tells shops that are connected again how the payments are now that they missed. Returns how many there were. */
const resendDue = (ctx: Context): Promise<number> =>
  drain(ctx, RESEND_WORK, async (_, tx, paymentIds) => {
    for (const payment of await readOnChain(ctx, tx, paymentIds)) {
      const { merchantId, facts } = payment.view;
      await sendCurrentState(ctx, tx, { merchantId, mode: facts.mode, paymentId: facts.id });
    }
  });

const postpone = ({ db: { sql } }: Context, kind: string, paymentId: string) => sql`
  update due_work set due_at = clock_timestamp() + make_interval(secs => ${FAILED_RETRY_SECONDS})
  where kind = ${kind} and key = ${paymentId}`;

async function takeDue(tx: Tx, kind: string, only?: string): Promise<string[]> {
  const rows = await tx<{ key: string }[]>`
    delete from due_work where (kind, key) in (
      select kind, key from due_work where kind = ${kind} and due_at <= clock_timestamp() ${only === undefined ? tx`` : tx`and key = ${only}`}
      order by due_at limit ${BATCH} for update skip locked)
    returning key`;
  return rows.map(({ key }) => key).sort();
}

async function tellAll(ctx: Context, tx: Tx, paymentIds: readonly string[]): Promise<void> {
  if (paymentIds.length === 0) return;
  const invoices = await lockTold(tx, paymentIds);
  // Read after the lock: another worker may have reported an earlier state.
  const payments = new Map((await readOnChain(ctx, tx, paymentIds)).map((payment) => [payment.view.facts.id, payment]));
  const news = invoices.flatMap((invoice) => {
    const payment = payments.get(invoice.paymentId);
    return payment ? [{ invoice, ...newsOf(ctx, payment, invoice) }] : [];
  });
  await recordShopEvents(
    tx,
    news.flatMap(({ events }) => events),
  );
  await writeTold(
    tx,
    news.map(({ invoice, told, events }) => ({
      paymentId: invoice.paymentId,
      told,
      sequence: invoice.toldSequence + BigInt(events.length),
    })),
  );
}

/** Sends a shop the current status of a payment, whatever it received before. Returns how many events that takes; 0 without a shop. */
export async function sendCurrentState(
  ctx: Context,
  tx: Tx,
  { merchantId, mode, paymentId }: { merchantId: string; mode: Mode; paymentId: string },
): Promise<number> {
  const [invoice] = await lockTold(tx, [paymentId]);
  const [payment] = invoice ? await readOnChain(ctx, tx, [paymentId]) : [];
  if (!invoice || !payment || payment.view.merchantId !== merchantId || payment.view.facts.mode !== mode) return 0;
  const { events, told } = newsOf(ctx, payment, invoice);
  const sent = events.length > 0 ? events : [NEWS[invoice.dialect].current(ctx, payment, invoice)];
  await recordShopEvents(tx, sent);
  await writeTold(tx, [{ paymentId, told, sequence: invoice.toldSequence + BigInt(sent.length) }]);
  return sent.length;
}

type Teller<Told> = (ctx: Context, payment: OnChain, invoice: ToldInvoice) => Told;
/** What each protocol reports: the news since the last time, or the current state. */
const NEWS: Readonly<Record<ShopDialect, { since: Teller<News>; current: Teller<ShopEvent> }>> = {
  greenfield: { since: greenfieldNews, current: currentNews },
  commerce: { since: chargeNews, current: currentCharge },
};
const newsOf: Teller<News> = (ctx, payment, invoice) => NEWS[invoice.dialect].since(ctx, payment, invoice);

/** Erases what shops sent about the customers of payments whose data was erased. Returns how many there were. */
const eraseDue = ({ db }: Context): Promise<number> =>
  db.begin(async (tx) => {
    const paymentIds = await takeDue(tx, ERASE_WORK);
    await eraseInvoices(tx, paymentIds);
    return paymentIds.length;
  });
