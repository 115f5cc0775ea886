/** The list of payments in the dashboard: how many each status has. */
// Invariant: The counts of the list of payments agree with what it lists, at a limited cost.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { PAYMENT_STATUSES } from '../../src/core/payment.ts';
import { createMerchant } from '../../src/merchants/merchants.ts';
import { countByStatus } from '../../src/payments/search.ts';
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
    PAYMENT_STATUSES.map((status) => ({ status, count: { pending: 1, cancelled: 2 }[status as string] ?? 0, is_more: false })),
  );
  for (const { status, count } of counts)
    assert.equal((await owner.get(`/test/payments?status=${status}`)).json.data.length, count, status);
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
      { status: 'completed', count: 10, isMore: true },
      { status: 'expired', count: 1_000, isMore: true },
      { status: 'failed', count: 1_000, isMore: false },
    ].sort((a, b) => PAYMENT_STATUSES.indexOf(a.status as never) - PAYMENT_STATUSES.indexOf(b.status as never)),
  );
  const pages = await pagesTouched(ctx, (read) => countByStatus(read, of));
  assert.ok(pages < 3_000, `${pages}`);
});
