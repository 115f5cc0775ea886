/** Requests a refund of a payment: how much, and to which address. */
import { type FormEvent, useState } from 'react';
import { moneyText } from '../../lib/amount.ts';
import { ApiError, type Reply } from '../../lib/api.ts';
import { apiNamesOf, coinText, partsOf } from '../../lib/coin.ts';
import { useAct } from '../../lib/hooks.ts';
import { Button } from '../../ui/button.tsx';
import { Dialog, Foot } from '../../ui/dialog.tsx';
import { Field } from '../../ui/field.tsx';
import { Choice, ErrorNote } from '../../ui/form.tsx';
import { ClaimEmail, FROM_PAGE } from './claim-email.tsx';
import { REFUND_READS } from './refund.tsx';

export type Refundable = Reply<'GET /:mode/payments/:id/refundable'>['available'][number];
/** The same amount in the currency of the price. */
export const worthText = (worth: Refundable['worth']): string => (worth === null ? '' : ` (${moneyText(worth.amount, worth.currency)})`);

const addressLabel = (currency: string): string =>
  currency === 'BTC@lightning' ? 'Lightning invoice or BTC address of the customer' : `${coinText(currency)} address of the customer`;

type Unit = 'all' | 'coin' | 'usd';
type Way = 'link' | 'address';

export function RequestRefund({
  paymentId,
  available,
  left: given,
  email,
  onSent,
  onClose,
  onDone,
}: {
  paymentId: string;
  /** By coin, first that of the payment. */
  available: readonly Refundable[];
  /** The address that the customer entered on the payment page, and its coin. */
  left: { currency: string; address: string } | null;
  /** The email address that was entered there. Null: customers get no emails. */
  email: { left: string | null } | null;
  /** The money was sent without Florin; null where that cannot be recorded. */
  onSent: (() => void) | null;
  onClose: () => void;
  onDone: (id: string) => void;
}) {
  const [coin, setCoin] = useState(available[0]!.currency);
  const { amount: most, worth, currency } = available.find((one) => one.currency === coin) ?? available[0]!;
  const leftIn = (one: string) => (given?.currency === one ? given.address : null);
  const left = leftIn(currency);
  const [unit, setUnit] = useState<Unit>('all');
  const [amount, setAmount] = useState('');
  const [rate, setRate] = useState<'payment' | 'current'>('payment');
  const [way, setWay] = useState<Way>(left === null ? 'link' : 'address');
  const [address, setAddress] = useState(left ?? '');
  const [reason, setReason] = useState('');
  const [to, setTo] = useState(email?.left ?? '');
  const request = useAct('POST /:mode/refunds', { refreshes: REFUND_READS, done: 'Refund requested.', quiet: true });
  const fault = request.error instanceof ApiError ? request.error : null;
  const at = (param: string) => (fault?.param === param ? fault.message : null);
  const choose = (next: Refundable['currency']) => {
    setCoin(next);
    setWay(leftIn(next) === null ? 'link' : 'address');
    setAddress(leftIn(next) ?? '');
  };
  const submit = (event: FormEvent) => {
    event.preventDefault();
    const body = {
      payment_id: paymentId,
      ...(available.length > 1 && apiNamesOf(currency)),
      ...(unit !== 'all' && (unit === 'coin' ? { amount: amount.trim() } : { amount_usd: amount.trim(), rate })),
      ...(way === 'address' && { address: address.trim() }),
      ...(reason.trim() !== '' && { reason: reason.trim() }),
      ...(email !== null && { email: to.trim() || null }),
    };
    request.mutate({ body }, { onSuccess: ({ refund }) => onDone(refund.id) });
  };
  return (
    <Dialog open onClose={onClose} title="Refund this payment">
      <form onSubmit={submit} className="grid gap-4">
        {available.length > 1 && (
          <Choice
            label="Coin"
            options={available.map((one) => ({ value: one.currency, label: coinText(one.currency) }))}
            value={currency}
            onChange={(event) => choose(event.target.value as Refundable['currency'])}
          />
        )}
        <Choice
          label="Amount"
          options={[
            { value: 'all', label: `Full amount: ${moneyText(most, currency)}${worthText(worth)}` },
            { value: 'coin', label: `An amount in ${coinText(currency)}` },
            { value: 'usd', label: 'An amount in US dollars' },
          ]}
          value={unit}
          onChange={(event) => setUnit(event.target.value as Unit)}
        />
        {unit !== 'all' && (
          <Field
            label={unit === 'usd' ? 'US dollars' : partsOf(currency).asset}
            required
            inputMode="decimal"
            autoComplete="off"
            maxLength={60}
            value={amount}
            onChange={(event) => setAmount(event.target.value)}
            fault={at('amount') ?? at('amount_usd')}
          />
        )}
        {unit === 'usd' && (
          <Choice
            label="Exchange rate"
            options={[
              { value: 'payment', label: 'The rate of the payment' },
              { value: 'current', label: 'The current rate' },
            ]}
            value={rate}
            onChange={(event) => setRate(event.target.value as typeof rate)}
          />
        )}
        <Choice
          label="Address"
          hint={way === 'link' ? 'You get a link for the customer. Nothing is sent before you approve the refund.' : undefined}
          options={[
            { value: 'link', label: 'Ask the customer with a link' },
            { value: 'address', label: left === null ? 'Enter an address' : 'The address from the payment page' },
          ]}
          value={way}
          onChange={(event) => setWay(event.target.value as Way)}
        />
        {way === 'address' && (
          <Field
            label={addressLabel(currency)}
            hint={left !== null && address === left ? `${FROM_PAGE} before you approve the refund.` : undefined}
            required
            autoComplete="off"
            autoCapitalize="none"
            spellCheck={false}
            maxLength={2000}
            value={address}
            onChange={(event) => setAddress(event.target.value)}
            fault={at('address')}
          />
        )}
        {email !== null && <ClaimEmail value={to} left={email.left} onChange={setTo} fault={at('email')} isLink={way === 'link'} />}
        <Field
          label="Reason (optional)"
          hint="The customer sees it."
          maxLength={200}
          value={reason}
          onChange={(event) => setReason(event.target.value)}
        />
        <ErrorNote error={['amount', 'amount_usd', 'address', 'email'].includes(fault?.param ?? '') ? null : fault} />
        {onSent && (
          <button
            type="button"
            className="justify-self-start text-sm text-link underline"
            onClick={() => {
              onClose();
              onSent();
            }}
          >
            I already sent it from my own wallet
          </button>
        )}
        <Foot onBack={onClose}>
          <Button type="submit" look="main" busy={request.isPending}>
            Request refund
          </Button>
        </Foot>
      </form>
    </Dialog>
  );
}
