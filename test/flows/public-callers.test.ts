/** What one client can use up of a shop whose public key and pages anyone can reach: never what other customers need. */
// Invariant: One client cannot use up the limits of a shop's other customers.
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { after, before, test } from 'node:test';
import { createApiKey } from '../../src/keys/keys.ts';
import { createMerchant } from '../../src/merchants/merchants.ts';
import { asIfFollowed, eventually, type Reply, startTestApp, type TestApp } from '../kit/app.ts';
import { giveWallet } from '../kit/shop.ts';

let app: TestApp;
before(async () => {
  app = await startTestApp({ TRUSTED_PROXIES: '127.0.0.1', PLANS: '{"professional":{"per_month":3}}' });
});
after(() => app?.stop());

const CREATE = '/api/payment/create/simple';
const simple = { amount_usd: 25, return_url: 'https://shop.example/thanks' };
const from = (ip: string) => ({ 'x-forwarded-for': ip });
const starter = () => createMerchant(app.app.ctx, { name: 'Small shop', plan: 'starter' });
/** That many requests, from one address. */
async function repeat(times: number, ask: () => Promise<Reply>): Promise<number[]> {
  const statuses: number[] = [];
  for (let i = 0; i < times; i++) statuses.push((await ask()).status);
  return statuses;
}

test('one address with the public key does not block the shop: its refused requests count against nobody else', async () => {
  const { keys } = await starter();
  const shop = app.as(keys.testPublic);
  const greedy = await repeat(70, () => shop.post(CREATE, simple, from('198.51.100.1')));
  assert.deepEqual(greedy.slice(0, 11), [...Array(10).fill(201), 429]);
  assert.equal((await shop.post(CREATE, simple, from('198.51.100.2'))).status, 201, 'another shopper');

  // Requests that a public key may not make, and requests from other origins, do not use up the shop's limits either.
  const { merchantId, keys: others } = await starter();
  assert.ok((await repeat(70, () => app.as(others.testPublic).get('/api/payments', from('198.51.100.1')))).every((code) => code === 403));
  const { key } = await createApiKey(app.app.ctx, { merchantId, mode: 'test', kind: 'public', origins: ['https://shop.example'] });
  for (let i = 1; i <= 70; i++) {
    const reply = await app.as(key).post(CREATE, simple, { ...from(`203.0.113.${i}`), origin: 'https://elsewhere.example' });
    assert.equal(reply.status, 403, reply.text);
  }
  assert.equal((await app.as(key).post(CREATE, simple, { ...from('198.51.100.2'), origin: 'https://shop.example' })).status, 201);
});

test('the addresses of one IPv6 network count as one client', async () => {
  const { keys } = await starter();
  const shop = app.as(keys.testPublic);
  const ask = (ip: string) => shop.post(CREATE, simple, from(ip));
  for (let i = 1; i <= 10; i++) assert.equal((await ask(`2001:db8:1:2::${i}`)).status, 201);
  assert.equal((await ask('2001:db8:1:2:ffff::1')).status, 429);
  assert.equal((await ask('2001:db8:1:3::1')).status, 201);
});

test('the monthly limit covers public keys: their payments count when money arrives, and are refused once the limit is reached', async () => {
  const { keys } = await createMerchant(app.app.ctx, { name: 'Month shop', plan: 'professional' });
  const shop = app.as(keys.livePublic);
  for (let i = 1; i <= 4; i++) assert.equal((await shop.post(CREATE, simple, from(`203.0.113.${i}`))).status, 201, 'nothing was paid yet');
  for (let i = 0; i < 3; i++) assert.equal((await app.as(keys.liveSecret).post(CREATE, simple)).status, 201);
  for (const headers of [from('203.0.113.9'), { ...from('203.0.113.9'), 'idempotency-key': randomUUID() }]) {
    const refused = await shop.post(CREATE, simple, headers);
    assert.deepEqual([refused.status, refused.json.error.code], [403, 'plan_limit_exceeded']);
  }
  assert.equal((await app.as(keys.testPublic).post(CREATE, simple, from('203.0.113.9'))).status, 201, 'test payments never count');
});

test('an Idempotency-Key sent with a public key never returns another caller’s payment', async () => {
  const { keys } = await starter();
  const shop = app.as(keys.testPublic);
  const key = { 'idempotency-key': 'order-1' };
  const first = await shop.post(CREATE, simple, { ...key, ...from('198.51.100.1') });
  const again = await shop.post(CREATE, simple, { ...key, ...from('198.51.100.1') });
  const stranger = await shop.post(CREATE, simple, { ...key, ...from('198.51.100.2') });
  assert.equal(again.json.id, first.json.id);
  assert.equal(stranger.status, 201);
  assert.notEqual(stranger.json.id, first.json.id);
  assert.equal(stranger.headers.get('idempotent-replayed'), null);
});

