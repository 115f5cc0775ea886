/** Emails about refunds to customers who left an email address on the payment page. In English. Payers get no email about tests. */
import type { Context } from '../context.ts';
import { minuteText } from '../core/clock.ts';
import { COIN, type Coin, chainOf, type Mode } from '../core/coin.ts';
import type { RefundEventType } from '../core/event.ts';
import { formatUnits } from '../core/money.ts';
import type { Tx } from '../db/db.ts';
import { queueMails } from '../notices/mails.ts';
import { claimUrl } from './claims.ts';

/** What the emails say about a refund. */
type ToldRefund = {
  id: string;
  merchantId: string;
  mode: Mode;
  paymentId: string;
  coin: Coin;
  units: bigint;
  address: string | null;
  reason: string | null;
  txid: string | null;
  claimUntil: Date | null;
  claimNumber: number;
};

/** A refund that was sent, failed, and is sent again has one email in this time. */
const PAUSE_MINUTES = 15;

/** In the transaction that records the event. */
export async function mailPayer(ctx: Context, tx: Tx, { type, refund }: { type: RefundEventType; refund: ToldRefund }): Promise<void> {
  if (type === 'refund.requested') await mailClaimLink(ctx, tx, refund);
  else if (type === 'refund.sent') await mailRefundSent(ctx, tx, refund);
}

const amountOf = ({ coin, units }: ToldRefund): string => `${formatUnits(coin, units)} ${COIN[coin].asset}`;

/** The link at which the customer enters an address, in the transaction that creates it. Nothing if the refund has an address. */
export async function mailClaimLink(ctx: Context, tx: Tx, refund: ToldRefund): Promise<void> {
  const { id, paymentId, coin, address, reason, claimUntil } = refund;
  const payer = address === null && claimUntil !== null && (await payerOf(ctx, tx, refund));
  if (!payer) return;
  const lines = [
    `${payer.name} wants to refund you ${amountOf(refund)} on ${chainOf(coin).networkName}.`,
    'Open this link and enter the address where you want to receive it:',
    '',
    claimUrl(ctx, refund),
    '',
    `The link is valid until ${minuteText(claimUntil)}. Do not share it: the refund goes to the first address that is entered there.`,
    '',
    ...(reason === null ? [] : [`Reason: ${reason}`]),
    `Payment: ${paymentId}`,
  ];
  const subject = subjectOf(`Claim your refund from ${payer.name}`, id);
  await queueMails(tx, { recipients: [payer.email], subject, body: lines.join('\n'), kind: 'refund_claim' });
}

async function mailRefundSent(ctx: Context, tx: Tx, refund: ToldRefund): Promise<void> {
  const { id, paymentId, coin, txid } = refund;
  const payer = await payerOf(ctx, tx, refund);
  if (!payer) return;
  const page = claimUrl(ctx, refund);
  const lines = [
    `${payer.name} sent you a refund of ${amountOf(refund)} on ${chainOf(coin).networkName}.`,
    '',
    ...(txid === null ? [] : [`Transaction: ${txid}`]),
    `Payment: ${paymentId}`,
    ...(payer.hasPage ? [`Status: ${page}`, `Refund note (PDF): ${page}/note.pdf`] : []),
  ];
  const subject = subjectOf(`Your refund from ${payer.name}`, id);
  const pause = { pauseMinutes: PAUSE_MINUTES, pauseOf: 'subject' } as const;
  await queueMails(tx, { recipients: [payer.email], subject, body: lines.join('\n'), kind: 'refund_sent', ...pause });
}

/** Names the refund, because the pause between emails is per subject. */
const subjectOf = (text: string, id: string): string => `${text} (${id})`.replace(/[\r\n]/g, ' ');

/** `hasPage`: refunds that were requested with an address by an older version have no page. */
async function payerOf(
  ctx: Context,
  tx: Tx,
  { id, merchantId, mode, paymentId }: ToldRefund,
): Promise<{ name: string; email: string; hasPage: boolean } | undefined> {
  if (!ctx.mail || mode === 'test') return undefined;
  const [payer] = await tx<{ name: string; email: string; hasPage: boolean }[]>`
    select m.name, a.email, r.claim_hash is not null as "hasPage"
    from refund_addresses a join merchants m on m.id = a.merchant_id join refunds r on r.id = ${id} and r.merchant_id = a.merchant_id
    where a.payment_id = ${paymentId} and a.merchant_id = ${merchantId} and a.email is not null`;
  return payer;
}
