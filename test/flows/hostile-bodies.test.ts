/**
 * What strangers send, as large and as bad as the bounds allow, to every route: each request is answered, and none of them keeps the
 * others waiting. The service itself counts what held its event loop, in CPU time, so a busy machine changes nothing.
 */
import assert from 'node:assert/strict';
import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import { Agent, request } from 'node:http';
import { after, before, test } from 'node:test';
import type { FastifyInstance } from 'fastify';
import { COMMERCE_PLATFORM } from '../../src/shops/commerce/connect-commerce.ts';
import { eventually, startTestApp } from '../kit/app.ts';
import { hostileForms, hostileHeaders, hostileJson, hostileQueries } from '../kit/hostile-shapes.ts';
import { isLongRun } from '../kit/long.ts';
import { type Person, setUpPerson } from '../kit/person.ts';
import { type Service, startService } from '../kit/service.ts';

/** The largest that are read: a body, a URL, and the headers together. */
const BODY = 65_000;
const URL_LENGTH = 7_900;
const HEADERS = 15_000;

type Lines = readonly (readonly [name: string, value: string])[];
type Asked = { method: string; path: string; headers?: Lines; body?: string | undefined };
type ServedRoute = { method: string; url: string };

let service: Service;
let owner: Person;
let routes: readonly ServedRoute[];
let shops: { store: string; plugin: string; charges: string };
before(async () => {
  routes = await listRoutes();
  service = await startService({
    mode: 'test',
    environment: { TRUSTED_PROXIES: '127.0.0.0/8', PLANS: '{"enterprise":{"per_minute":0}}' },
  });
  owner = await setUpPerson({ url: service.url, merchant: { setupUrl: service.setupUrl } });
  const flags = ['--merchant', service.merchantId, '--mode', 'test', '--platform'];
  const plugin = await service.florin('shop', 'connect', ...flags, 'woocommerce');
  const charges = await service.florin('shop', 'connect', ...flags, COMMERCE_PLATFORM);
  shops = { store: plugin.store_id, plugin: plugin.api_key, charges: charges.api_key };
  await settleDown();
});
after(() => service?.destroy());

/** Every route that the server has. A new one is in the list automatically. */
async function listRoutes(): Promise<ServedRoute[]> {
  const found: ServedRoute[] = [];
  const listen = (message: unknown) =>
    (message as { fastify: FastifyInstance }).fastify.addHook('onRoute', ({ method, url }) => {
      for (const one of [method].flat()) found.push({ method: one, url });
    });
  subscribe('fastify.initialization', listen);
  try {
    await (await startTestApp({}, { roles: ['api'] })).stop();
  } finally {
    unsubscribe('fastify.initialization', listen);
  }
  return found.filter(({ method, url }) => method !== 'HEAD' && !isStream(url));
}
/** Streams do not end; they are asked for without waiting. */
const isStream = (url: string): boolean => /\/(stream|events)$/.test(url) && !url.includes('/api/') && !url.startsWith('/v1');
const pathOf = (url: string, value = 'x'): string => url.replace(/:\w+|\*/g, value);

let callers = 0;
/** Each request comes from another address, so that no limit refuses it before it is read. */
const nextAddress = (): string => {
  callers++;
  return `10.${(callers >> 16) & 255}.${(callers >> 8) & 255}.${callers & 255}`;
};
const agent = new Agent({ keepAlive: true, maxSockets: 4 });
after(() => agent.destroy());

/** Sends a request as it is written here and returns the status. Anything but an answer fails. */
function ask({ method, path, headers = [], body }: Asked): Promise<number> {
  const given = new Set(headers.map(([name]) => name));
  const lines: Lines = [
    ...(given.has('host') ? [] : [['host', new URL(service.url).host] as const]),
    ...headers,
    ...(given.has('x-forwarded-for') ? [] : [['x-forwarded-for', nextAddress()] as const]),
    ...(body === undefined ? [] : [['content-length', String(Buffer.byteLength(body))] as const]),
  ];
  return new Promise((resolve, reject) => {
    const { hostname, port } = new URL(service.url);
    const sent = request({ hostname, port, method, path, agent, headers: lines.flat() }, (reply) => {
      reply.resume();
      reply.once('end', () => resolve(reply.statusCode!));
      reply.once('error', reject);
    });
    sent.once('error', reject);
    sent.end(body);
  });
}

/** The values of a metric of the service, by its labels. */
async function readMetric(name: string): Promise<Map<string, number>> {
  const text = await (await fetch(`${service.url}/metrics`)).text();
  return new Map(
    [...text.matchAll(new RegExp(`^${name}(\\{.*\\})? (\\S+)$`, 'gm'))].map(([, labels, value]) => [labels ?? '', Number(value)]),
  );
}
const HOLDS = 'florin_event_loop_holds_total';

