/** The data that a page of the dashboard brings along: what the API would say, for the member who opens it, and nothing more. */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { getOutgoing } from '../../src/outgoing/outgoing-payments.ts';
import { claimRefund } from '../../src/outgoing/refunds.ts';
import { buildApp } from '../../src/web/dashboard/build.ts';
import { eventually, startTestApp, type TestApp } from '../kit/app.ts';
import { type Person, setUpPerson } from '../kit/person.ts';

let app: TestApp;
let owner: Person;
before(async () => {
  await buildApp({ info: () => {} });
  app = await startTestApp({ LOG_LEVEL: 'silent' });
  owner = await setUpPerson(app);
});
after(() => app?.stop());

type First = { mode: string; signed_in: boolean; news: string; reads: { key: unknown[]; reply: any; list?: true }[] };
const open = async (path: string, cookie = owner.cookie) => {
  const reply = await fetch(`${app.url}/dashboard/${path}`, { headers: { cookie, 'accept-encoding': 'br' } });
  assert.equal(reply.status, 200);
  const text = await reply.text();
  const [, json] = /<script type="application\/json" id="first-data">(.*?)<\/script>/s.exec(text) ?? [];
  return { reply, first: json === undefined ? null : (JSON.parse(json) as First) };
};
const namesOf = (first: First | null) => first?.reads.map(({ key }) => key.filter((part) => typeof part === 'string').join(' '));

test('Home and Payments bring the replies of the API along, uncompressed and for this member alone', async () => {
  const { reply, first } = await open('live/home');
  assert.equal(reply.headers.get('content-encoding'), null);
  assert.equal(reply.headers.get('cache-control'), 'no-store');
  assert.equal(reply.headers.get('cross-origin-resource-policy'), 'same-origin');
  assert.match(reply.headers.get('link')!, /home-[^>]+>; rel=modulepreload/);
  const today = new Date(app.app.ctx.clock.now()).toISOString().slice(0, 10);
  const from = new Date(Date.parse(today) - 29 * 86_400_000).toISOString().slice(0, 10);
  assert.deepEqual(
    first!.reads.map(({ key }) => key),
    [['me'], ['attention', 'count'], ['notices', 'bell'], ['home', from, today], ['home', 'onboarding'], ['home', 'health']],
  );
  const paths = ['/me', '/attention/count', '/notices?limit=8', `/home?from=${from}&until=${today}`, '/home/onboarding', '/home/health'];
  for (const [i, path] of paths.entries()) {
    const { json } = await owner.get(`/live${path}`);
    // The age of a block grows while we ask.
    for (const coin of json.coins ?? []) coin.lag_seconds = null;
    for (const coin of first!.reads[i]!.reply.coins ?? []) coin.lag_seconds = null;
    assert.deepEqual(first!.reads[i]!.reply, json, path);
  }
  const list = (await open('test/payments')).first!.reads.at(-1)!;
  assert.deepEqual([list.key, list.list, list.reply.data], [['payments', 'list', {}], true, []]);
});

test('the mode and the screen follow the URL; filters and screens without a list of reads get the frame', async () => {
  const frame = ['me', 'attention count', 'notices bell'];
  assert.deepEqual([(await open('')).first!.mode, namesOf((await open('')).first)!.length], ['test', 6]);
  assert.deepEqual([(await open('live')).first!.mode, namesOf((await open('live')).first)!.length], ['live', 6]);
  for (const path of ['test/home?range=7d', 'test/wallets', 'test/payments/pay_x', 'test/constructor'])
    assert.deepEqual(namesOf((await open(path)).first), frame, path);
  for (const path of ['sign-in', 'invite', 'tests/home']) assert.equal((await open(path)).first, null, path);
});

test('without a session the page says so and asks for the sign-in screen; it holds nobody’s data', async () => {
  for (const cookie of ['', 'florin.session_token=made-up.AAAA']) {
    const { reply, first } = await open('live/home', cookie);
    assert.deepEqual(first, { mode: 'live', signed_in: false });
    assert.match(reply.headers.get('link')!, /sign-in-[^>]+>; rel=modulepreload/);
  }
});

test('a member who must set up a second factor first gets no data', async () => {
  const { sql } = app.app.ctx.db;
  await sql`update merchants set second_factor_required = true where id = ${app.merchant.merchantId}`;
  assert.equal((await open('live/home')).first, null);
  await sql`update merchants set second_factor_required = false where id = ${app.merchant.merchantId}`;
});

