/**
 * The worker that reports payments to shops. It compares what a shop knows with how the payment is stored now, and queues the events that
 * lead from one to the other, in one transaction: so nothing is reported before it is stored, and each event once and in order.
 */
import type { Context } from '#context';
import type { Mode } from '#core/coin';
import { doDue, dueWork, startQueue, type Tx, takingWork } from '#db';
import { type OnChain, readOnChain } from '#queries';
import { ERASE_WORK, SHOP_WORK } from '#settling';
import { recordShopEvents, type ShopEvent } from '#webhooks';
import { chargeNews, currentCharge } from './commerce/charge-body.ts';
import { currentNews, greenfieldNews } from './greenfield/invoice-body.ts';
import { eraseInvoices, lockTold, type News, RESEND_WORK, type ToldInvoice, writeTold } from './shop-invoices.ts';
import type { ShopDialect } from './shop-keys.ts';

const BATCH = 100;

/** Starts the loops; `stop` waits for the current rounds. Several workers may run: rows are taken with SKIP LOCKED. */
export function startShops(ctx: Context): { stop(): Promise<void> } {
  const rounds = { [SHOP_WORK]: tellShops, [RESEND_WORK]: resendDue, [ERASE_WORK]: eraseDue };
  const loops = Object.entries(rounds).map(([name, round]) =>
    startQueue(ctx, {
      name,
      due: dueWork(name),
      round: async () => (await round(ctx)) === BATCH,
      failed: (error, failures) => ctx.log.error({ err: error, failures }, 'Could not report payments to shops; retrying'),
    }),
  );
  return { stop: async () => void (await Promise.all(loops.map((loop) => loop.stop()))) };
}

type Work = (tx: Tx, paymentIds: string[]) => Promise<void>;
const report = (ctx: Context, kind: string, work: Work): Promise<number> =>
  doDue(ctx, takingWork(kind), { limit: BATCH, what: 'report payments to shops', work: (tx, ids) => work(tx, ids.sort()) });
/** Reports what is due. Returns how many payments that are. */
const tellShops = (ctx: Context): Promise<number> => report(ctx, SHOP_WORK, (tx, ids) => tellAll(ctx, tx, ids));
/** Tells shops that are connected again how the payments are now that they missed. Returns how many there were. */
const resendDue = (ctx: Context): Promise<number> =>
  report(ctx, RESEND_WORK, async (tx, ids) => {
    for (const payment of await readOnChain(ctx, tx, ids)) {
      const { merchantId, facts } = payment.view;
      await sendCurrentState(ctx, tx, { merchantId, mode: facts.mode, paymentId: facts.id });
    }
  });
/** Erases what shops sent about the customers of payments whose data was erased. Returns how many there were. */
const eraseDue = (ctx: Context): Promise<number> => report(ctx, ERASE_WORK, eraseInvoices);

async function tellAll(ctx: Context, tx: Tx, paymentIds: readonly string[]): Promise<void> {
  const invoices = await lockTold(tx, paymentIds);
  // Read after the lock: another worker may have reported an earlier state.
  const payments = new Map((await readOnChain(ctx, tx, paymentIds)).map((payment) => [payment.view.facts.id, payment]));
  const news = invoices.flatMap((invoice) => {
    const payment = payments.get(invoice.paymentId);
    return payment ? [{ invoice, ...newsOf(ctx, payment, invoice) }] : [];
  });
  await writeNews(tx, news);
}

/** Queues events for shops, and stores what these know with them. */
async function writeNews(tx: Tx, news: readonly (News & { invoice: ToldInvoice })[]): Promise<void> {
  const rows = news.map(({ invoice, told, events }) => {
    return { paymentId: invoice.paymentId, told, sequence: invoice.toldSequence + BigInt(events.length) };
  });
  const events = news.flatMap((one) => one.events);
  await recordShopEvents(tx, events, tx`told as (${writeTold(tx, rows)})`);
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
  await writeNews(tx, [{ invoice, told, events: sent }]);
  return sent.length;
}

type Teller<Told> = (ctx: Context, payment: OnChain, invoice: ToldInvoice) => Told;
/** What each protocol reports: the news since the last time, or the current state. */
const NEWS: Readonly<Record<ShopDialect, { since: Teller<News>; current: Teller<ShopEvent> }>> = {
  greenfield: { since: greenfieldNews, current: currentNews },
  commerce: { since: chargeNews, current: currentCharge },
};
const newsOf: Teller<News> = (ctx, payment, invoice) => NEWS[invoice.dialect].since(ctx, payment, invoice);