/** Code that runs for the first time is loaded and compiled, once in the life of a process. */
async function settleDown(): Promise<void> {
  for (const { method, url } of routes)
    await ask({ method, path: pathOf(url), headers: [JSON_TYPE, DASHBOARD], body: bodyFor(method, '{}') });
  for (const { method, path, headers } of KNOWN_CALLERS()) await ask({ method, path, headers, body: bodyFor(method, '{}') });
}
const JSON_TYPE = ['content-type', 'application/json'] as const;
const FORM_TYPE = ['content-type', 'application/x-www-form-urlencoded'] as const;
const DASHBOARD = ['x-florin-dashboard', '1'] as const;
const bodyFor = (method: string, body: string): string | undefined => (['GET', 'OPTIONS'].includes(method) ? undefined : body);

/** One request of each kind of caller that shows who it is. */
const KNOWN_CALLERS = (): readonly { who: string; method: string; path: string; headers: Lines; size?: number }[] => {
  const bearer = (key: string) => [JSON_TYPE, ['authorization', `Bearer ${key}`]] as const;
  const member = [JSON_TYPE, DASHBOARD, ['cookie', owner.cookie]] as const;
  const shop = [JSON_TYPE, ['authorization', `token ${shops.plugin}`]] as const;
  return [
    { who: 'a public key', method: 'POST', path: '/api/payment/create/simple', headers: bearer(service.testPublic) },
    { who: 'a secret key', method: 'POST', path: '/api/payment/create/advanced', headers: bearer(service.testSecret) },
    { who: 'a secret key that reads', method: 'GET', path: '/api/payments', headers: bearer(service.testSecret) },
    { who: 'a secret key that reads prices', method: 'GET', path: '/api/crypto/prices', headers: bearer(service.testSecret) },
    { who: 'a member', method: 'POST', path: '/dashboard/api/test/payments', headers: member },
    { who: 'a member who searches', method: 'GET', path: '/dashboard/api/test/payments', headers: member },
    { who: 'a member with a payout file', method: 'POST', path: '/dashboard/api/test/payout-batches', headers: member, size: 2_000_000 },
    { who: 'a member with a signed file', method: 'POST', path: '/dashboard/api/live/sweeps/signed', headers: member, size: 4_000_000 },
    { who: 'a shop', method: 'POST', path: `/btcpay/api/v1/stores/${shops.store}/invoices`, headers: shop },
    { who: 'a shop that reads', method: 'GET', path: `/btcpay/api/v1/stores/${shops.store}/invoices`, headers: shop },
    { who: 'a shop with charges', method: 'POST', path: '/commerce/charges', headers: [JSON_TYPE, ['x-cc-api-key', shops.charges]] },
  ];
};

/** A collection of garbage may hold the loop of a busy machine now and then. A request that holds it does so each time. */
const TRIES = 4;

/**
 * Sends what `asked` makes of each shape, and checks that no route holds the loop, and that the service answers everybody else. A request
 * may be refused, but not fail. In the usual run every shape goes to each third request of its list, in turn; in a long run to all.
 */
async function sendAll<Shape>(shapes: Readonly<Record<string, Shape>>, asked: (shape: Shape) => readonly Asked[]): Promise<void> {
  for (const [nth, [name, shape]] of Object.entries(shapes).entries()) {
    const requests = asked(shape).filter((_, i) => isLongRun || (nth + i) % 3 === 0);
    let held: string[] | null = null;
    for (let tries = 0; tries < TRIES && held?.length !== 0; tries++) {
      const known = await readMetric(HOLDS);
      await sendShape(name, requests);
      const holders = [...(await readMetric(HOLDS))].filter(([route, count]) => count > (known.get(route) ?? 0)).map(([route]) => route);
      held = holders.filter((route) => held?.includes(route) ?? true);
    }
    assert.deepEqual(held, [], `${name} holds the loop each time`);
    assert.equal((await fetch(`${service.url}/healthz`)).status, 200);
  }
}
async function sendShape(name: string, requests: readonly Asked[]): Promise<void> {
  const waiting = [...requests];
  const sendNext = async () => {
    for (let one = waiting.shift(); one !== undefined; one = waiting.shift()) {
      const status = await ask(one);
      assert.ok(status < 500 || status === 501 || status === 503, `${name}: ${one.method} ${one.path.slice(0, 100)} answered ${status}`);
    }
  };
  try {
    await Promise.all(Array.from({ length: 4 }, sendNext));
  } finally {
    waiting.length = 0;
  }
}

