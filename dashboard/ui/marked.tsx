/** Text with the part that was searched for highlighted. */
import { createContext, useContext } from 'react';

/** What is searched for on this screen; '' when nothing is. */
export const Sought = createContext('');

/** As the service compares: any case, one blank for many, without the sign before an amount or a number. */
const plain = (text: string): string => text.replace(/\s+/g, ' ').trim().toLowerCase();
const partsOf = (query: string): string[] => {
  const text = plain(query).replace(/^[#$€£¥]\s*/, '');
  return [text, text.replaceAll(',', '')].filter((part) => part !== '');
};

/** With `around`, a long text is cut to so many characters before and after the part. */
export function Marked({ text, around = Number.POSITIVE_INFINITY }: { text: string; around?: number }) {
  const query = useContext(Sought);
  const lower = text.toLowerCase();
  const part = partsOf(query).find((one) => lower.includes(one));
  // Letters that change their length with their case cannot be placed: the text is shown as it is.
  if (part === undefined || lower.length !== text.length)
    return <span>{text.length > 2 * around ? `${text.slice(0, 2 * around)}…` : text}</span>;
  const from = lower.indexOf(part);
  const to = from + part.length;
  const [start, end] = [Math.max(0, from - around), Math.min(text.length, to + around)];
  return (
    <>
      {start > 0 && '…'}
      {text.slice(start, from)}
      <mark className="rounded-sm bg-warn-wash text-ink">{text.slice(from, to)}</mark>
      {text.slice(to, end)}
      {end < text.length && '…'}
    </>
  );
}

const FIELDS: Readonly<Record<string, string>> = {
  id: 'Payment ID',
  invoice_id: 'Invoice',
  description: 'Description',
  email: 'Email',
  'customer.name': 'Customer',
  'customer.reference': 'Customer reference',
  amount_usd: 'Amount',
  amount_fiat: 'Amount',
  amount: 'Amount due',
  payment_address: 'Address',
  amount_received: 'Received',
  transaction_id: 'Transaction',
  refund_address: 'Refund address',
};
/** Where a payment has what was searched for. */
export const Match = ({ match }: { match: { field: string; text: string } | null }) =>
  match && (
    <span className="line-clamp-2 break-all">
      <span className="text-soft">{FIELDS[match.field] ?? match.field.replace(/^metadata\./, '')}: </span>
      <Marked text={match.text} around={32} />
    </span>
  );

export const TYPING_MS = 200;
