/** Operators hear of a backup that is missing or old, once a week, and only once there is a wallet to lose. */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { startTestApp, type TestApp } from '../../test/kit/app.ts';
import { setUpPerson } from '../../test/kit/person.ts';
import { giveWallet } from '../../test/kit/shop.ts';
import { alertBackup } from './backup.ts';
import { diagnose } from './doctor.ts';

let app: TestApp;
before(async () => {
  app = await startTestApp();
  await setUpPerson(app);
  await app.app.ctx.db.sql`update users set operator = true`;
});
after(() => app?.stop());

const alerts = async (): Promise<(string | null)[]> => {
  const { ctx } = app.app;
  await alertBackup(ctx);
  const rows = await ctx.db.sql<
    { detail: { backed_up_at: string | null } }[]
  >`select detail from notices where kind = 'backup_old' order by id`;
  return rows.map(({ detail }) => detail.backed_up_at);
};
const finding = async () => (await diagnose(app.app.ctx)).findings.find(({ check }) => check === 'backup');

test('operators hear of a missing backup a week after the first wallet, of an old one every week, and never of a fresh one', async () => {
  const { sql } = app.app.ctx.db;
  assert.deepEqual(await alerts(), []);
  assert.equal(await finding(), undefined, 'an install without a wallet has nothing to lose');
  await giveWallet(app, 'BTC');
  assert.deepEqual(await alerts(), []);
  assert.match((await finding())!.detail, /has not written one yet/);
  await sql`update wallets set created_at = created_at - interval '8 days'`;
  assert.deepEqual(await alerts(), [null]);
  assert.deepEqual(await alerts(), [null], 'once a week');
  const [old] = await sql<{ at: Date }[]>`
    update install set backed_up_at = clock_timestamp() - interval '8 days', backup_alerted_at = backup_alerted_at - interval '8 days'
    returning backed_up_at as at`;
  assert.deepEqual(await alerts(), [null, old!.at.toISOString()]);
  const advice = (await finding())!;
  assert.deepEqual([advice.ok, advice.detail], [true, 'the last one is 8 days old']);
  assert.match(advice.fix!, /florin backup --file/);
  await sql`update install set backed_up_at = clock_timestamp(), backup_alerted_at = null`;
  assert.equal((await alerts()).length, 2);
  assert.equal((await finding())!.fix, null);
});
