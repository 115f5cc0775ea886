/** All customers of the merchant, newest first. */
import { isSome } from '../../lib/amount.ts';
import { useFilters, useList, useTitle } from '../../lib/hooks.ts';
import { customerName } from '../../ui/customer.tsx';
import { ModeLink } from '../../ui/link.tsx';
import { ListCard } from '../../ui/list.tsx';
import { Marked, Sought } from '../../ui/marked.tsx';
import { SearchBox } from '../../ui/search.tsx';
import type { Column } from '../../ui/table.tsx';
import { Money, Time } from '../../ui/values.tsx';

type Row = ReturnType<typeof useCustomers>['rows'][number];
const useCustomers = (search: string) => useList('GET /:mode/customers', ['payments', 'customers'], { search: search.trim() || undefined });

const COLUMNS: readonly Column<Row>[] = [
  {
    name: 'Customer',
    phone: 'title',
    cell: (row) => (
      <ModeLink to={`customers/${row.id}`} className="block wrap-anywhere font-medium hover:underline sm:min-w-40">
        <Marked text={customerName(row)} />
      </ModeLink>
    ),
  },
  {
    name: 'Email',
    cell: (row) => <span className="block wrap-anywhere sm:min-w-44">{row.email === null ? '–' : <Marked text={row.email} />}</span>,
    empty: ({ email }) => email === null,
  },
  {
    name: 'Reference',
    cell: (row) => <span className="break-all">{row.reference === null ? '–' : <Marked text={row.reference} />}</span>,
    empty: ({ reference }) => reference === null,
  },
  {
    name: 'Paid in total',
    right: true,
    cell: (row) => <Money amount={row.paid_usd} />,
    empty: (row) => !isSome(row.paid_usd),
  },
  { name: 'Created', right: true, phone: 'corner', cell: (row) => <Time at={row.created_at} happened /> },
];

export function Screen() {
  useTitle('Customers');
  const { filters, set, active, clear } = useFilters(['search'] as const);
  const list = useCustomers(filters.search);
  return (
    <div className="grid gap-5">
      <div className="grid gap-1">
        <h1>Customers</h1>
        <p className="max-w-2xl text-soft">
          Who your payments are for. A customer is added with the first payment that names them: through the API, a payment link that asks
          for an email address, or a payment that you create here. <a href="/docs/guides/customers">Read the guide</a>
        </p>
      </div>
      <div className="flex">
        <SearchBox
          key={filters.search}
          label="Search customers"
          placeholder="Search by name, email or reference"
          maxLength={200}
          value={filters.search}
          onSearch={(search) => set({ search })}
        />
      </div>
      <Sought value={filters.search}>
        <ListCard
          label="Customers"
          list={list}
          columns={COLUMNS}
          none={{ title: 'No customers yet', words: 'Customers of new payments are listed here.' }}
          unmatched={active.length > 0 ? { title: 'No customer matches this search', clear, act: 'Clear the search' } : null}
        />
      </Sought>
    </div>
  );
}
