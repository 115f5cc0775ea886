/** What Plan & usage shows about requests: per hour, for the merchant's keys in one mode. */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { createMerchant } from '../../src/merchants/merchants.ts';
import { startTestApp, type TestApp } from '../kit/app.ts';
import { type Person, setUpPerson } from '../kit/person.ts';

let app: TestApp;
let owner: Person;
before(async () => {
  app = await startTestApp({ LOG_LEVEL: 'silent' });
  owner = await setUpPerson(app);
});
after(() => app?.stop());

test('hourly requests add up the keys of the mode, name the busiest, and end after 24 hours', async () => {
  const { sql } = app.app.ctx.db;
  await createMerchant(app.app.ctx, { name: 'Other shop' });
  const [now] = await sql<{ at: Date }[]>`select date_trunc('hour', clock_timestamp()) as at`;
  const hour = (ago: number) => new Date(now!.at.getTime() - ago * 3_600_000);
  const keys = await sql<{ id: string; mine: boolean; mode: string }[]>`
    select id, merchant_id = ${app.merchant.merchantId} as mine, mode from keys order by id`;
  const mine = keys.filter((key) => key.mine && key.mode === 'live');
  const others = keys.filter((key) => !key.mine || key.mode !== 'live');
  assert.ok(mine.length === 2 && others.length === 6);
  for (const [id, at, calls, failed] of [
    [mine[0]!.id, hour(1), 30, 3],
    [mine[1]!.id, hour(1), 12, 0],
    [mine[0]!.id, hour(20), 5, 5],
    [mine[0]!.id, hour(25), 1_000, 0],
    ...others.map(({ id }) => [id, hour(1), 7, 7] as const),
  ] as const)
    await sql`insert into key_hours (key_id, hour, calls, failed) values (${id}, ${at}, ${calls}, ${failed})`;
  assert.deepEqual((await owner.get('/live/usage/hours')).json.hours, [
    { hour: hour(20).toISOString(), requests: 5, failed: 5, busiest_key: 5 },
    { hour: hour(1).toISOString(), requests: 42, failed: 3, busiest_key: 30 },
  ]);
  assert.deepEqual((await owner.get('/test/usage/hours')).json.hours, [
    { hour: hour(1).toISOString(), requests: 14, failed: 14, busiest_key: 7 },
  ]);
});
