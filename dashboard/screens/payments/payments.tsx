/** The list of payments: filters and views in the URL, chosen columns, news behind a pill, CSV, and making a new one. */
import { lazy, Suspense, useMemo, useState } from 'react';
import { useApi, useFilters, useList, useMay, useTitle } from '../../lib/hooks.ts';
import { useNewest } from '../../lib/newest.ts';
import type { ScreenModule } from '../../screen.ts';
import { Button } from '../../ui/button.tsx';
import { CustomerLink } from '../../ui/customer.tsx';
import { Icon } from '../../ui/icon.tsx';
import { ListCard, NewRows } from '../../ui/list.tsx';
import { Marked, Match, Sought } from '../../ui/marked.tsx';
import { PaymentPrice } from '../../ui/price.tsx';
import { hasReceived, Received } from '../../ui/received.tsx';
import { countsOf, StateTabs } from '../../ui/state-tabs.tsx';
import type { Column } from '../../ui/table.tsx';
import { Badge, PaymentState, STATUS_WORDS, Time } from '../../ui/values.tsx';
import { Columns, shownColumns } from './columns.tsx';
import { type Filter, KEYS } from './filter.ts';
import { Filters, queryOf, WORDS, wordOf } from './filters.tsx';
import { RowMenu } from './row-menu.tsx';
import { Views } from './views.tsx';

const Create = lazy(() => import('./create.tsx').then((module) => ({ default: module.Create })));
const Export = lazy(() => import('./export.tsx').then((module) => ({ default: module.Export })));
type Row = ReturnType<typeof useRows>['rows'][number];
const useRows = (filters: Filter) => useList('GET /:mode/payments', ['payments', 'list'], queryOf(filters));

const COLUMNS: readonly (Column<Row> & { key: string })[] = [
  {
    key: 'amount',
    name: 'Amount',
    phone: 'title',
    cell: (row) => <PaymentPrice of={row} />,
  },
  {
    key: 'status',
    name: 'Status',
    phone: 'left',
    cell: (row) => (
      <span className="flex flex-wrap gap-1">
        <PaymentState status={row.status} exception={row.exceptions[0] ?? null} />
        {row.refund_requested_at !== null && <Badge tone="warn">Refund requested</Badge>}
        {row.archived_at !== null && <Badge tone="calm">Archived</Badge>}
      </span>
    ),
  },
  {
    key: 'received',
    name: 'Received',
    cell: (row) => <Received row={row} />,
    right: true,
    phone: 'right',
    empty: (row) => !hasReceived(row),
  },
  {
    key: 'customer',
    name: 'Customer',
    empty: (row) => row.customer === null,
    cell: (row) => <CustomerLink customer={row.customer} />,
  },
  {
    key: 'invoice',
    name: 'Invoice',
    empty: (row) => row.invoice_id === null,
    cell: (row) => (
      <span className="line-clamp-2 wrap-anywhere xl:min-w-28">{row.invoice_id === null ? '–' : <Marked text={row.invoice_id} />}</span>
    ),
  },
  {
    key: 'description',
    name: 'Description',
    empty: (row) => row.description === null,
    cell: (row) => <span className="line-clamp-1 break-all">{row.description === null ? '–' : <Marked text={row.description} />}</span>,
  },
  {
    key: 'id',
    name: 'Payment id',
    cell: (row) => (
      <code className="text-xs break-all">
        <Marked text={row.id} />
      </code>
    ),
  },
  { key: 'created', name: 'Created', cell: (row) => <Time at={row.created_at} happened />, right: true, phone: 'corner' },
  {
    key: 'completed',
    name: 'Completed',
    cell: (row) => <Time at={row.completed_at} happened />,
    right: true,
    empty: (row) => row.completed_at === null,
  },
];
/** While a search is on. */
const MATCH: Column<Row> = { name: 'Match', cell: (row) => <Match match={row.match} /> };
const ACTIONS: Column<Row> = { name: 'Actions', cell: (row) => <RowMenu row={row} />, right: true, phone: 'menu' };
const USUAL = ['amount', 'status', 'received', 'customer', 'invoice', 'created'];

