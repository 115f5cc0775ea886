/** The price of a payment, as it was agreed: another currency comes before its worth in US dollars. */
import { About } from './about.tsx';
import { ModeLink } from './link.tsx';
import { Money } from './values.tsx';

type Priced = { amount_usd: string; amount_fiat?: string | null | undefined; currency_fiat?: string | null | undefined };

export const Price = ({ of }: { of: Priced }) => <Money amount={of.amount_fiat ?? of.amount_usd} currency={of.currency_fiat ?? 'USD'} />;
/** A payment in a list: its price, which leads to it, above what it is worth. */
export const PaymentPrice = ({ of }: { of: Priced & { id: string } }) => (
  <span className="flex flex-wrap items-baseline gap-x-1.5 sm:grid sm:justify-items-start">
    <ModeLink to={`payments/${of.id}`}>
      <Price of={of} />
    </ModeLink>
    <Worth of={of} className="text-xs" />
  </span>
);
/** What it is worth: in US dollars, or in the merchant's own currency if the price is in US dollars. */
export const Worth = ({ of, className = '' }: { of: Priced; className?: string }) =>
  of.amount_fiat ? (
    <Money amount={of.amount_usd} className={`text-soft ${className}`} />
  ) : (
    <About usd={of.amount_usd} className={className} />
  );
