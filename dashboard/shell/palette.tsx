/** ⌘K: jump to a screen by its name, or to what has an ID or a text: payments, refunds, customers and so on. And the list of keys behind `?`. */

import { useQuery } from '@tanstack/react-query';
import { useNavigate } from '@tanstack/react-router';
import { type KeyboardEvent, type ReactNode, useEffect, useId, useRef, useState } from 'react';
import { call, type Reply } from '../lib/api.ts';
import { coinOf } from '../lib/coin.ts';
import { useMe, useMode } from '../lib/hooks.ts';
import { GO, overlay, setSingleKeys, singleKeys } from '../lib/keys.ts';
import { useStore } from '../lib/store.ts';
import { PayoutState } from '../screens/payouts/state.tsx';
import { RefundState } from '../screens/refunds/state.tsx';
import { SweepState } from '../screens/sweeps/state.tsx';
import { GROUPS, SCREENS, shownScreens } from '../screens.ts';
import { customerName } from '../ui/customer.tsx';
import { Dialog } from '../ui/dialog.tsx';
import { Icon, type IconName } from '../ui/icon.tsx';
import { Marked, Match, Sought, TYPING_MS } from '../ui/marked.tsx';
import { Price } from '../ui/price.tsx';
import { ErrorCard } from '../ui/states.tsx';
import { Money, PaymentState, TestLabel, Time } from '../ui/values.tsx';

type Choice = { id: string; label: ReactNode; icon: IconName; note?: string; to: string; search?: Record<string, string> };
type Group = { name: string; choices: Choice[] };

/** What has the text, a moment after the last key. */
function useFound(text: string, wanted: boolean) {
  const [asked, setAsked] = useState(text);
  const mode = useMode();
  useEffect(() => {
    const timer = setTimeout(() => setAsked(text), TYPING_MS);
    return () => clearTimeout(timer);
  }, [text]);
  const found = useQuery({
    queryKey: [mode, 'search', asked],
    queryFn: ({ signal }) => call('GET /:mode/search', { params: { mode }, query: { q: asked } }, signal),
    enabled: wanted && asked !== '',
    placeholderData: (old) => old,
  });
  const isSettled = wanted && asked === text && !found.isFetching;
  return {
    data: wanted ? found.data : undefined,
    isFound: isSettled && !found.error,
    error: isSettled ? found.error : null,
    retry: found.refetch,
  };
}

/** A result: what it is with its state, and below it where its text or its ID is, and when it was made. */
const Lines = ({ first, second, at }: { first: ReactNode; second: ReactNode; at: string }) => (
  <span className="grid whitespace-normal">
    <span className="flex flex-wrap items-center gap-x-2">
      {first}
      <TestLabel />
    </span>
    <span className="flex flex-wrap items-baseline gap-x-2 text-soft">
      <span className="break-all">{second}</span>
      <Time at={at} />
    </span>
  </span>
);
const Code = ({ id }: { id: string }) => (
  <code className="text-xs">
    <Marked text={id} />
  </code>
);

type Drawn = { icon: 'refund' | 'payout' | 'sweep' | 'link'; first: ReactNode; at: string };
/** What opens in a drawer of its list. The icon has the name of the kind, as the list and its parameter have. */
const inDrawer = ({ id }: { id: string }, { icon, first, at }: Drawn): Choice => ({
  ...{ id, icon, to: `${icon}s`, search: { [icon]: id } },
  label: <Lines first={first} second={<Code id={id} />} at={at} />,
});

