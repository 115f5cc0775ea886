/** Payment links: created and archived by members, opened and paid by anyone, within limits. */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { createMerchant } from '../../src/merchants/merchants.ts';
import { startTestApp, type TestApp } from '../kit/app.ts';
import { Person, setUpPerson, setupToken } from '../kit/person.ts';

let app: TestApp;
let owner: Person;
before(async () => {
  app = await startTestApp({ LOG_LEVEL: 'silent', TRUSTED_PROXIES: '127.0.0.1' });
  owner = await setUpPerson(app);
});
after(() => app?.stop());

type Link = { id: string; amount: string | null; payments: number; payment_id: string | null; state: string };
const make = async (more: object = {}, mode = 'test'): Promise<Link> =>
  (await owner.post(`/${mode}/links`, { name: 'Coffee', amount: '25.00', reusable: true, ...more })).json.link;
const shown = async (id: string): Promise<Link> =>
  ((await owner.get('/test/links?limit=100')).json.data as Link[]).find((link) => link.id === id)!;
const open = async (id: string) => {
  const reply = await fetch(`${app.url}/link/${id}`, { redirect: 'manual' });
  const text = await reply.text();
  return {
    status: reply.status,
    text,
    location: reply.headers.get('location'),
    token: /name="token" value="([^"]+)"/.exec(text)?.[1] ?? '',
  };
};
/** Starts the payment of a link, from `address` if given. The number of starts per address is limited. */
const start = async (id: string, fields: Record<string, string>, address?: string) => {
  const headers = address === undefined ? {} : { 'x-forwarded-for': address };
  const reply = await fetch(`${app.url}/link/${id}`, { method: 'POST', redirect: 'manual', body: new URLSearchParams(fields), headers });
  return { status: reply.status, payment: /id=(pay_\w+)/.exec(reply.headers.get('location') ?? '')?.[1] ?? null };
};
const OWN = '203.0.113.9';
const count = async () => Number((await app.app.ctx.db.sql`select count(*) as n from payments`)[0]!.n);

test('a link with a fixed amount: opening it creates nothing, the form creates a payment of that amount every time', async () => {
  const link = await make({ return_url: 'https://shop.example/thanks' });
  const before = await count();
  const page = await open(link.id);
  assert.equal(page.status, 200);
  assert.match(page.text, /Coffee/);
  assert.match(page.text, /\$25\.00/);
  assert.equal(await count(), before);
  assert.equal((await start(link.id, { token: 'made up', amount: '1' })).status, 404);
  const first = await start(link.id, { token: page.token, amount: '0.01' });
  const second = await start(link.id, { token: page.token });
  assert.ok(first.payment && second.payment && first.payment !== second.payment);
  const detail = (await app.test.get(`/api/payment/${first.payment}`)).json;
  assert.deepEqual(
    [detail.amount_usd, detail.description, detail.return_url, detail.created_with, detail.metadata, detail.mode],
    ['25.00', 'Coffee', 'https://shop.example/thanks', 'public', { payment_link: link.id }, 'test'],
  );
  assert.deepEqual([(await shown(link.id)).payments, (await shown(link.id)).payment_id], [2, second.payment]);
});

test('with an open amount the customer enters it, within the limits of a payment; a decimal comma is accepted', async () => {
  const link = await make({ amount: null });
  assert.equal(link.amount, null);
  const { token } = await open(link.id);
  for (const amount of ['', 'abc', '0', '-5', '1.234', '1000000.01', '1e3'])
    assert.equal((await start(link.id, { token, amount })).status, 400, amount);
  const made = await start(link.id, { token, amount: '12,5' });
  assert.equal((await app.test.get(`/api/payment/${made.payment}`)).json.amount_usd, '12.50');
});

// Invariant: A single-use link creates one payment.
test('a single-use link gives everyone the same payment; when that ends without money, the link creates another', async () => {
  const link = await make({ reusable: false });
  const { token } = await open(link.id);
  const all = await Promise.all(Array.from({ length: 5 }, () => start(link.id, { token })));
  const [id] = all.map((one) => one.payment);
  assert.deepEqual([...new Set(all.map((one) => one.payment))], [id]);
  assert.deepEqual([(await open(link.id)).status, (await open(link.id)).location], [303, `/pay?id=${id}`]);
  await app.test.post(`/v1/payments/${id}/cancel`);
  assert.equal((await app.test.get(`/api/payment/${id}`)).json.status, 'cancelled');
  assert.equal((await open(link.id)).status, 200);
  const next = await start(link.id, { token });
  assert.ok(next.payment && next.payment !== id);
  // Once it is paid, the link always leads to that payment.
  await app.test.post(`/v1/test/payments/${next.payment}/simulate`, { scenario: 'success' });
  await app.test.post('/v1/test/clock/advance', { seconds: 86_400 });
  assert.equal((await app.test.get(`/api/payment/${next.payment}`)).json.status, 'completed');
  assert.equal((await start(link.id, { token })).payment, next.payment);
  assert.equal((await shown(link.id)).payments, 2);
});

