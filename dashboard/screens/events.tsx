/** The list of events, newest first, with filters by type and payment. */
import { useEventTypes, useFilters, useList, useTitle } from '../lib/hooks.ts';
import { useNewest } from '../lib/newest.ts';
import { Select } from '../ui/field.tsx';
import { ModeLink } from '../ui/link.tsx';
import { ListCard, NewRows } from '../ui/list.tsx';
import { SearchBox } from '../ui/search.tsx';
import type { Column } from '../ui/table.tsx';
import { ObjectLink } from '../ui/thing.tsx';
import { Time } from '../ui/values.tsx';

export function Screen() {
  useTitle('Events');
  const { filters, set, active, clear } = useFilters(['type', 'payment_id']);
  const list = useList('GET /:mode/events', ['events', 'list'], { type: filters.type, payment_id: filters.payment_id });
  const { shown, waiting, show, reset } = useNewest(list);
  const change = (values: Partial<typeof filters>) => {
    reset();
    set(values);
  };
  const clearAll = () => {
    reset();
    clear();
  };
  const columns: Column<(typeof list.rows)[number]>[] = [
    {
      name: 'Event',
      phone: 'title',
      cell: (row) => <ModeLink to={`events/${row.id}`}>{row.type}</ModeLink>,
    },
    {
      name: 'Object',
      phone: 'wide',
      cell: (row) => <ObjectLink id={row.payment_id} />,
    },
    { name: 'Time', cell: (row) => <Time at={row.created_at} seconds />, right: true, phone: 'corner' },
  ];
  return (
    <div className="grid gap-5">
      <h1>Events</h1>
      <Filters key={filters.payment_id} filters={filters} change={change} />
      <NewRows waiting={waiting} words={waiting === 1 ? '1 new event' : `${waiting} new events`} show={show} />
      <ListCard
        label="Events"
        list={list}
        shown={shown}
        columns={columns}
        none={{
          title: 'No events yet',
          words:
            'Payment events from the last 30 days appear here, as they’re sent to your webhook endpoints. Create a payment to see one.',
        }}
        unmatched={active.length > 0 ? { title: 'No events match these filters', clear: clearAll } : null}
      />
    </div>
  );
}

type Filter = Record<'type' | 'payment_id', string>;
function Filters({ filters, change }: { filters: Filter; change: (values: Partial<Filter>) => void }) {
  const types = useEventTypes();
  return (
    <div className="flex flex-wrap items-center gap-2">
      <SearchBox
        label="Payment"
        placeholder="Payment ID"
        maxLength={100}
        value={filters.payment_id}
        onSearch={(payment_id) => change({ payment_id })}
      />
      <Select
        label="Type"
        value={filters.type}
        onChange={(event) => change({ type: event.target.value })}
        options={[{ value: '', label: 'All types' }, ...types.map((value) => ({ value, label: value }))]}
      />
    </div>
  );
}
