/** Where the app begins: data, routes, theme. */
import './lib/theme.ts';
import './style.css';
import { MutationCache, QueryCache, QueryClient, QueryClientProvider } from '@tanstack/react-query';
import { createRootRoute, createRoute, createRouter, lazyRouteComponent, Outlet, RouterProvider, redirect } from '@tanstack/react-router';
import { StrictMode } from 'react';
import { createRoot } from 'react-dom/client';
import { ApiError } from './lib/api.ts';
import { storeFirstData, takeSignedOut } from './lib/first-data.ts';
import { meOptions, readAhead } from './lib/hooks.ts';
import { say } from './lib/toasts.ts';
import { SCREENS } from './screens.ts';
import { Shell } from './shell/shell.tsx';
import { ErrorCard } from './ui/states.tsx';

const signInFirst = (error: Error): boolean => {
  if (!(error instanceof ApiError) || error.code !== 'not_signed_in') return false;
  const { pathname, search } = router.state.location;
  if (!/^\/(sign-in|forgot-password|reset-password|set-up|invite|confirm-email)/.test(pathname)) {
    client.clear();
    void router.navigate({ to: '/sign-in', search: { next: pathname + router.options.stringifySearch!(search) } as never });
  }
  return true;
};
const client = new QueryClient({
  queryCache: new QueryCache({ onError: signInFirst }),
  mutationCache: new MutationCache({
    onError: (error, _variables, _context, mutation) => {
      if (signInFirst(error) || mutation.options.meta?.quiet) return;
      say(error.message, 'bad');
    },
  }),
  defaultOptions: {
    queries: {
      staleTime: 10_000,
      retry: (count, error) => count < 2 && (!(error instanceof ApiError) || error.status === 0 || error.status === 503),
    },
  },
});

const root = createRootRoute({
  component: Outlet,
  errorComponent: ({ error }) => <ErrorCard error={error instanceof Error ? error : new Error(String(error))} />,
  notFoundComponent: () => (
    <main className="mx-auto grid max-w-md gap-3 px-6 py-24">
      <h1>There is no such page</h1>
      <p>
        <a href="/dashboard">Go to the dashboard</a>
      </p>
    </main>
  ),
});
const index = createRoute({
  getParentRoute: () => root,
  path: '/',
  beforeLoad: () => {
    throw redirect({ to: '/test/home' });
  },
});
const signIn = createRoute({
  getParentRoute: () => root,
  path: 'sign-in',
  component: lazyRouteComponent(() => import('./screens/sign-in.tsx'), 'Screen'),
});
const forgotPassword = createRoute({
  getParentRoute: () => root,
  path: 'forgot-password',
  component: lazyRouteComponent(() => import('./screens/forgot-password.tsx'), 'Screen'),
});
const resetPassword = createRoute({
  getParentRoute: () => root,
  path: 'reset-password',
  component: lazyRouteComponent(() => import('./screens/reset-password.tsx'), 'Screen'),
});
const setUp = createRoute({
  getParentRoute: () => root,
  path: 'set-up',
  component: lazyRouteComponent(() => import('./screens/set-up.tsx'), 'Screen'),
});
const invite = createRoute({
  getParentRoute: () => root,
  path: 'invite',
  component: lazyRouteComponent(() => import('./screens/invite.tsx'), 'Screen'),
});
const confirmEmail = createRoute({
  getParentRoute: () => root,
  path: 'confirm-email',
  component: lazyRouteComponent(() => import('./screens/confirm-email.tsx'), 'Screen'),
});
const verifyEmail = createRoute({
  getParentRoute: () => root,
  path: 'verify-email',
  component: lazyRouteComponent(() => import('./screens/verify-email.tsx'), 'Screen'),
});
const modes = (['test', 'live'] as const).map((mode) => {
  const shell = createRoute({
    getParentRoute: () => root,
    path: mode,
    beforeLoad: ({ location }) => {
      if (takeSignedOut()) throw redirect({ to: '/sign-in', search: { next: location.href } as never });
    },
    // Who is signed in is asked while the code of the screen is on its way.
    loader: () => void client.prefetchQuery(meOptions(mode)),
    component: Shell,
  });
  const start = createRoute({
    getParentRoute: () => shell,
    path: '/',
    beforeLoad: () => {
      throw redirect({ to: `/${mode}/home` });
    },
  });
  return shell.addChildren([
    start,
    ...SCREENS.map((entry) =>
      createRoute({
        getParentRoute: () => shell,
        path: entry.path,
        component: lazyRouteComponent(async () => {
          const screen = await entry.load();
          screen.begin?.(readAhead(client, mode), Object.fromEntries(new URLSearchParams(location.search)));
          return screen;
        }, 'Screen'),
      }),
    ),
  ]);
});
const router = createRouter({
  routeTree: root.addChildren([index, signIn, forgotPassword, resetPassword, setUp, invite, confirmEmail, verifyEmail, ...modes]),
  basepath: '/dashboard',
  defaultPreload: 'intent',
  scrollRestoration: true,
});

storeFirstData(client);
// With the screen's code, so that the frame and the screen are drawn at once.
void router.load().then(() =>
  createRoot(document.getElementById('app')!).render(
    <StrictMode>
      <QueryClientProvider client={client}>
        <RouterProvider router={router} />
      </QueryClientProvider>
    </StrictMode>,
  ),
);
