/** Very many payments that expire at the same moment: in how many transactions, with how many statements, and what stays free meanwhile. */
// Invariant: However many payments expire at once, one transaction locks and settles a bounded number of them, with as many statements as for two.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import type { Context } from '../../src/context.ts';
import { startHousekeeping } from '../../src/settling/retention.ts';
import { settleDuePayments } from '../../src/settling/settle-payments.ts';
import { eventually, startTestApp, type TestApp } from '../kit/app.ts';
import { statementsOf } from '../kit/statements.ts';

const AT_ONCE = 200;
let app: TestApp;
before(async () => {
  // No worker settles anything but what the test starts.
  app = await startTestApp({ PLANS: '{"enterprise":{"per_minute":0,"per_month":0}}' }, { roles: ['api'] });
});
after(() => app?.stop());

/** So many payments whose window is over. */
async function expiring(count: number): Promise<void> {
  const body = { amount_usd: '97.00', return_url: 'https://shop.example/thanks' };
  for (let made = 0; made < count; made += 20)
    for (const { status, text } of await Promise.all(
      Array.from({ length: Math.min(20, count - made) }, () => app.test.post('/api/payment/create/simple', body)),
    ))
      assert.equal(status, 201, text);
  await app.app.ctx.db.sql`
    update payments set created_at = created_at - interval '2 days', expires_at = expires_at - interval '2 days', due_at = clock_timestamp()
    where status = 'pending'`;
}
const pending = async (): Promise<number> =>
  (await app.app.ctx.db.sql<{ count: number }[]>`select count(*)::int as count from payments where status = 'pending'`)[0]!.count;
/** Pending payments that nobody has locked. */
const free = (): Promise<number> =>
  app.app.ctx.db.begin(async (tx) => (await tx`select 1 from payments where status = 'pending' for update skip locked`).length);
const settle = (ctx: Context, limit = AT_ONCE) => settleDuePayments(ctx, { limit, kinds: ['payments'] });

test('a transaction settles as many payments as it may, and locks no others', async () => {
  const { ctx } = app.app;
  await expiring(7);
  const unlocked: number[] = [];
  const watched: Context = {
    ...ctx,
    db: {
      ...ctx.db,
      begin: (work) =>
        ctx.db.begin(async (tx) => {
          const result = await work(tx);
          unlocked.push(await free());
          return result;
        }),
    },
  };
  const settled: number[] = [];
  do settled.push(await settle(watched, 3));
  while (settled.at(-1)! > 0);
  assert.deepEqual(
    [settled, unlocked],
    [
      [3, 3, 1, 0],
      [4, 1, 0, 0],
    ],
  );
});

test('two payments take as many statements as two hundred, and a worker takes those whose time has come 25 at a time', async () => {
  const { ctx } = app.app;
  await expiring(2);
  const ofTwo = await statementsOf(ctx, (noted) => settle(noted));
  assert.equal(await pending(), 0);
  const writes = ofTwo.filter((text) => text.startsWith('with written as'));
  assert.equal(writes.length, 1, ofTwo.join('\n'));

  await expiring(AT_ONCE + 2);
  const ofMany = await statementsOf(ctx, (noted) => settle(noted));
  assert.deepEqual(ofMany, ofTwo);
  assert.equal(await pending(), 2);

  // Together with the two that were left: 16 steps of 25, and one of 2.
  await expiring(2 * AT_ONCE);
  const ofWorker = await statementsOf(ctx, async (noted) => {
    const worker = startHousekeeping(noted);
    await eventually(pending, (left) => left === 0);
    await worker.stop();
  });
  assert.equal(ofWorker.filter((text) => text === writes[0]).length, 17, 'of 402 payments');
});
