/** One payment: what it is, what happened, what can be decided. */

import { useParams } from '@tanstack/react-router';
import { lazy, type ReactNode, Suspense } from 'react';
import { isSome, lessOf, moneyText, sumText, withUsd } from '../../lib/amount.ts';
import type { Reply } from '../../lib/api.ts';
import { canBePriced, coinOf, coinText, partsOf } from '../../lib/coin.ts';
import { useApi, useTitle } from '../../lib/hooks.ts';
import { About } from '../../ui/about.tsx';
import { buttonClass } from '../../ui/button.tsx';
import { CustomerLink } from '../../ui/customer.tsx';
import { Note } from '../../ui/form.tsx';
import { Price, Worth } from '../../ui/price.tsx';
import { countedOf, shortUsd, uncountedWord } from '../../ui/received.tsx';
import { Card, Facts, Skeleton } from '../../ui/states.tsx';
import { Back, PendingPage } from '../../ui/thing.tsx';
import { Badge, CopyButton, Money, PaymentState, TestLabel, Time } from '../../ui/values.tsx';
import { Acts } from './acts.tsx';
import { ApiView, Items, Metadata, MissingOrder, RefundRequest, Simulator } from './parts.tsx';
import { Timeline } from './timeline.tsx';
import { Transfers } from './transfers.tsx';

const RefundsOfPayment = lazy(async () => ({ default: (await import('../refunds/of-payment.tsx')).RefundsOfPayment }));
const PaymentEvents = lazy(async () => ({ default: (await import('./payment-events.tsx')).PaymentEvents }));

type Full = Reply<'GET /:mode/payments/:id'>;

const LIST = ['payments', 'Payments'] as const;

export function Screen() {
  const { id } = useParams({ strict: false }) as { id: string };
  useTitle('Payment');
  const query = useApi('GET /:mode/payments/:id', ['payment', id], { params: { id } });
  const { data } = query;
  if (!data) return <PendingPage of={query} title="Payment" back={LIST} />;
  const { payment } = data;
  return (
    <div className="grid gap-6">
      <Back to={LIST} />
      <div className="flex flex-wrap items-start justify-between gap-4">
        <div className="grid gap-2">
          <h1>
            <Price of={payment} />
          </h1>
          <p className="flex flex-wrap items-center gap-2">
            <PaymentState status={payment.status} exception={payment.exception} />
            <TestLabel />
            {data.archived_at !== null && <Badge tone="calm">Archived</Badge>}
          </p>
          <p className="flex items-center gap-1 text-sm break-all text-soft">
            <code>{payment.id}</code>
            <CopyButton value={payment.id} label="Copy payment ID" />
          </p>
        </div>
        <div className="flex flex-wrap gap-2">
          {payment.status === 'completed' && !payment.exceptions.includes('reorged') && (
            <a href={payment.payment_url.replace('/pay?', '/pay/receipt.pdf?')} download className={buttonClass()}>
              Receipt (PDF)
            </a>
          )}
          <a href={payment.payment_url} target="_blank" rel="noreferrer" className={buttonClass()}>
            Open payment page
          </a>
          <Acts data={data} />
        </div>
      </div>
      <Reversed data={data} />
      <Overpaid data={data} />
      <Decide data={data} />
      <Simulator payment={payment} />
      {/* Amounts come first on a phone. */}
      <div className="grid items-start gap-6 lg:grid-cols-[3fr_2fr]">
        <div className="grid min-w-0 gap-6 lg:col-start-2">
          <RefundRequest request={data.refund_request} />
          <MissingOrder payment={payment} />
          {payment.customer !== null && <CustomerCard customer={payment.customer} />}
          <Card title="Amounts">
            <Facts rows={amountRows(data)} />
          </Card>
          {data.arrived.length > 0 && (
            <Suspense fallback={null}>
              <RefundsOfPayment data={data} />
            </Suspense>
          )}
          <Transfers data={data} />
          <Items payment={payment} />
          <Card title="Details">
            <Facts
              rows={[
                ['Created', <Time key="t" at={payment.created_at} happened />],
                ['Expires', <Time key="t" at={payment.expires_at} />],
                ...(payment.completed_at === null ? [] : [['Completed', <Time key="t" at={payment.completed_at} happened />] as const]),
                ...(payment.verified_by === null ? [] : [['Verified by', VERIFIERS[payment.verified_by]] as const]),
                ['Invoice', payment.invoice_id ?? '–'],
                ['Description', payment.description ?? '–'],
              ]}
            />
          </Card>
          <Metadata payment={payment} />
        </div>
        <div className="grid min-w-0 gap-6 lg:col-start-1 lg:row-start-1">
          <Card title="Timeline" action={<TestLabel />}>
            <Timeline paymentId={payment.id} entries={data.timeline} explorers={data.explorers} />
          </Card>
          <Suspense fallback={<Skeleton lines={3} />}>
            <PaymentEvents paymentId={payment.id} />
          </Suspense>
          <ApiView payment={payment} />
        </div>
      </div>
    </div>
  );
}