type Found = Reply<'GET /:mode/search'>;
/** What is found, by kind. */
const groupsOf = (found: Found): Group[] => [
  {
    name: 'Refunds',
    choices: found.refunds.map((refund) =>
      inDrawer(refund, {
        icon: 'refund',
        at: refund.created_at,
        first: <Paid of={{ ...refund, currency: coinOf(refund) }} state={<RefundState refund={refund} />} />,
      }),
    ),
  },
  {
    name: 'Payouts',
    choices: found.payouts.map((payout) =>
      inDrawer(payout, {
        icon: 'payout',
        at: payout.created_at,
        first: <Paid of={{ ...payout, currency: coinOf(payout) }} state={<PayoutState payout={payout} />} />,
      }),
    ),
  },
  {
    name: 'Sweeps',
    choices: found.sweeps.map((sweep) =>
      inDrawer(sweep, { icon: 'sweep', at: sweep.made_at, first: <Paid of={sweep} state={<SweepState state={sweep.state} />} /> }),
    ),
  },
  {
    name: 'Payment links',
    choices: found.links.map((link) =>
      inDrawer(link, { icon: 'link', at: link.created_at, first: <span className="line-clamp-2 break-words">{link.name}</span> }),
    ),
  },
  {
    name: 'Events',
    choices: found.events.map((event) => ({
      ...{ id: event.id, icon: 'bolt', to: `events/${event.id}` },
      label: <Lines first={<span>{event.type}</span>} second={<Code id={event.id} />} at={event.created_at} />,
    })),
  },
  {
    name: 'Payments',
    choices: found.payments.map((row) => ({
      ...{ id: row.id, icon: 'payments', to: `payments/${row.id}` },
      label: (
        <Lines
          first={
            <>
              <Price of={row} />
              <PaymentState status={row.status} exception={row.exceptions[0] ?? null} />
            </>
          }
          second={row.match ? <Match match={row.match} /> : (row.invoice_id ?? row.description ?? row.id)}
          at={row.created_at}
        />
      ),
    })),
  },
  {
    name: 'Customers',
    choices: found.customers.map((customer) => ({
      ...{ id: customer.id, icon: 'person', to: `customers/${customer.id}` },
      label: (
        <Lines
          first={
            <span className="line-clamp-2 break-words">
              <Marked text={customerName(customer)} />
            </span>
          }
          second={<Marked text={[customer.email, customer.reference].filter((one) => one !== null).join(', ')} />}
          at={customer.created_at}
        />
      ),
    })),
  },
];
const Paid = ({ of: { amount, currency }, state }: { of: { amount: string; currency: string }; state: ReactNode }) => (
  <>
    <Money amount={amount} currency={currency} />
    {state}
  </>
);

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
  const field = useRef<HTMLInputElement>(null);
  const [text, setText] = useState('');
  const [at, setAt] = useState(0);
  const wanted = text.trim().toLowerCase();
  const screens: Choice[] = shownScreens(SCREENS, me).flatMap(({ path, nav }) =>
    nav && (wanted === '' || nav.label.toLowerCase().includes(wanted))
      ? [
          {
            id: path,
            label: nav.label,
            icon: nav.icon,
            note: [nav.group]
              .flat()
              .map((group) => GROUPS[group])
              .join(', '),
            to: path,
          },
        ]
      : [],
  );
  const sought = text.trim();
  const mayFind = sought !== '' && me?.actions.includes('payments.read') === true && !me.must_set_second_factor;
  const { data, isFound, error, retry } = useFound(sought, mayFind);
  const found = data ? groupsOf(data) : [];
  const count = found.reduce((sum, { choices }) => sum + choices.length, 0);
  const all: Choice = {
    id: 'all',
    label: `Show all payments with “${sought}”`,
    icon: 'search',
    to: 'payments',
    search: { search: sought },
  };
  const groups = [{ name: 'Screens', choices: screens }, ...found, { name: 'More', choices: mayFind ? [all] : [] }].filter(
    (group) => group.choices.length > 0,
  );
  const choices = groups.flatMap((group) => group.choices);
  const current = choices[Math.min(at, choices.length - 1)];
  const currentId = current && `${listId}-${current.id}`;
  useEffect(() => void document.getElementById(currentId ?? '')?.scrollIntoView({ block: 'nearest' }), [currentId]);
  const onRetry = () => {
    field.current?.focus();
    void retry();
  };
  const choose = (choice: Choice | undefined) => {
    if (!choice) return;
    close();
    void navigate({ to: `/${mode}/${choice.to}`, search: (choice.search ?? {}) as never });
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
        ref={field}
        role="combobox"
        aria-label="Search screens, payments, customers and IDs"
        aria-expanded
        aria-controls={listId}
        aria-activedescendant={currentId}
        autoComplete="off"
        maxLength={200}
        placeholder="Screen, name, email, invoice, amount, ID…"
        value={text}
        onChange={(event) => {
          setText(event.target.value);
          setAt(0);
        }}
        onKeyDown={onKey}
        className="min-h-10 w-full rounded-lg border border-line bg-card px-3 py-2 text-ink placeholder:text-soft"
      />
      <p role="status" className={isFound && count === 0 ? 'text-sm text-soft' : 'sr-only'}>
        {isFound ? (count === 0 ? `No results in ${mode} mode.` : count === 1 ? '1 result' : `${count} results`) : ''}
      </p>
      {error && <ErrorCard error={error} onRetry={onRetry} />}
      <div id={listId} role="listbox" aria-label="Results" className="max-h-96 overflow-y-auto" tabIndex={-1}>
        {groups.map((group) => (
          // biome-ignore lint/a11y/useSemanticElements: a fieldset may not be in a listbox
          <div key={group.name} role="group" aria-label={group.name}>
            <p aria-hidden="true" className="px-3 pt-2 pb-1 text-xs font-medium text-soft">
              {group.name}
            </p>
            {group.choices.map((choice) => (
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
    ['Go to a screen, or search', ['Ctrl K', '⌘ K']],
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