const PREFERENCES = ['GET /:mode/preferences', ['preferences'], {}] as const;
export const begin: NonNullable<ScreenModule['begin']> = (read) => {
  read(...PREFERENCES);
  read(...countsOf('payments'));
};

export function Screen() {
  useTitle('Payments');
  const { filters, set, active, clear } = useFilters(KEYS);
  const own = useApi(...PREFERENCES);
  const mayCreate = useMay('payments.create');
  const mayExport = useMay('payments.export');
  const [creating, setCreating] = useState(false);
  const [exporting, setExporting] = useState(false);
  const list = useRows(filters);
  const { shown, waiting, show, reset } = useNewest(list);
  const change = (values: Partial<Filter>) => {
    reset();
    set(values);
  };
  const kept = own.data?.columns;
  const searching = filters.search !== '';
  const columns = useMemo(() => shownColumns(COLUMNS, kept ?? USUAL), [kept]);
  const listed = useMemo(
    () => (searching ? [...columns.slice(0, 2), MATCH, ...columns.slice(2), ACTIONS] : [...columns, ACTIONS]),
    [searching, columns],
  );
  const asked = new URLSearchParams(Object.entries(queryOf(filters)).flatMap(([name, value]) => (value ? [[name, value]] : [])));
  const others = active.filter((key) => key !== 'status');
  return (
    <div className="grid gap-5">
      <div className="flex flex-wrap items-center justify-between gap-3">
        <h1>Payments</h1>
        <div className="flex flex-wrap gap-2">
          <Views views={own.data?.views ?? []} filters={filters} open={(query) => change(query)} />
          <Columns all={COLUMNS} shown={columns.map((column) => column.key)} />
          {mayExport && <Button onClick={() => setExporting(true)}>Export CSV</Button>}
          {mayCreate && (
            <Button look="main" onClick={() => setCreating(true)}>
              Create payment
            </Button>
          )}
        </div>
      </div>
      <StateTabs
        of="payments"
        isFiltered={others.length > 0}
        label="Status"
        words={STATUS_WORDS}
        value={filters.status}
        onChange={(status) => change({ status })}
      />
      <Filters key={`${filters.at_least} ${filters.at_most}`} filters={filters} change={change} />
      {others.length > 0 && (
        <ul className="flex flex-wrap items-center gap-2" aria-label="Filters">
          {others.map((key) => (
            <li key={key}>
              <button
                type="button"
                onClick={() => change({ [key]: '' })}
                className="inline-flex items-center gap-1.5 rounded-full border border-line bg-card px-3 py-1 text-sm hover:bg-raised"
                aria-label={`Remove ${WORDS[key]}: ${wordOf(key, filters[key])}`}
              >
                <span className="max-w-60 truncate">
                  {WORDS[key]}: {wordOf(key, filters[key])}
                </span>
                <Icon name="close" className="size-3.5" />
              </button>
            </li>
          ))}
          {others.length > 1 && (
            <li>
              <Button look="ghost" onClick={clear}>
                Clear all
              </Button>
            </li>
          )}
        </ul>
      )}
      <NewRows waiting={waiting} words={waiting === 1 ? '1 new payment' : `${waiting} new payments`} show={show} />
      <Sought value={filters.search}>
        <ListCard
          label="Payments"
          // Waits until the columns are known, so that the table does not move after it appears.
          list={own.isPending ? { ...list, rows: [], isPending: true } : list}
          shown={shown}
          columns={listed}
          none={{
            title: 'No payments yet',
            words: (
              <>
                {mayCreate ? 'Create your first payment here, or with the API:' : 'Create your first payment with the API:'}{' '}
                <code>POST /api/payment/create/simple</code>. See the <a href="/docs">guides</a>.
              </>
            ),
          }}
          unmatched={active.length > 0 ? { title: 'No payment matches these filters', clear } : null}
        />
      </Sought>
      {exporting && (
        <Suspense>
          <Export asked={asked} filtered={active.length > 0} onClose={() => setExporting(false)} />
        </Suspense>
      )}
      {creating && (
        <Suspense>
          <Create onClose={() => setCreating(false)} />
        </Suspense>
      )}
    </div>
  );
}