test('paying again uses the link: a single-use link never has two payable payments', async () => {
  await owner.post('/test/settings/checkout', { payer_cancel: true });
  const act = async (verb: string, id: string, token: string) => {
    const reply = await fetch(`${app.url}/pay/${verb}`, { method: 'POST', redirect: 'manual', body: new URLSearchParams({ id, token }) });
    return { status: reply.status, payment: /id=(pay_\w+)/.exec(reply.headers.get('location') ?? '')?.[1] ?? null };
  };
  const tokenOf = async (id: string) => /name="token" value="([^"]+)"/.exec(await (await fetch(`${app.url}/pay?id=${id}`)).text())![1]!;
  for (const reusable of [false, true]) {
    const link = await make({ reusable });
    const { token } = await open(link.id);
    const first = (await start(link.id, { token })).payment!;
    const paying = await tokenOf(first);
    assert.equal((await act('cancel', first, paying)).status, 303);
    const [one, two] = await Promise.all([act('again', first, paying), act('again', first, paying)]);
    const next = one.payment ?? two.payment!;
    assert.equal((await act('again', first, paying)).payment, next, 'however often it is asked');
    assert.deepEqual([(await shown(link.id)).payments, (await shown(link.id)).payment_id], [2, next]);
    if (!reusable) assert.equal((await start(link.id, { token })).payment, next, 'the link leads to the same one');
    // An archived link creates no payment.
    await act('cancel', next, await tokenOf(next));
    await owner.post(`/test/links/${link.id}`, { state: 'archived' });
    const before = await count();
    assert.equal((await act('again', next, await tokenOf(next))).payment, null);
    assert.equal(await count(), before);
    await owner.post(`/test/links/${link.id}`, { state: 'active' });
  }
  // A price that the customer chose keeps its currency, even if the link has another one by now.
  const link = await make({ amount: null, currency: 'JPY' });
  const chosen = (await start(link.id, { token: (await open(link.id)).token, amount: '1500' }, OWN)).payment!;
  assert.equal((await owner.post(`/test/links/${link.id}`, { name: 'Tip', currency: 'KWD', reusable: true })).status, 200);
  await act('cancel', chosen, await tokenOf(chosen));
  const again = (await act('again', chosen, await tokenOf(chosen))).payment;
  const { amount_fiat, currency_fiat, amount_usd } = (await app.test.get(`/api/payment/${again}`)).json;
  assert.deepEqual([amount_fiat, currency_fiat, amount_usd], ['1500', 'JPY', '10.00']);
  await owner.post('/test/settings/checkout', { payer_cancel: false });
});

test('an archived link, another merchant’s and an unknown one are not found; each mode has its own', async () => {
  const link = await make();
  const { token } = await open(link.id);
  assert.equal((await owner.post(`/test/links/${link.id}`, { state: 'archived' })).json.link.state, 'archived');
  assert.equal((await open(link.id)).status, 404);
  assert.equal((await start(link.id, { token })).status, 404);
  assert.equal((await open('lnk_000000000000000000000000')).status, 404);
  assert.equal((await open('lnk_%00')).status, 404);
  assert.equal((await owner.post(`/live/links/${link.id}`, { state: 'active' })).status, 404);
  const other = await createMerchant(app.app.ctx, { name: 'Other shop' });
  const stranger = new Person(app.url);
  const setup = setupToken(other.setupUrl);
  await stranger.post('/set-up', { token: setup, name: 'Otto Other', email: 'otto@other.example', password: stranger.password });
  assert.equal((await stranger.post(`/test/links/${link.id}`, { state: 'active' })).status, 404);
  assert.deepEqual((await stranger.get('/test/links')).json.data, []);
  assert.equal((await stranger.get(`/test/links?starting_after=${link.id}`)).json.error.code, 'cursor_invalid');
  assert.ok(((await owner.get('/live/links')).json.data as Link[]).every(({ id }) => id !== link.id));
  assert.equal((await owner.post(`/test/links/${link.id}`, { state: 'active' })).json.link.state, 'active');
  const acts = await app.app.ctx.db.sql`select action from audit_log where object = ${link.id} order by id`;
  assert.deepEqual(
    acts.map((row) => row.action),
    ['link.created', 'link.archived', 'link.activated'],
  );
});

