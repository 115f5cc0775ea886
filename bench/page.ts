/**
 * How soon the payment page is ready on a slow phone: slow 4G and a processor slowed to a quarter. Goal: LCP <= 1.5 s, TBT <= 50 ms,
 * medians of 5.
 */
import { testEnvironment } from '../test/kit/app.ts';
import { startBrowser } from '../test/kit/browser.ts';
import { testDatabase } from '../test/kit/database.ts';
import { median, startChild } from './kit.ts';

/** As Chromium's developer tools define "Slow 4G". */
const SLOW_4G = { offline: false, latency: 562.5, downloadThroughput: (1.6e6 * 0.9) / 8, uploadThroughput: (750e3 * 0.9) / 8 };
const SLOWDOWN = 4;
const RUNS = 5;

const database = await testDatabase();
const florin = await startChild('bench/serve.ts', testEnvironment(database.url, database.folder));
const { url } = JSON.parse(florin.line) as { url: string };
const browser = await startBrowser({ windows: true });

async function load(path: string): Promise<{ lcp: number; tbt: number; cls: number }> {
  const context = await browser.newContext({ viewport: { width: 390, height: 844 }, deviceScaleFactor: 2 });
  const page = await context.newPage();
  await page.addInitScript(() => {
    const seen = { lcp: 0, cls: 0, tasks: [] as [start: number, end: number][] };
    Object.assign(window, { seen });
    new PerformanceObserver((list) => {
      for (const entry of list.getEntries()) seen.lcp = entry.startTime;
    }).observe({ type: 'largest-contentful-paint', buffered: true });
    new PerformanceObserver((list) => {
      for (const entry of list.getEntries()) seen.tasks.push([entry.startTime, entry.startTime + entry.duration]);
    }).observe({ type: 'longtask', buffered: true });
    new PerformanceObserver((list) => {
      for (const entry of list.getEntries()) seen.cls += (entry as unknown as { value: number }).value;
    }).observe({ type: 'layout-shift', buffered: true });
  });
  const session = await context.newCDPSession(page);
  await session.send('Network.enable');
  await session.send('Network.emulateNetworkConditions', SLOW_4G);
  await session.send('Emulation.setCPUThrottlingRate', { rate: SLOWDOWN });
  await page.goto(`${url}${path}`, { waitUntil: 'networkidle' });
  const seen = (await page.evaluate(
    'new Promise((done) => setTimeout(() => done({ ...seen, fcp: performance.getEntriesByName("first-contentful-paint")[0].startTime }), 500))',
  )) as { lcp: number; cls: number; fcp: number; tasks: [start: number, end: number][] };
  await context.close();
  // Blocking time by its definition: the part of tasks beyond 50 ms, from the first paint on.
  const tbt = seen.tasks.reduce((sum, [start, end]) => sum + Math.max(0, end - Math.max(start, seen.fcp) - 50), 0);
  return { lcp: seen.lcp, tbt, cls: seen.cls };
}

type Run = Awaited<ReturnType<typeof load>>;
const sideOf = (name: string, runs: readonly Run[]): string => {
  const all = (pick: (run: Run) => number) => runs.map((run) => pick(run).toFixed(0)).join(' ');
  return `  ${name}LCP ${median(runs.map((run) => run.lcp)).toFixed(0)} ms (${all((run) => run.lcp)})   TBT ${median(runs.map((run) => run.tbt)).toFixed(0)} ms (${all((run) => run.tbt)})   CLS ${median(runs.map((run) => run.cls)).toFixed(3)}`;
};
/** Only text, without a script: what the machine and the network cost every page. */
const BARE = '/docs/errors';
for (const state of ['choose', 'awaiting BTC', 'awaiting, own colors']) {
  const path = `/_states?state=${encodeURIComponent(state)}`;
  await load(path);
  await load(BARE);
  const florinRuns: Run[] = [];
  const bareRuns: Run[] = [];
  for (let i = 0; i < RUNS; i++) {
    florinRuns.push(await load(path));
    bareRuns.push(await load(BARE));
  }
  console.log(`page: ${state}, slow 4G, processor at a quarter
${sideOf('florin    ', florinRuns)}
${sideOf('baseline  ', bareRuns)}
  goal      LCP <= 1500 ms, TBT <= 50 ms, CLS <= 0.02`);
}
await browser.close();
await florin.stop();
await database.drop();
