/** What waits for a decision: payments that went otherwise than asked, and refunds that payers ask for. One by one, or many at once. */
import { useState } from 'react';
import type { PaymentException } from '../generated/api.ts';
import { PAYMENT_READS, useAct, useFilters, useList, useMay, useTitle } from '../lib/hooks.ts';
import { say } from '../lib/toasts.ts';
import { Button } from '../ui/button.tsx';
import { Ask } from '../ui/dialog.tsx';
import { Select } from '../ui/field.tsx';
import { ModeLink } from '../ui/link.tsx';
import { ListCard } from '../ui/list.tsx';
import type { Column } from '../ui/table.tsx';
import { Badge, EXCEPTION_WORDS, ExceptionBadge, Money, Status, Time } from '../ui/values.tsx';

export const DECISIONS = {
  accept: {
    act: 'Accept',
    title: 'Accept what arrived?',
    text: 'The payments go on and complete with what arrived.',
  },
  reject: {
    act: 'Refuse',
    title: 'Refuse what arrived?',
    text: 'The payments stay as they are. Sending the money back is up to you.',
  },
  refund_sent: {
    act: 'Mark as refunded',
    title: 'Mark as refunded?',
    text: 'For money that you have sent back. The payments stay as they are.',
  },
  reviewed: {
    act: 'Mark as handled',
    title: 'Mark as handled?',
    text: 'They leave this list until something new turns up. Nothing else changes.',
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
  // At most fifty at once; only what is still in the list.
  const ids = list.rows.filter((row) => chosen.has(row.id)).map((row) => row.id);
  const toggle = (id: string, on: boolean) => setChosen(new Set(on ? [...chosen, id] : [...chosen].filter((one) => one !== id)));
  const first = list.rows.slice(0, 50);
  const all = first.length > 0 && first.every((row) => chosen.has(row.id));
  const decide = (action: DecisionKind) =>
    resolve.mutate(
      { body: { ids: ids.slice(0, 50), action } },
      {
        onSuccess: ({ results }) => {
          const refused = results.filter((result) => !result.done);
          const done = results.length - refused.length;
          if (done > 0) say(done === 1 ? 'Decided over one payment.' : `Decided over ${done} payments.`);
          if (refused.length > 0)
            say(`${refused.length === 1 ? 'One was' : `${refused.length} were`} refused: ${refused[0]!.problem}`, 'bad');
          setChosen(new Set(refused.map((result) => result.id)));
        },
        onSettled: () => setAsked(null),
      },
    );
  const columns: Column<(typeof list.rows)[number]>[] = [
    {
      name: 'Amount',
      cell: (row) => (
        <span className="flex items-center gap-3">
          {mayResolve && (
            <input
              type="checkbox"
              aria-label={`Choose the payment of ${row.amount_usd} USD, ${row.id}`}
              className="size-4 accent-accent"
              checked={chosen.has(row.id)}
              onChange={(event) => toggle(row.id, event.target.checked)}
            />
          )}
          <ModeLink to={`payments/${row.id}`}>
            <Money amount={row.amount_usd} />
          </ModeLink>
        </span>
      ),
    },
    {
      name: 'Why',
      cell: (row) => (
        <span className="flex flex-wrap gap-1 max-sm:justify-end">
          {row.exceptions.map((name) => (
            <ExceptionBadge key={name} exception={name} />
          ))}
          {row.refund_requested_at !== null && (
            <Badge tone="info" icon="arrow">
              Refund requested
            </Badge>
          )}
          {row.mode === 'test' && <Badge tone="warn">TEST</Badge>}
        </span>
      ),
    },
    { name: 'Status', cell: (row) => <Status status={row.status} /> },
    {
      name: 'Arrived',
      right: true,
      cell: (row) => (
        <span className="grid">
          {row.received.length === 0
            ? '–'
            : row.received.map((one) => <Money key={one.currency} amount={one.amount} currency={one.currency} />)}
        </span>
      ),
    },
    {
      name: 'Invoice',
      cell: (row) => <span className="line-clamp-1 break-all">{row.invoice_id ?? row.description ?? '–'}</span>,
    },
    { name: 'Created', cell: (row) => <Time at={row.created_at} />, right: true },
  ];
  return (
    <div className="grid gap-5">
      <div className="flex flex-wrap items-center justify-between gap-3">
        <div className="grid gap-1">
          <h1>Needs attention</h1>
          <p className="text-soft">Payments that ended otherwise than asked. The service decides nothing over money on its own.</p>
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
            <span aria-live="polite">{ids.length === 0 ? 'Choose all' : `${ids.length} chosen`}</span>
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
          title: 'Nothing waits for you',
          words: 'Payments stand here when too little, too much or something late arrives, and when a payer asks for money back.',
        }}
        unmatched={filters.exception === '' ? null : { title: 'Nothing waits for this reason', clear, act: 'Show all reasons' }}
      />
      {asked !== null && (
        <Ask
          open
          onClose={() => setAsked(null)}
          title={DECISIONS[asked].title}
          text={`${ids.length === 1 ? 'One payment is' : `${ids.length} payments are`} chosen. ${DECISIONS[asked].text} Those that do not allow it are left and named.`}
          act={DECISIONS[asked].act}
          busy={resolve.isPending}
          onAct={() => decide(asked)}
        />
      )}
    </div>
  );
}
