/** Creates a payment by hand: an amount or items; then shows its link and QR code. */
import { type FormEvent, useState } from 'react';
import { COINS, type Coin } from '../../generated/api.ts';
import { ApiError, type Reply } from '../../lib/api.ts';
import { useAct, useMode } from '../../lib/hooks.ts';
import { AmountField } from '../../ui/amount.tsx';
import { Button, buttonClass } from '../../ui/button.tsx';
import { Dialog, Foot } from '../../ui/dialog.tsx';
import { Field, Select } from '../../ui/field.tsx';
import { Note } from '../../ui/form.tsx';
import { ModeLink } from '../../ui/link.tsx';
import { anotherPair, type Pair, Pairs, SMALL_INPUT, TakeAway } from '../../ui/pairs.tsx';
import { CopyButton, Money } from '../../ui/values.tsx';

type Made = Reply<'POST /:mode/payments'>;
type Item = { key: number; name: string; quantity: string; price: string };
const item = (key: number): Item => ({ key, name: '', quantity: '1', price: '' });
const WINDOWS = [
  { value: '', label: 'Default' },
  { value: '1800', label: '30 minutes' },
  { value: '3600', label: '1 hour' },
  { value: '21600', label: '6 hours' },
  { value: '86400', label: '24 hours' },
];

