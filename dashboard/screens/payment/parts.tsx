/** Cards of a payment that not every payment has: items, refund request, simulator, metadata, API view. */

import { type FormEvent, useState } from 'react';
import { COINS, type Coin } from '../../generated/api.ts';
import type { Api, Reply } from '../../lib/api.ts';
import { apiNamesOf, coinOptions, partsOf } from '../../lib/coin.ts';
import { PAYMENT_READS, useAct, useMay } from '../../lib/hooks.ts';
import { Button } from '../../ui/button.tsx';
import { Select } from '../../ui/field.tsx';
import { anotherPair, Pairs } from '../../ui/pairs.tsx';
import { Card, Facts } from '../../ui/states.tsx';
import { CoinLabel, CopyButton, Money, Time } from '../../ui/values.tsx';

type Full = Reply<'GET /:mode/payments/:id'>;
type Payment = Full['payment'];

export function Items({ payment }: { payment: Payment }) {
  if (!payment.items) return null;
  return (
    <Card title="Items">
      <table className="w-full text-sm" aria-label="Items">
        <thead>
          <tr className="text-soft">
            <th scope="col" className="px-4 py-2 text-left font-medium">
              Item
            </th>
            <th scope="col" className="px-4 py-2 text-right font-medium">
              Quantity
            </th>
            <th scope="col" className="px-4 py-2 text-right font-medium">
              Unit price
            </th>
          </tr>
        </thead>
        <tbody>
          {payment.items.map((item, i) => (
            // biome-ignore lint/suspicious/noArrayIndexKey: items never change their order
            <tr key={i} className="border-t border-line">
              <td className="px-4 py-2 break-words">{item.name}</td>
              <td className="px-4 py-2 text-right tabular-nums">{item.quantity}</td>
              <td className="px-4 py-2 text-right">
                <Money amount={item.unit_price} currency={payment.currency_fiat ?? 'USD'} />
              </td>
            </tr>
          ))}
          <tr className="border-t border-line">
            <td className="px-4 py-2" colSpan={2}>
              Tax
            </td>
            <td className="px-4 py-2 text-right">
              <Money amount={payment.tax ?? '0.00'} currency={payment.currency_fiat ?? 'USD'} />
            </td>
          </tr>
          <tr className="border-t border-line font-medium">
            <td className="px-4 py-2" colSpan={2}>
              Total
            </td>
            <td className="px-4 py-2 text-right">
              <Money amount={payment.amount_fiat ?? payment.amount_usd} currency={payment.currency_fiat ?? 'USD'} />
            </td>
          </tr>
        </tbody>
      </table>
    </Card>
  );
}

export const RefundRequest = ({ request }: { request: Full['refund_request'] }) =>
  request && (
    <Card title="Refund requested">
      <Facts
        rows={[
          ['Requested', <Time key="t" at={request.requested_at} happened />],
          ['Coin', <CoinLabel key="coin" coin={request.currency} />],
          [
            'Refund address',
            <span key="a" className="inline-flex items-center gap-1 font-mono text-xs break-all">
              {request.address}
              <CopyButton value={request.address} label="Copy refund address" />
            </span>,
          ],
          ['Email', request.email ?? '–'],
        ]}
      />
      <p className="border-t border-line px-4 py-3 text-sm text-soft">
        Entered on the payment page and not verified. Check with your customer before you send money to it.
      </p>
    </Card>
  );

/** What a shop says of money whose order it no longer has. */
export const MissingOrder = ({ payment }: { payment: Full['payment'] }) =>
  payment.metadata.order_missing !== undefined && (
    <Card title="No order">
      <p className="px-4 py-3 text-sm">{payment.metadata.order_missing}</p>
      <p className="border-t border-line px-4 py-3 text-sm text-soft">
        Refund the payment, or create the order again in your shop. Then mark the payment as handled.
      </p>
    </Card>
  );

type Scenario = Api['POST /:mode/payments/:id/simulate']['body']['scenario'];
const SCENARIOS: readonly { value: Scenario; label: string }[] = [
  { value: 'success', label: 'Success' },
  { value: 'slow', label: 'Slow confirmation' },
  { value: 'held', label: 'Held by a Lightning node' },
  { value: 'underpaid', label: 'Underpaid' },
  { value: 'overpaid', label: 'Overpaid' },
  { value: 'late', label: 'Late' },
  { value: 'expired', label: 'Expired' },
  { value: 'failed', label: 'Failed' },
  { value: 'replaced', label: 'Replaced by another transaction' },
  { value: 'reorg', label: 'Reorganized, confirmed again' },
  { value: 'reversed', label: 'Reversed after completion' },
  { value: 'wrong_network', label: 'Paid on another network' },
  { value: 'wrong_token', label: 'Paid in another coin' },
];

