/** Lists with total_count, single reads and creates with 1,000,000 payments compared with 1,000. Goal: p99 of lists <= 1.5. */
import { openDb } from '../src/db/db.ts';
import { createLog } from '../src/log.ts';
import { testEnvironment } from '../test/kit/app.ts';
import { testDatabase } from '../test/kit/database.ts';
import { compare, startChild } from './kit.ts';

/** A service with its own database, in which one merchant has so many payments. */
async function serve(count: number) {
  const database = await testDatabase({ parent: '/var/tmp' });
  const environment = testEnvironment(database.url, database.folder, { PLANS: '{"enterprise":{"per_minute":0,"per_month":0}}' });
  const child = await startChild('bench/serve.ts', environment);
  const { url, secret, merchantId } = JSON.parse(child.line) as { url: string; secret: string; merchantId: string };
  const idOf = (n: number) => `pay_${merchantId}${n}`;
  const db = await openDb({ url: database.url, log: createLog('error') });
  await db.sql`insert into rule_sets (hash, rules) values ('bench', '{}') on conflict do nothing`;
  // No time limit: this fills the database and is not measured.
  await db.begin(async (tx) => {
    await tx`set local statement_timeout = 0`;
    await tx`
    insert into payments (id, merchant_id, mode, sequence, status, amount_usd_cents, rule_set, created_with, coin, created_at, expires_at)
    select ${idOf(0).slice(0, -1)}::text || n, ${merchantId}, 'live', n, (array['completed', 'expired', 'failed', 'cancelled'])[1 + n % 4], 2550,
      (select min(id) from rule_sets), 'secret', (array['BTC', 'LTC', 'ETH'])[1 + n % 3], now() - n * interval '1 second', now()
    from generate_series(1, ${count}) as n`;
  });
  await db.sql`
    insert into payment_counts (merchant_id, mode, status, coin, payments)
    select merchant_id, mode, status, coin, count(*) from payments where merchant_id = ${merchantId} group by 1, 2, 3, 4`;
  await db.sql`insert into payment_counters values (${merchantId}, 'live', ${count})`;
  await db.sql`analyze payments`;
  await db.close();
  return {
    url,
    headers: { authorization: `Bearer ${secret}` },
    /** Reads of payments from the whole range. */
    paths: Array.from({ length: 1_000 }, (_, i) => `/api/payment/${idOf(1 + Math.floor((i * count) / 1_000))}`),
    stop: async () => {
      await child.stop();
      await database.drop();
    },
  };
}
const million = await serve(1_000_000);
const thousand = await serve(1_000);
const AGAINST = '1,000,000 payments against 1,000';
for (const query of ['limit=10', 'limit=100', 'limit=10&status=completed&currency=LTC']) {
  await compare(`list: GET /api/payments?${query}, ${AGAINST}`, {
    subject: { url: `${million.url}/api/payments?${query}`, headers: million.headers, connections: 16 },
    baseline: { url: `${thousand.url}/api/payments?${query}`, headers: thousand.headers, connections: 16 },
    rounds: 3,
    goal: 'p99 <= 1.5',
  });
}
const read = ({ url, headers, paths }: typeof million) => ({ url, headers, paths, connections: 16 });
await compare(`list: GET /api/payment/{id}, ${AGAINST}`, {
  subject: read(million),
  baseline: read(thousand),
  rounds: 5,
  goal: 'rate >= 0.85',
});
const create = ({ url, headers }: typeof million) => ({
  url: `${url}/api/payment/create/simple`,
  method: 'POST' as const,
  headers: { ...headers, 'content-type': 'application/json' },
  body: JSON.stringify({ amount_usd: 25.5, return_url: 'https://shop.example/thanks' }),
  connections: 16,
});
await compare(`list: POST /api/payment/create/simple, ${AGAINST}`, {
  subject: create(million),
  baseline: create(thousand),
  rounds: 5,
  goal: 'rate >= 0.85',
});
await million.stop();
await thousand.stop();