test('payment pages, their updates and their streams: each client has a limit per minute, and others are not affected', async () => {
  const { id } = (await app.test.post(CREATE, simple)).json;
  const ask = async (path: string, ip: string) => {
    const reply = await fetch(app.url + path, { headers: from(ip), redirect: 'manual' });
    // A stream has no end: it is enough that it began.
    const isStream = reply.headers.get('content-type')?.includes('event-stream');
    if (isStream) await reply.body!.cancel();
    const text = isStream ? '' : await reply.text();
    return { status: reply.status, headers: reply.headers, text };
  };
  for (const [paths, points] of [
    [[`/pay?id=${id}`, `/pay/receipt?id=${id}`], 600],
    [[`/pay/status?id=${id}`, `/pay/events?id=${id}`], 1_200],
  ] as const) {
    // One network with a new address per request, repeated until it is refused, because the minute may end in between on a slow machine.
    const replies: Awaited<ReturnType<typeof ask>>[] = [];
    while (replies.every(({ status }) => status !== 429) && replies.length < 4 * points) {
      const part = Array.from({ length: 50 }, (_, i) => ask(paths[i % 2]!, `2001:db8:1:2::${replies.length + i}`));
      replies.push(...(await Promise.all(part)));
    }
    const refused = replies.find(({ status }) => status === 429);
    assert.ok(refused, paths[0]);
    assert.ok(replies.filter(({ status }) => status === 200 || status === 303).length >= points, paths[0]);
    assert.ok(Number(refused.headers.get('retry-after')) >= 1);
    assert.match(refused.text, /data-state="none"/);
    for (const path of paths) assert.ok([200, 303].includes((await ask(path, '198.51.100.2')).status), path);
  }
  const receipt = await ask(`/pay/receipt?id=${id}`, '198.51.100.2');
  assert.deepEqual([receipt.status, receipt.headers.get('cache-control')], [303, 'no-store'], 'where it leads changes: nobody keeps it');
});

test('one client keeps at most 64 streams of payment pages open; its other pages poll, and others are not affected', async () => {
  const { id } = (await app.test.post(CREATE, simple)).json;
  // With their replies: fetch closes the stream of one that nothing refers to.
  const open: { leaving: AbortController; reply: Response }[] = [];
  const stream = async (ip: string) => {
    const leaving = new AbortController();
    const reply = await fetch(`${app.url}/pay/events?id=${id}`, { headers: from(ip), signal: leaving.signal });
    if (reply.status === 200) open.push({ leaving, reply });
    return reply.status;
  };
  // One network with a new address for each page.
  const replies = await Promise.all(Array.from({ length: 80 }, (_, i) => stream(`2001:db8:7:7::${i + 1}`)));
  assert.equal(replies.filter((status) => status === 200).length, 64);
  assert.equal(replies.filter((status) => status === 429).length, 16);
  assert.equal((await fetch(`${app.url}/pay/status?id=${id}`, { headers: from('2001:db8:7:7::1') })).status, 200);
  assert.equal(await stream('198.51.100.77'), 200);
  open[0]!.leaving.abort();
  assert.equal(
    await eventually(
      () => stream('2001:db8:7:7::1'),
      (status) => status === 200,
    ),
    200,
  );
  for (const { leaving } of open) leaving.abort();
});

test('one client gets only a part of the addresses that a wallet issues in an hour, and leaves the rest to others', async (t) => {
  // Nothing is paid, so no node is needed: it makes Bitcoin a configured coin.
  const node = { BTC_NODE_URL: 'http://florin:test@127.0.0.1:1', LOG_LEVEL: 'fatal' };
  const own = await startTestApp({ ...node, TRUSTED_PROXIES: '127.0.0.1' }, { roles: ['api', 'worker'] });
  t.after(() => own.stop());
  await giveWallet(own, 'BTC');
  await asIfFollowed(own, 'BTC');
  const shop = own.as(own.merchant.keys.livePublic);
  const tokens = new Map<string, string>();
  /** Chooses the coin of a payment. Returns what the page shows then. */
  const choose = async (id: string, ip: string): Promise<string> => {
    const page = await (await fetch(`${own.url}/pay?id=${id}`, { headers: from(ip) })).text();
    const token = tokens.get(id) ?? /name="token" value="([^"]+)"/.exec(page)![1]!;
    tokens.set(id, token);
    const reply = await fetch(`${own.url}/pay/select`, {
      ...{ method: 'POST', headers: { ...from(ip), 'x-fragment': '1' } },
      body: new URLSearchParams({ id, token, currency: 'BTC' }),
    });
    return `${reply.status} ${/data-state="(\w+)"/.exec(await reply.text())?.[1]}`;
  };
  const ids: string[] = [];
  for (let i = 0; i < 101; i++) {
    const created = await shop.post(CREATE, simple, from(`203.0.113.${i}`));
    assert.equal(created.status, 201, created.text);
    ids.push(created.json.id);
  }
  for (const id of ids.slice(0, 100)) assert.equal(await choose(id, '198.51.100.1'), '200 awaiting');
  assert.equal(await choose(ids[100]!, '198.51.100.1'), '429 choose');
  assert.equal(await choose(ids[0]!, '198.51.100.1'), '200 awaiting', 'an address that was given is shown again');
  assert.equal(await choose(ids[100]!, '198.51.100.2'), '200 awaiting');
});
