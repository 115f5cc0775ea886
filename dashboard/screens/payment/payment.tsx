/** One payment: what it is, what happened, what can be decided. */
import { useParams } from '@tanstack/react-router';
import { lazy, type ReactNode, Suspense } from 'react';
import type { Reply } from '../../lib/api.ts';
import { useApi, useTitle } from '../../lib/hooks.ts';
import { buttonClass } from '../../ui/button.tsx';
import { Card, Facts, Skeleton } from '../../ui/states.tsx';
import { Back, PendingPage } from '../../ui/thing.tsx';
import { Badge, CopyButton, ExceptionBadge, Money, Status, Time } from '../../ui/values.tsx';
import { Acts } from './acts.tsx';
import { ApiView, Items, Metadata, RefundRequest, Simulator, TestBadge } from './parts.tsx';
import { Timeline } from './timeline.tsx';
import { Transfers } from './transfers.tsx';

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
            <Money amount={payment.amount_usd} />
          </h1>
          <p className="flex flex-wrap items-center gap-2">
            <Status status={payment.status} />
            <ExceptionBadge exception={payment.exception} />
            {data.archived_at !== null && <Badge tone="calm">Archived</Badge>}
            <TestBadge mode={payment.mode} />
          </p>
          <p className="flex items-center gap-1 text-sm break-all text-soft">
            <code>{payment.id}</code>
            <CopyButton value={payment.id} label="Copy the payment id" />
          </p>
        </div>
        <div className="flex flex-wrap gap-2">
          <a href={payment.payment_url} target="_blank" rel="noreferrer" className={buttonClass()}>
            Open page
          </a>
          <Acts data={data} />
        </div>
      </div>
      <div className="grid items-start gap-6 lg:grid-cols-[3fr_2fr]">
        <div className="grid min-w-0 gap-6">
          <Simulator payment={payment} />
          <Card title="Timeline">
            <Timeline paymentId={payment.id} entries={data.timeline} explorers={data.explorers} />
          </Card>
          <Suspense fallback={<Skeleton lines={3} />}>
            <PaymentEvents paymentId={payment.id} />
          </Suspense>
          <ApiView payment={payment} />
        </div>
        <div className="grid min-w-0 gap-6">
          <RefundRequest request={data.refund_request} />
          <MoneyCard data={data} />
          <Transfers data={data} />
          <Items payment={payment} />
          <Card title="Details">
            <Facts
              rows={[
                ['Created', <Time key="t" at={payment.created_at} />],
                ['Expires', <Time key="t" at={payment.expires_at} />],
                ['Completed', <Time key="t" at={payment.completed_at} />],
                ['Invoice', payment.invoice_id ?? '–'],
                ['Description', payment.description ?? '–'],
              ]}
            />
          </Card>
          <Metadata payment={payment} />
        </div>
      </div>
    </div>
  );
}

const isSome = (amount: string | null | undefined): amount is string => !!amount && /[1-9]/.test(amount);
/** A rate, who agreed on it and when. */
const Rate = ({ entry }: { entry: Full['timeline'][number] }) => (
  <span className="grid justify-items-end gap-0.5">
    <span>
      <Money amount={entry.rate} /> per {entry.currency}
    </span>
    <span className="text-xs text-soft">
      <Time at={entry.at} />
      {entry.rate_sources.length > 0 && `, ${entry.rate_sources.join(', ')}`}
    </span>
  </span>
);

function MoneyCard({ data: { payment, timeline, tolerance } }: { data: Full }) {
  const quote = timeline.findLast((entry) => entry.kind === 'coin_chosen' && entry.currency === payment.currency && entry.rate !== null);
  const rows: (readonly [string, ReactNode])[] = [
    ['Price', <Money key="price" amount={payment.amount_usd} />],
    ['Due', <Money key="due" amount={payment.amount} currency={payment.currency} />],
    ...(quote ? [['Rate', <Rate key="rate" entry={quote} />] as const] : []),
    ['Received', <Money key="received" amount={payment.amount_received} currency={payment.currency} />],
    ['Received, in USD', <Money key="usd" amount={payment.amount_received_usd} />],
    isSome(payment.amount_overpaid)
      ? ['More than due', <Money key="over" amount={payment.amount_overpaid} currency={payment.currency} />]
      : ['Remaining', <Money key="remaining" amount={payment.amount_remaining} currency={payment.currency} />],
    ...(payment.accepted_short !== null
      ? [['Accepted short by', <Money key="short" amount={payment.accepted_short} currency={payment.currency} />] as const]
      : []),
    ...(isSome(payment.amount_dust)
      ? [['Too small to count', <Money key="dust" amount={payment.amount_dust} currency={payment.currency} />] as const]
      : []),
    [
      'Accepted as paid in full',
      isSome(tolerance.percent) ? (
        <span key="tolerance">
          Up to {tolerance.percent} % less, at most <Money amount={tolerance.cap_usd} />
        </span>
      ) : (
        'The exact amount or more'
      ),
    ],
    ['Fees', 'None to Florin; the network’s are the payer’s'],
  ];
  if (payment.payment_address) {
    rows.push([
      'Address',
      <span key="address" className="inline-flex items-center gap-1 font-mono text-xs break-all">
        {payment.payment_address}
        <CopyButton value={payment.payment_address} label="Copy the address" />
      </span>,
    ]);
  }
  return (
    <Card title="Money">
      <Facts rows={rows} />
    </Card>
  );
}
