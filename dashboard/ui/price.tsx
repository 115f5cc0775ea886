/** The price of a payment, as it was agreed: another currency comes before its worth in US dollars. */
import { About } from './about.tsx';
import { Money } from './values.tsx';

type Priced = { amount_usd: string; amount_fiat?: string | null | undefined; currency_fiat?: string | null | undefined };
const isForeign = ({ amount_fiat: amount, currency_fiat: currency }: Priced): boolean => !!amount && !!currency && currency !== 'USD';

export const Price = ({ of }: { of: Priced }) =>
  isForeign(of) ? <Money amount={of.amount_fiat!} currency={of.currency_fiat!} /> : <Money amount={of.amount_usd} />;
/** What it is worth: in US dollars, or in the merchant's own currency if the price is in US dollars. */
export const Worth = ({ of, className = '' }: { of: Priced; className?: string }) =>
  isForeign(of) ? (
    <Money amount={of.amount_usd} className={`text-soft ${className}`} />
  ) : (
    <About usd={of.amount_usd} className={className} />
  );