test('the list is paged, newest first, and can be filtered by state', async () => {
  const made: string[] = [];
  for (let i = 0; i < 3; i++) made.unshift((await make({ name: `Link ${i}` })).id);
  const first = (await owner.get('/test/links?limit=2')).json;
  assert.deepEqual(
    first.data.map((link: Link) => link.id),
    made.slice(0, 2),
  );
  assert.equal(first.has_more, true);
  const next = (await owner.get(`/test/links?limit=2&starting_after=${made[1]}`)).json;
  assert.equal(next.data[0].id, made[2]);
  await owner.post(`/test/links/${made[0]}`, { state: 'archived' });
  assert.deepEqual(
    (await owner.get('/test/links?state=archived')).json.data.map((link: Link) => link.id),
    [made[0]],
  );
});

test('a link in another currency shows its price in it, and each payment uses the rate of its own time', async () => {
  const link = await make({ amount: '20.00', currency: 'EUR' });
  assert.deepEqual(link, { ...link, amount: '20.00', currency: 'EUR' });
  const page = await open(link.id);
  assert.match(page.text, /€20\.00/);
  const { payment } = await start(link.id, { token: page.token }, OWN);
  const detail = (await app.test.get(`/api/payment/${payment}`)).json;
  // At the sample rate of 0.92 EUR for a dollar, rounded up.
  assert.deepEqual([detail.amount_fiat, detail.currency_fiat, detail.amount_usd], ['20.00', 'EUR', '21.74']);
  const yen = await make({ amount: null, currency: 'JPY' });
  const { token, text } = await open(yen.id);
  assert.match(text, /\(JPY\).*placeholder="2500"/s);
  // The example has the separators of the language, and is taken as it stands.
  for (const [currency, lang, example] of [
    ['EUR', 'en', '25.00'],
    ['EUR', 'de', '25,00'],
    ['KWD', 'fr', '25,00'],
    ['JPY', 'de', '2500'],
  ] as const) {
    const { id } = await make({ amount: null, currency });
    const page = await (await fetch(`${app.url}/link/${id}?lang=${lang}`)).text();
    assert.equal(/placeholder="([^"]+)"/.exec(page)![1], example);
    const { payment } = await start(
      id,
      { token: /name="token" value="([^"]+)"/.exec(page)![1]!, amount: example },
      `203.0.113.${40 + lang.length + example.length}`,
    );
    assert.ok(payment, `${example} ${currency}`);
  }
  for (const amount of ['1.5', '151000000']) assert.equal((await start(yen.id, { token, amount }, OWN)).status, 400, amount);
  const chosen = await start(yen.id, { token, amount: '1500' }, OWN);
  assert.equal((await app.test.get(`/api/payment/${chosen.payment}`)).json.amount_usd, '10.00');
});

