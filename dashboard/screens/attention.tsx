/** Payments that need a decision: underpaid, overpaid, late, in a wrong coin, canceled too late, without an order, or with a refund request. One at a time or many at once. */
import { useState } from 'react';
import type { PaymentException } from '../generated/api.ts';
import { sumText } from '../lib/amount.ts';
import { PAYMENT_READS, useAct, useFilters, useList, useMay, useTitle } from '../lib/hooks.ts';
import { say } from '../lib/toasts.ts';
import { Button } from '../ui/button.tsx';
import { Ask } from '../ui/dialog.tsx';
import { Select } from '../ui/field.tsx';
import { ModeLink } from '../ui/link.tsx';
import { ListCard } from '../ui/list.tsx';
import { Price, Worth } from '../ui/price.tsx';
import { arrivedIn, hasReceived, Received } from '../ui/received.tsx';
import type { Column } from '../ui/table.tsx';
import { Badge, EXCEPTION_WORDS, ExceptionBadge, PaymentState, Time } from '../ui/values.tsx';

export const DECISIONS = {
  accept: {
    act: 'Accept',
    title: 'Accept what arrived?',
    text: 'Each payment counts as paid with the amount that arrived and completes once it is confirmed.',
  },
  reject: {
    act: 'Don’t accept',
    title: 'Don’t accept what arrived?',
    text: 'The payments keep their status, and the money stays where it is until you refund it.',
  },
  refund_sent: {
    act: 'Mark as refunded',
    title: 'Mark as refunded?',
    text: 'Use this after you sent the money back from your own wallet. The payments keep their status.',
  },
  reviewed: {
    act: 'Mark as handled',
    title: 'Mark as handled?',
    text: 'The payments leave this list until something new happens. Their amounts and statuses do not change.',
  },
} as const;
export type DecisionKind = keyof typeof DECISIONS;