/** Simulates a customer payment, in test mode, once per payment. */
export function Simulator({ payment }: { payment: Payment }) {
  const may = useMay('payments.simulate');
  const [scenario, setScenario] = useState<Scenario>('success');
  // A payment whose asset is on several networks has a currency, and no network until the customer chooses one.
  const choices =
    payment.network !== null ? [] : COINS.filter((one) => payment.currency === null || partsOf(one).asset === payment.currency);
  const [coin, setCoin] = useState<Coin>(choices[0] ?? 'BTC');
  const play = useAct('POST /:mode/payments/:id/simulate', { refreshes: PAYMENT_READS });
  if (payment.mode !== 'test' || payment.status !== 'pending' || payment.transfers.length > 0 || !may) return null;
  return (
    <Card title="Simulate a customer payment">
      <form
        className="flex flex-wrap items-center gap-2 p-4"
        onSubmit={(event) => {
          event.preventDefault();
          play.mutate({ params: { id: payment.id }, body: { scenario, ...(choices.length > 0 && apiNamesOf(coin)) } });
        }}
      >
        <p className="w-full text-sm text-soft">The outcome follows within seconds, and webhooks are sent as in live mode.</p>
        <Select label="Scenario" value={scenario} onChange={(e) => setScenario(e.target.value as Scenario)} options={SCENARIOS} />
        {choices.length > 0 && (
          <Select label="Coin" value={coin} onChange={(e) => setCoin(e.target.value as Coin)} options={coinOptions(choices)} />
        )}
        <Button look="main" type="submit" busy={play.isPending}>
          Simulate
        </Button>
      </form>
    </Card>
  );
}

export function Metadata({ payment }: { payment: Payment }) {
  const may = useMay('payments.edit');
  const [editing, setEditing] = useState(false);
  const pairs = Object.entries(payment.metadata);
  if (editing) return <MetadataForm payment={payment} close={() => setEditing(false)} />;
  return (
    <Card title="Metadata" action={may && <Button onClick={() => setEditing(true)}>Edit metadata</Button>}>
      {pairs.length === 0 ? <p className="px-4 py-3 text-sm text-soft">No metadata.</p> : <Facts rows={pairs} />}
    </Card>
  );
}

function MetadataForm({ payment, close }: { payment: Payment; close: () => void }) {
  const [pairs, setPairs] = useState(() => [
    ...Object.entries(payment.metadata).map(([name, value], key) => ({ key, name, value })),
    { key: 1_000, name: '', value: '' },
  ]);
  const keep = useAct('POST /:mode/payments/:id/metadata', { refreshes: PAYMENT_READS, done: 'Metadata saved.' });
  const submit = (event: FormEvent) => {
    event.preventDefault();
    const next = Object.fromEntries(
      pairs.filter((pair) => pair.name.trim() !== '' && pair.value !== '').map((pair) => [pair.name.trim(), pair.value]),
    );
    const gone = Object.fromEntries(Object.keys(payment.metadata).flatMap((name) => (name in next ? [] : [[name, null]])));
    keep.mutate({ params: { id: payment.id }, body: { metadata: { ...gone, ...next } } }, { onSuccess: close });
  };
  return (
    <Card title="Metadata">
      <form onSubmit={submit} className="grid gap-2 p-4">
        <Pairs pairs={pairs} setPairs={setPairs} />
        <div className="flex flex-wrap justify-between gap-2 pt-1">
          <Button look="ghost" onClick={() => setPairs(anotherPair(pairs))}>
            Add field
          </Button>
          <span className="flex gap-2">
            <Button onClick={close}>Cancel</Button>
            <Button look="main" type="submit" busy={keep.isPending}>
              Save
            </Button>
          </span>
        </div>
      </form>
    </Card>
  );
}

/** The payment as the public API answers it, and how to ask. */
export function ApiView({ payment }: { payment: Payment }) {
  const [open, setOpen] = useState(false);
  const curl = `curl ${location.origin}/api/payment/${payment.id} \\\n  -H "Authorization: Bearer sk_${payment.mode}_…"`;
  const json = JSON.stringify(payment, null, 2);
  const block = (label: string, text: string) => (
    <div className="grid gap-1">
      <div className="flex items-center justify-between">
        <p className="text-xs font-medium text-soft">{label}</p>
        <CopyButton value={text} label={`Copy ${label}`} />
      </div>
      <pre className="rounded-lg bg-raised p-3 text-xs break-all whitespace-pre-wrap">{text}</pre>
    </div>
  );
  return (
    <Card
      title="API"
      action={
        <Button look="ghost" aria-expanded={open} onClick={() => setOpen(!open)}>
          {open ? 'Hide' : 'Show as JSON'}
        </Button>
      }
    >
      {open ? (
        <div className="grid gap-4 p-4">
          {block('curl', curl)}
          {block('JSON', json)}
        </div>
      ) : (
        <p className="px-4 py-3 text-sm text-soft">
          The response of <code>GET /api/payment/…</code> for this payment.
        </p>
      )}
    </Card>
  );
}