test('editing a link changes its next payments, not existing ones, and the log has both versions', async () => {
  const link = await make({ return_url: 'https://shop.example/thanks' });
  const { token } = await open(link.id);
  const first = await start(link.id, { token }, OWN);
  const terms = { name: 'Tea', amount: '12.50', currency: 'GBP', reusable: false, return_url: null };
  const reply = await owner.post(`/test/links/${link.id}`, terms);
  assert.equal(reply.status, 200, reply.text);
  assert.deepEqual(reply.json.link, {
    ...reply.json.link,
    ...terms,
    payments: 1,
    payment_id: first.payment,
  });
  assert.match((await open(link.id)).location ?? '', new RegExp(first.payment!), 'the payment that is open is now the only one');
  await app.test.post(`/v1/payments/${first.payment}/cancel`);
  const second = (await app.test.get(`/api/payment/${(await start(link.id, { token }, OWN)).payment}`)).json;
  assert.deepEqual([second.description, second.amount_fiat, second.currency_fiat, second.return_url], ['Tea', '12.50', 'GBP', null]);
  assert.equal((await app.test.get(`/api/payment/${first.payment}`)).json.amount_usd, '25.00');
  const [entry] = await app.app.ctx.db.sql`select before, after from audit_log where action = 'link.changed' and object = ${link.id}`;
  assert.deepEqual([entry!.before.amount, entry!.after.amount, entry!.after.name], ['25.00 USD', '12.50 GBP', 'Tea']);
  const qr = (await owner.get(`/test/links/${link.id}`)).json.qr_svg as string;
  assert.match(qr, /^<svg xmlns="http:\/\/www\.w3\.org\/2000\/svg" .*<path d="M/s);
  for (const path of [`/live/links/${link.id}`, '/test/links/lnk_none'])
    assert.equal((await owner.post(path, { ...terms, currency: 'USD' })).status, 404, path);
  assert.equal((await owner.get(`/live/links/${link.id}`)).status, 404);
});

test('an invalid link is refused under the name of its field', async () => {
  for (const [body, param] of [
    [{ amount: '0' }, 'amount'],
    [{ amount: '1.001' }, 'amount'],
    [{ amount: '' }, 'amount'],
    [{ amount: '1.5', currency: 'JPY' }, 'amount'],
    [{ amount: '1.50', currency: 'XXX' }, 'currency'],
    [{ amount: '920000.01', currency: 'EUR' }, 'amount'],
    [{ return_url: 'javascript:alert(1)' }, 'return_url'],
    [{ name: '' }, 'name'],
  ] as const) {
    const reply = await owner.post('/test/links', { name: 'X', amount: '5', reusable: true, ...body });
    assert.deepEqual([reply.status, reply.json.error.param], [400, param]);
  }
  assert.equal(
    (await owner.post('/live/links', { name: 'X', reusable: true, return_url: 'http://shop.example/' })).json.error.param,
    'return_url',
  );
});

test('another currency needs another amount, and an archived link needs no price', async () => {
  const link = await make();
  const { json } = await owner.post(`/test/links/${link.id}`, { currency: 'JPY' });
  assert.deepEqual([json.error.code, json.error.param], ['parameter_missing', 'amount']);
  assert.equal((await owner.post(`/test/links/${link.id}`, { currency: 'JPY', amount: null })).json.link.currency, 'JPY');
  const euros = await make({ currency: 'USD' }, 'live');
  // No source of this service has a rate for it.
  await app.app.ctx.db.sql`update payment_links set currency = 'EUR' where id = ${euros.id}`;
  assert.equal((await owner.post(`/live/links/${euros.id}`, { state: 'active' })).status, 503);
  assert.equal((await owner.post(`/live/links/${euros.id}`, { state: 'archived' })).json.link.state, 'archived');
});

test('a key creates one link however often it repeats its request, changes it, and reads those of its mode', async () => {
  const ask = () => app.test.post('/v1/payment_links', { name: 'Mug', amount: 25 }, { 'idempotency-key': 'mug-1' });
  const made = await ask();
  assert.deepEqual(
    [made.status, made.json.amount, made.json.currency, made.json.reusable, made.json.state],
    [201, '25.00', 'USD', true, 'active'],
  );
  assert.equal((await ask()).text, made.text);
  const at = `/v1/payment_links/${made.json.id}`;
  assert.equal((await app.test.post(at, { name: 'Two mugs', state: 'archived' })).json.name, 'Two mugs');
  assert.deepEqual(
    (await app.test.get('/v1/payment_links?state=archived&limit=1')).json.data.map(({ id }: Link) => id),
    [made.json.id],
  );
  assert.equal((await app.test.get('/v1/payment_links?state=no')).json.error.param, 'state');
  for (const reply of [await app.live.get(at), await app.live.post(at, { state: 'active' })]) assert.equal(reply.status, 404);
  assert.equal((await app.testPublic.get(at)).status, 403);
  const entries = await app.app.ctx.db.sql<
    { action: string }[]
  >`select action from audit_log where object = ${made.json.id} order by at, action`;
  assert.deepEqual(entries.map(({ action }) => action).sort(), ['link.archived', 'link.changed', 'link.created']);
});

test('one address starts a limited number of payments a minute', async () => {
  const link = await make();
  const { token } = await open(link.id);
  const replies: number[] = [];
  // Twenty, and twenty more if its minute ends in between.
  while (replies.length < 45 && replies.at(-1) !== 429) replies.push((await start(link.id, { token })).status);
  assert.equal(replies.at(-1), 429, replies.join(' '));
});
