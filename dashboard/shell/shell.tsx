/** The frame around all screens: navigation, mode, account menu; the stream of changes, toasts, the prompt for recent authentication. */
import { CSPProvider } from '@base-ui/react/csp-provider';
import { useQueryClient } from '@tanstack/react-query';
import { Link, Outlet, useLocation, useNavigate } from '@tanstack/react-router';
import { lazy, Suspense, useEffect, useLayoutEffect, useState } from 'react';
import { call } from '../lib/api.ts';
import { confirmation } from '../lib/confirmation.ts';
import { density, readDensity, setDensity } from '../lib/density.ts';
import { useApi, useMe, useMode } from '../lib/hooks.ts';
import { GO, listenToKeys, overlay } from '../lib/keys.ts';
import { stopReading, useNews } from '../lib/news.ts';
import { useStore } from '../lib/store.ts';
import { setTheme, type Theme, theme } from '../lib/theme.ts';
import { GROUPS, SCREENS, shownScreens } from '../screens.ts';
import { Icon } from '../ui/icon.tsx';
import { Menu } from '../ui/menu.tsx';
import { Bell } from './bell.tsx';
import { Stripes } from './stripes.tsx';
import { Toasts } from './toasts.tsx';

const Confirmation = lazy(() => import('./confirmation.tsx').then((module) => ({ default: module.Confirmation })));

const Locked = lazy(() => import('./refused.tsx').then((module) => ({ default: module.Locked })));
const Refused = lazy(() => import('./refused.tsx').then((module) => ({ default: module.Refused })));
const Overlays = lazy(() => import('./palette.tsx').then((module) => ({ default: module.Overlays })));

const THEMES: readonly { value: Theme; label: string }[] = [
  { value: 'system', label: 'System theme' },
  { value: 'light', label: 'Light theme' },
  { value: 'dark', label: 'Dark theme' },
];

/** Keyboard shortcuts; see lib/keys. */
function useKeys() {
  const mode = useMode();
  const me = useMe();
  const navigate = useNavigate();
  useEffect(
    () =>
      listenToKeys((key) => {
        const screen = shownScreens(SCREENS, me).find(({ path, nav }) => nav && GO[path] === key);
        if (screen) void navigate({ to: `/${mode}/${screen.path}` });
        return screen !== undefined;
      }),
    [mode, me, navigate],
  );
}

