/** The email with the receipt of a live payment, in the language of the payment: to customers who left an address, and to those whom it names. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Context } from '#context';
import { COIN, type Coin, chainOf } from '#core/coin';
import { minuteText } from '#core/dates';
import { type Locale, matchLocale } from '#core/locales';
import { formatUnits, formatUsd } from '#core/money';
import { harmless } from '#core/text';
import type { Tx } from '#db';
import { type Bound, exactly, mailLines, type NewMail, queueMails, withdrawMails } from '#notices';
import type words from './receipt-words.json';

type ReceiptWords = Readonly<Record<keyof (typeof words)['en'], string>>;
const WORDS = JSON.parse(readFileSync(join(import.meta.dirname, 'receipt-words.json'), 'utf8')) as Readonly<Record<Locale, ReceiptWords>>;

/** Anyone who pays can enter any address. */
const RECEIPTS: Bound = { anHour: 20, aDay: 5_000, over: 'skip' };
/** Who got the receipt of a payment does not get it again, such as one who leaves the same address later. */
const ONCE_MINUTES = 60 * 24 * 90;

type Paid = {
  id: string;
  merchantId: string;
  name: string;
  email: string;
  locale: string | null;
  usdCents: bigint;
  price: string | null;
  currency: string | null;
  coin: Coin | null;
  units: string;
  completedAt: Date;
};

/**
 * Mails the receipts of those payments that are completed and have an email address: one that was left on the payment page, or else, where
 * the merchant wants that, the one of the customer. In the transaction that completes a payment, or that stores the address of a completed one.
 */
export async function mailReceipts(ctx: Context, tx: Tx, paymentIds: readonly string[]): Promise<void> {
  if (!ctx.mail || paymentIds.length === 0) return;
  const rows = await tx<Paid[]>`
    select * from (
      select p.id, p.merchant_id as "merchantId", m.name, p.amount_usd_cents as "usdCents", p.request->'fiat'->>'amount' as price,
        p.request->'fiat'->>'currency' as currency, p.coin, p.received_units::text as units, p.completed_at as "completedAt",
        coalesce(p.request->>'locale', m.settings->>'locale') as locale,
        coalesce(a.email, case when m.settings->'mailReceipts' = 'true' then c.email end) as email
      from payments p join merchants m on m.id = p.merchant_id left join refund_addresses a on a.payment_id = p.id
        left join customers c on c.id = p.customer_id and c.merchant_id = p.merchant_id and c.mode = p.mode
      where p.id = any(${paymentIds as string[]}::text[]) and p.mode = 'live' and p.status = 'completed') paid
    where email is not null`;
  for (const row of rows)
    if (!(await queueMails(tx, mailOf(ctx, row))))
      ctx.log.warn({ payment: row.id }, 'No receipt was mailed: there were too many for this address or merchant');
}

/** The money of these payments is gone: a receipt that was not sent yet is not sent. */
export const withdrawReceipts = (tx: Tx, paymentIds: readonly string[]): Promise<void> =>
  withdrawMails(tx, { kind: 'receipt', about: paymentIds });

function mailOf(ctx: Context, { id, merchantId, name, email, locale, usdCents, price, currency, coin, units, completedAt }: Paid): NewMail {
  const own = WORDS[(locale === null ? null : matchLocale(locale)) ?? 'en'];
  const named = (text: string) => exactly(text.replace('{name}', () => harmless(name)));
  const page = `${ctx.settings.paymentPageUrl}/pay`;
  const usd = `$${formatUsd(usdCents)}`;
  const lines = [
    '',
    `${own.price}: ${price !== null && currency !== null ? `${currency} ${price} = ${usd}` : usd}`,
    ...(coin === null ? [] : [`${own.amount}: ${formatUnits(coin, BigInt(units))} ${COIN[coin].asset} (${chainOf(coin).networkName})`]),
    `${own.paid}: ${minuteText(completedAt)}`,
    `${own.payment}: ${id}`,
    '',
    `${own.receipt} (PDF): ${page}/receipt.pdf?id=${id}`,
    `${own.status}: ${page}?id=${id}`,
  ];
  return {
    recipients: [email],
    subject: named(own.subject),
    body: mailLines([named(own.received), ...lines.map(exactly)]),
    kind: 'receipt',
    sender: merchantId,
    pause: { minutes: ONCE_MINUTES, about: id },
    bound: RECEIPTS,
  };
}