const VERIFIERS = {
  node: 'Your node',
  proof_of_work: 'Proof of work',
  sync_committee: 'Sync committee',
  providers: 'Two providers',
  preimage: 'Preimage of the invoice',
} as const;

const CustomerCard = ({ customer }: { customer: NonNullable<Full['payment']['customer']> }) => (
  <Card title="Customer">
    <Facts
      rows={[
        ['Customer', <CustomerLink key="c" customer={customer} />],
        ['Email', customer.email ?? '–'],
        ['Reference', customer.reference ?? '–'],
      ]}
    />
  </Card>
);

/** A rate, who agreed on it and when. */
const Rate = ({ entry }: { entry: Full['timeline'][number] }) => (
  <span className="grid justify-items-end gap-0.5">
    <span>
      <Money amount={entry.rate} /> per {entry.currency !== null && partsOf(entry.currency).asset}
    </span>
    <span className="text-xs text-soft">
      <Time at={entry.at} happened />
      {entry.rate_sources.length > 0 && `, ${entry.rate_sources.join(', ')}`}
    </span>
  </span>
);

/** Coin amounts with their value beside them. */
const Both = ({ amount, currency, usd }: { amount: string; currency: string; usd: string | null }) => (
  <span className="flex flex-wrap justify-end gap-x-1.5">
    <Money amount={amount} currency={currency} />
    {usd !== null && <Money amount={usd} className="text-soft" />}
    {usd !== null && <About usd={usd} />}
  </span>
);

/** A completed payment of which the network took money back. */
function Reversed({ data: { payment, uncounted } }: { data: Full }) {
  if (payment.status !== 'completed' || !payment.exceptions.includes('reorged')) return null;
  const { usd } = countedOf({ ...payment, uncounted });
  const missing = usd === null ? payment.amount_usd : lessOf(payment.amount_usd, usd);
  return (
    <Note tone="bad">
      <p>
        The network took this payment back: <strong>{moneyText(missing)}</strong> is missing. Don’t ship. If the transfer isn’t confirmed
        again, ask the customer to pay once more.
      </p>
    </Note>
  );
}

/** A completed payment that received too much, until somebody handled that. */
function Overpaid({ data: { payment, attention } }: { data: Full }) {
  if (!attention || payment.status !== 'completed' || !payment.exceptions.includes('overpaid') || payment.currency === null) return null;
  const coin = coinOf({ currency: payment.currency, network: payment.network });
  return (
    <Note tone="warn">
      <p>
        Paid <strong>{moneyText(payment.amount_overpaid, coin)}</strong> more than due. Refund it, or mark the payment as handled.
      </p>
    </Note>
  );
}

