/** All refunds of the merchant, newest first. */
import type { Reply } from '../../lib/api.ts';
import { useFilters, useList, useOpened, useTitle } from '../../lib/hooks.ts';
import type { ScreenModule } from '../../screen.ts';
import { CustomerLink } from '../../ui/customer.tsx';
import { ModeLink } from '../../ui/link.tsx';
import { ListCard } from '../../ui/list.tsx';
import { countsOf, StateTabs } from '../../ui/state-tabs.tsx';
import type { Column } from '../../ui/table.tsx';
import { Time } from '../../ui/values.tsx';
import { MakeFile } from '../outgoing/make-file.tsx';
import { RefundDrawer } from './refund.tsx';
import { leadingColumns, STATE_WORDS } from './state.tsx';

type Row = Reply<'GET /:mode/refunds'>['data'][number];
const columnsOf = (open: (id: string) => void): Column<Row>[] => [
  ...leadingColumns(open),
  {
    name: 'Payment',
    cell: ({ payment_id: id, customer }) => (
      <span className="grid justify-items-start gap-2">
        {customer !== null && <CustomerLink customer={customer} />}
        <ModeLink to={`payments/${id}`} className="text-xs hover:underline">
          <code title={id}>{id.slice(0, 12)}…</code>
        </ModeLink>
      </span>
    ),
  },
  { name: 'Reason', cell: (refund) => <span className="break-words">{refund.reason ?? '–'}</span>, empty: ({ reason }) => reason === null },
  { name: 'Requested', cell: (refund) => <Time at={refund.created_at} happened /> },
];

export const begin: NonNullable<ScreenModule['begin']> = (read) => read(...countsOf('refunds'));

export function Screen() {
  useTitle('Refunds');
  const { filters, set, active, clear } = useFilters(['state'] as const);
  const list = useList('GET /:mode/refunds', ['refunds', 'list'], { state: filters.state || undefined });
  const [shown, setShown] = useOpened('refund');
  return (
    <div className="grid gap-5">
      <div className="grid gap-1">
        <h1>Refunds</h1>
        <p className="max-w-2xl text-soft">
          Money that you return to customers. Request a refund on the page of its payment. <a href="/docs/guides/refunds">Read the guide</a>
        </p>
      </div>
      <div className="flex flex-wrap items-center justify-between gap-3">
        <StateTabs
          of="refunds"
          isFiltered={false}
          label="State"
          words={STATE_WORDS}
          value={filters.state}
          onChange={(state) => set({ state })}
        />
        <MakeFile of="refund" />
      </div>
      <ListCard
        label="Refunds"
        list={list}
        columns={columnsOf(setShown)}
        none={{ title: 'No refunds yet', words: 'Refunds that you, your shop or the API request are listed here.' }}
        unmatched={active.length > 0 ? { title: 'No refunds in this state', clear } : null}
      />
      {shown !== null && <RefundDrawer id={shown} onClose={() => setShown(null)} />}
    </div>
  );
}
