/**
 * The list of payments while many of them expire in the same process, compared with the same list while nothing is due. Goal: p99 <= 2.
 * `PAYMENTS` is how many expire at a time.
 */
import { setTimeout } from 'node:timers/promises';
import { testEnvironment } from '../test/kit/app.ts';
import { testDatabase } from '../test/kit/database.ts';
import { type Figures, measure, median, startChild } from './kit.ts';

const EXPIRING = Number(process.env.PAYMENTS ?? 5_000);
const ROUNDS = EXPIRING > 20_000 ? 1 : 5;
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

const QUIET_TURNS = 3;
const SETTLED_MS = 20_000;
// What follows from creating payments ends first: their texts are indexed, and their counts are added up.
await setTimeout(SETTLED_MS);
const runs: { quiet: Figures[]; busy: Figures[]; seconds: number }[] = [];
for (let round = 0; round < ROUNDS; round++) {
  const quiet: Figures[] = [];
  for (let i = 0; i < QUIET_TURNS; i++) quiet.push(await measure(list));
  const before = await pending();
  await database.db.begin(async (tx) => {
    await tx`set local statement_timeout = 0`;
    await tx`
      update payments set created_at = created_at - interval '2 days', expires_at = expires_at - interval '2 days',
        due_at = clock_timestamp() + interval '200 milliseconds'
      where id in (select id from payments where status = 'pending' order by sequence limit ${EXPIRING})`;
  });
  const began = performance.now();
  const busy: Figures[] = [];
  do busy.push(await measure(list));
  while ((await pending()) > before - EXPIRING);
  runs.push({ quiet, busy, seconds: (performance.now() - began) / 1_000 });
}
type Side = 'quiet' | 'busy';
const of = (side: Side, figure: 'p50' | 'p99'): string => median(runs.flatMap((run) => run[side]).map((one) => one[figure])).toFixed(1);
const p99s = runs.flatMap(({ quiet, busy }) => busy.map(({ p99 }) => p99 / median(quiet.map((one) => one.p99))));
const bad = runs.flatMap(({ quiet, busy }) => [...quiet, ...busy]).reduce((sum, { errors, non2xx }) => sum + errors + non2xx, 0);
console.log(`expiry: GET /api/payments?limit=10 while ${EXPIRING.toLocaleString('en')} payments expire, against the same while none does
  expiring  p50 ${of('busy', 'p50')} ms p99 ${of('busy', 'p99')} ms, all within ${median(runs.map(({ seconds }) => seconds)).toFixed(0)} s
  quiet     p50 ${of('quiet', 'p50')} ms p99 ${of('quiet', 'p99')} ms
  ratio     p99 ${median(p99s).toFixed(2)} (${p99s.map((ratio) => ratio.toFixed(2)).join(' ')})
  goal      p99 <= 2${bad > 0 ? `\n  REFUSED OR FAILED: ${bad}` : ''}`);
await florin.stop();
await database.drop();
