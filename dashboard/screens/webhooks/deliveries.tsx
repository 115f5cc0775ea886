/** The deliveries of an endpoint: filters in the URL, one delivery in a drawer. */
import { Link } from '@tanstack/react-router';
import { lazy, Suspense } from 'react';
import { EVENT_TYPES } from '../../generated/api.ts';
import { useEventTypes, useFilters, useList } from '../../lib/hooks.ts';
import { Button } from '../../ui/button.tsx';
import { Select } from '../../ui/field.tsx';
import { ListCard } from '../../ui/list.tsx';
import { SearchBox } from '../../ui/search.tsx';
import type { Column } from '../../ui/table.tsx';
import { Time } from '../../ui/values.tsx';
import { Frame } from './frame.tsx';
import { attemptsText, DELIVERY_STATES, type DeliveryItem, DeliveryState, type Endpoint, millis, outcomeWords } from './words.tsx';

export const Screen = () => <Frame tab="/deliveries">{(endpoint) => <Deliveries endpoint={endpoint} />}</Frame>;

const Delivery = lazy(() => import('./delivery.tsx').then((module) => ({ default: module.Delivery })));

const KEYS = ['state', 'type', 'payment', 'delivery'] as const;
const TYPES = [...EVENT_TYPES, 'webhook.test'] as const;

function Deliveries({ endpoint }: { endpoint: Endpoint }) {
  const { filters, set, active } = useFilters(KEYS);
  const narrowed = active.some((key) => key !== 'delivery');
  const clear = () => set({ state: '', type: '', payment: '' });
  const list = useList('GET /:mode/deliveries', ['deliveries', 'list'], {
    endpoint_id: endpoint.id,
    state: DELIVERY_STATES.find(({ value }) => value === filters.state)?.value,
    type: TYPES.find((type) => type === filters.type),
    payment_id: filters.payment,
  });
  const pages = (list.data?.pages ?? []) as unknown as { searched_all: boolean }[];
  const cutShort = pages.length > 0 && !pages.at(-1)!.searched_all && !list.hasNextPage;
  const columns: Column<DeliveryItem>[] = [
    {
      name: 'Event',
      phone: 'title',
      cell: (row) => (
        <Link
          to="."
          search={((old: object) => ({ ...old, delivery: row.id })) as never}
          resetScroll={false}
          className="font-medium break-all hover:underline"
        >
          {row.event_type}
        </Link>
      ),
    },
    {
      name: 'Status',
      phone: 'left',
      cell: (row) => <DeliveryState state={row.state} />,
    },
    { name: 'Attempts', right: true, cell: (row) => <span className="tabular-nums">{attemptsText(row)}</span> },
    {
      name: 'Response',
      empty: (row) => row.last_attempt === null,
      cell: ({ last_attempt }) =>
        last_attempt === null ? (
          <span className="text-soft">–</span>
        ) : (
          <span className="tabular-nums">
            {last_attempt.status ?? last_attempt.message ?? outcomeWords(last_attempt.failure ?? 'internal')}
          </span>
        ),
    },
    {
      name: 'Duration',
      right: true,
      empty: (row) => row.last_attempt === null,
      cell: ({ last_attempt }) => (
        <span className="tabular-nums whitespace-nowrap">{last_attempt === null ? '–' : millis(last_attempt.duration_ms)}</span>
      ),
    },
    {
      name: 'Next attempt',
      right: true,
      // Those that are due wait for the ones before them, or until the endpoint is tried again.
      cell: ({ next_attempt_at: at }) =>
        at !== null && Date.parse(at) < Date.now() ? <span className="text-soft">Waiting</span> : <Time at={at} />,
      empty: (row) => row.next_attempt_at === null,
    },
    { name: 'Created', right: true, phone: 'corner', cell: (row) => <Time at={row.created_at} happened /> },
  ];
  return (
    <div className="grid gap-4">
      <Filters key={filters.payment} filters={filters} set={set} clear={narrowed ? clear : null} />
      <ListCard
        label="Deliveries"
        list={list}
        columns={columns}
        none={{
          title: 'No deliveries yet',
          words: 'Events sent to this endpoint appear here with your server’s response. Send a test event to see one.',
        }}
        unmatched={narrowed ? { title: 'No deliveries match these filters', clear } : null}
      />
      {cutShort && <p className="text-sm text-soft">Searched the latest 5,000 deliveries. To find older ones, filter by payment.</p>}
      <p className="text-sm text-soft">Deliveries are kept for 30 days.</p>
      {filters.delivery !== '' && (
        <Suspense>
          <Delivery key={filters.delivery} id={filters.delivery} onClose={() => set({ delivery: '' })} />
        </Suspense>
      )}
    </div>
  );
}

type Filter = Record<(typeof KEYS)[number], string>;
function Filters({ filters, set, clear }: { filters: Filter; set: (values: Partial<Filter>) => void; clear: (() => void) | null }) {
  const types = useEventTypes();
  return (
    <div className="flex flex-wrap items-center gap-2">
      <SearchBox label="Payment" placeholder="Payment ID, pay_…" value={filters.payment} onSearch={(payment) => set({ payment })} />
      <Select
        label="Status"
        value={filters.state}
        onChange={(event) => set({ state: event.target.value })}
        options={[{ value: '', label: 'All statuses' }, ...DELIVERY_STATES]}
      />
      <Select
        label="Event"
        value={filters.type}
        onChange={(event) => set({ type: event.target.value })}
        options={[{ value: '', label: 'All events' }, ...[...types, 'webhook.test'].map((value) => ({ value, label: value }))]}
      />
      {clear && (
        <Button look="ghost" onClick={clear}>
          Clear
        </Button>
      )}
    </div>
  );
}
