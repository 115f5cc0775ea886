/** An amount with its currency: US dollars, or another currency that is converted to dollars when the payment is created. */

import { useId } from 'react';
import { FIATS } from '../generated/api.ts';
import { withLabel } from '../lib/field-fault.ts';
import { typedAmount } from '../lib/language.ts';

const BOX = 'min-h-10 rounded-lg border border-line bg-card px-3 py-2 text-ink placeholder:text-soft';
export const CURRENCIES: readonly string[] = FIATS;
const decimals = (currency: string): number =>
  new Intl.NumberFormat('en', { style: 'currency', currency }).resolvedOptions().maximumFractionDigits ?? 2;
/** An amount as an example, with the decimals of its currency. */
export const exampleOf = (currency: string): string => (decimals(currency) === 0 ? '2500' : `25.${'0'.repeat(decimals(currency))}`);

export function AmountField({
  label = 'Amount',
  amount,
  onAmount,
  currency,
  onCurrency,
  required = true,
  fault,
}: {
  label?: string;
  /** Undefined: the customer chooses it, in this currency. */
  amount?: string;
  onAmount?: (text: string) => void;
  currency: string;
  onCurrency: (currency: string) => void;
  required?: boolean;
  fault?: string | null | undefined;
}) {
  const id = useId();
  const more = `${id}-more`;
  return (
    <div className="grid content-start gap-1.5">
      <label htmlFor={id} className="text-sm font-medium">
        {amount === undefined ? 'Currency' : label}
      </label>
      <div className="flex gap-2">
        {amount !== undefined && (
          <input
            id={id}
            inputMode="decimal"
            autoComplete="off"
            required={required}
            placeholder={exampleOf(currency)}
            value={amount}
            onChange={(event) => onAmount?.(typedAmount(event.target.value))}
            aria-invalid={Boolean(fault)}
            aria-describedby={more}
            className={`min-w-0 flex-1 ${BOX} ${fault ? 'border-bad' : ''}`}
          />
        )}
        <select
          id={amount === undefined ? id : undefined}
          aria-label={amount === undefined ? undefined : 'Currency'}
          aria-describedby={more}
          value={currency}
          onChange={(event) => onCurrency(event.target.value)}
          className={BOX}
        >
          {CURRENCIES.map((code) => (
            <option key={code}>{code}</option>
          ))}
        </select>
      </div>
      {(fault || currency !== 'USD') && (
        <p id={more} className={`text-sm ${fault ? 'text-bad' : 'text-soft'}`}>
          {fault
            ? withLabel(fault, label)
            : `Customers see ${currency}. The price is converted to US dollars when each payment is created.`}
        </p>
      )}
    </div>
  );
}
