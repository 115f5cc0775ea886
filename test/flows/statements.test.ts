/** How many statements the service sends to its database, counted between the two. */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { type App, startApp } from '../../src/app.ts';
import { readConfig } from '../../src/config.ts';
import { createLog } from '../../src/log.ts';
import { createMerchant } from '../../src/merchants/merchants.ts';
import { eventually, testEnvironment } from '../kit/app.ts';
import { type TestDatabase, testDatabase } from '../kit/database.ts';
import { type DatabaseProxy, startDatabaseProxy } from '../kit/database-proxy.ts';

let database: TestDatabase;
let proxy: DatabaseProxy;
let app: App;
before(async () => {
  database = await testDatabase();
  proxy = await startDatabaseProxy(database.connection);
  app = await startApp(readConfig(testEnvironment(proxy.url, database.folder)), { log: createLog('error'), starts: () => null });
  await createMerchant(app.ctx, { name: 'Quiet shop' });
});
after(async () => {
  await app?.stop();
  await proxy?.stop();
  await database?.drop();
});

/** How often each statement was sent, the most frequent first. */
const tally = (statements: readonly string[]): string =>
  [...Map.groupBy(statements, (text) => text.slice(0, 150))]
    .sort(([, a], [, b]) => b.length - a.length)
    .map(([text, { length }]) => `${length} ${text}`)
    .join('\n');

const HOUSEKEEPING = /delete from payment_count_deltas/;
const HOUSEKEEPING_SECONDS = 10;

test('an idle service sends fewer than five statements a second', async (t) => {
  const rounds = () => proxy.statements.flatMap((text, at) => (HOUSEKEEPING.test(text) ? [at] : []));
  const first = rounds().length;
  // Between two rounds of the work that is done every ten seconds, everything else is done too.
  const places = await eventually(
    async () => rounds(),
    (found) => found.length >= first + 2,
    120_000,
  );
  const idle = proxy.statements.slice(places.at(-2), places.at(-1));
  t.diagnostic(`${idle.length} statements in ${HOUSEKEEPING_SECONDS} s\n${tally(idle)}`);
  assert.ok(idle.length < 5 * HOUSEKEEPING_SECONDS, `${idle.length} statements in ${HOUSEKEEPING_SECONDS} s:\n${tally(idle)}`);
});
