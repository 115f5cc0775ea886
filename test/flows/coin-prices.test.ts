/** A merchant's own prices for coins: customers pay a percentage more or less than the market price, and that is the price to the end. */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { changeSettings } from '../../src/merchants/merchants.ts';
import { lockAndSettle } from '../../src/settling/settle-payments.ts';
import { type Reply, startTestApp, type TestApp } from '../kit/app.ts';

let app: TestApp;
before(async () => {
  app = await startTestApp();
  await changeSettings(app.app.ctx, { merchantId: app.merchant.merchantId, settings: { adjustments: { BTC: 200, LTC: -500 } } });
});
after(async () => {
  await app?.stop();
});
const ok = (reply: Reply, status = 200): any => {
  assert.equal(reply.status, status, reply.text);
  return reply.json;
};
const create = async (crypto: string): Promise<any> =>
  ok(await app.test.post('/v1/transactions/create', { crypto, amount: '970.00', currency_fiat: 'USD', expires_in: 86_400 }), 201);

/** One transfer of all that was asked for, first seen in this minute after the creation. */
async function pay({ id, currency }: { id: string; currency: string }, units: bigint, minute: number): Promise<any> {
  const { ctx } = app.app;
  await ctx.db.begin((tx) =>
    lockAndSettle(
      ctx,
      tx,
      [id],
      async () =>
        void (await tx`
          insert into transfers (coin, ref, payment_id, merchant_id, txid, address, units, kind, first_seen_at)
          select ${currency}, ${`${id}:0`}, id, merchant_id, ${id}, 'test', ${units.toString()}, 'output',
            created_at + ${minute} * interval '1 minute'
          from payments where id = ${id}`),
    ),
  );
  return ok(await app.test.get(`/api/payment/${id}`));
}

/** What its transfer is worth in US dollars, to the cent. */
const worthOf = async (id: string): Promise<string> =>
  (
    await app.app.ctx.db.sql<{ usd: string }[]>`
    select round((values -> -1 ->> 'usdE8')::numeric / 100000000, 2)::text as usd from transfers where payment_id = ${id}`
  )[0]!.usd;

test('customers pay the percentage more or less, and the payment is worth its price', async () => {
  for (const [crypto, amount, units] of [
    ['BTC', '0.01020000', 1_020_000n],
    ['LTC', '9.21500000', 921_500_000n],
    ['DOGE', '4850.00000000', 485_000_000_000n],
  ] as const) {
    const payment = await create(crypto);
    assert.deepEqual([payment.amount, payment.amount_usd], [amount, '970.00'], crypto);
    assert.equal((await pay({ id: payment.id, currency: crypto }, units, 1)).amount_remaining, '0.00000000');
    assert.equal(await worthOf(payment.id), '970.00', crypto);
  }
});

test('money that arrives after the rate lock is valued with the percentage too, so it is neither too little nor too much', async () => {
  for (const [crypto, units] of [
    ['BTC', 1_020_000n],
    ['LTC', 921_500_000n],
  ] as const) {
    const payment = await create(crypto);
    assert.equal((await pay({ id: payment.id, currency: crypto }, units, 120)).amount_remaining, '0.00000000', crypto);
    assert.equal(await worthOf(payment.id), '970.00', crypto);
  }
});

test('a payment keeps the percentage with which it was created', async () => {
  const payment = await create('BTC');
  await changeSettings(app.app.ctx, { merchantId: app.merchant.merchantId, settings: { adjustments: { BTC: -1_000 } } });
  assert.equal((await create('BTC')).amount, '0.00900000');
  await pay({ id: payment.id, currency: 'BTC' }, 1_020_000n, 120);
  assert.equal(await worthOf(payment.id), '970.00');
});
