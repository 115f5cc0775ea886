/** Hooks that screens use: the mode, the signed-in user, reading, actions, filters in the URL, titles. */
import { type QueryClient, useInfiniteQuery, useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { useLocation, useNavigate } from '@tanstack/react-router';
import { useEffect, useState } from 'react';
import { type Action, EVENT_TYPES, type Mode } from '../generated/api.ts';
import { ApiError, type CallOptions, call, type Endpoint, type Reply } from './api.ts';
import { askConfirmation } from './confirmation.ts';
import { readAnew, whenIdle } from './read-anew.ts';
import { say } from './toasts.ts';

/** The mode is part of the URL: /dashboard/test/… */
export function useMode(): Mode {
  return useLocation({ select: ({ pathname }) => (/^(\/dashboard)?\/live(\/|$)/.test(pathname) ? 'live' : 'test') });
}

/** Queries to refetch after a decision about a payment. */
export const PAYMENT_READS = [['payment'], ['payments'], ['attention'], ['home']] as const;

type ModeEndpoint = Extract<Endpoint, `${string} /:mode/${string}`>;
/** Options of a call below the mode, which is filled in. */
type InMode<E extends Endpoint> = Omit<CallOptions<E>, 'params'> &
  (CallOptions<E>['params'] extends { mode: string } & infer P
    ? keyof Omit<P, 'mode'> extends never
      ? unknown
      : { params: Omit<P, 'mode'> }
    : unknown);

const withMode = <E extends ModeEndpoint>(mode: Mode, options: object): CallOptions<E> =>
  ({ ...options, params: { ...(options as { params?: object }).params, mode } }) as unknown as CallOptions<E>;

type Reading = Extract<ModeEndpoint, `GET ${string}`>;
const reading = <E extends Reading>(mode: Mode, endpoint: E, key: readonly unknown[], options: InMode<E>) => ({
  queryKey: [mode, ...key],
  queryFn: ({ signal }: { signal: AbortSignal }) => call(endpoint, withMode<E>(mode, options), signal),
});
/** Reads. `key` is what the stream of news names, such as ['payments', id]; the mode is put before it. `everyMs`: reads again that often. */
export const useApi = <E extends Reading>(
  endpoint: E,
  key: readonly unknown[],
  options: InMode<E>,
  { everyMs = false }: { everyMs?: number | false } = {},
) => useQuery({ ...reading(useMode(), endpoint, key, options), refetchInterval: everyMs });

/** Reads in the mode that is opened what a screen is about to ask for. */
export type ReadAhead = <E extends Reading>(endpoint: E, key: readonly unknown[], options: InMode<E>) => void;
export const readAhead =
  (client: QueryClient, mode: Mode): ReadAhead =>
  (endpoint, key, options) =>
    void client.prefetchQuery(reading(mode, endpoint, key, options));

/** A paged list, newest first. Old rows stay while others load. `lookedBackTo`: a search stopped there and can continue. */
export function useList<E extends Extract<ModeEndpoint, `GET ${string}`>>(
  endpoint: Reply<E> extends { data: { id: string }[]; has_more: boolean } ? E : never,
  key: readonly unknown[],
  query: Record<string, string | undefined>,
) {
  type Page = { data: { id: string }[]; has_more: boolean; looked_back_to?: { id: string; at: string } | null };
  const mode = useMode();
  const client = useQueryClient();
  const [isAsked, setAsked] = useState(false);
  const queryKey = [mode, ...key, query];
  const list = useInfiniteQuery({
    queryKey,
    initialPageParam: null as string | null,
    queryFn: async ({ pageParam, signal }) =>
      (await call(
        endpoint as E,
        withMode<E>(mode, { query: { ...query, ...(pageParam && { starting_after: pageParam }) } }),
        signal,
      )) as unknown as Page,
    getNextPageParam: (page) => (page.has_more ? page.data.at(-1)?.id : page.looked_back_to?.id) ?? null,
    placeholderData: (old) => old,
  });
  const rows = (list.data?.pages.flatMap((page) => page.data) ?? []) as (Reply<E> extends { data: (infer R)[] } ? R : never)[];
  const end = list.data?.pages.at(-1);
  /** The page after those that are shown, once what is under way has come; none when other filters are set meanwhile. */
  const fetchNextPage = async (): Promise<void> => {
    const asked = client.getQueryCache().find({ queryKey });
    if (isAsked || !asked) return;
    setAsked(true);
    await whenIdle(client, asked, async () => asked.isActive() && list.fetchNextPage({ cancelRefetch: false }));
    setAsked(false);
  };
  return {
    ...list,
    rows,
    lookedBackTo: (!end?.has_more && end?.looked_back_to?.at) || null,
    fetchNextPage,
    isFetchingNextPage: isAsked,
  };
}

/**
 * Runs an action, then refetches the queries under the given keys. When the server requires a recent sign-in, it asks the user to
 * confirm their identity and repeats the action. Failures are shown as a toast, unless the screen shows them itself (`quiet`).
 */
export function useAct<E extends ModeEndpoint>(
  endpoint: E,
  { refreshes = [], done, quiet = false }: { refreshes?: readonly (readonly unknown[])[]; done?: string; quiet?: boolean } = {},
) {
  const mode = useMode();
  const client = useQueryClient();
  return useMutation<Reply<E>, Error, InMode<E>>({
    meta: { quiet },
    mutationFn: async (options) => {
      const act = () => call(endpoint, withMode<E>(mode, options));
      try {
        return await act();
      } catch (error) {
        if (!(error instanceof ApiError) || error.code !== 'recent_authentication_required') throw error;
        if (!(await askConfirmation())) throw error;
        return act();
      }
    },
    onSuccess: async (reply) => {
      if (done !== undefined) say(done);
      for (const { message } of warningsOf(reply)) say(message);
      await Promise.all(refreshes.map((key) => readAnew(client, [mode, ...key])));
    },
  });
}

/** Warnings of a reply: for example that no customer could pay what was just created. */
const warningsOf = (reply: object): readonly { message: string }[] =>
  'warnings' in reply ? (reply.warnings as { message: string }[]) : [];

export const meOptions = (mode: Mode) => ({
  queryKey: [mode, 'me'],
  queryFn: ({ signal }: { signal: AbortSignal }) => call('GET /:mode/me', { params: { mode } }, signal),
  staleTime: 60_000,
});
export const useMe = () => useQuery(meOptions(useMode())).data ?? null;
/** Whether the role includes an action; false until it is known. */
export const useMay = (action: Action): boolean => useMe()?.actions.includes(action) ?? false;
/** Types of events that the member may read. */
export function useEventTypes(): readonly (typeof EVENT_TYPES)[number][] {
  const mayReadPayouts = useMay('payouts.read');
  return EVENT_TYPES.filter((type) => mayReadPayouts || !type.startsWith('payout.'));
}

/** Filters that live in the URL. Setting one to '' takes it away. */
export function useFilters<K extends string>(keys: readonly K[]) {
  const search = useLocation({ select: (location) => location.search as Record<string, unknown> });
  const navigate = useNavigate();
  const filters = Object.fromEntries(keys.map((key) => [key, search[key] === undefined ? '' : String(search[key])])) as Record<K, string>;
  const set = (change: Partial<Record<K, string>>) => {
    const next = Object.entries({ ...search, ...change }).filter(([, value]) => value !== '' && value !== undefined);
    void navigate({ to: '.', search: Object.fromEntries(next) as never, replace: true });
  };
  const active = keys.filter((key) => filters[key] !== '');
  return { filters, set, active, clear: () => set(Object.fromEntries(keys.map((key) => [key, ''])) as Record<K, string>) };
}

/** The row that is open in a drawer, by its ID in the URL, so that a reload and a shared link open it too; null closes it. */
export function useOpened(key: string): [id: string | null, open: (id: string | null) => void] {
  const { filters } = useFilters([key]);
  const navigate = useNavigate();
  const open = (id: string | null) => {
    const search = (old: object) => ({ ...old, [key]: id ?? undefined });
    void navigate({ to: '.', search: search as never, replace: id === null, resetScroll: false });
  };
  return [filters[key] || null, open];
}

export function useTitle(title: string): void {
  const mode = useMode();
  useEffect(() => {
    document.title = `${mode === 'test' ? 'TEST · ' : ''}${title} · Florin`;
  }, [title, mode]);
}
