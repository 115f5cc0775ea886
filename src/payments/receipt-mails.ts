/** The email with the receipt, to customers who left an email address on the payment page. In English. Payers get no email about tests. */
import type { Context } from '../context.ts';
import { minuteText } from '../core/clock.ts';
import { COIN, type Coin, chainOf } from '../core/coin.ts';
import { formatUnits, formatUsd } from '../core/money.ts';
import type { Tx } from '../db/db.ts';
import { exactly, mailLines, mailText } from '../notices/mail-text.ts';
import { type Bound, type NewMail, queueMails } from '../notices/mails.ts';

/** Anyone who pays can enter any address. */
const RECEIPTS: Bound = { anHour: 20, aDay: 5_000, over: 'skip' };

type Paid = {
  id: string;
  merchantId: string;
  name: string;
  email: string;
  usdCents: bigint;
  price: string | null;
  currency: string | null;
  coin: Coin | null;
  units: string;
  completedAt: Date;
};

/**
 * Mails the receipts of those payments that are completed and have an email address. In the transaction that completes a payment, or
 * that stores the address of a completed one; each happens once.
 */
export async function mailReceipts(ctx: Context, tx: Tx, paymentIds: readonly string[]): Promise<void> {
  if (!ctx.mail || paymentIds.length === 0) return;
  const rows = await tx<Paid[]>`
    select p.id, p.merchant_id as "merchantId", m.name, a.email, p.amount_usd_cents as "usdCents", p.request->'fiat'->>'amount' as price,
      p.request->'fiat'->>'currency' as currency, p.coin, p.received_units::text as units, p.completed_at as "completedAt"
    from payments p join refund_addresses a on a.payment_id = p.id join merchants m on m.id = p.merchant_id
    where p.id = any(${paymentIds as string[]}::text[]) and p.mode = 'live' and p.status = 'completed' and a.email is not null`;
  for (const row of rows)
    if (!(await queueMails(tx, mailOf(ctx, row))))
      ctx.log.warn({ payment: row.id }, 'No receipt was mailed: there were too many for this address or merchant');
}

function mailOf(ctx: Context, { id, merchantId, name, email, usdCents, price, currency, coin, units, completedAt }: Paid): NewMail {
  const page = `${ctx.settings.paymentPageUrl}/pay`;
  const usd = `$${formatUsd(usdCents)}`;
  const lines = [
    '',
    `Price: ${price !== null && currency !== null ? `${currency} ${price} = ${usd}` : usd}`,
    ...(coin === null ? [] : [`Received: ${formatUnits(coin, BigInt(units))} ${COIN[coin].asset} on ${chainOf(coin).networkName}`]),
    `Paid: ${minuteText(completedAt)}`,
    `Payment: ${id}`,
    '',
    `Receipt (PDF): ${page}/receipt.pdf?id=${id}`,
    `Status: ${page}?id=${id}`,
  ];
  return {
    recipients: [email],
    subject: mailText`Your receipt from ${name}`,
    body: mailLines([mailText`${name} received your payment.`, ...lines.map(exactly)]),
    kind: 'receipt',
    sender: merchantId,
    bound: RECEIPTS,
  };
}
