/** Tells customers who left an email address that their refund was sent. */
import type { Context } from '../context.ts';
import { COIN, type Coin, chainOf, type Mode } from '../core/coin.ts';
import { formatUnits } from '../core/money.ts';
import type { Tx } from '../db/db.ts';
import { queueMails } from '../notices/mails.ts';
import { claimUrl } from './claims.ts';

/** What the email says about a refund. */
type SentRefund = {
  id: string;
  merchantId: string;
  mode: Mode;
  paymentId: string;
  coin: Coin;
  units: bigint;
  txid: string | null;
  claimUntil: Date | null;
};

/** A stranger may have entered the address, so a merchant cannot email it more often. */
const PAUSE_MINUTES = 15;

/** In the transaction that records the refund as sent. Payers get no email about tests. */
export async function mailRefundSent(ctx: Context, tx: Tx, refund: SentRefund): Promise<void> {
  if (!ctx.mail || refund.mode === 'test') return;
  const { id, merchantId, paymentId, coin, units, txid, claimUntil } = refund;
  const [payer] = await tx<{ name: string; email: string }[]>`
    select m.name, a.email from refund_addresses a join merchants m on m.id = a.merchant_id
    where a.payment_id = ${paymentId} and a.merchant_id = ${merchantId} and a.email is not null`;
  if (!payer) return;
  const amount = `${formatUnits(coin, units)} ${COIN[coin].asset}`;
  const lines = [
    `${payer.name} sent you a refund of ${amount} on ${chainOf(coin).networkName}.`,
    '',
    ...(txid === null ? [] : [`Transaction: ${txid}`]),
    `Payment: ${paymentId}`,
    ...(claimUntil === null ? [] : [`Status: ${claimUrl(ctx, id)}`, `Refund note (PDF): ${claimUrl(ctx, id)}/note.pdf`]),
  ];
  const subject = `Your refund from ${payer.name}`.replace(/[\r\n]/g, ' ');
  const pause = { pauseMinutes: PAUSE_MINUTES, pauseOf: 'subject' } as const;
  await queueMails(tx, { recipients: [payer.email], subject, body: lines.join('\n'), kind: 'refund_sent', ...pause });
}
