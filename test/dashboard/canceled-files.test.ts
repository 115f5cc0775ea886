/** Refunds and payouts whose signing file was canceled a moment ago, before anything has freed them: no process follows files here. */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { markOutgoingSent } from '../../src/outgoing/decisions.ts';
import { followOutgoing } from '../../src/outgoing/follow-outgoing.ts';
import { eventually, startTestApp, type TestApp } from '../kit/app.ts';
import { type Person, setUpPerson } from '../kit/person.ts';
import { giveWallet } from '../kit/shop.ts';

let app: TestApp;
let owner: Person;
before(async () => {
  // The node is never reached: it only makes the coin a configured one.
  app = await startTestApp({ BTC_NODE_URL: 'http://user:pass@127.0.0.1:9', LOG_LEVEL: 'silent' }, { roles: ['api'] });
  owner = await setUpPerson(app);
  await giveWallet(app, 'BTC');
  const { sql } = app.app.ctx.db;
  for (const state of ['made', 'canceled'])
    await sql`
      insert into signing_files (id, merchant_id, wallet_id, coin, state, file, destination, total_units, fee_units, input_count, made_by)
      select ${`swp_${state}`}, merchant_id, id, 'BTC', ${state}, '{"requests":[]}', 'x', 1000, 10, 1, 'Test' from wallets`;
});
after(() => app?.stop());

/** An approved refund and an approved payout in a file. */
async function insertBoth(name: string, file: string): Promise<[refund: string, payout: string]> {
  const { sql } = app.app.ctx.db;
  const { merchantId } = app.merchant;
  const [refund, payout] = [`ref_${name}`, `po_${name}`];
  const [{ id: paymentId } = { id: '' }] = await sql<{ id: string }[]>`select id from payments limit 1`;
  await sql`
    insert into outgoing_payments (kind, id, merchant_id, mode, payment_id, coin, units, usd_cents, rate, state, address, requested_by, created_at, file_id, transaction_number)
    values ('refund', ${refund}, ${merchantId}, 'test', ${paymentId}, 'BTC', 1000, 100, 'payment', 'approved', 'a', 'Ada', now(), ${file}, 0)`;
  await sql`
    insert into outgoing_payments (kind, id, merchant_id, mode, coin, units, usd_cents, address, state, requested_by, created_at, file_id, transaction_number)
    values ('payout', ${payout}, ${merchantId}, 'test', 'BTC', 1000, 100, 'a', 'approved', 'Ada', now(), ${file}, 1)`;
  return [refund, payout];
}

test('what was in a canceled file is shown as free, marked as sent without that file, and not followed with it', async () => {
  await app.test.post('/api/payment/create/simple', { amount_usd: 25, return_url: 'https://shop.example/' });
  const { ctx } = app.app;
  const txid = 'ab'.repeat(32);
  const paths = (ids: readonly [string, string]) => [`/test/refunds/${ids[0]}`, `/test/payouts/${ids[1]}`];
  const read = async (path: string) => {
    const { json } = await owner.get(path);
    return json.refund ?? json.payout;
  };
  for (const path of paths(await insertBoth('made', 'swp_made'))) {
    assert.equal((await read(path)).file, 'swp_made');
    const { status, json } = await owner.post(`${path}/sent`, { txid });
    assert.deepEqual([status, /^(refund|payout)_in_file$/.test(json.error.code)], [409, true]);
  }
  for (const path of paths(await insertBoth('canceled', 'swp_canceled'))) {
    assert.equal((await read(path)).file, null, 'its buttons are shown');
    assert.equal((await owner.post(`${path}/sent`, { txid })).status, 200);
    assert.equal((await read(path)).status, 'sent');
  }
  assert.equal(await followOutgoing(ctx), 0);
  const kept = await ctx.db.sql`
    select 1 from outgoing_payments where file_id = 'swp_canceled'`;
  assert.equal(kept.length, 0);
});

test('a payout that another file takes while it is marked as sent is in that file, and not sent twice', async () => {
  const { ctx } = app.app;
  const { merchantId } = app.merchant;
  const [, id] = await insertBoth('taken', 'swp_canceled');
  let refused = Promise.resolve();
  await ctx.db.begin(async (tx) => {
    await tx`
      insert into signing_files (id, merchant_id, wallet_id, coin, state, file, destination, total_units, fee_units, input_count, made_by)
      select 'swp_taken', merchant_id, id, 'BTC', 'made', '{"requests":[]}', 'x', 1000, 10, 1, 'Test' from wallets`;
    await tx`update outgoing_payments set file_id = 'swp_taken' where id = ${id}`;
    const actor = { userId: '', name: 'Test', ip: '' };
    const marking = markOutgoingSent(ctx, { kind: 'payout', merchantId, mode: 'test', id, txid: 'cd'.repeat(32), actor });
    refused = assert.rejects(marking, { code: 'payout_in_file' });
    await eventually(
      () => ctx.db.sql`select 1 from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`,
      (waiting) => waiting.length > 0,
    );
  });
  await refused;
});
