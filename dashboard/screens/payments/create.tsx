/** Creates a payment by hand: an amount or items; then shows its link and QR code. */
import { type FormEvent, useState } from 'react';
import { type Api, ApiError } from '../../lib/api.ts';
import { assetOptions, networkOptions } from '../../lib/coin.ts';
import { useAct, useMode } from '../../lib/hooks.ts';
import { AmountField } from '../../ui/amount.tsx';
import { Button } from '../../ui/button.tsx';
import { Dialog, Foot } from '../../ui/dialog.tsx';
import { Field } from '../../ui/field.tsx';
import { Choice, Note } from '../../ui/form.tsx';
import { anotherPair, type Pair, Pairs } from '../../ui/pairs.tsx';
import { Created, type MadePayment } from './created.tsx';
import { type Item, Items, newItem } from './items.tsx';

const WINDOWS = [
  { value: '', label: 'Default' },
  { value: '1800', label: '30 minutes' },
  { value: '3600', label: '1 hour' },
  { value: '21600', label: '6 hours' },
  { value: '86400', label: '24 hours' },
];
const CUSTOMER = { value: '', label: 'Customer chooses' };
/** Parameters whose faults are shown at their fields. */
const FIELDS = [
  'amount_usd',
  'amount',
  'currency_fiat',
  'items',
  'tax',
  'description',
  'invoice_id',
  'return_url',
  'customer',
  'customer.email',
  'customer.name',
];

type Price = { kind: 'amount' | 'items'; amount: string; fiat: string; items: readonly Item[] };

/** The body of the request, from the fields of the form and what is edited outside of it. */
function bodyOf(form: FormData, { kind, amount, fiat, items }: Price, pairs: readonly Pair[]) {
  const text = (name: string) => String(form.get(name) ?? '').trim();
  const metadata = Object.fromEntries(pairs.filter((pair) => pair.name.trim() !== '').map((pair) => [pair.name.trim(), pair.value]));
  // The code of a coin contains its network; a stablecoin without one leaves the network to the customer.
  const coin = text('network') || text('currency');
  const priced =
    kind === 'amount'
      ? { amount: amount.trim() }
      : {
          items: items.map((one, i) => ({
            product_id: `item-${i + 1}`,
            name: one.name.trim(),
            quantity: Number(one.quantity),
            unit_price: one.price.trim(),
          })),
          tax: text('tax') || '0',
        };
  return {
    ...priced,
    currency_fiat: fiat,
    ...(text('description') && { description: text('description') }),
    ...((text('customer_email') || text('customer_name')) && { customer: { email: text('customer_email'), name: text('customer_name') } }),
    ...(text('invoice_id') && { invoice_id: text('invoice_id') }),
    ...(text('return_url') && { return_url: text('return_url') }),
    ...(text('expires_in') && { expires_in: Number(text('expires_in')) }),
    ...(coin && { currency: coin as Api['POST /:mode/payments']['body']['currency'] }),
    ...(Object.keys(metadata).length > 0 && { metadata }),
  };
}

type FaultOf = (name: string) => string | null | undefined;

