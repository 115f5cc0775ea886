/** The audit log: what members did and what it changed, with filters in the URL and a CSV file. */
import { type FormEvent, useState } from 'react';
import { call, type Reply } from '../../lib/api.ts';
import { instantOf } from '../../lib/days.ts';
import { useApi, useFilters, useList, useMe, useMode, useTitle } from '../../lib/hooks.ts';
import { say } from '../../lib/toasts.ts';
import { Button } from '../../ui/button.tsx';
import { Select } from '../../ui/field.tsx';
import { ModeLink } from '../../ui/link.tsx';
import { ListCard } from '../../ui/list.tsx';
import type { Column } from '../../ui/table.tsx';
import { Badge, Time } from '../../ui/values.tsx';
import { saveFile, toCsv } from './csv.ts';
import { placeOf } from './place.ts';
import { changesOf, wordsOf } from './words.ts';

type Entry = Reply<'GET /:mode/audit'>['data'][number];
const KEYS = ['action', 'actor', 'in_mode', 'from', 'until', 'object'] as const;
type Filter = Record<(typeof KEYS)[number], string>;
/** The most rows in a file. */
const MOST_ROWS = 10_000;

const asked = (filters: Filter) => ({
  action: filters.action,
  actor: filters.actor,
  object: filters.object,
  ...(filters.in_mode !== '' && { in_mode: filters.in_mode as 'live' | 'test' }),
  from: instantOf(filters.from, 0),
  until: instantOf(filters.until, 1),
});
export function Screen() {
  useTitle('Audit log');
  const { filters, set, active, clear } = useFilters(KEYS);
  const me = useMe();
  const list = useList('GET /:mode/audit', ['audit', 'list'], asked(filters));
  const columns: Column<Entry>[] = [
    { name: 'Time', phone: 'corner', cell: (row) => <Time at={row.at} seconds /> },
    { name: 'Who', cell: (row) => <span className="break-words">{actorText(row.actor_name, row.actor_kind)}</span> },
    {
      name: 'Action',
      phone: 'title',
      cell: (row) => (
        <span className="flex flex-wrap items-center gap-1.5 sm:min-w-36">
          <span className="font-medium">{wordsOf(row.action)}</span>
          {row.mode === 'test' && <Badge tone="warn">TEST</Badge>}
        </span>
      ),
    },
    {
      name: 'Object',
      phone: 'wide',
      cell: (row) => {
        const place = placeOf(row, me?.user.id);
        const name =
          row.object === row.actor_id ? 'Own account' : row.object === me?.merchant.id ? 'This merchant' : (row.object_name ?? row.object);
        return (
          <span className="block wrap-anywhere sm:min-w-40">
            {place === null ? (
              name
            ) : (
              <ModeLink to={place} mode={row.mode}>
                {name}
              </ModeLink>
            )}
          </span>
        );
      },
    },
    { name: 'Changes', cell: (row) => <Change entry={row} />, empty: (row) => changesOf(row).length === 0 },
    { name: 'IP address', cell: (row) => <span className="break-words text-soft">{row.ip || '–'}</span> },
  ];
  return (
    <div className="grid gap-5">
      <div className="flex flex-wrap items-center justify-between gap-3">
        <div>
          <h1>Audit log</h1>
          <p className="text-soft">Everything your team, its API keys and its shops did. Entries cannot be changed or deleted.</p>
        </div>
        <Export filters={filters} />
      </div>
      <Filters key={filters.object} filters={filters} set={set} />
      <ListCard
        label="Audit log"
        list={list}
        columns={columns}
        unlabeled
        none={{ title: 'No entries yet', words: 'Actions of your team appear here, with the time, the member and the IP address.' }}
        unmatched={active.length > 0 ? { title: 'No entries match these filters', clear } : null}
      />
    </div>
  );
}

const actorText = (name: string, kind: Entry['actor_kind']): string =>
  kind === 'key' ? `API key “${name}”` : kind === 'shop' ? `Shop “${name}”` : name;