/** What an ended payment still waits for: the merchant's decision on money that arrived. */
function Decide({ data: { payment, uncounted } }: { data: Full }) {
  const held = uncounted.filter(({ state }) => state === 'held');
  const unpriced = held.filter(({ currency }) => !canBePriced(currency));
  const coin = payment.currency === null ? null : coinOf({ currency: payment.currency, network: payment.network });
  const row = { ...payment, currency: coin, uncounted };
  const [short, counted] = [shortUsd(row), countedOf(row)];
  const isOver = payment.status === 'failed' || payment.status === 'expired' || payment.status === 'cancelled';
  if (held.length === 0 && !(isOver && short !== null)) return null;
  return (
    <Note tone="warn">
      {held.length > 0 && (
        <p>
          {uncountedWord('held', payment.exceptions)}: <strong>{sumText(held)}</strong>. It does not count toward this payment
          {isOver ? ' until you accept it.' : '.'}
        </p>
      )}
      {unpriced.map(({ currency }) => (
        <p key={currency}>
          There is no price for {coinText(currency)}, so it cannot be accepted. Send it back or move it with a wallet that has your seed
          phrase, on {partsOf(currency).network}.
        </p>
      ))}
      {isOver && short !== null && coin !== null && counted.amount !== null && (
        <p>
          {held.length > 0 ? 'Received in time' : 'Received'} <strong>{withUsd(counted.amount, coin, counted.usd)}</strong>, short by{' '}
          {moneyText(short)}.
        </p>
      )}
    </Note>
  );
}

function amountRows({ payment, timeline, tolerance, uncounted }: Full): (readonly [string, ReactNode])[] {
  const { status } = payment;
  const currency = payment.currency === null ? null : coinOf({ currency: payment.currency, network: payment.network });
  const quote = timeline.findLast((entry) => entry.kind === 'coin_chosen' && entry.currency === currency && entry.rate !== null);
  const isOpen = status === 'pending' || status === 'processing';
  const short = shortUsd({ ...payment, currency, uncounted });
  const rows: (readonly [string, ReactNode] | false)[] = [
    [
      'Price',
      <span key="price" className="flex flex-wrap justify-end gap-x-1.5">
        <Price of={payment} />
        <Worth of={payment} />
      </span>,
    ],
    currency !== null && ['Amount due', <Money key="due" amount={payment.amount} currency={currency} />],
    quote !== undefined && ['Rate', <Rate key="rate" entry={quote} />],
    currency !== null &&
      (isSome(payment.amount_received) || uncounted.length === 0) && [
        'Received',
        <Both key="received" amount={payment.amount_received} currency={currency} usd={payment.amount_received_usd} />,
      ],
    ...uncounted.map(
      (one) =>
        [
          uncountedWord(one.state, payment.exceptions),
          <Both key={`${one.currency} ${one.state}`} amount={one.amount} currency={one.currency} usd={one.amount_usd} />,
        ] as const,
    ),
    isOpen &&
      isSome(payment.amount_remaining) && ['Remaining', <Money key="remaining" amount={payment.amount_remaining} currency={currency} />],
    !isOpen && short !== null && ['Short by', <Money key="missing" amount={short} />],
    isSome(payment.amount_overpaid) && ['Overpaid by', <Money key="over" amount={payment.amount_overpaid} currency={currency} />],
    payment.accepted_short !== null &&
      currency !== null && [
        'Accepted short by',
        <Both key="short" amount={payment.accepted_short} currency={currency} usd={payment.accepted_short_usd} />,
      ],
    isSome(payment.amount_refunded) && ['Refunded', <Money key="refunded" amount={payment.amount_refunded} currency={currency} />],
    isSome(payment.amount_dust) && ['Too small to count', <Money key="dust" amount={payment.amount_dust} currency={currency} />],
    [
      'Underpayment tolerance',
      isSome(tolerance.percent) ? (
        <span key="tolerance">
          {tolerance.percent}%, at most <Money amount={tolerance.cap_usd} />
        </span>
      ) : (
        'None'
      ),
    ],
    ['Fees', 'No Florin fee, network fee paid by customer'],
    payment.payment_address !== null && [
      'Address',
      <span key="address" className="inline-flex items-center gap-1 font-mono text-xs break-all">
        {payment.payment_address}
        <CopyButton value={payment.payment_address} label="Copy address" />
      </span>,
    ],
  ];
  return rows.filter((row) => row !== false);
}