export function Create({ onClose }: { onClose: () => void }) {
  const mode = useMode();
  const create = useAct('POST /:mode/payments', { refreshes: [['payments'], ['home']], quiet: true });
  const [made, setMade] = useState<Made | null>(null);
  const [kind, setKind] = useState<'amount' | 'items'>('amount');
  const [items, setItems] = useState<readonly Item[]>([item(0)]);
  const [amount, setAmount] = useState('');
  const [fiat, setFiat] = useState('USD');
  const [pairs, setPairs] = useState<readonly Pair[]>([]);
  const param = create.error instanceof ApiError ? create.error.param : null;
  const fault = (name: string) => (param === name ? create.error?.message : null);
  const isShown = ['amount_usd', 'amount', 'currency_fiat', 'items', 'tax', 'description', 'invoice_id', 'return_url'].includes(
    param ?? '',
  );
  const setItem = (key: number, change: Partial<Item>) => setItems(items.map((one) => (one.key === key ? { ...one, ...change } : one)));
  const submit = (event: FormEvent<HTMLFormElement>) => {
    event.preventDefault();
    const form = new FormData(event.currentTarget);
    const text = (name: string) => String(form.get(name) ?? '').trim();
    const metadata = Object.fromEntries(pairs.filter((pair) => pair.name.trim() !== '').map((pair) => [pair.name.trim(), pair.value]));
    const optional = {
      ...(text('description') && { description: text('description') }),
      ...(text('invoice_id') && { invoice_id: text('invoice_id') }),
      ...(text('return_url') && { return_url: text('return_url') }),
      ...(text('expires_in') && { expires_in: Number(text('expires_in')) }),
      ...(text('currency') && { currency: text('currency') as Coin }),
      ...(Object.keys(metadata).length > 0 && { metadata }),
    };
    const priced =
      kind === 'amount'
        ? { amount: amount.trim(), currency_fiat: fiat }
        : {
            currency_fiat: fiat,
            items: items.map((one, i) => ({
              product_id: `item-${i + 1}`,
              name: one.name.trim(),
              quantity: Number(one.quantity),
              unit_price: one.price.trim(),
            })),
            tax: text('tax') || '0',
          };
    create.mutate({ body: { ...priced, ...optional } }, { onSuccess: setMade });
  };
  if (made)
    return (
      <Dialog open onClose={onClose} title="Payment created">
        <div className="grid justify-items-center gap-3 text-center">
          <p className="text-2xl font-semibold">
            <Money amount={made.amount} currency={made.currency_fiat} />
          </p>
          {made.currency_fiat !== 'USD' && (
            <p className="text-sm text-soft">
              = <Money amount={made.amount_usd} />
            </p>
          )}
          <img src={made.qr} alt="QR code of the payment link" className="size-52 rounded-lg border border-line" />
          <p className="flex max-w-full items-center gap-1 text-sm">
            <span className="min-w-0 break-all">{made.payment_url}</span>
            <CopyButton value={made.payment_url} label="Copy the payment link" />
          </p>
          <div className="flex flex-wrap justify-center gap-2">
            <a href={made.payment_url} target="_blank" rel="noreferrer" className={buttonClass('main')}>
              Open payment page
            </a>
            <ModeLink to={`payments/${made.id}`} className={buttonClass()}>
              View payment
            </ModeLink>
          </div>
        </div>
      </Dialog>
    );
  return (
    <Dialog open onClose={onClose} title={mode === 'test' ? 'Create a test payment' : 'Create a payment'}>
      <form onSubmit={submit} className="grid gap-4">
        <fieldset className="flex gap-4 text-sm">
          <legend className="sr-only">Price</legend>
          {(['amount', 'items'] as const).map((value) => (
            <label key={value} className="flex items-center gap-2">
              <input type="radio" name="kind" checked={kind === value} onChange={() => setKind(value)} className="accent-accent" />
              {value === 'amount' ? 'Amount' : 'Items and tax'}
            </label>
          ))}
        </fieldset>
        {kind === 'amount' ? (
          <AmountField
            amount={amount}
            onAmount={setAmount}
            currency={fiat}
            onCurrency={setFiat}
            fault={fault('amount_usd') ?? fault('amount') ?? fault('currency_fiat')}
          />
        ) : (
          <div className="grid gap-2">
            {items.map((one, i) => (
              <div key={one.key} className="grid grid-cols-[1fr_3.5rem_5.5rem_2rem] items-center gap-1.5">
                <input
                  className={SMALL_INPUT}
                  aria-label={`Name of item ${i + 1}`}
                  required
                  placeholder="Item"
                  value={one.name}
                  onChange={(e) => setItem(one.key, { name: e.target.value })}
                />
                <input
                  className={SMALL_INPUT}
                  aria-label={`Quantity of item ${i + 1}`}
                  required
                  type="number"
                  min="1"
                  value={one.quantity}
                  onChange={(e) => setItem(one.key, { quantity: e.target.value })}
                />
                <input
                  className={SMALL_INPUT}
                  aria-label={`Price of item ${i + 1}, in ${fiat}`}
                  required
                  inputMode="decimal"
                  placeholder="12.50"
                  value={one.price}
                  onChange={(e) => setItem(one.key, { price: e.target.value })}
                />
                <TakeAway
                  label={`Remove item ${i + 1}`}
                  disabled={items.length === 1}
                  onClick={() => setItems(items.filter((other) => other.key !== one.key))}
                />
              </div>
            ))}
            <div>
              <Button
                look="ghost"
                disabled={items.length >= 100}
                onClick={() => setItems([...items, item(Math.max(...items.map((one) => one.key)) + 1)])}
              >
                Add item
              </Button>
            </div>
            <Field label={`Tax in ${fiat}`} name="tax" inputMode="decimal" placeholder="0" fault={fault('tax')} autoComplete="off" />
            <AmountField currency={fiat} onCurrency={setFiat} fault={fault('currency_fiat') ?? fault('items')} />
          </div>
        )}
        <Field
          label="Description"
          name="description"
          maxLength={1000}
          hint="Shown to the customer."
          fault={fault('description')}
          autoComplete="off"
        />
        <Field label="Invoice number" name="invoice_id" maxLength={100} fault={fault('invoice_id')} autoComplete="off" />
        <details className="grid gap-4">
          <summary className="cursor-pointer text-sm font-medium">More options</summary>
          <div className="grid gap-4 pt-4">
            <div className="flex flex-wrap gap-2">
              <Select label="Time to pay" name="expires_in" options={WINDOWS} />
              <Select
                label="Coin"
                name="currency"
                options={[{ value: '', label: 'Customer chooses the coin' }, ...COINS.map((value) => ({ value, label: value }))]}
              />
            </div>
            <Field label="Return URL" name="return_url" type="url" placeholder="https://" fault={fault('return_url')} autoComplete="off" />
            <fieldset className="grid gap-2">
              <legend className="pb-1 text-sm font-medium">Metadata</legend>
              <Pairs pairs={pairs} setPairs={setPairs} />
              <div>
                <Button look="ghost" disabled={pairs.length >= 50} onClick={() => setPairs(anotherPair(pairs))}>
                  Add field
                </Button>
              </div>
            </fieldset>
          </div>
        </details>
        {create.error && !isShown && <Note tone="bad">{create.error.message}</Note>}
        <Foot onBack={onClose}>
          <Button look="main" type="submit" busy={create.isPending}>
            Create payment
          </Button>
        </Foot>
      </form>
    </Dialog>
  );
}
