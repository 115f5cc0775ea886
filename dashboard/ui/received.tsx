/** What a payment received, in the words of all lists: all of it, and which part arrived late, is on hold, or was sent back. */
import type { PaymentException, PaymentStatus } from '../generated/api.ts';
import { type CoinAmount, isSome, lessOf, moneyText } from '../lib/amount.ts';
import { Money } from './values.tsx';

export type Uncounted = CoinAmount & { state: 'held' | 'rejected' | 'refunded' | 'announced' };

/** What happened to money that does not count. */
export function uncountedWord(state: Uncounted['state'], exceptions: readonly (PaymentException | null)[]): string {
  if (state === 'announced') return 'Announced, in no block yet';
  if (state === 'rejected') return 'Rejected';
  if (state === 'refunded') return 'Refunded';
  if (exceptions.includes('wrong_network')) return 'On another network, on hold';
  if (exceptions.includes('wrong_token')) return 'In another coin, on hold';
  if (exceptions.includes('late')) return 'Arrived late, on hold';
  return exceptions.includes('paid_after_cancel') ? 'Arrived after the payment closed, on hold' : 'On hold';
}

/** The part of what was received that counts toward the payment, in its coin and in US dollars. */
export const countedOf = ({ currency, amount_received: amount, amount_received_usd: usd, uncounted }: Arrived) => ({
  amount: arrivedOf(uncounted).reduce(
    (rest, one) => (one.currency === currency && rest !== null ? lessOf(rest, one.amount) : rest),
    amount,
  ),
  usd: arrivedOf(uncounted).reduce((rest, one) => (one.amount_usd !== null && rest !== null ? lessOf(rest, one.amount_usd) : rest), usd),
});
/** Without what is only announced, which was not received. */
const arrivedOf = (uncounted: readonly Uncounted[]) => uncounted.filter(({ state }) => state !== 'announced');

/** By how much an underpaid payment is short, in US dollars; null where it is not, or where that is not known. */
export function shortUsd(
  row: Pick<Row, 'amount_usd' | 'currency' | 'amount_received' | 'amount_received_usd' | 'uncounted' | 'exceptions'>,
) {
  const { usd } = countedOf(row);
  if (!row.exceptions.includes('underpaid') || usd === null) return null;
  // Money on its way is not missing.
  const short = row.uncounted.reduce(
    (rest, { state, amount_usd: worth }) => (state === 'announced' && worth !== null ? lessOf(rest, worth) : rest),
    lessOf(row.amount_usd, usd),
  );
  return isSome(short) && !short.startsWith('-') ? short : null;
}

type Row = {
  status: PaymentStatus;
  amount_usd: string;
  currency: string | null;
  amount_received: string | null;
  amount_received_usd: string | null;
  uncounted: readonly Uncounted[];
  exceptions: readonly (PaymentException | null)[];
};

type Arrived = Pick<Row, 'currency' | 'amount_received' | 'amount_received_usd' | 'uncounted'>;
/** All that arrived, by coin: what a decision about the payment concerns. */
export const arrivedIn = ({ currency, amount_received: amount, amount_received_usd: usd, uncounted }: Arrived): CoinAmount[] => [
  ...(isSome(amount) && currency !== null ? [{ currency, amount, amount_usd: inOthers(usd, { currency, uncounted }) }] : []),
  ...arrivedOf(uncounted).filter((one) => one.currency !== currency),
];
/** The worth without that of other coins, which have an entry of their own. */
const inOthers = (usd: string | null, { currency, uncounted }: Pick<Row, 'currency' | 'uncounted'>): string | null =>
  arrivedOf(uncounted).reduce(
    (rest, one) => (one.currency !== currency && one.amount_usd !== null && rest !== null ? lessOf(rest, one.amount_usd) : rest),
    usd,
  );

/** An amount, its value beside it. */
const Both = ({ amount, currency, amount_usd: usd }: CoinAmount) => (
  <span className="flex flex-wrap gap-x-1.5 max-sm:justify-end sm:justify-end">
    <Money amount={amount} currency={currency} />
    {usd !== null && <Money amount={usd} className="text-soft" />}
  </span>
);

export const hasReceived = ({ currency, amount_received: received, uncounted }: Row): boolean =>
  (isSome(received) && currency !== null) || uncounted.length > 0;

export function Received({ row }: { row: Row }) {
  const { currency, amount_received: received, uncounted } = row;
  const arrived = isSome(received) && currency !== null;
  const short = shortUsd(row);
  if (!hasReceived(row)) return <span className="text-soft">–</span>;
  return (
    <span className="grid gap-0.5 max-sm:text-right">
      {arrived && <Both currency={currency} amount={received} amount_usd={row.amount_received_usd} />}
      {short !== null && <span className="text-warn">Short by {moneyText(short)}</span>}
      {uncounted.map((one) => (
        <span key={`${one.currency} ${one.state}`} className="grid">
          {/* The whole is not written twice. */}
          {!(one.currency === currency && one.amount === received) && <Both {...one} />}
          <span className={one.state === 'held' ? 'text-warn' : 'text-soft'}>{uncountedWord(one.state, row.exceptions)}</span>
        </span>
      ))}
    </span>
  );
}