export function Screen() {
  useTitle('Needs attention');
  const { filters, set, clear } = useFilters(['exception'] as const);
  const list = useList('GET /:mode/attention', ['attention', 'list'], { exception: filters.exception || undefined });
  const mayResolve = useMay('payments.resolve');
  const [chosen, setChosen] = useState<ReadonlySet<string>>(new Set());
  const [asked, setAsked] = useState<DecisionKind | null>(null);
  const resolve = useAct('POST /:mode/attention/resolve', { refreshes: PAYMENT_READS });
  // At most fifty at a time, and only what is still in the list.
  const ids = list.rows.filter((row) => chosen.has(row.id)).map((row) => row.id);
  const toggle = (id: string, on: boolean) => setChosen(new Set(on ? [...chosen, id] : [...chosen].filter((one) => one !== id)));
  const first = list.rows.slice(0, 50);
  const all = first.length > 0 && first.every((row) => chosen.has(row.id));
  const arrived = sumText(list.rows.filter((row) => ids.includes(row.id)).flatMap(arrivedIn));
  const decide = (action: DecisionKind) =>
    resolve.mutate(
      { body: { ids: ids.slice(0, 50), action } },
      {
        onSuccess: ({ results }) => {
          const refused = results.filter((result) => !result.done);
          const done = results.length - refused.length;
          if (done > 0) say(done === 1 ? '1 payment updated.' : `${done} payments updated.`);
          if (refused.length > 0)
            say(`${refused.length === 1 ? '1 payment skipped' : `${refused.length} payments skipped`}: ${refused[0]!.problem}`, 'bad');
          setChosen(new Set(refused.map((result) => result.id)));
        },
        onSettled: () => setAsked(null),
      },
    );
  const columns: Column<(typeof list.rows)[number]>[] = [
    {
      name: 'Amount',
      phone: 'title',
      cell: (row) => (
        <span className="flex items-center gap-3">
          {mayResolve && (
            <input
              type="checkbox"
              aria-label={`Select the payment of ${row.amount_usd} USD, ${row.id}`}
              className="size-4 accent-accent"
              checked={chosen.has(row.id)}
              onChange={(event) => toggle(row.id, event.target.checked)}
            />
          )}
          <ModeLink to={`payments/${row.id}`}>
            <Price of={row} />
          </ModeLink>
          <Worth of={row} className="text-xs" />
        </span>
      ),
    },
    {
      name: 'Reason',
      phone: 'left',
      cell: (row) => (
        <span className="flex flex-wrap gap-1">
          {row.exceptions.map((name) => (
            <ExceptionBadge key={name} exception={name} />
          ))}
          {row.refund_requested_at !== null && (
            <Badge tone="info" icon="arrow">
              Refund requested
            </Badge>
          )}
          {row.order_missing !== null && <Badge tone="warn">No order</Badge>}
        </span>
      ),
    },
    {
      name: 'Status',
      cell: (row) => <PaymentState status={row.status} exception={row.exceptions.includes('reorged') ? 'reorged' : null} />,
    },
    { name: 'Received', right: true, cell: (row) => <Received row={row} />, phone: 'right', empty: (row) => !hasReceived(row) },
    {
      name: 'Invoice',
      empty: (row) => row.invoice_id === null && row.description === null,
      cell: (row) => <span className="line-clamp-2 wrap-anywhere xl:min-w-28">{row.invoice_id ?? row.description ?? '–'}</span>,
    },
    { name: 'Created', cell: (row) => <Time at={row.created_at} happened />, right: true, phone: 'corner' },
  ];
  return (
    <div className="grid gap-5">
      <div className="flex flex-wrap items-center justify-between gap-3">
        <div className="grid gap-1">
          <h1>Needs attention</h1>
          <p className="text-soft">Payments that need a decision. Florin never accepts or rejects money on its own.</p>
        </div>
        <Select
          label="Exception"
          value={filters.exception}
          onChange={(event) => {
            setChosen(new Set());
            set({ exception: event.target.value });
          }}
          options={[
            { value: '', label: 'All reasons' },
            ...(Object.entries(EXCEPTION_WORDS) as [PaymentException, string][]).map(([value, label]) => ({ value, label })),
            { value: 'refund_request', label: 'Refund requested' },
            { value: 'order_missing', label: 'No order' },
          ]}
        />
      </div>
      {mayResolve && list.rows.length > 0 && (
        <div className="flex flex-wrap items-center gap-2 rounded-xl border border-line bg-card px-4 py-2.5">
          <label className="mr-auto flex items-center gap-2 text-sm">
            <input
              type="checkbox"
              className="size-4 accent-accent"
              checked={all}
              onChange={(event) => setChosen(new Set(event.target.checked ? first.map((row) => row.id) : []))}
            />
            <span aria-live="polite">{ids.length === 0 ? 'Select all' : `${ids.length} selected`}</span>
          </label>
          {(Object.keys(DECISIONS) as DecisionKind[]).map((action) => (
            <Button key={action} look={action === 'accept' ? 'main' : 'plain'} disabled={ids.length === 0} onClick={() => setAsked(action)}>
              {DECISIONS[action].act}
            </Button>
          ))}
        </div>
      )}
      <ListCard
        label="Payments that need attention"
        list={list}
        columns={columns}
        none={{
          title: 'No payments need a decision',
          words:
            'Underpaid, overpaid and late payments appear here, money on a wrong network, money whose order your shop no longer has, and refund requests from customers.',
        }}
        unmatched={filters.exception === '' ? null : { title: 'No payments with this reason', clear, act: 'Show all reasons' }}
      />
      {asked !== null && (
        <Ask
          open
          onClose={() => setAsked(null)}
          title={DECISIONS[asked].title}
          text={`${ids.length === 1 ? '1 payment' : `${ids.length} payments`}${arrived === '' ? '' : `, received: ${arrived}`}. ${DECISIONS[asked].text} Payments that do not allow it are skipped.`}
          act={DECISIONS[asked].act}
          busy={resolve.isPending}
          onAct={() => decide(asked)}
        />
      )}
    </div>
  );
}
