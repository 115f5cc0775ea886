/** The receipt of a completed payment, and the note of a refund that was sent, as PDF for the customer's records. In English. */
import { COIN, type Coin, chainOf } from '#core/coin';
import { minuteText } from '#core/dates';
import { formatUnits, formatUsd } from '#core/money';
import type { CustomerView } from '#core/payment-view';
import type { Merchant } from '#merchants';
import type { Refund } from '#outgoing';
import { itemPrice, listedTransfers, priceText, unlisted } from './parts.ts';
import { type PdfRow, writePdf } from './pdf.ts';
import { chooseLanguage, type Language } from './words.ts';

const language = (): Language => chooseLanguage({ chosen: 'en', accept: '' });
const amountOf = (coin: Coin, units: bigint): string => `${formatUnits(coin, units)} ${COIN[coin].asset}`;
const present = (rows: readonly (readonly [string, string | null])[]): PdfRow[] =>
  rows.flatMap(([name, value]) => (value === null || value === '' ? [] : [[name, value] as const]));
const TEST = 'TEST: no real money was moved.';

/** The payment must be completed. */
export function receiptPdf(view: CustomerView, { url, paper }: { url: string; paper: unknown }): Promise<Buffer> {
  const { settlement: s, request, facts, merchant } = view;
  const paidAt = s.completedAt ?? view.now;
  const transactions = listedTransfers(view).flatMap((t) => (t.txid !== null && t.conflict === null ? [t.txid] : []));
  const missing = unlisted(view);
  const words = language();
  const price = priceText(view, words);
  const items = (request.items ?? []).map(
    ({ name, quantity, unitPriceMinor }) => `${quantity} × ${name}: ${itemPrice(view, quantity * unitPriceMinor, words)}`,
  );
  const rows = present([
    ['Paid', minuteText(paidAt)],
    ['Payment', facts.id],
    ['Invoice', view.invoiceId],
    ['Order', request.description],
    ...items.map((item, i) => [i === 0 ? 'Items' : '', item] as const),
    ['Tax', request.taxMinor !== null ? itemPrice(view, request.taxMinor, words) : null],
    ['Price', request.fiat ? `${price} = $${formatUsd(facts.targetUsdCents)}` : price],
    ['Received', s.coin && amountOf(s.coin, s.receivedUnits)],
    ['Network', s.coin && chainOf(s.coin).networkName],
    ['Value', `$${formatUsd(s.receivedUsdCents)}`],
    ...transactions.map((txid, i) => [i === 0 ? 'Transactions' : '', txid] as const),
    [transactions.length === 0 ? 'Transactions' : '', missing > 0 ? `and ${missing} more` : null],
  ]);
  const lead = [merchant.name, ...(facts.mode === 'test' ? [TEST] : [])];
  return writePdf({ title: 'Receipt', lead, rows, notes: [url] }, { paper, at: paidAt });
}

/** The refund must have been sent. */
export function refundNotePdf(refund: Refund, { merchant, paper }: { merchant: Merchant; paper: unknown }): Promise<Buffer> {
  const { coin, units, usdCents } = refund;
  const sentAt = refund.sentAt ?? refund.createdAt;
  const rows = present([
    ['Sent', minuteText(sentAt)],
    ['Confirmed', refund.state === 'confirmed' ? (refund.endedAt ? minuteText(refund.endedAt) : 'yes') : 'not yet'],
    ['Refund', refund.id],
    ['Payment', refund.paymentId],
    ['Amount', amountOf(coin, units)],
    ['Network', chainOf(coin).networkName],
    ['Value', `$${formatUsd(usdCents)}`],
    ['Reason', refund.reason],
    ['Address', refund.address],
    ['Transaction', refund.txid],
  ]);
  const lead = [merchant.name, ...(refund.mode === 'test' ? [TEST] : [])];
  return writePdf({ title: 'Refund note', lead, rows, notes: [] }, { paper, at: sentAt });
}
