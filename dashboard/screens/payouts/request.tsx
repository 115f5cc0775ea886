/** Requests one payout: how much, in which coin, and to which address. */
import { type FormEvent, useState } from 'react';
import { COINS, type Coin, TOKENS } from '../../generated/api.ts';
import { ApiError } from '../../lib/api.ts';
import { apiNamesOf, coinOptions, coinText, partsOf } from '../../lib/coin.ts';
import { useAct } from '../../lib/hooks.ts';
import { Button } from '../../ui/button.tsx';
import { Dialog, Foot } from '../../ui/dialog.tsx';
import { Field } from '../../ui/field.tsx';
import { Choice, ErrorNote } from '../../ui/form.tsx';
import { PAYOUT_READS } from './state.tsx';

type Unit = 'coin' | 'usd';
const FIELDS: Readonly<Record<string, string>> = { payout_reference: 'reference', amount_usd: 'amount' };

export function RequestPayout({ onClose, onDone }: { onClose: () => void; onDone: (id: string) => void }) {
  const [currency, setCurrency] = useState<Coin>(COINS[0]);
  const [unit, setUnit] = useState<Unit>('coin');
  const [given, setGiven] = useState({ amount: '', address: '', reference: '', description: '' });
  const request = useAct('POST /:mode/payouts', { refreshes: PAYOUT_READS, done: 'Payout requested.', quiet: true });
  const fault = request.error instanceof ApiError ? request.error : null;
  const name = fault?.param ? (FIELDS[fault.param] ?? fault.param) : null;
  const field = (of: keyof typeof given) => ({
    value: given[of],
    onChange: (event: { target: { value: string } }) => setGiven({ ...given, [of]: event.target.value }),
    fault: name === of ? (fault?.message ?? null) : null,
  });
  const submit = (event: FormEvent) => {
    event.preventDefault();
    const [amount, address, reference, description] = [given.amount, given.address, given.reference, given.description].map((text) =>
      text.trim(),
    );
    const body = {
      ...{ ...apiNamesOf(currency), address: address!, payout_reference: reference! },
      ...(unit === 'usd' ? { amount_usd: amount! } : { amount: amount! }),
      ...(description && { description }),
    };
    request.mutate({ body }, { onSuccess: ({ payout }) => onDone(payout.id) });
  };
  return (
    <Dialog open onClose={onClose} title="Request a payout">
      <form onSubmit={submit} className="grid gap-4">
        <Choice
          label="Coin"
          options={coinOptions([...COINS, ...TOKENS])}
          value={currency}
          onChange={(event) => setCurrency(event.target.value as Coin)}
        />
        <Choice
          label="Amount in"
          options={[
            { value: 'coin', label: coinText(currency) },
            { value: 'usd', label: 'US dollars, at the current rate' },
          ]}
          value={unit}
          onChange={(event) => setUnit(event.target.value as Unit)}
        />
        <Field
          label={unit === 'usd' ? 'US dollars' : partsOf(currency).asset}
          required
          inputMode="decimal"
          autoComplete="off"
          maxLength={60}
          {...field('amount')}
        />
        <Field
          label={`${coinText(currency)} address of the recipient`}
          required
          autoComplete="off"
          autoCapitalize="none"
          spellCheck={false}
          maxLength={200}
          {...field('address')}
        />
        <Field
          label="Reference"
          required
          hint="Your own name for the payout, such as an invoice number. A second payout with the same one is refused."
          autoComplete="off"
          maxLength={80}
          {...field('reference')}
        />
        <Field label="Description (optional)" hint="Only members see it." maxLength={200} {...field('description')} />
        <ErrorNote error={name !== null && name in given ? null : request.error} />
        <Foot onBack={onClose}>
          <Button type="submit" look="main" busy={request.isPending}>
            Request payout
          </Button>
        </Foot>
      </form>
    </Dialog>
  );
}