function Change({ entry }: { entry: Entry }) {
  const all = changesOf(entry);
  if (all.length === 0) return <span className="text-soft">–</span>;
  return (
    <ul className="grid gap-0.5">
      {all.map(([name, before, after]) => (
        <li key={name} className="wrap-anywhere xl:min-w-40">
          <span className="text-soft">{name}: </span>
          {before !== null && <del className="text-soft">{before}</del>}
          {before !== null && after !== null && ' → '}
          {after}
        </li>
      ))}
    </ul>
  );
}

function Filters({ filters, set }: { filters: Filter; set: (change: Partial<Filter>) => void }) {
  const choices = useApi('GET /:mode/audit/choices', ['audit', 'choices'], {}).data;
  const [object, setObject] = useState(filters.object);
  const submit = (event: FormEvent) => {
    event.preventDefault();
    set({ object: object.trim() });
  };
  const day = 'min-h-9 rounded-lg border border-line bg-card px-2.5 py-1.5 text-sm text-ink';
  return (
    <div className="flex flex-wrap items-center gap-2">
      <search className="basis-full">
        <form onSubmit={submit}>
          <input
            type="search"
            aria-label="Search by object ID or email"
            aria-keyshortcuts="/"
            placeholder="Full ID of a payment, key or member, or an email address"
            value={object}
            onChange={(event) => setObject(event.target.value)}
            className="min-h-9 w-full rounded-lg border border-line bg-card px-3 py-1.5 text-sm text-ink placeholder:text-soft"
          />
        </form>
      </search>
      <Select
        label="Action"
        value={filters.action}
        onChange={(event) => set({ action: event.target.value })}
        options={[{ value: '', label: 'All actions' }, ...(choices?.actions ?? []).map((value) => ({ value, label: wordsOf(value) }))]}
      />
      <Select
        label="Who"
        value={filters.actor}
        onChange={(event) => set({ actor: event.target.value })}
        options={[
          { value: '', label: 'Everyone' },
          ...(choices?.actors ?? []).map(({ id, name, kind }) => ({ value: id, label: actorText(name, kind) })),
        ]}
      />
      <Select
        label="Test or live"
        value={filters.in_mode}
        onChange={(event) => set({ in_mode: event.target.value })}
        options={[
          { value: '', label: 'Test and live' },
          { value: 'live', label: 'Live' },
          { value: 'test', label: 'Test' },
        ]}
      />
      {(['from', 'until'] as const).map((end) => (
        <label key={end} className="flex items-center gap-1.5 text-sm text-soft">
          {end === 'from' ? 'From' : 'Until'}
          <input type="date" value={filters[end]} onChange={(e) => set({ [end]: e.target.value })} className={day} />
        </label>
      ))}
    </div>
  );
}

function Export({ filters }: { filters: Filter }) {
  const mode = useMode();
  const [busy, setBusy] = useState(false);
  const save = async () => {
    setBusy(true);
    try {
      const rows: string[][] = [['id', 'at', 'actor', 'actor_id', 'action', 'object', 'mode', 'before', 'after', 'ip']];
      let after: string | undefined;
      do {
        const page = await call('GET /:mode/audit', {
          params: { mode },
          query: { ...asked(filters), limit: '100', ...(after && { starting_after: after }) } as never,
        });
        for (const e of page.data)
          rows.push([
            e.id,
            e.at,
            e.actor_name,
            e.actor_id ?? '',
            e.action,
            e.object,
            e.mode ?? '',
            e.before ? JSON.stringify(e.before) : '',
            e.after ? JSON.stringify(e.after) : '',
            e.ip,
          ]);
        after = page.has_more ? page.data.at(-1)?.id : page.looked_back_to?.id;
      } while (after !== undefined && rows.length <= MOST_ROWS);
      saveFile('audit-log.csv', toCsv(rows));
      say(
        after === undefined
          ? `Downloaded ${rows.length - 1} entries.`
          : `Downloaded the newest ${rows.length - 1} entries. Narrow the filters to get older ones.`,
      );
    } catch (error) {
      say(error instanceof Error ? error.message : String(error), 'bad');
    }
    setBusy(false);
  };
  return (
    <Button onClick={() => void save()} busy={busy}>
      Download CSV
    </Button>
  );
}
