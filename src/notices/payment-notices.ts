/** The words of notices about payments: what happened, how much money it is about, and which order. */
import { toPrintableLine } from '#core/text';

export type PaymentNotice = {
  payment: string;
  exception: string;
  status: string;
  /** In US dollars: "816.95". */
  price: string;
  /** What arrived, with its value: "27.23 DASH ($816.95)". Null where nothing did. */
  money: string | null;
  invoice: string | null;
};
/** As a notice keeps it, beside the description where the payment has one. */
type Stored = Readonly<Record<string, string | number | null>>;

/** Customers may write it where payments are made with a public key: one line, and not a long one. */
const LONGEST = 60;
const oneLine = (text: string): string => {
  const line = toPrintableLine(text).replace(/\s+/g, ' ');
  return line.length > LONGEST ? `${line.slice(0, LONGEST - 1)}…` : line;
};

/** The invoice, or else the description. */
function orderOf({ invoice, description }: Stored): string {
  if (typeof invoice === 'string') return ` Invoice ${oneLine(invoice)}.`;
  return typeof description === 'string' ? ` Description: ${oneLine(description)}` : '';
}
const grouped = (decimal: string): string => decimal.replace(/^\d+/, (whole) => BigInt(whole).toLocaleString('en-US'));

/** A payment that needs a decision. What older versions wrote names no amounts. */
export function attentionWords(detail: Stored): string {
  const { exception, money, price } = detail;
  if (typeof price !== 'string') return `A payment needs your attention: ${String(exception).replaceAll('_', ' ')}.`;
  const usd = `$${grouped(price)}`;
  return `${sentenceOf(String(exception), typeof money === 'string' ? money : null, usd)}${orderOf(detail)}`;
}

function sentenceOf(exception: string, money: string | null, usd: string): string {
  switch (exception) {
    case 'late':
      return `Arrived late, on hold: ${money ?? 'an amount that is not known yet'}. The price was ${usd}.`;
    case 'paid_after_cancel':
      return `Arrived after the payment closed, on hold: ${money ?? 'an amount that is not known yet'}. The price was ${usd}.`;
    case 'wrong_network':
      return `Arrived on another network, on hold: ${money ?? 'an amount that is not known yet'}. The price was ${usd}.`;
    case 'wrong_token':
      return `Arrived in another coin, on hold: ${money ?? 'an amount that is not known yet'}. The price was ${usd}.`;
    case 'underpaid':
      return `Underpaid: received ${money ?? 'nothing'} of ${usd}.`;
    case 'overpaid':
      return `Overpaid: received ${money ?? 'nothing'} for ${usd}.`;
    case 'replaced':
      return `The transaction for a payment of ${usd} was replaced by another one before it was confirmed.`;
    case 'reorged':
      return `A transfer for a payment of ${usd} is no longer confirmed.`;
    default:
      return `A payment of ${usd} needs your attention: ${exception.replaceAll('_', ' ')}.`;
  }
}

/** A completed payment whose money is not confirmed any more. */
export function reversedWords(detail: Stored): string {
  const { price } = detail;
  const which = typeof price === 'string' ? `A completed payment of $${grouped(price)}` : 'A completed payment';
  return `${which} was reversed: its transfer was taken back or is no longer confirmed.${orderOf(detail)}`;
}
