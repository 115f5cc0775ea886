/** Emails about refunds to customers who left an email address on the payment page. In English. Payers get no email about tests. */
import type { Context } from '#context';
import { COIN, chainOf, LIGHTNING, onChainCoin } from '#core/coin';
import { minuteText } from '#core/dates';
import { formatUnits } from '#core/money';
import type { RefundState } from '#core/refund';
import { harmless } from '#core/text';
import type { Tx } from '#db';
import { type Bound, exactly, mailLines, mailText, queueMails } from '#notices';
import { claimUrl } from './claims.ts';
import { paidIn, type Refund } from './outgoing-payments.ts';

/** A refund that was sent, failed, and is sent again has one email in this time. */
const PAUSE_MINUTES = 15;
/** A member can request refunds and new links for any payment with an email address, again and again. */
const REFUNDS: Omit<Bound, 'over'> = { anHour: 10, aDay: 5_000 };
/** It may have several sentences, unlike a name. */
const MOST_REASON = 500;

/** In the transaction that records the event. */
export async function mailPayer(ctx: Context, tx: Tx, { state, refund }: { state: RefundState; refund: Refund }): Promise<void> {
  if (state === 'requested') await mailClaimLink(ctx, tx, refund, { over: 'skip' });
  else if (state === 'sent') await mailRefundSent(ctx, tx, refund);
}

const amountOf = ({ coin, units }: Refund): string => `${formatUnits(coin, units)} ${COIN[coin].asset}`;

/**
 * The link at which the customer enters an address, in the transaction that creates it, which notes that it was mailed. Nothing if the refund has
 * an address, or there is nobody to mail. `over`: what happens when the customer got too many emails. Errors: mail_limit_reached.
 */
export async function mailClaimLink(ctx: Context, tx: Tx, refund: Refund, { over }: Pick<Bound, 'over'>): Promise<void> {
  const { id, merchantId, paymentId, coin, address, email, reason, claimUntil, hasEarlierInvoice } = refund;
  const payer = address === null && claimUntil !== null && email !== null && (await payerOf(ctx, tx, refund));
  if (!payer) return;
  const network = chainOf(coin).networkName;
  const [on, to] =
    coin === LIGHTNING
      ? [`over ${network} or on ${chainOf(onChainCoin(coin)).networkName}`, 'a Lightning invoice or a bitcoin address']
      : [`on ${network}`, 'the address where you want to receive it'];
  const lines = [
    ...(hasEarlierInvoice ? ['The invoice that you entered expired before it was paid.'] : []),
    `Open this link and enter ${to}:`,
    '',
    claimUrl(ctx, refund),
    '',
    `The link is valid until ${minuteText(claimUntil)}. Do not share it: the refund goes to what is entered there first.`,
    '',
    ...(reason === null ? [] : [`Reason: ${harmless(reason, MOST_REASON)}`]),
    `Payment: ${paymentId}`,
  ];
  const queued = await queueMails(tx, {
    recipients: [payer.email],
    subject: mailText`Claim your refund from ${payer.name} (${exactly(id)})`,
    body: mailLines([mailText`${payer.name} wants to refund you ${exactly(amountOf(refund))} ${exactly(on)}.`, ...lines.map(exactly)]),
    kind: 'refund_claim',
    sender: merchantId,
    bound: { ...REFUNDS, over },
  });
  if (queued) await tx`update outgoing_payments set link_mailed = true, link_ended_at = null where id = ${id}`;
  else ctx.log.warn({ refund: id }, 'No claim link was mailed: there were too many for this address or merchant');
}

async function mailRefundSent(ctx: Context, tx: Tx, refund: Refund): Promise<void> {
  const { id, merchantId, paymentId, txid } = refund;
  const payer = await payerOf(ctx, tx, refund);
  if (!payer) return;
  const page = claimUrl(ctx, refund);
  const lines = [
    '',
    ...(txid === null ? [] : [`Transaction: ${txid}`]),
    `Payment: ${paymentId}`,
    ...(payer.hasPage ? [`Status: ${page}`, `Refund note (PDF): ${page}/note.pdf`] : []),
  ];
  const queued = await queueMails(tx, {
    recipients: [payer.email],
    subject: mailText`Your refund from ${payer.name} (${exactly(id)})`,
    body: mailLines([
      mailText`${payer.name} sent you a refund of ${exactly(amountOf(refund))} on ${exactly(chainOf(paidIn(refund)).networkName)}.`,
      ...lines.map(exactly),
    ]),
    kind: 'refund_sent',
    sender: merchantId,
    pause: { minutes: PAUSE_MINUTES, about: id },
    bound: { ...REFUNDS, over: 'skip' },
  });
  if (!queued) ctx.log.warn({ refund: id }, 'No email about a refund was sent: there were too many for this address or merchant');
}

/**
 * The link that shows what became of a refund also goes to an address that the customer left later. `hasPage`: refunds that were requested
 * with an address by an older version have no page.
 */
async function payerOf(
  ctx: Context,
  tx: Tx,
  { id, merchantId, mode }: Refund,
): Promise<{ name: string; email: string; hasPage: boolean } | undefined> {
  if (!ctx.mail || mode === 'test') return undefined;
  const [payer] = await tx<{ name: string; email: string; hasPage: boolean }[]>`
    select m.name, coalesce(r.email, a.email) as email, r.claim_hash is not null as "hasPage"
    from outgoing_payments r join merchants m on m.id = r.merchant_id left join refund_addresses a on a.payment_id = r.payment_id
    where r.id = ${id} and r.merchant_id = ${merchantId} and coalesce(r.email, a.email) is not null`;
  return payer;
}
