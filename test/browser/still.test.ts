/**
 * The states with times in them, in the most distant time zones: nothing moves when the customer's own time replaces UTC. In a run at
 * another date, also that everything is at that date.
 */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { after, before, test } from 'node:test';
import { promisify } from 'node:util';
import type { Browser } from 'playwright-core';
import { fixturesAt } from '../../src/web/checkout/states.ts';
import { startTestApp, type TestApp } from '../kit/app.ts';
import { assertStill, openTab, startBrowser } from '../kit/browser.ts';
import { firstOf, isLongRun } from '../kit/long.ts';
import { DATES, shiftMs } from '../kit/shifted-clock.ts';
import { stateUrl } from './states.ts';

let app: TestApp;
let browser: Browser;
before(async () => {
  [app, browser] = await Promise.all([startTestApp(), startBrowser()]);
});
after(async () => {
  await browser?.close();
  await app?.stop();
});

const TIMED = ['choose, priced in euros', 'awaiting BTC', 'awaiting, until tomorrow', 'underpaid'];
for (const timeZone of firstOf(['Pacific/Kiritimati', 'Etc/GMT+12'])) {
  test(`${timeZone}: no state with a time moves at 360 and 390 px, in languages with short and long times`, async () => {
    for (const width of [360, 390]) {
      const tab = await openTab(browser, 'about:blank', { timeZone, width });
      for (const name of TIMED) {
        const fixture = fixturesAt(new Date()).find((one) => one.name === name)!;
        // Long times on the narrow screen, and short ones on the other; in the long run both on both.
        for (const lang of isLongRun ? ['en', 'es'] : [width === 360 ? 'es' : 'en']) {
          await tab.page.goto(stateUrl(app.url, fixture, `&lang=${lang}`));
          assert.ok((await tab.page.locator('time').count()) > 0, name);
          await assertStill(tab.page, `${name}, ${lang}, ${width} px`);
        }
      }
      await tab.close();
    }
  });
}

if (shiftMs() !== 0)
  test('the tests, the processes they start, the database and the pages share one date, which is not today’s', async () => {
    const { at } = DATES.find(({ timeZone }) => timeZone === process.env.TZ)!;
    const tab = await openTab(browser, 'about:blank');
    const [row] = await app.app.ctx.db.sql<{ now: Date }[]>`select clock_timestamp() as now`;
    const dates = {
      tests: Date.now(),
      children: 1000 * Number((await promisify(execFile)('date', ['+%s'], { env: {} })).stdout),
      database: row!.now.getTime(),
      pages: (await tab.page.evaluate('Date.now()')) as number,
    };
    await tab.close();
    for (const [what, ms] of Object.entries(dates)) {
      assert.ok(Math.abs(ms - dates.tests) < 60_000, `${what} are at ${new Date(ms).toISOString()}`);
      assert.ok(ms > Date.parse(at) && ms < Date.parse(at) + 7_200_000, `${what} are at ${new Date(ms).toISOString()}`);
    }
  });
