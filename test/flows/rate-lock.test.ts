/** How long a rate is locked, over HTTP: neither a tiny transfer nor switching coins back and forth turns it into an option. */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { lockAndSettle } from '../../src/settling/settle-payments.ts';
import { type Reply, startTestApp, type TestApp } from '../kit/app.ts';

let app: TestApp;
before(async () => {
  app = await startTestApp();
});
after(async () => {
  await app?.stop();
});
const ok = (reply: Reply, status = 200): any => {
  assert.equal(reply.status, status, reply.text);
  return reply.json;
};
const minutesBetween = (from: string, to: string): number => (Date.parse(to) - Date.parse(from)) / 60_000;

/** A test payment of 9,700 USD in BTC (0.1 BTC) that can be paid for a day. */
const createLong = async (): Promise<any> =>
  ok(await app.test.post('/v1/transactions/create', { crypto: 'BTC', amount: '9700.00', currency_fiat: 'USD', expires_in: 86_400 }), 201);

/** A transfer first seen in the minute after creation. */
async function receive(paymentId: string, name: string, units: bigint, minute: number): Promise<any> {
  const { ctx } = app.app;
  await ctx.db.begin((tx) =>
    lockAndSettle(
      ctx,
      tx,
      [paymentId],
      async () =>
        void (await tx`
          insert into transfers (coin, ref, payment_id, merchant_id, txid, address, units, kind, first_seen_at)
          select 'BTC', ${`${name}:0`}, id, merchant_id, ${name}, 'test_btc_success', ${units.toString()}, 'output',
            created_at + ${minute} * interval '1 minute'
          from payments where id = ${paymentId}`),
    ),
  );
  return ok(await app.test.get(`/api/payment/${paymentId}`));
}

// Invariant: A tiny transfer does not hold a rate, and nobody can pick the better of two rates.
test('546 satoshi do not hold a rate for longer', async () => {
  const made = await createLong();
  const detail = await receive(made.id, 'crumb', 546n, 1);
  assert.deepEqual([detail.amount_received, detail.amount_announced], ['0.00000000', '0.00000546']);
  assert.deepEqual([detail.quote_expires_at, detail.expires_at], [made.quote_expires_at, made.expires_at]);
  assert.ok(minutesBetween(made.created_at, detail.quote_expires_at) <= 15.1);
});

test('half of the amount holds the rate once more for the same time, not until the end of a long window', async () => {
  const made = await createLong();
  const detail = await receive(made.id, 'half', 5_000_000n, 10);
  assert.equal(Math.round(minutesBetween(made.created_at, detail.quote_expires_at)), 25);
  assert.equal(detail.expires_at, made.expires_at);
  assert.equal(detail.amount_remaining, '0.05000000');
});

test('switching to another coin and back shows the locked rate and does not fetch a new one', async () => {
  const id: string = ok(
    await app.test.post('/api/payment/create/simple', { amount_usd: '97.00', return_url: 'https://shop.example/' }),
    201,
  ).transaction_id;
  // A payer who sends nothing.
  await app.app.ctx.db.sql`
    insert into simulations (payment_id, merchant_id, coin, scenario, units, started_at)
    select id, merchant_id, 'BTC', 'nothing', 1000, clock_timestamp() from payments where id = ${id}`;
  const page = await (await fetch(`${app.url}/pay?id=${id}`)).text();
  const token = /name="token" value="([^"]+)"/.exec(page)![1]!;
  const until: string[] = [];
  for (const currency of ['BTC', 'LTC', 'BTC', 'LTC']) {
    const reply = await fetch(`${app.url}/pay/select`, {
      method: 'POST',
      headers: { 'content-type': 'application/x-www-form-urlencoded' },
      body: new URLSearchParams({ id, token, currency }).toString(),
    });
    assert.ok(reply.ok, await reply.text());
    const detail = ok(await app.test.get(`/api/payment/${id}`));
    assert.equal(detail.currency, currency);
    until.push(detail.quote_expires_at);
  }
  assert.deepEqual(until.slice(2), until.slice(0, 2));
});

test('no click of the customer moves the end of the window: not a look, not another coin, not a new rate', async () => {
  const { id, expires_at: end } = ok(
    await app.test.post('/api/payment/create/simple', { amount_usd: 25, return_url: 'https://shop.example/', expires_in: 3_600 }),
    201,
  );
  const page = async () => (await fetch(`${app.url}/pay?id=${id}`)).text();
  const click = async (path: string, more: Record<string, string> = {}) => {
    const token = /name="token" value="([^"]+)"/.exec(await page())![1]!;
    const reply = await fetch(app.url + path, { method: 'POST', redirect: 'manual', body: new URLSearchParams({ id, token, ...more }) });
    return reply.status;
  };
  const ends = async () => ok(await app.test.get(`/api/payment/${id}`)).expires_at;
  for (const currency of ['BTC', 'LTC', 'BTC']) {
    assert.equal(await click('/pay/select', { currency }), 303);
    assert.equal(await ends(), end, currency);
  }
  for (let at = 0; at < 3; at += 1) {
    ok(await app.test.post('/v1/test/clock/advance', { seconds: 960, payment_id: id }));
    assert.equal(await click('/pay/requote'), 303);
    assert.equal(await ends(), end);
  }
  ok(await app.test.post('/v1/test/clock/advance', { seconds: 1_000, payment_id: id }));
  assert.match(await page(), /data-state="expired"/);
});
