/**
 * Whether it stays fast: creates without a pause, and then a mix of creates, reads and lists. Both are cut into windows. Goal: the last
 * minute of creates is within 15% of the first, p99 <= 150 ms, and in the mix nothing grows that is not data. `MINUTES` is the length of the mix.
 */
import { readdirSync, readFileSync } from 'node:fs';
import { testEnvironment } from '../test/kit/app.ts';
import { testDatabase } from '../test/kit/database.ts';
import { cpuOf, type Figures, type Load, measure, median, postmasterOf, startChild } from './kit.ts';

const WINDOW_SECONDS = 10;
const CREATE_WINDOWS = 18;
const MIX_WINDOWS = Math.round((Number(process.env.MINUTES ?? 10) * 60) / WINDOW_SECONDS);

const database = await testDatabase({ parent: '/var/tmp' });
const environment = testEnvironment(database.url, database.folder, { PLANS: '{"enterprise":{"per_minute":0,"per_month":0}}' });
const florin = await startChild('bench/serve.ts', environment);
const { url, secret } = JSON.parse(florin.line) as { url: string; secret: string };
const pid = florin.process.pid!;
const headers = { 'content-type': 'application/json', authorization: `Bearer ${secret}` };
const body = JSON.stringify({ amount_usd: 25.5, return_url: 'https://shop.example/thanks' });
const create = { url: `${url}/api/payment/create/simple`, method: 'POST', headers, body } as const;
const { sql } = database.db;

const postmaster = await postmasterOf(sql);

type Sample = { rss: number; handles: number; sessions: number; dead: number; data: number; wal: number; late: number; ticks: number };
/** What could grow. `dead`: rows that are not vacuumed yet, in percent. `late`: how often the event loop was later than 100 ms. */
async function sample(): Promise<Sample> {
  const [row] = await sql<{ sessions: number; dead: number; data: number; wal: number }[]>`
    select (select count(*)::int from pg_stat_activity where datname = current_database()) as sessions,
      (select 100.0 * sum(n_dead_tup) / greatest(1, sum(n_live_tup)) from pg_stat_user_tables)::float8 as dead,
      (pg_database_size(current_database()) / 1048576)::int as data, (pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0') / 1048576)::int as wal`;
  const metrics = await (await fetch(`${url}/metrics`)).text();
  const delays = (end: string) => Number(new RegExp(`florin_event_loop_delay_seconds_${end} (\\d+)`).exec(metrics)?.[1] ?? 0);
  const ticks = delays('count');
  return {
    ...row!,
    rss: Number(/^VmRSS:\s+(\d+)/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))![1]) / 1_024,
    handles: readdirSync(`/proc/${pid}/fd`).length,
    late: ticks - delays('bucket\\{le="0.1"\\}'),
    ticks,
  };
}

await measure({ ...create, seconds: 8 });
const windows: (Figures & { cpuUs: number })[] = [];
const before = await sample();
for (let i = 0; i < CREATE_WINDOWS; i++) {
  const cpu = () => cpuOf(pid) + cpuOf(postmaster, true);
  const began = cpu();
  const figures = await measure({ ...create, seconds: WINDOW_SECONDS });
  windows.push({ ...figures, cpuUs: ((cpu() - began) / (figures.perSecond * WINDOW_SECONDS)) * 1e6 });
}
const after = await sample();
const minute = CREATE_WINDOWS / 3;
const of = (key: 'perSecond' | 'p99' | 'cpuUs', from: number, to?: number) => median(windows.slice(from, to).map((window) => window[key]));
const shown = (key: 'perSecond' | 'p99' | 'cpuUs') => windows.map((window) => window[key].toFixed(0)).join(' ');
const bad = windows.reduce((sum, { errors, non2xx }) => sum + errors + non2xx, 0);
console.log(`soak: ${(CREATE_WINDOWS * WINDOW_SECONDS) / 60} minutes of creates without a pause, in windows of ${WINDOW_SECONDS} s
  creates a second      ${shown('perSecond')}
  p99 in ms             ${shown('p99')}
  CPU of a create in us ${shown('cpuUs')}
  last minute / first   rate ${(of('perSecond', -minute) / of('perSecond', 0, minute)).toFixed(2)}, CPU of a create ${(of('cpuUs', -minute) / of('cpuUs', 0, minute)).toFixed(2)}
  database              ${after.data - before.data} MB, log ${after.wal - before.wal} MB, rows to vacuum ${after.dead.toFixed(1)} %
  goal                  rate >= 0.85, p99 <= 150 ms${bad > 0 ? `\n  REFUSED OR FAILED: ${bad}` : ''}`);

const ids = (await (await fetch(`${url}/api/payments?limit=100`, { headers })).json()) as { data: { id: string }[] };
const loads: readonly Load[] = [
  { ...create, connections: 4 },
  { url, headers, paths: ids.data.map(({ id }) => `/api/payment/${id}`), connections: 8 },
  { url: `${url}/api/payments?limit=10`, headers, connections: 4 },
];
console.log(`soak: ${(MIX_WINDOWS * WINDOW_SECONDS) / 60} minutes of creates, reads and lists
  minute  creates/s  reads/s  lists/s  p99 ms  RSS MB  handles  sessions  to vacuum %  data MB  log MB  loop > 100 ms`);
let last = await sample();
for (let i = 1; i <= MIX_WINDOWS; i++) {
  const figures = await Promise.all(loads.map((load) => measure({ ...load, seconds: WINDOW_SECONDS })));
  const failed = figures.reduce((sum, { errors, non2xx }) => sum + errors + non2xx, 0);
  if (failed > 0) console.log(`  REFUSED OR FAILED: ${failed}`);
  if (i % 3 !== 0) continue;
  const now = await sample();
  const cells = [
    ((i * WINDOW_SECONDS) / 60).toFixed(1),
    ...figures.map(({ perSecond }) => perSecond.toFixed(0)),
    ...[Math.max(...figures.map(({ p99 }) => p99)), now.rss, now.handles, now.sessions].map((value) => value.toFixed(0)),
    ...[now.dead.toFixed(1), now.data, now.wal, `${now.late - last.late} of ${now.ticks - last.ticks}`],
  ];
  console.log(`  ${cells.map((cell, at) => String(cell).padEnd([8, 11, 9, 9, 8, 8, 9, 10, 13, 9, 8, 0][at]!)).join('')}`);
  last = now;
}
await florin.stop();
await database.drop();