export function Shell() {
  const mode = useMode();
  const me = useMe();
  const path = useLocation({ select: ({ pathname }) => pathname });
  const asked = useStore(confirmation);
  const [open, setOpen] = useState(false);
  // Members who must set up two-factor authentication first see nothing else.
  useNews(mode, me !== null && !me.must_set_second_factor);
  useKeys();
  const userId = me?.user.id;
  // Before anything is painted, so that no row moves.
  useLayoutEffect(() => {
    if (userId !== undefined) readDensity(userId);
  }, [userId]);
  const above = useStore(overlay);
  // biome-ignore lint/correctness/useExhaustiveDependencies: the drawer closes when the place changes
  useEffect(() => setOpen(false), [path]);
  const other = mode === 'test' ? 'live' : 'test';
  const reached = shownScreens(SCREENS, me);
  const entries = reached.filter((screen) => screen.nav);
  const place = path.replace(/^(\/dashboard)?\/(test|live)\//, '').split('/');
  const locked = me?.must_set_second_factor && !reached.some((screen) => screen.path === place[0]);
  const entry = SCREENS.find((screen) => {
    const parts = screen.path.split('/');
    return parts.length === place.length && parts.every((part, i) => part.startsWith('$') || part === place[i]);
  });
  const refused = me && !locked && entry && !reached.includes(entry);
  return (
    <CSPProvider disableStyleElements>
      <a href="#main" className="absolute -top-20 left-2 z-50 rounded bg-card px-3 py-2 focus:top-2">
        Skip to content
      </a>
      {mode === 'test' && (
        <aside
          aria-label="Mode shown"
          className="sticky top-0 z-20 bg-warn-wash px-4 py-1 text-center text-xs font-semibold tracking-wide text-warn"
        >
          TEST DATA
        </aside>
      )}
      <div className={`lg:grid lg:grid-cols-[240px_1fr] ${mode === 'test' ? '[--stripe:1.5rem]' : '[--stripe:0px]'}`}>
        <nav
          aria-label="Main"
          id="nav"
          className={`${open ? 'block' : 'hidden'} border-line bg-card px-3 py-4 max-lg:border-b lg:sticky lg:top-(--stripe) lg:block lg:h-[calc(100vh-var(--stripe))] lg:overflow-y-auto lg:border-r`}
        >
          {Object.entries(GROUPS).map(([group, section]) => {
            const mine = entries.filter((entry) => group !== 'account' && [entry.nav!.group].flat().some((one) => one === group));
            return (
              mine.length > 0 && (
                <div key={group} className="pb-4">
                  <p className="px-3 pb-1 text-xs font-medium text-soft">{section}</p>
                  <ul aria-label={section} className="grid gap-0.5">
                    {mine.map((entry) => (
                      <li key={entry.path}>
                        <Link
                          to={`/${mode}/${entry.path}`}
                          className="flex items-center gap-2.5 rounded-lg px-3 py-1.5 text-sm text-ink hover:bg-raised aria-[current=page]:bg-raised aria-[current=page]:font-medium"
                        >
                          <Icon name={entry.nav!.icon} />
                          {entry.nav!.label}
                          {entry.nav!.counts === 'attention' && <Waiting />}
                        </Link>
                      </li>
                    ))}
                  </ul>
                </div>
              )
            );
          })}
        </nav>
        <div className="min-w-0">
          <header className="flex flex-wrap items-center gap-x-3 border-b border-line bg-card px-4 py-2 sm:px-8">
            <button
              type="button"
              className="-ml-2 rounded-lg p-2 hover:bg-raised lg:hidden"
              aria-expanded={open}
              aria-controls="nav"
              onClick={() => setOpen(!open)}
            >
              <Icon name={open ? 'close' : 'menu'} />
              <span className="sr-only">Navigation</span>
            </button>
            <div className="-ml-2 flex min-w-0 max-sm:order-first max-sm:basis-full max-sm:text-sm sm:flex-1">
              <Merchant />
            </div>
            <nav className="flex rounded-lg border border-line p-0.5 text-sm" aria-label="Mode">
              {(['test', 'live'] as const).map((name) => (
                <Link
                  key={name}
                  // Switching keeps the screen, except screens of one object, which the other mode does not have.
                  to={
                    name === other
                      ? path.replace(/^(\/dashboard)?\/(test|live)\/([^/]+)(\/.*)?$/s, `/${name}/$3`)
                      : path.replace(/^\/dashboard/, '')
                  }
                  aria-current={name === mode ? 'true' : undefined}
                  className={`rounded-md px-3 py-1 ${name === mode ? 'bg-raised font-medium text-ink' : 'text-soft hover:text-ink'}`}
                >
                  {name === 'test' ? 'Test' : 'Live'}
                </Link>
              ))}
            </nav>
            <div className="ml-auto flex items-center gap-1">
              <button
                type="button"
                className="rounded-lg p-2 hover:bg-raised"
                aria-keyshortcuts="Control+K Meta+K"
                onClick={() => overlay.set('palette')}
              >
                <Icon name="search" />
                <span className="sr-only">Search</span>
              </button>
              {me && !me.must_set_second_factor && <Bell />}
              <Account />
            </div>
          </header>
          <Stripes />
          <main id="main" tabIndex={-1} className="mx-auto max-w-6xl px-4 py-6 outline-none sm:px-8 sm:py-8">
            {locked ? (
              <Suspense>
                <Locked mode={mode} merchant={me?.merchant.name ?? ''} />
              </Suspense>
            ) : refused ? (
              <Suspense>
                <Refused role={me.role} merchant={me.merchant.name} action={entry.action} operator={entry.operator === true} />
              </Suspense>
            ) : (
              <Outlet />
            )}
          </main>
        </div>
      </div>
      {asked !== null && (
        <Suspense>
          <Confirmation />
        </Suspense>
      )}
      {above !== null && (
        <Suspense>
          <Overlays />
        </Suspense>
      )}
      <Toasts />
    </CSPProvider>
  );
}

/** How many payments need a decision. */
function Waiting() {
  const { data } = useApi('GET /:mode/attention/count', ['attention', 'count'], {});
  if (!data || data.count === 0) return null;
  return (
    <span className="ml-auto rounded-full bg-warn-wash px-2 text-xs font-semibold text-warn tabular-nums">
      {data.more ? `${data.count}+` : data.count}
      <span className="sr-only"> to review</span>
    </span>
  );
}

/** The merchant, and a menu of the member's other merchants. */
function Merchant() {
  const me = useMe();
  const mode = useMode();
  /** Loads the page again, so that no data of one merchant is shown as another's. */
  const switchTo = async (merchantId: string) => {
    await call('POST /:mode/merchant', { params: { mode }, body: { merchant_id: merchantId } });
    location.assign(`/dashboard/${mode}`);
  };
  const name = me?.merchant.name ?? '\u00a0';
  const others = (me?.merchants ?? []).filter(({ id }) => id !== me?.merchant.id);
  if (others.length === 0) return <p className="truncate px-2 font-semibold">{name}</p>;
  return (
    <Menu
      align="start"
      className="flex max-w-full items-center gap-1 px-2 py-1 font-semibold"
      entries={others.map((other) => ({ label: `Switch to ${other.name}`, onSelect: () => void switchTo(other.id) }))}
    >
      <span className="sr-only">Merchant</span>
      <span className="truncate">{name}</span>
      <Icon name="chevron" className="size-4" />
    </Menu>
  );
}

function Account() {
  const me = useMe();
  const navigate = useNavigate();
  const mode = useMode();
  const current = useStore(theme);
  const rows = useStore(density);
  const own = shownScreens(SCREENS, me).filter(({ nav }) => nav?.group === 'account');
  const client = useQueryClient();
  const signOut = async () => {
    await stopReading(client);
    await call('POST /sign-out', { body: {} });
    location.assign('/dashboard/sign-in');
  };
  return (
    <Menu
      className="flex items-center gap-2 p-2 text-sm"
      entries={[
        ...own.map(({ path, nav }) => ({ label: nav!.label, onSelect: () => void navigate({ to: `/${mode}/${path}` }) })),
        { label: 'Keyboard shortcuts', onSelect: () => overlay.set('keys') },
        'line',
        ...THEMES.filter(({ value }) => value !== current).map(({ value, label }) => ({ label, onSelect: () => setTheme(value) })),
        'line',
        rows === 'compact'
          ? { label: 'Comfortable tables', onSelect: () => setDensity('comfortable') }
          : { label: 'Compact tables', onSelect: () => setDensity('compact') },
        'line',
        { label: 'Sign out', onSelect: () => void signOut() },
      ]}
    >
      <Icon name="person" />
      <span className="sr-only">Account</span>
      <span className="max-w-40 truncate max-sm:hidden">{me?.user.name ?? ''}</span>
    </Menu>
  );
}
