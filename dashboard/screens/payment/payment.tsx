/** One payment: what it is, what happened, what can be decided. */
import { useParams } from '@tanstack/react-router';
import { lazy, type ReactNode, Suspense } from 'react';
import type { Reply } from '../../lib/api.ts';
import { useApi, useTitle } from '../../lib/hooks.ts';
import { buttonClass } from '../../ui/button.tsx';
import { Icon, type IconName } from '../../ui/icon.tsx';
import { Card, Facts, Skeleton } from '../../ui/states.tsx';
import { Back, PendingPage } from '../../ui/thing.tsx';
import { CopyButton, ExceptionBadge, Money, Status, Time } from '../../ui/values.tsx';
import { Decisions } from './acts.tsx';
import { ApiView, Items, Metadata, RefundRequest, Simulator, TestBadge } from './parts.tsx';

const PaymentEvents = lazy(async () => ({ default: (await import('./payment-events.tsx')).PaymentEvents }));

type Full = Reply<'GET /:mode/payments/:id'>;
type Payment = Full['payment'];

const LIST = ['payments', 'Payments'] as const;

export function Screen() {
  const { id } = useParams({ strict: false }) as { id: string };
  useTitle('Payment');
  const query = useApi('GET /:mode/payments/:id', ['payments', id], { params: { id } });
  const { data } = query;
  if (!data) return <PendingPage of={query} title="Payment" back={LIST} />;
  const { payment, timeline } = data;
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
          <Decisions data={data} />
        </div>
      </div>
      <div className="grid items-start gap-6 lg:grid-cols-[3fr_2fr]">
        <div className="grid min-w-0 gap-6">
          <Simulator payment={payment} />
          <Card title="Timeline">
            <Timeline entries={timeline} explorers={data.explorers} />
          </Card>
          <ApiView payment={payment} />
        </div>
        <div className="grid min-w-0 gap-6">
          <RefundRequest request={data.refund_request} />
          <MoneyCard data={data} />
          <Suspense fallback={<Skeleton lines={3} />}>
            <PaymentEvents paymentId={payment.id} />
          </Suspense>
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

/** A transaction id, with the way to a public explorer where there is one. */
const Txid = ({ id, explorers }: { id: string | null; explorers: Full['explorers'] }) =>
  id !== null && (
    <span className="font-mono text-xs break-all text-soft">
      {id}
      {explorers[id] && (
        <a href={explorers[id]} target="_blank" rel="noreferrer noopener" className="ml-2 font-sans underline">
          Explorer
        </a>
      )}
    </span>
  );

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
const confirmationsOf = ({ confirmations, confirmations_required: wanted, completion_rule: rule }: Payment): string =>
  wanted !== null ? `${confirmations} of ${wanted}` : `${confirmations}${rule ? `, until ${RULES[rule] ?? rule}` : ''}`;
const RULES: Readonly<Record<string, string>> = {
  instantsend: 'an InstantSend lock',
  instantsend_or_chainlock: 'an InstantSend lock or ChainLock',
  chainlock: 'the ChainLock of its block',
  safe: 'the network calls it safe',
  finalized: 'the network calls it final',
};

function MoneyCard({ data: { payment, timeline, tolerance, explorers } }: { data: Full }) {
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
    ...(payment.transfers.length > 0 ? [['Confirmations', confirmationsOf(payment)] as const] : []),
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
  payment.transfers.forEach((transfer, i) => {
    rows.push([
      `Transfer ${i + 1}`,
      <span key={transfer.ref} className="grid justify-items-end gap-0.5">
        <Money amount={transfer.amount} currency={transfer.currency} />
        <Txid id={transfer.transaction_hash} explorers={explorers} />
        <span className="text-xs text-soft">
          {transfer.replaced_by !== null
            ? 'Replaced by another transaction'
            : transfer.block_height === null
              ? 'In no block yet'
              : `Block ${transfer.block_height.toLocaleString('en')}`}
        </span>
      </span>,
    ]);
  });
  return (
    <Card title="Money">
      <Facts rows={rows} />
    </Card>
  );
}

const DECISIONS: Readonly<Record<string, string>> = {
  cancel: 'Cancelled',
  accept: 'Accepted',
  reject: 'Refused',
  refund_sent: 'Refund marked as sent',
};
function wordsOf({ kind, what, actor }: Full['timeline'][number]): { text: string; icon: IconName } {
  switch (kind) {
    case 'created':
      return { text: actor ? `Created by ${actor}` : `Created with a ${what} key`, icon: 'payments' };
    case 'opened':
      return { text: 'Page opened', icon: 'link' };
    case 'coin_chosen':
      return { text: 'Coin chosen', icon: 'wallet' };
    case 'transfer_seen':
      return { text: 'Transfer seen', icon: 'arrow' };
    case 'transfer_confirmed':
      return { text: 'Transfer in a block', icon: 'check' };
    case 'decision':
      return { text: `${DECISIONS[what ?? ''] ?? what}${actor ? ` by ${actor}` : ''}`, icon: 'person' };
    case 'event':
      return { text: `Became ${(what ?? '').replace('payment.', '')}`, icon: 'clock' };
  }
}

const Timeline = ({ entries, explorers }: { entries: Full['timeline']; explorers: Full['explorers'] }) => (
  <ol className="grid gap-4 p-4">
    {entries.map((entry) => {
      const { text, icon } = wordsOf(entry);
      return (
        <li key={`${entry.at} ${entry.kind} ${entry.what} ${entry.ref}`} className="grid grid-cols-[1.25rem_1fr] gap-3 text-sm">
          <Icon name={icon} className="size-5 text-soft" />
          <div className="grid gap-0.5">
            <p className="flex flex-wrap justify-between gap-x-4">
              <span className="font-medium">{entry.what === 'payment.updated' ? 'Changed' : text}</span>
              <span className="text-soft">
                <Time at={entry.at} />
              </span>
            </p>
            {entry.amount && (
              <span>
                <Money amount={entry.amount} currency={entry.currency} />
                {entry.rate !== null && (
                  <span className="text-soft">
                    {' '}
                    at <Money amount={entry.rate} />
                  </span>
                )}
              </span>
            )}
            <Txid id={entry.ref} explorers={explorers} />
          </div>
        </li>
      );
    })}
  </ol>
);
