/**
 * Refreshing a list and loading more of it at the same time, with the dashboard's own cache: both the requested page and the updates
 * arrive.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { InfiniteQueryObserver, QueryClient, QueryObserver } from '@tanstack/react-query';
import { endReading, readAnew, whenIdle } from '../../dashboard/lib/read-anew.ts';
import { eventually } from '../kit/app.ts';

/** A list of numbers with one per page, whose answers wait until released. Each is what was current when it was requested. */
function startList() {
  const client = new QueryClient();
  const asked: { page: number; answer: () => void }[] = [];
  let version = 1;
  const list = new InfiniteQueryObserver(client, {
    queryKey: ['test', 'payments', 'list'],
    queryFn: ({ pageParam }) => {
      const data = { page: pageParam, version };
      return new Promise<typeof data>((resolve) => asked.push({ page: pageParam, answer: () => resolve(data) }));
    },
    initialPageParam: 1,
    getNextPageParam: (last) => last.page + 1,
  });
  const stop = list.subscribe(() => {});
  const query = client.getQueryCache().find({ queryKey: ['test', 'payments', 'list'] })!;
  const next = async (page: number) =>
    (await eventually(
      async () => asked.shift(),
      (one) => one?.page === page,
    ))!.answer();
  return {
    client,
    query,
    list,
    asked,
    next,
    change: () => {
      version++;
    },
    pages: () => list.getCurrentResult().data?.pages.map(({ page, version: of }) => `${page} of ${of}`),
    more: () => whenIdle(client, query, () => list.fetchNextPage({ cancelRefetch: false })),
    end: () => {
      stop();
      client.clear();
    },
  };
}

test('updates while a page is loading neither cancel it nor get lost, however many arrive', async () => {
  const { client, next, change, pages, more, asked, end } = startList();
  await next(1);
  await eventually(
    async () => pages(),
    (all) => all?.length === 1,
  );
  const pressed = more();
  change();
  const told = Promise.all([readAnew(client, ['test', 'payments']), readAnew(client, ['test', 'payments']), readAnew(client)]);
  await next(2);
  await pressed;
  assert.deepEqual(pages(), ['1 of 1', '2 of 1']);
  await next(1);
  await next(2);
  await told;
  assert.deepEqual(pages(), ['1 of 2', '2 of 2']);
  await sleep(50);
  assert.deepEqual(asked, [], 'read once more, not once for each piece of news');
  end();
});

test('a page requested during a refresh is loaded after it', async () => {
  const { client, next, change, pages, more, end } = startList();
  await next(1);
  await eventually(
    async () => pages(),
    (all) => all?.length === 1,
  );
  change();
  const told = readAnew(client, ['test']);
  const pressed = more();
  await next(1);
  await told;
  await next(2);
  await pressed;
  assert.deepEqual(pages(), ['1 of 2', '2 of 2']);
  end();
});

test('an update during the first load is loaded too', async () => {
  const { client, next, change, pages, end } = startList();
  change();
  const told = readAnew(client, ['test']);
  await next(1);
  await next(1);
  await told;
  assert.deepEqual(pages(), ['1 of 2']);
  end();
});

test('a list that is out of view is refreshed when it is seen again, and a discarded one is not awaited', async () => {
  const client = new QueryClient();
  const options = { queryKey: ['test', 'home'], queryFn: async () => performance.now(), staleTime: 60_000 };
  await client.prefetchQuery(options);
  const first = client.getQueryData(options.queryKey);
  await readAnew(client, ['test']);
  assert.equal(client.getQueryData(options.queryKey), first);
  const stop = new QueryObserver(client, options).subscribe(() => {});
  await eventually(
    async () => client.getQueryData(options.queryKey),
    (now) => now !== first,
  );
  stop();
  client.clear();

  const list = startList();
  const pressed = list.more();
  list.client.clear();
  await pressed;
  assert.deepEqual(
    list.asked.map(({ page }) => page),
    [1],
  );
  list.end();
});

test('an object deleted here is not requested again, unless the deletion is undone', async () => {
  const client = new QueryClient();
  let asked = 0;
  const stop = new QueryObserver(client, { queryKey: ['test', 'webhooks', 'we_1'], queryFn: async () => ++asked }).subscribe(() => {});
  const read = (times: number) =>
    eventually(
      async () => client.getQueryData(['test', 'webhooks', 'we_1']),
      (count) => count === times,
    );
  await read(1);
  const goOn = endReading(client, ['test', 'webhooks', 'we_1']);
  await readAnew(client);
  assert.equal(asked, 1);
  goOn();
  await readAnew(client);
  await read(2);
  stop();
  client.clear();
});