export function Create({ onClose }: { onClose: () => void }) {
  const mode = useMode();
  const create = useAct('POST /:mode/payments', { refreshes: [['payments'], ['home']], quiet: true });
  const [made, setMade] = useState<MadePayment | null>(null);
  const [price, setPrice] = useState<Price>({ kind: 'amount', amount: '', fiat: 'USD', items: [newItem(0)] });
  const [pairs, setPairs] = useState<readonly Pair[]>([]);
  const param = create.error instanceof ApiError ? create.error.param : null;
  const fault: FaultOf = (name) => (param === name ? create.error?.message : null);
  const submit = (event: FormEvent<HTMLFormElement>) => {
    event.preventDefault();
    create.mutate({ body: bodyOf(new FormData(event.currentTarget), price, pairs) }, { onSuccess: setMade });
  };
  if (made) return <Created made={made} onClose={onClose} />;
  return (
    <Dialog open onClose={onClose} title={mode === 'test' ? 'Create a test payment' : 'Create a payment'}>
      <form onSubmit={submit} className="grid gap-4">
        <PriceFields price={price} change={(values) => setPrice({ ...price, ...values })} fault={fault} />
        <Field
          label="Description"
          name="description"
          maxLength={1000}
          hint="Optional. Shown to the customer."
          fault={fault('description')}
          autoComplete="off"
        />
        <div className="grid gap-4 sm:grid-cols-2">
          <Field
            label="Customer email"
            name="customer_email"
            type="email"
            maxLength={200}
            hint="Optional."
            fault={fault('customer.email') ?? fault('customer')}
            autoComplete="off"
          />
          <Field
            label="Customer name"
            name="customer_name"
            maxLength={100}
            hint="Optional."
            fault={fault('customer.name')}
            autoComplete="off"
          />
        </div>
        <Field label="Invoice number" name="invoice_id" maxLength={100} hint="Optional." fault={fault('invoice_id')} autoComplete="off" />
        <More pairs={pairs} setPairs={setPairs} fault={fault} />
        {create.error && !FIELDS.includes(param ?? '') && <Note tone="bad">{create.error.message}</Note>}
        <Foot onBack={onClose}>
          <Button look="main" type="submit" busy={create.isPending}>
            Create payment
          </Button>
        </Foot>
      </form>
    </Dialog>
  );
}

/** An amount, or items and tax. */
function PriceFields({ price, change, fault }: { price: Price; change: (values: Partial<Price>) => void; fault: FaultOf }) {
  const { kind, amount, fiat, items } = price;
  const onCurrency = (code: string) => change({ fiat: code });
  return (
    <>
      <fieldset className="flex gap-4 text-sm">
        <legend className="sr-only">Price</legend>
        {(['amount', 'items'] as const).map((value) => (
          <label key={value} className="flex items-center gap-2">
            <input type="radio" name="kind" checked={kind === value} onChange={() => change({ kind: value })} className="accent-accent" />
            {value === 'amount' ? 'Amount' : 'Items and tax'}
          </label>
        ))}
      </fieldset>
      {kind === 'amount' ? (
        <AmountField
          amount={amount}
          onAmount={(text) => change({ amount: text })}
          currency={fiat}
          onCurrency={onCurrency}
          fault={fault('amount_usd') ?? fault('amount') ?? fault('currency_fiat')}
        />
      ) : (
        <>
          <AmountField currency={fiat} onCurrency={onCurrency} fault={fault('currency_fiat') ?? fault('items')} />
          <Items items={items} setItems={(next) => change({ items: next })} fiat={fiat} />
          <Field label={`Tax in ${fiat}`} name="tax" inputMode="decimal" placeholder="0" fault={fault('tax')} autoComplete="off" />
        </>
      )}
    </>
  );
}

/** The coin, and its network where there are several. */
function CoinFields() {
  const [asset, setAsset] = useState('');
  const networks = networkOptions(asset);
  return (
    <>
      <Choice
        label="Coin"
        name="currency"
        options={[CUSTOMER, ...assetOptions()]}
        value={asset}
        onChange={({ currentTarget }) => setAsset(currentTarget.value)}
      />
      {networks.length > 0 && (
        <Choice key={asset} label="Network" name="network" options={networks[0]!.value === asset ? networks : [CUSTOMER, ...networks]} />
      )}
    </>
  );
}

/** What few payments need. */
const More = ({ pairs, setPairs, fault }: { pairs: readonly Pair[]; setPairs: (pairs: readonly Pair[]) => void; fault: FaultOf }) => (
  <details className="grid gap-4">
    <summary className="cursor-pointer text-sm font-medium">More options</summary>
    <div className="grid gap-4 pt-4">
      <div className="grid gap-4 sm:grid-cols-2">
        <CoinFields />
        <Choice label="Time to pay" name="expires_in" options={WINDOWS} />
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
);