test('there are the routes of every part of the service', () => {
  for (const part of [
    '/v1/payments/:id',
    '/dashboard/api/sign-in',
    '/pay/select',
    '/docs',
    '/commerce/charges',
    '/btcpay/api/v1/api-keys/current',
    '/openapi.json',
  ])
    assert.ok(
      routes.some(({ url }) => url === part),
      `${part} is not among ${routes.length} routes`,
    );
});

test('the worst bodies to every route that reads one from anybody hold nobody up', async () => {
  const open = routes.filter(({ method, url }) => method === 'POST' && /^\/dashboard\/api\/(?!live\/|test\/)/.test(url));
  assert.ok(open.length >= 10, `${open.length} open routes`);
  await sendAll(hostileJson(BODY), (body) =>
    open.map(({ method, url }) => ({ method, path: pathOf(url), headers: [JSON_TYPE, DASHBOARD], body })),
  );
});

test('the worst forms to every payment page hold nobody up', async () => {
  const pages = routes.filter(({ method, url }) => method === 'POST' && /^\/(pay|l|link|claim|refund|btcpay\/pull-payments)/.test(url));
  assert.ok(pages.length >= 8, `${pages.length} pages`);
  await sendAll(hostileForms(8_100), (body) => pages.map(({ method, url }) => ({ method, path: pathOf(url), headers: [FORM_TYPE], body })));
});

test('the worst of everything at once to every route that asks for a key or a session holds nobody up', async () => {
  const bodies = hostileJson(BODY);
  const shapes = Object.fromEntries(Object.entries(hostileQueries(URL_LENGTH)).filter((_, i) => i % 3 === 0));
  await sendAll(shapes, (query) =>
    routes.map(({ method, url }) => ({
      method,
      path: `${pathOf(url, 'x'.repeat(100))}?${query}`,
      headers: [JSON_TYPE, DASHBOARD],
      body: bodyFor(method, bodies['numbers below a name that is hashed by its length']!),
    })),
  );
});

const readable = () => {
  const seen = new Set<string>();
  // One route of each first part of a path: they read queries and headers alike.
  return routes.filter(({ method, url }) => {
    const kind = `${method} ${url
      .replace(/^\/dashboard\/api\/(live|test)/, '')
      .split('/')
      .slice(0, 3)
      .join('/')}`;
    return method === 'GET' && !url.startsWith('/dashboard/api/') && !seen.has(kind) && seen.add(kind);
  });
};

test('the worst queries hold nobody up, within the bound and beyond it', async () => {
  const shapes = {
    ...hostileQueries(URL_LENGTH),
    ...Object.fromEntries(Object.entries(hostileQueries(HEADERS)).map(([name, query]) => [`${name}, too long`, query])),
  };
  await sendAll(shapes, (query) => readable().map(({ method, url }) => ({ method, path: `${pathOf(url)}?${query}` })));
});

test('the worst headers and cookies hold nobody up', async () => {
  const open = [...readable(), { method: 'GET', url: '/dashboard/api/session' }, { method: 'POST', url: '/dashboard/api/sign-in' }];
  await sendAll(hostileHeaders(HEADERS), (headers) =>
    open.map(({ method, url }) => ({ method, path: pathOf(url), headers: [...headers, DASHBOARD], body: bodyFor(method, '{}') })),
  );
});

test('the worst that shops, members and customers of a shop can send holds nobody up, and neither does the log of their requests', async () => {
  const sizes = new Map<number, Readonly<Record<string, string>>>();
  const bodiesOf = (size: number) => {
    if (!sizes.has(size)) sizes.set(size, hostileJson(size));
    return sizes.get(size)!;
  };
  const posts = KNOWN_CALLERS().filter(({ method }) => method === 'POST');
  const names = Object.fromEntries(Object.keys(hostileJson(BODY)).map((name) => [name, name]));
  await sendAll(names, (name) =>
    posts.map(({ method, path, headers, size = BODY }) => ({ method, path, headers, body: bodiesOf(size)[name]! })),
  );
  const gets = KNOWN_CALLERS().filter(({ method }) => method === 'GET');
  await sendAll(hostileQueries(URL_LENGTH), (query) =>
    gets.map(({ method, path, headers }) => ({ method, path: `${path}?${query}`, headers })),
  );
  // Requests are logged in their order, within a second; of a key with few of them, all.
  const id = (await service.live.get('/api/payments?limit=1')).headers.get('x-request-id');
  await eventually(
    async () => (await service.live.get(`/v1/requests?request_id=${id}`)).json.data.length,
    (found) => found === 1,
  );
  await sendAll({ 'a short request afterwards': '{}' }, (body) => [{ ...posts[1]!, body }]);
});
