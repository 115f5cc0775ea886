/** ⌘K: jump to a screen by its name, or to a payment by any part of its texts. And the list of keys behind `?`. */

import { useQuery } from '@tanstack/react-query';
import { useNavigate } from '@tanstack/react-router';
import { type KeyboardEvent, type ReactNode, useEffect, useId, useState } from 'react';
import { call } from '../lib/api.ts';
import { useMe, useMode } from '../lib/hooks.ts';
import { GO, overlay, setSingleKeys, singleKeys } from '../lib/keys.ts';
import { useStore } from '../lib/store.ts';
import { SCREENS, shownScreens } from '../screens.ts';
import { Dialog } from '../ui/dialog.tsx';
import { Icon, type IconName } from '../ui/icon.tsx';
import { Match, Sought, TYPING_MS } from '../ui/marked.tsx';
import { Price } from '../ui/price.tsx';
import { PaymentState, TestLabel, Time } from '../ui/values.tsx';

type Choice = { id: string; label: ReactNode; icon: IconName; note?: ReactNode; to: string; search?: Record<string, string> };
/** Payments shown below the screens; the rest is one more key away. */
const SHOWN = '6';

/** The newest payments that have the text, a moment after the last key. */
function useFound(text: string, wanted: boolean) {
  const [asked, setAsked] = useState(text);
  const mode = useMode();
  useEffect(() => {
    const timer = setTimeout(() => setAsked(text), TYPING_MS);
    return () => clearTimeout(timer);
  }, [text]);
  const query = { search: asked, limit: SHOWN };
  const found = useQuery({
    queryKey: [mode, 'payments', 'found', query],
    queryFn: ({ signal }) => call('GET /:mode/payments', { params: { mode }, query }, signal),
    enabled: wanted && asked !== '',
    placeholderData: (old) => old,
  });
  return { rows: wanted && text !== '' ? (found.data?.data ?? []) : [], isSettled: !wanted || (asked === text && !found.isFetching) };
}

export function Overlays() {
  const open = useStore(overlay);
  return open === 'palette' ? <Palette /> : open === 'keys' ? <Keys /> : null;
}
const close = () => overlay.set(null);

