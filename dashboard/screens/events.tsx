/** The list of events, newest first, with filters by type, payment and text. */
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
  const { filters, set, active, clear } = useFilters(['type', 'payment_id', 'search']);
  const list = useList('GET /:mode/events', ['events', 'list'], filters);
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
    { name: 'Time', cell: (row) => <Time at={row.created_at} seconds happened />, right: true, phone: 'corner' },
  ];
  return (
    <div className="grid gap-5">
      <h1>Events</h1>
      <Filters key={filters.payment_id + filters.search} filters={filters} change={change} />
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

type Filter = Record<'type' | 'payment_id' | 'search', string>;
/** What an event is about: an index finds its events. */
const OBJECT = /^(?:pay|ref|po)_\w{24}$/;
function Filters({ filters, change }: { filters: Filter; change: (values: Partial<Filter>) => void }) {
  const types = useEventTypes();
  return (
    <div className="flex flex-wrap items-center gap-2">
      <SearchBox
        label="Search events"
        placeholder="Payment ID, or text in the JSON"
        maxLength={200}
        value={filters.payment_id || filters.search}
        onSearch={(text) => change(OBJECT.test(text) ? { payment_id: text, search: '' } : { payment_id: '', search: text })}
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
