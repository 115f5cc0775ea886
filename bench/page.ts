/** How soon the payment page is there on a slow phone: slow 4G and a processor slowed to a quarter. Goal: LCP <= 1.5 s, TBT <= 50 ms, medians of 5. */
import { testEnvironment } from '../test/kit/app.ts';
import { startBrowser } from '../test/kit/browser.ts';
import { testDatabase } from '../test/kit/database.ts';
import { median, startChild } from './kit.ts';

/** As the developer tools of Chromium define "Slow 4G". */
const SLOW_4G = { offline: false, latency: 562.5, downloadThroughput: (1.6e6 * 0.9) / 8, uploadThroughput: (750e3 * 0.9) / 8 };
const SLOWDOWN = 4;
const RUNS = 5;

const database = await testDatabase();
const florin = await startChild('bench/serve.ts', testEnvironment(database.url, database.folder));
const { url } = JSON.parse(florin.line) as { url: string };
const browser = await startBrowser();

async function load(path: string): Promise<{ lcp: number; tbt: number; cls: number }> {
  const context = await browser.newContext({ viewport: { width: 390, height: 844 }, deviceScaleFactor: 2 });
  const page = await context.newPage();
  await page.addInitScript(() => {
    const seen = { lcp: 0, tbt: 0, cls: 0 };
    Object.assign(window, { seen });
    new PerformanceObserver((list) => {
      for (const entry of list.getEntries()) seen.lcp = entry.startTime;
    }).observe({ type: 'largest-contentful-paint', buffered: true });
    new PerformanceObserver((list) => {
      for (const entry of list.getEntries()) seen.tbt += Math.max(0, entry.duration - 50);
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
  const seen = (await page.evaluate('new Promise((done) => setTimeout(() => done(seen), 500))')) as {
    lcp: number;
    tbt: number;
    cls: number;
  };
  await context.close();
  return seen;
}

for (const state of ['choose', 'awaiting BTC', 'awaiting, own colours']) {
  const path = `/_states?state=${encodeURIComponent(state)}`;
  await load(path);
  const runs: { lcp: number; tbt: number; cls: number }[] = [];
  for (let i = 0; i < RUNS; i++) runs.push(await load(path));
  const all = (pick: (run: (typeof runs)[number]) => number) => runs.map((run) => pick(run).toFixed(0)).join(' ');
  console.log(`page: ${state}, slow 4G, processor at a quarter
  florin    LCP ${median(runs.map((run) => run.lcp)).toFixed(0)} ms (${all((run) => run.lcp)})   TBT ${median(runs.map((run) => run.tbt)).toFixed(0)} ms (${all((run) => run.tbt)})   CLS ${median(runs.map((run) => run.cls)).toFixed(3)}
  goal      LCP <= 1500 ms, TBT <= 50 ms, CLS <= 0.02`);
}
await browser.close();
await florin.stop();
await database.drop();
