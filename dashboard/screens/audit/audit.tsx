/** The log of what members did: filters in the URL, what changed, CSV. */
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
import { wordsOf } from './words.ts';

type Entry = Reply<'GET /:mode/audit'>['data'][number];
const KEYS = ['action', 'actor', 'in_mode', 'from', 'until', 'object'] as const;
type Filter = Record<(typeof KEYS)[number], string>;
/** A file holds at most this many rows; narrower filters give the rest. */
const MOST_ROWS = 10_000;

const asked = (filters: Filter) => ({
  action: filters.action,
  actor: filters.actor,
  object: filters.object,
  ...(filters.in_mode !== '' && { in_mode: filters.in_mode as 'live' | 'test' }),
  from: instantOf(filters.from, 0),
  until: instantOf(filters.until, 1),
});
const text = (value: unknown): string => (typeof value === 'string' ? value : JSON.stringify(value));
/** What it was and what it is, by name. */
const changes = ({ before, after }: Entry): [string, string | null, string | null][] =>
  [...new Set([...Object.keys(before ?? {}), ...Object.keys(after ?? {})])].map((name) => [
    name.replaceAll('_', ' '),
    before?.[name] === undefined ? null : text(before[name]),
    after?.[name] === undefined ? null : text(after[name]),
  ]);

export function Screen() {
  useTitle('Audit log');
  const { filters, set, active, clear } = useFilters(KEYS);
  const me = useMe();
  const list = useList('GET /:mode/audit', ['audit', 'list'], asked(filters));
  const columns: Column<Entry>[] = [
    { name: 'When', cell: (row) => <Time at={row.at} /> },
    { name: 'Who', cell: (row) => <span className="break-words">{row.actor_name}</span> },
    {
      name: 'What',
      cell: (row) => (
        <span className="flex flex-wrap items-center gap-1.5">
          <span className="font-medium">{wordsOf(row.action)}</span>
          {row.mode === 'test' && <Badge tone="warn">TEST</Badge>}
        </span>
      ),
    },
    {
      name: 'On',
      cell: (row) => {
        const place = placeOf(row, me?.user.id);
        const name =
          row.object === row.actor_id ? 'Own account' : row.object === me?.merchant.id ? 'This merchant' : (row.object_name ?? row.object);
        return (
          <span className="wrap-anywhere">
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
    { name: 'Change', cell: (row) => <Change entry={row} /> },
    { name: 'Address', cell: (row) => <span className="break-words text-soft">{row.ip || '–'}</span> },
  ];
  return (
    <div className="grid gap-5">
      <div className="flex flex-wrap items-center justify-between gap-3">
        <div>
          <h1>Audit log</h1>
          <p className="text-soft">What members did. Nothing here can be changed or removed.</p>
        </div>
        <Export filters={filters} />
      </div>
      <Filters key={filters.object} filters={filters} set={set} />
      <ListCard
        label="Audit log"
        list={list}
        columns={columns}
        none={{ title: 'Nothing was done yet', words: 'What members do appears here with who, when and from where.' }}
        unmatched={active.length > 0 ? { title: 'Nothing matches these filters', clear } : null}
      />
    </div>
  );
}

function Change({ entry }: { entry: Entry }) {
  const all = changes(entry);
  if (all.length === 0) return <span className="text-soft">–</span>;
  return (
    <ul className="grid gap-0.5">
      {all.map(([name, before, after]) => (
        <li key={name} className="break-words">
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
            aria-label="Search by id or address"
            aria-keyshortcuts="/"
            placeholder="A payment, key, member or e-mail, whole"
            value={object}
            onChange={(event) => setObject(event.target.value)}
            className="min-h-9 w-full rounded-lg border border-line bg-card px-3 py-1.5 text-sm text-ink placeholder:text-soft"
          />
        </form>
      </search>
      <Select
        label="What"
        value={filters.action}
        onChange={(event) => set({ action: event.target.value })}
        options={[{ value: '', label: 'All acts' }, ...(choices?.actions ?? []).map((value) => ({ value, label: wordsOf(value) }))]}
      />
      <Select
        label="Who"
        value={filters.actor}
        onChange={(event) => set({ actor: event.target.value })}
        options={[{ value: '', label: 'Everybody' }, ...(choices?.actors ?? []).map(({ id, name }) => ({ value: id, label: name }))]}
      />
      <Select
        label="Mode of the act"
        value={filters.in_mode}
        onChange={(event) => set({ in_mode: event.target.value })}
        options={[
          { value: '', label: 'Both modes' },
          { value: 'live', label: 'Live' },
          { value: 'test', label: 'Test' },
        ]}
      />
      <input type="date" aria-label="From" value={filters.from} onChange={(e) => set({ from: e.target.value })} className={day} />
      <input type="date" aria-label="Until" value={filters.until} onChange={(e) => set({ until: e.target.value })} className={day} />
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
          ? `${rows.length - 1} rows were saved.`
          : `The newest ${rows.length - 1} rows were saved; narrow the filters for more.`,
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
