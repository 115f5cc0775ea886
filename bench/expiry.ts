/**
 * The list of payments while 5,000 of them expire in the same process, compared with the same list while nothing is due. Goal: p99 <= 2.
 */
import { eventually, testEnvironment } from '../test/kit/app.ts';
import { testDatabase } from '../test/kit/database.ts';
import { type Figures, measure, median, startChild } from './kit.ts';

const EXPIRING = 5_000;
const ROUNDS = 5;
const SECONDS = 3;

const database = await testDatabase({ parent: '/var/tmp' });
const environment = testEnvironment(database.url, database.folder, { PLANS: '{"enterprise":{"per_minute":0,"per_month":0}}' });
const florin = await startChild('bench/serve.ts', environment);
const { url, secret } = JSON.parse(florin.line) as { url: string; secret: string };
const headers = { 'content-type': 'application/json', authorization: `Bearer ${secret}` };
const body = JSON.stringify({ amount_usd: 25.5, return_url: 'https://shop.example/thanks' });
const list = { url: `${url}/api/payments?limit=10`, headers, connections: 16, seconds: SECONDS };
const { sql } = database.db;
const pending = async (): Promise<number> =>
  (await sql<{ n: number }[]>`select count(*)::int as n from payments where status = 'pending'`)[0]!.n;

while ((await pending()) < EXPIRING * ROUNDS)
  await measure({ url: `${url}/api/payment/create/simple`, method: 'POST', headers, body, connections: 32, seconds: 2 });
// Long enough for the compiler to have seen everything.
await measure({ ...list, seconds: 8 });

const runs: { quiet: Figures; busy: Figures }[] = [];
for (let round = 0; round < ROUNDS; round++) {
  const quiet = await measure(list);
  const before = await pending();
  await sql`
    update payments set created_at = created_at - interval '2 days', expires_at = expires_at - interval '2 days',
      due_at = clock_timestamp() + interval '200 milliseconds'
    where id in (select id from payments where status = 'pending' order by sequence limit ${EXPIRING})`;
  const busy = await measure(list);
  await eventually(pending, (left) => left === before - EXPIRING, 60_000);
  runs.push({ quiet, busy });
}
const of = (side: 'quiet' | 'busy', figure: 'p50' | 'p99'): string => median(runs.map((run) => run[side][figure])).toFixed(1);
const p99s = runs.map(({ quiet, busy }) => busy.p99 / quiet.p99);
const bad = runs.reduce((sum, { quiet, busy }) => sum + quiet.errors + quiet.non2xx + busy.errors + busy.non2xx, 0);
console.log(`expiry: GET /api/payments?limit=10 while ${EXPIRING} payments expire, against the same while none does
  expiring  p50 ${of('busy', 'p50')} ms p99 ${of('busy', 'p99')} ms
  quiet     p50 ${of('quiet', 'p50')} ms p99 ${of('quiet', 'p99')} ms
  ratio     p99 ${median(p99s).toFixed(2)} (${p99s.map((ratio) => ratio.toFixed(2)).join(' ')})
  goal      p99 <= 2${bad > 0 ? `\n  REFUSED OR FAILED: ${bad}` : ''}`);
await florin.stop();
await database.drop();
