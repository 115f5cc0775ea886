/** ⌘K: jump to a screen by its name, or search payments. And the list of keys behind `?`. */
import { useNavigate } from '@tanstack/react-router';
import { type KeyboardEvent, useId, useState } from 'react';
import { useMe, useMode } from '../lib/hooks.ts';
import { GO, overlay, setSingleKeys, singleKeys } from '../lib/keys.ts';
import { useStore } from '../lib/store.ts';
import { SCREENS, shownScreens } from '../screens.ts';
import { Dialog } from '../ui/dialog.tsx';
import { Icon, type IconName } from '../ui/icon.tsx';

type Choice = { id: string; label: string; icon: IconName; note?: string; to: string; search?: Record<string, string> };

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
  const search: Choice[] =
    wanted !== '' && me?.actions.includes('payments.read') && !me.must_set_second_factor
      ? [
          {
            id: 'search',
            label: `Search payments for “${text.trim()}”`,
            icon: 'search',
            to: `/${mode}/payments`,
            search: { search: text.trim() },
          },
        ]
      : [];
  const choices = [...screens, ...search];
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
    <Dialog open onClose={close} title="Go to">
      <input
        autoFocus
        role="combobox"
        aria-label="Screen, or words to search payments for"
        aria-expanded
        aria-controls={listId}
        aria-activedescendant={current && `${listId}-${current.id}`}
        autoComplete="off"
        placeholder="Screen, payment, invoice, address…"
        value={text}
        onChange={(event) => {
          setText(event.target.value);
          setAt(0);
        }}
        onKeyDown={onKey}
        className="min-h-10 w-full rounded-lg border border-line bg-card px-3 py-2 text-ink placeholder:text-soft"
      />
      <div id={listId} role="listbox" aria-label="Places" className="max-h-80 overflow-y-auto" tabIndex={-1}>
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
            <span className="min-w-0 flex-1 truncate">{choice.label}</span>
            {choice.note && <span className="text-soft">{choice.note}</span>}
          </div>
        ))}
      </div>
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
    ['Row before', ['k']],
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
        Single keys act. Off, only Ctrl K and ⌘ K do.
      </label>
    </Dialog>
  );
}
