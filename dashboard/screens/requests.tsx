/** The log of API requests, with filters in the URL. */
import { useFilters, useList, useMay, useTitle } from '../lib/hooks.ts';
import { useNewest } from '../lib/newest.ts';
import { Select } from '../ui/field.tsx';
import { ModeLink } from '../ui/link.tsx';
import { ListCard, NewRows } from '../ui/list.tsx';
import { SearchBox } from '../ui/search.tsx';
import { StatusCode } from '../ui/status-code.tsx';
import type { Column } from '../ui/table.tsx';
import { Time } from '../ui/values.tsx';

const KEYS = ['outcome', 'status', 'search', 'key_id'] as const;
const COMMON = ['200', '201', '400', '401', '403', '404', '405', '409', '422', '429', '500', '503'];

export function Screen() {
  useTitle('Request log');
  const mayReadPayouts = useMay('payouts.read');
  const maySeeSecrets = useMay('webhooks.secrets');
  const { filters, set, active, clear } = useFilters(KEYS);
  const { search } = filters;
  const list = useList('GET /:mode/requests', ['requests', 'list'], {
    outcome: filters.outcome,
    status: filters.status,
    key_id: filters.key_id,
    ...(search.startsWith('req_') ? { request_id: search } : { search }),
  });
  const { shown, waiting, show, reset } = useNewest(list);
  const change = (values: Partial<Filter>) => {
    reset();
    set(values);
  };
  const clearAll = () => {
    reset();
    clear();
  };
  const columns: Column<(typeof list.rows)[number]>[] = [
    {
      name: 'Request',
      phone: 'wide',
      cell: (row) => (
        <ModeLink to={`requests/${row.id}`} className="font-mono text-[13px] break-all hover:underline">
          {`${row.method} ${row.path}`}
        </ModeLink>
      ),
    },
    {
      name: 'Status',
      phone: 'left',
      cell: (row) => (
        <span className="flex max-w-40 flex-wrap items-center gap-1.5">
          <StatusCode status={row.status} />
          {row.error_code && <span className="text-xs break-all text-soft">{row.error_code}</span>}
        </span>
      ),
    },
    { name: 'API key', cell: (row) => <span className="block break-words sm:max-w-40 sm:truncate">{row.key_name}</span> },
    { name: 'Duration', cell: (row) => <span className="whitespace-nowrap tabular-nums">{row.duration_ms} ms</span>, right: true },
    {
      name: 'Time',
      phone: 'right',
      cell: (row) => (
        <span className="grid justify-items-end">
          <Time at={row.created_at} seconds />
          {row.omitted > 0 && <span className="text-xs text-soft">and {row.omitted} more in the same second</span>}
        </span>
      ),
      right: true,
    },
  ];
  return (
    <div className="grid gap-5">
      <h1>Request log</h1>
      <Filters key={search} filters={filters} change={change} />
      <NewRows waiting={waiting} words={waiting === 1 ? '1 new request' : `${waiting} new requests`} show={show} />
      <ListCard
        label="Requests"
        list={list}
        shown={shown}
        columns={columns}
        none={{
          title: 'No requests yet',
          words: (
            <>
              Requests made with your <ModeLink to="keys">API keys</ModeLink> appear here within a second and are kept for 30 days.
            </>
          ),
        }}
        unmatched={active.length > 0 ? { title: 'No requests match these filters', clear: clearAll } : null}
      />
      <p className="text-sm text-soft">
        Requests are kept for 30 days, up to the latest 200,000 per mode, with secrets redacted. At most ten successful and ten failed
        requests are logged per key and second; the rest are only counted.
        {(!mayReadPayouts || !maySeeSecrets) &&
          ` Your role doesn’t include requests about ${[mayReadPayouts ? [] : 'payouts', maySeeSecrets ? [] : 'webhooks'].flat().join(' or ')}.`}
      </p>
    </div>
  );
}

type Filter = Record<(typeof KEYS)[number], string>;
function Filters({ filters, change }: { filters: Filter; change: (values: Partial<Filter>) => void }) {
  const mayReadKeys = useMay('keys.read');
  return (
    <div className="flex flex-wrap items-center gap-2">
      <SearchBox
        label="Search requests"
        placeholder="Path, request ID, or text in a body"
        maxLength={200}
        value={filters.search}
        onSearch={(search) => change({ search })}
      />
      <Select
        label="Outcome"
        value={filters.outcome}
        onChange={(event) => change({ outcome: event.target.value, status: '' })}
        options={[
          { value: '', label: 'All requests' },
          { value: 'failed', label: 'Failed' },
        ]}
      />
      <Select
        label="Status"
        value={filters.status}
        onChange={(event) => change({ status: event.target.value })}
        options={[
          { value: '', label: 'All statuses' },
          ...COMMON.filter((value) => filters.outcome === '' || Number(value) >= 400).map((value) => ({ value, label: value })),
        ]}
      />
      {mayReadKeys && <KeyFilter value={filters.key_id} change={(key_id) => change({ key_id })} />}
    </div>
  );
}

/** Active keys by name. A revoked or expired key can only come from the URL. */
function KeyFilter({ value, change }: { value: string; change: (keyId: string) => void }) {
  const keys = useList('GET /:mode/keys', ['keys', 'list', 'names'], {});
  const options = keys.rows.map((key) => ({ value: key.id, label: `${key.name} (${key.hint.slice(-5)})` }));
  if (value !== '' && !options.some((option) => option.value === value)) options.push({ value, label: 'Revoked or expired key' });
  return (
    <Select
      label="API key"
      value={value}
      onChange={(event) => change(event.target.value)}
      options={[{ value: '', label: 'All keys' }, ...options]}
    />
  );
}
