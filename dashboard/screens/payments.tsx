/** The list of payments: filters in the URL, one search box, news behind a pill. */
import { type FormEvent, useState } from 'react';
import { COINS, PAYMENT_STATUSES } from '../generated/api.ts';
import { useFilters, useList, useTitle } from '../lib/hooks.ts';
import { Button } from '../ui/button.tsx';
import { Select } from '../ui/field.tsx';
import { Icon } from '../ui/icon.tsx';
import { ModeLink } from '../ui/link.tsx';
import { Card, Empty, ErrorCard, Skeleton } from '../ui/states.tsx';
import { type Column, Table } from '../ui/table.tsx';
import { Badge, ExceptionBadge, Money, Status, Time } from '../ui/values.tsx';

const KEYS = ['status', 'currency', 'from', 'until', 'search'] as const;
const WORDS: Readonly<Record<(typeof KEYS)[number], string>> = {
  status: 'Status',
  currency: 'Coin',
  from: 'From',
  until: 'Until',
  search: 'Search',
};
const capital = (text: string): string => text.charAt(0).toUpperCase() + text.slice(1);
/** The local day as an instant; the last day counts whole. */
const instant = (day: string, plusDays: number): string | undefined => {
  const [year, month, date] = day.split('-').map(Number);
  if (!year || !month || !date) return undefined;
  return new Date(year, month - 1, date + plusDays).toISOString();
};

export function Screen() {
  useTitle('Payments');
  const { filters, set, active, clear } = useFilters(KEYS);
  const list = useList('GET /:mode/payments', ['payments', 'list'], {
    status: filters.status,
    currency: filters.currency,
    search: filters.search,
    from: instant(filters.from, 0),
    until: instant(filters.until, 1),
  });
  // New rows wait above until they are asked for, so that nothing moves under the pointer.
  const [top, setTop] = useState<string | null>(null);
  const newest = list.rows[0]?.id ?? null;
  const at =
    top === null
      ? 0
      : Math.max(
          0,
          list.rows.findIndex((row) => row.id === top),
        );
  if (top === null && newest !== null) setTop(newest);
  const change = (values: Parameters<typeof set>[0]) => {
    setTop(null);
    set(values);
  };
  const columns: Column<(typeof list.rows)[number]>[] = [
    {
      name: 'Amount',
      cell: (row) => (
        <ModeLink to={`payments/${row.id}`}>
          <Money amount={row.amount_usd} />
        </ModeLink>
      ),
    },
    {
      name: 'Status',
      cell: (row) => (
        <span className="flex flex-wrap gap-1">
          <Status status={row.status} />
          <ExceptionBadge exception={row.exception} />
          {row.mode === 'test' && <Badge tone="warn">TEST</Badge>}
        </span>
      ),
    },
    { name: 'Received', cell: (row) => <Money amount={row.amount_received} currency={row.currency} />, right: true },
    { name: 'Invoice', cell: (row) => <span className="line-clamp-1 break-all">{row.invoice_id ?? row.description ?? '–'}</span> },
    { name: 'Created', cell: (row) => <Time at={row.created_at} />, right: true },
  ];
  return (
    <div className="grid gap-5">
      <h1>Payments</h1>
      <Filters key={filters.search} filters={filters} change={change} />
      {active.length > 0 && (
        <ul className="flex flex-wrap items-center gap-2" aria-label="Filters">
          {active.map((key) => (
            <li key={key}>
              <button
                type="button"
                onClick={() => change({ [key]: '' })}
                className="inline-flex items-center gap-1.5 rounded-full border border-line bg-card px-3 py-1 text-sm hover:bg-raised"
                aria-label={`Take away ${WORDS[key]}: ${filters[key]}`}
              >
                {WORDS[key]}: {filters[key]}
                <Icon name="close" className="size-3.5" />
              </button>
            </li>
          ))}
        </ul>
      )}
      {at > 0 && (
        <div className="text-center">
          <Button onClick={() => setTop(newest)}>{at === 1 ? '1 new payment' : `${at} new payments`}</Button>
        </div>
      )}
      <Card>
        {list.error && list.rows.length === 0 ? (
          <ErrorCard error={list.error} onRetry={() => void list.refetch()} />
        ) : list.isPending ? (
          <Skeleton />
        ) : list.rows.length === 0 ? (
          active.length > 0 ? (
            <Empty title="No payment matches these filters">
              <Button onClick={clear}>Clear the filters</Button>
            </Empty>
          ) : (
            <Empty title="No payments yet">
              Create the first one with a key and <code>POST /api/payment/create/simple</code>. The <a href="/docs">guides</a> show how.
            </Empty>
          )
        ) : (
          <Table
            label="Payments"
            columns={columns}
            rows={list.rows.slice(at)}
            hasMore={list.hasNextPage}
            onMore={() => void list.fetchNextPage()}
            busy={list.isFetchingNextPage}
          />
        )}
      </Card>
    </div>
  );
}

type Filter = Record<(typeof KEYS)[number], string>;
function Filters({ filters, change }: { filters: Filter; change: (values: Partial<Filter>) => void }) {
  const [text, setText] = useState(filters.search);
  const submit = (event: FormEvent) => {
    event.preventDefault();
    change({ search: text.trim() });
  };
  const day = 'min-h-9 rounded-lg border border-line bg-card px-2.5 py-1.5 text-sm text-ink';
  return (
    <div className="flex flex-wrap items-center gap-2">
      <search className="min-w-60 flex-1">
        <form onSubmit={submit}>
          <input
            type="search"
            aria-label="Search payments"
            aria-keyshortcuts="/"
            placeholder="Payment, invoice, description, address or transaction id"
            value={text}
            onChange={(event) => setText(event.target.value)}
            className="min-h-9 w-full rounded-lg border border-line bg-card px-3 py-1.5 text-sm text-ink placeholder:text-soft"
          />
        </form>
      </search>
      <Select
        label="Status"
        value={filters.status}
        onChange={(event) => change({ status: event.target.value })}
        options={[{ value: '', label: 'All statuses' }, ...PAYMENT_STATUSES.map((value) => ({ value, label: capital(value) }))]}
      />
      <Select
        label="Coin"
        value={filters.currency}
        onChange={(event) => change({ currency: event.target.value })}
        options={[{ value: '', label: 'All coins' }, ...COINS.map((value) => ({ value, label: value }))]}
      />
      <input
        type="date"
        aria-label="From"
        value={filters.from}
        onChange={(event) => change({ from: event.target.value })}
        className={day}
      />
      <input
        type="date"
        aria-label="Until"
        value={filters.until}
        onChange={(event) => change({ until: event.target.value })}
        className={day}
      />
    </div>
  );
}
