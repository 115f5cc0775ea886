/** Where the claim link of a refund is mailed, and who entered that. */
import { Field } from '../../ui/field.tsx';

/** Continued by when to do it. */
export const FROM_PAGE = 'Entered on the payment page. Anyone with its link could do that: compare it with what you know of your customer';

export function ClaimEmail({
  value,
  left,
  onChange,
  fault,
  isLink = true,
}: {
  value: string;
  /** The email address that was entered on the payment page. */
  left: string | null;
  onChange: (value: string) => void;
  fault: string | null;
  /** Whether it gets the link at which the address is entered, or only the news that the refund was sent. */
  isLink?: boolean;
}) {
  const isLeft = left !== null && value.trim() === left;
  const before = isLink ? 'before the link is mailed there.' : 'before you request the refund.';
  return (
    <Field
      label={isLink ? 'Email the link to (optional)' : 'Email of the customer (optional)'}
      hint={isLeft ? `${FROM_PAGE} ${before}` : isLink ? 'The first address that is entered with the link gets the money.' : undefined}
      type="email"
      autoComplete="off"
      maxLength={200}
      value={value}
      onChange={(event) => onChange(event.target.value)}
      fault={fault}
    />
  );
}
