/** The tabs above lists of the dashboard: how many payments each status has, and refunds and payouts each state. */
// Invariant: The counts above the lists of payments, refunds and payouts agree with what these list, at a limited cost.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { PAYMENT_STATUSES } from '../../src/core/payment.ts';
import { REFUND_STATES } from '../../src/core/refund.ts';
import { createMerchant } from '../../src/merchants/merchants.ts';
import { countOutgoing } from '../../src/outgoing/outgoing-payments.ts';
import { countByStatus } from '../../src/queries/search.ts';
import { startTestApp, type TestApp } from '../kit/app.ts';
import { pagesTouched } from '../kit/pages.ts';
import { type Person, setUpPerson } from '../kit/person.ts';

let app: TestApp;
let owner: Person;
before(async () => {
  app = await startTestApp();
  owner = await setUpPerson(app);
});
after(() => app.stop());

const make = async (client = app.test): Promise<string> => {
  const reply = await client.post('/api/payment/create/simple', { amount_usd: 5, return_url: 'https://a.example/' });
  assert.equal(reply.status, 201, reply.text);
  return reply.json.id;
};

test('each status counts what it lists: no archived payment, none of another merchant or the other mode', async () => {
  const ids = [await make(), await make(), await make(), await make()];
  for (const id of ids.slice(1)) assert.equal((await owner.post(`/test/payments/${id}/cancel`, {})).status, 200);
  assert.equal((await owner.post(`/test/payments/${ids[1]}/archive`, { archived: true })).status, 200);
  await make(app.live);
  await make(app.as((await createMerchant(app.app.ctx, { name: 'Other shop' })).keys.testSecret));
  const counts = (await owner.get('/test/payments/counts')).json.data;
  assert.deepEqual(
    counts,
    PAYMENT_STATUSES.map((state) => ({ state, count: { pending: 1, cancelled: 2 }[state as string] ?? 0, is_more: false })),
  );
  for (const { state, count } of counts) assert.equal((await owner.get(`/test/payments?status=${state}`)).json.data.length, count, state);
});

test('counts end at 1,000, and after 10,000 payments even if most of them are archived', async () => {
  const { ctx } = app.app;
  const { merchantId } = await createMerchant(ctx, { name: 'Long shop' });
  await ctx.db.sql`insert into rule_sets (hash, rules) values ('lists', '{}') on conflict do nothing`;
  await ctx.db.sql`
    insert into payments (id, merchant_id, mode, sequence, status, amount_usd_cents, rule_set, created_with, request, created_at, expires_at, archived_at)
    select 'pay_' || s, ${merchantId}, 'live', s, case when s <= 1000 then 'failed' when s <= 2001 then 'expired' else 'completed' end, 100,
      (select min(id) from rule_sets), 'secret', '{}', now(), now(), case when s > 2001 and s % 1000 > 0 then now() end
    from generate_series(1, 12100) as s`;
  await ctx.db.sql`vacuum analyze payments`;
  const of = { merchantId, mode: 'live' as const };
  const counts = await countByStatus(ctx, of);
  assert.deepEqual(
    counts.filter(({ count }) => count > 0),
    [
      { state: 'completed', count: 10, isMore: true },
      { state: 'expired', count: 1_000, isMore: true },
      { state: 'failed', count: 1_000, isMore: false },
    ],
  );
  const pages = await pagesTouched(ctx, (read) => countByStatus(read, of));
  assert.ok(pages < 3_000, `${pages}`);
});

test('refunds and payouts: each state counts what it lists, ends at 1,000, and reads little', async () => {
  const { ctx } = app.app;
  const { sql } = ctx.db;
  const state = sql`case when s <= 9000 then 'confirmed' when s <= 10000 then 'failed' when s <= 10003 then 'requested' else 'canceled' end`;
  const other = await createMerchant(ctx, { name: 'Third shop' });
  const mine = [app.merchant.merchantId, 'test'] as const;
  const rows = [
    { of: mine, from: 1, until: 10_010 },
    { of: [mine[0], 'live'] as const, from: 10_002, until: 10_006 },
    { of: [other.merchantId, 'test'] as const, from: 10_003, until: 10_007 },
  ];
  const paid = await make();
  for (const { of, from, until } of rows) {
    const given = sql`${of[0]}::text, ${of[1]}::text, 'BTC', 1, 1, 'nowhere', ${state}, 'Olga', now() from generate_series(${from}::int, ${until}::int) as s`;
    await sql`
      insert into outgoing_payments (kind, id, payment_id, rate, merchant_id, mode, coin, units, usd_cents, address, state, requested_by, created_at)
      select 'refund', 'ref_' || md5(${of.join()} || s), ${paid}, 'payment', ${given}`;
    await sql`
      insert into outgoing_payments (kind, id, merchant_id, mode, coin, units, usd_cents, address, state, requested_by, created_at)
      select 'payout', 'po_' || md5(${of.join()} || s), ${given}`;
  }
  await sql`vacuum analyze outgoing_payments`;
  const expected = { requested: 3, confirmed: 1_000, failed: 1_000, canceled: 7 } as Readonly<Record<string, number>>;
  for (const kind of ['refund', 'payout'] as const) {
    const list = `${kind}s`;
    assert.deepEqual(
      (await owner.get(`/test/${list}/counts`)).json.data,
      REFUND_STATES.map((one) => ({ state: one, count: expected[one] ?? 0, is_more: one === 'confirmed' })),
      list,
    );
    for (const one of ['requested', 'canceled', 'sent'])
      assert.equal((await owner.get(`/test/${list}?state=${one}`)).json.data.length, expected[one] ?? 0, `${list} ${one}`);
    const pages = await pagesTouched(ctx, (read) => countOutgoing(read, { merchantId: mine[0], mode: mine[1], kind }));
    assert.ok(pages < 100, `${list}: ${pages}`);
  }
});
