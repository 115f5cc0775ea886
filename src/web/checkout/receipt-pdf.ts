/** The receipt of a completed payment, and the note of a refund that was sent, as PDF for the customer's records. In English. */
import { minuteText } from '../../core/clock.ts';
import { COIN, type Coin, chainOf } from '../../core/coin.ts';
import { e8ToCents, formatUnits, formatUsd } from '../../core/money.ts';
import type { Merchant } from '../../merchants/merchants.ts';
import type { Refund } from '../../money-out/refunds.ts';
import type { CustomerView } from '../../payments/view.ts';
import { PAPERS, type Paper, type PdfRow, printable, writePdf } from '../pdf.ts';
import { listedTransfers, priceText, unlisted } from './parts.ts';
import { chooseLanguage, type Language } from './words.ts';

const language = (): Language => chooseLanguage({ chosen: 'en', accept: '' });
const amountOf = (coin: Coin, units: bigint): string => `${formatUnits(coin, units)} ${COIN[coin].asset}`;
const present = (rows: readonly (readonly [string, string | null])[]): PdfRow[] =>
  rows.flatMap(([name, value]) => (value === null || value === '' ? [] : [[name, value] as const]));
/** A PDF cannot show the letters of every language; nothing is better than question marks. */
const shown = (text: string | null): string | null => (text === null ? null : printable(text));
/** Who sold: by name, or else where they are reached. */
const sellerOf = (name: string, contact: string | null): readonly string[] =>
  [shown(name) ?? shown(contact)].filter((text) => text !== null);
const TEST = 'TEST: no real money was moved.';

export const paperOf = (given: unknown): Paper => (typeof given === 'string' && Object.hasOwn(PAPERS, given) ? (given as Paper) : 'a4');

/** The payment must be completed. */
export function receiptPdf(view: CustomerView, { url, paper }: { url: string; paper: Paper }): Buffer {
  const { settlement: s, request, facts, merchant } = view;
  const paidAt = s.completedAt ?? view.now;
  const transactions = listedTransfers(view).flatMap((t) => (t.txid !== null && t.conflict === null ? [t.txid] : []));
  const missing = unlisted(view);
  // The signs of some currencies are missing too; every code is there.
  const price = shown(priceText(view, language())) ?? `${request.fiat?.currency} ${request.fiat?.amount}`;
  const rows = present([
    ['Paid', minuteText(paidAt)],
    ['Payment', facts.id],
    ['Invoice', shown(view.invoiceId)],
    ['Order', shown(request.description)],
    ['Price', request.fiat ? `${price} = $${formatUsd(facts.targetUsdCents)}` : price],
    ['Received', s.coin && amountOf(s.coin, s.receivedUnits)],
    ['Network', s.coin && chainOf(s.coin).networkName],
    ['Value', `$${formatUsd(e8ToCents(s.receivedUsdE8))}`],
    ...transactions.map((txid, i) => [i === 0 ? 'Transactions' : '', txid] as const),
    [transactions.length === 0 ? 'Transactions' : '', missing > 0 ? `and ${missing} more` : null],
  ]);
  const lead = [...sellerOf(merchant.name, merchant.supportContact), ...(facts.mode === 'test' ? [TEST] : [])];
  return writePdf({ title: 'Receipt', lead, rows, notes: [url] }, { paper, at: paidAt });
}

/** The refund must have been sent. */
export function refundNotePdf(refund: Refund, { merchant, paper }: { merchant: Merchant; paper: Paper }): Buffer {
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
    ['Reason', shown(refund.reason)],
    ['Address', refund.address],
    ['Transaction', refund.txid],
  ]);
  const lead = [...sellerOf(merchant.name, merchant.settings.supportContact), ...(refund.mode === 'test' ? [TEST] : [])];
  return writePdf({ title: 'Refund note', lead, rows, notes: [] }, { paper, at: sentAt });
}