test('names cannot end the element that holds the data', async () => {
  const { sql } = app.app.ctx.db;
  const name = 'Shop </script><script>alert(1)</script> $& <!--';
  await sql`update merchants set name = ${name} where id = ${app.merchant.merchantId}`;
  const reply = await fetch(`${app.url}/dashboard/test/home`, { headers: { cookie: owner.cookie } });
  assert.equal(
    (await reply.text()).match(/<\/script>/g)!.length,
    (await (await fetch(`${app.url}/dashboard/sign-in`)).text()).match(/<\/script>/g)!.length + 1,
  );
  assert.equal((await open('test/home')).first!.reads[0]!.reply.merchant.name, name);
});

/** The first lines of a stream, until it has said `until`, or what it has said when it was asked to come alive. */
async function firstLines(path: string, until: RegExp): Promise<string> {
  const reply = await fetch(`${app.url}/dashboard/api${path}`, { headers: { cookie: owner.cookie } });
  const reader = reply.body!.pipeThrough(new TextDecoderStream()).getReader();
  let said = '';
  while (!until.test(said)) said += (await reader.read()).value ?? '';
  await reader.cancel();
  return said;
}

test('a stream that is opened with a page begins with what changed since that page, and with nothing else', async () => {
  const news = (await open('test/home')).first!.news;
  const make = () => app.test.post('/api/payment/create/simple', { amount_usd: 5, return_url: 'https://shop.example/' });
  const line =
    /^retry: 2000\n(?:event: alive\ndata: 1\n\n)+event: refresh\ndata: \["payments","payment","events","attention","home".*\]\n\n$/;
  // Opened without a change, it is silent until there is one. Nothing ever wrote a notification.
  const quiet = firstLines(`/test/stream?since=${news}`, /refresh/);
  assert.equal((await make()).status, 201);
  for (const said of [await quiet, await firstLines(`/test/stream?since=${news}`, /refresh/)]) {
    assert.match(said, line);
    assert.doesNotMatch(said, /notices/);
  }
  // Everything may have changed since a mark that was made up.
  assert.match(await firstLines('/test/stream?since=x', /refresh/), /notices/);
});

test('a stream tells when a customer enters an address for a refund, and when a signing file changes', async () => {
  const { ctx } = app.app;
  const { sql } = ctx.db;
  const { merchantId } = app.merchant;
  const { id } = (await app.test.post('/api/payment/create/simple', { amount_usd: 50, return_url: 'https://shop.example/' })).json;
  await app.test.post(`/v1/test/payments/${id}/simulate`, { scenario: 'success', currency: 'BTC' });
  await eventually(
    () => app.test.get(`/api/payment/${id}`),
    ({ json }) => json.status === 'completed',
  );
  const refund = (await app.test.post('/v1/refunds', { payment_id: id })).json;
  const told = async (mode: string, change: () => Promise<unknown>) => {
    const { news } = (await open(`${mode}/home`)).first!;
    await change();
    return JSON.parse(/event: refresh\ndata: (.*)/.exec(await firstLines(`/${mode}/stream?since=${news}`, /refresh.*\n.*\n/))![1]!);
  };
  const claim = async () =>
    claimRefund(ctx, {
      refund: await getOutgoing(ctx, { kind: 'refund', merchantId, mode: 'test', id: refund.id }),
      address: 'test_btc_payer',
    });
  assert.ok((await told('test', claim)).includes('refunds'));
  await sql`
    insert into wallets (id, merchant_id, family, network, chain_key, account_key, script, path)
    values ('wal_news', ${merchantId}, 'BTC', 'testnet', 'news', 'news', 'p2wpkh', '0')`;
  const makeFile = () => sql`
    insert into signing_files (id, merchant_id, wallet_id, coin, purpose, state, file, destination, total_units, fee_units, input_count, made_by)
    values ('swp_news', ${merchantId}, 'wal_news', 'BTC', 'sweep', 'made', '{}', 'tb1q', 1000, 10, 1, 'Olga Owner')`;
  assert.deepEqual(await told('live', makeFile), ['sweeps']);
  assert.deepEqual(await told('live', () => sql`update signing_files set state = 'canceled' where id = 'swp_news'`), ['sweeps']);
});
