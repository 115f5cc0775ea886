/** Missing amounts and amounts too small to count are reported: in the API, in events and on the page. */
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
/** A payment of 97 USD in BTC, which is 0.00100000 BTC, that received these transfers in the one block of its chain. */
async function paidWith(units: readonly number[]): Promise<any> {
  const { ctx } = app.app;
  const { id } = ok(await app.test.post('/v1/transactions/create', { crypto: 'BTC', amount: '97.00', currency_fiat: 'USD' }), 201);
  await ctx.db.begin((tx) =>
    lockAndSettle(ctx, tx, [id], async () => {
      // No scenario: opening the page would start one.
      await tx`
          insert into simulations (payment_id, merchant_id, coin, scenario, units, started_at)
          select id, merchant_id, 'BTC', 'nothing', 1, created_at from payments where id = ${id}`;
      await tx`
          insert into transfers (coin, ref, payment_id, merchant_id, txid, address, units, kind, first_seen_at, block_height, block_hash, block_time)
          select 'BTC', id || i || ':0', id, merchant_id, id || i, 'test_btc_success', units, 'output', created_at, 0, 'b', created_at
          from payments, unnest(${units.map(String)}::numeric[]) with ordinality as u (units, i) where id = ${id}`;
    }),
  );
  return ok(await app.test.get(`/api/payment/${id}`));
}

// Invariant: A payment shows how much was missing when it completed, and what was too small to count.
test('a payment that is completed although short says by how much', async () => {
  const detail = await paidWith([99_400]);
  assert.deepEqual(
    [detail.status, detail.amount_remaining, detail.accepted_short, detail.accepted_short_usd],
    ['completed', '0.00000000', '0.00000600', '0.58'],
  );
  const { data } = ok(await app.test.get(`/v1/events?payment_id=${detail.id}&type=payment.completed`));
  assert.equal(data[0].data.accepted_short, '0.00000600');
  const exact = await paidWith([100_000]);
  assert.deepEqual([exact.status, exact.accepted_short, exact.accepted_short_usd], ['completed', null, null]);
  const partial = await paidWith([50_000]);
  assert.deepEqual([partial.status, partial.accepted_short, partial.amount_remaining], ['pending', null, '0.00050000']);
});

test('the sum of transfers too small to count is reported, on the page too', async () => {
  const detail = await paidWith(Array.from({ length: 194 }, () => 516));
  assert.deepEqual([detail.status, detail.amount_received, detail.amount_dust], ['pending', '0.00000000', '0.00100104']);
  assert.equal(detail.transfers_count, 194);
  const page = await (await fetch(`${app.url}/pay?id=${detail.id}`)).text();
  assert.match(page, /Too small to count<\/dt><dd><bdi translate="no">0\.00100104 BTC/);
  const other = await paidWith([50_000]);
  assert.equal(other.amount_dust, '0.00000000');
  assert.doesNotMatch(await (await fetch(`${app.url}/pay?id=${other.id}`)).text(), /Too small to count/);
});