function Palette() {
  const me = useMe();
  const mode = useMode();
  const navigate = useNavigate();
  const listId = useId();
  const [text, setText] = useState('');
  const [at, setAt] = useState(0);
  const wanted = text.trim().toLowerCase();
  const screens: Choice[] = shownScreens(SCREENS, me).flatMap(({ path, nav }) =>
    nav && (wanted === '' || nav.label.toLowerCase().includes(wanted))
      ? [{ id: path, label: nav.label, icon: nav.icon, note: [nav.group].flat().join(', '), to: `/${mode}/${path}` }]
      : [],
  );
  const mayFind = wanted !== '' && me?.actions.includes('payments.read') === true && !me.must_set_second_factor;
  const { rows, isSettled } = useFound(text.trim(), mayFind);
  const payments: Choice[] = rows.map((row) => ({
    id: row.id,
    icon: 'payments',
    label: (
      <span className="grid">
        <span className="flex items-center gap-2">
          <Price of={row} />
          <PaymentState status={row.status} exception={row.exceptions[0] ?? null} />
          <TestLabel />
        </span>
        <span className="text-soft">{row.match ? <Match match={row.match} /> : (row.invoice_id ?? row.description ?? row.id)}</span>
      </span>
    ),
    note: <Time at={row.created_at} />,
    to: `/${mode}/payments/${row.id}`,
  }));
  const search: Choice[] = mayFind
    ? [
        {
          id: 'search',
          label: `Show all payments with “${text.trim()}”`,
          icon: 'search',
          to: `/${mode}/payments`,
          search: { search: text.trim() },
        },
      ]
    : [];
  const choices = [...screens, ...payments, ...search];
  const current = choices[Math.min(at, choices.length - 1)];
  const choose = (choice: Choice | undefined) => {
    if (!choice) return;
    close();
    void navigate({ to: choice.to, search: (choice.search ?? {}) as never });
  };
  const onKey = (event: KeyboardEvent) => {
    const by = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (by !== undefined) {
      event.preventDefault();
      setAt((Math.min(at, choices.length - 1) + by + choices.length) % Math.max(1, choices.length));
    } else if (event.key === 'Enter') {
      event.preventDefault();
      choose(current);
    }
  };
  return (
    <Dialog open onClose={close} title="Search">
      <input
        autoFocus
        role="combobox"
        aria-label="Search screens and payments"
        aria-expanded
        aria-controls={listId}
        aria-activedescendant={current && `${listId}-${current.id}`}
        autoComplete="off"
        maxLength={200}
        placeholder="Screen, invoice, email, amount, address…"
        value={text}
        onChange={(event) => {
          setText(event.target.value);
          setAt(0);
        }}
        onKeyDown={onKey}
        className="min-h-10 w-full rounded-lg border border-line bg-card px-3 py-2 text-ink placeholder:text-soft"
      />
      <p role="status" className="sr-only">
        {mayFind && isSettled ? (rows.length === 0 ? 'No payments found' : `${rows.length} payments found`) : ''}
      </p>
      <div id={listId} role="listbox" aria-label="Results" className="max-h-96 overflow-y-auto" tabIndex={-1}>
        {choices.map((choice) => (
          // biome-ignore lint/a11y/useKeyWithClickEvents: the keys are those of the field above
          <div
            key={choice.id}
            id={`${listId}-${choice.id}`}
            role="option"
            tabIndex={-1}
            aria-selected={choice === current}
            onClick={() => choose(choice)}
            onPointerMove={() => setAt(choices.indexOf(choice))}
            className="flex cursor-pointer items-center gap-3 rounded-lg px-3 py-2 text-sm aria-selected:bg-raised"
          >
            <Icon name={choice.icon} />
            <span className="min-w-0 flex-1 truncate">
              <Sought value={text}>
                <span className="contents">{choice.label}</span>
              </Sought>
            </span>
            {choice.note && <span className="text-soft">{choice.note}</span>}
          </div>
        ))}
      </div>
      {mayFind && isSettled && rows.length === 0 && <p className="text-sm text-soft">No payments found.</p>}
      {choices.length === 0 && <p className="text-sm text-soft">No screen has that name.</p>}
    </Dialog>
  );
}

const Key = ({ children }: { children: string }) => (
  <kbd className="rounded border border-line bg-raised px-1.5 py-0.5 font-mono text-xs">{children}</kbd>
);

function Keys() {
  const me = useMe();
  const on = useStore(singleKeys);
  const go = shownScreens(SCREENS, me).flatMap(({ path, nav }) => (nav && GO[path] ? [[nav.label, ['g', GO[path]]] as const] : []));
  const rows: (readonly [string, readonly string[]])[] = [
    ['Go to a screen, search payments', ['Ctrl K', '⌘ K']],
    ['Search on this screen', ['/']],
    ['Next row', ['j']],
    ['Previous row', ['k']],
    ['Open the row', ['Enter']],
    ...go,
    ['This list', ['?']],
  ];
  return (
    <Dialog open onClose={close} title="Keys">
      <dl className="grid gap-1.5 text-sm">
        {rows.map(([name, keys]) => (
          <div key={name} className="flex items-center justify-between gap-4">
            <dt>{name}</dt>
            <dd className="flex gap-1">
              {keys.map((key) => (
                <Key key={key}>{key}</Key>
              ))}
            </dd>
          </div>
        ))}
      </dl>
      <label className="flex items-center gap-3 border-t border-line pt-4 text-sm">
        <input type="checkbox" className="size-4 accent-accent" checked={on} onChange={(event) => setSingleKeys(event.target.checked)} />
        Enable single-key shortcuts
      </label>
    </Dialog>
  );
}
