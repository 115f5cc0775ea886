/** The states with times in them, in the most distant time zones: nothing moves when the customer's own time replaces UTC. */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import type { Browser } from 'playwright-core';
import { fixturesAt } from '../../src/web/checkout/states.ts';
import { startTestApp, type TestApp } from '../kit/app.ts';
import { assertStill, openTab, startBrowser } from '../kit/browser.ts';
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
for (const timeZone of ['Pacific/Kiritimati', 'Etc/GMT+12']) {
  test(`${timeZone}: no state with a time moves at 360 and 390 px, in languages with short and long times`, async () => {
    for (const width of [360, 390]) {
      const tab = await openTab(browser, 'about:blank', { timeZone, width });
      for (const name of TIMED) {
        const fixture = fixturesAt(new Date()).find((one) => one.name === name)!;
        for (const lang of ['en', 'es']) {
          await tab.page.goto(stateUrl(app.url, fixture, `&lang=${lang}`));
          assert.ok((await tab.page.locator('time').count()) > 0, name);
          await assertStill(tab.page, `${name}, ${lang}, ${width} px`);
        }
      }
      await tab.close();
    }
  });
}
