/** Every state, both themes, four widths, and every language once: accessible, nothing cut off, no browser errors. */
import { after, before, test } from 'node:test';
import type { Browser } from 'playwright-core';
import { TAGS } from '../../src/core/locales.ts';
import { fixturesAt } from '../../src/web/checkout/states.ts';
import { startTestApp, type TestApp } from '../kit/app.ts';
import { startBrowser } from '../kit/browser.ts';
import { createInspector, type Inspector } from './states.ts';

let app: TestApp;
let browser: Browser;
let inspector: Inspector;
before(async () => {
  [app, browser] = await Promise.all([startTestApp(), startBrowser()]);
  inspector = createInspector(browser, app.url);
});
after(async () => {
  await inspector?.close();
  await browser?.close();
  await app?.stop();
});

const FIXTURES = fixturesAt(new Date());
for (const one of FIXTURES) {
  for (const dark of [false, true]) {
    for (const width of [320, 360, 768, 1280]) {
      test(`${one.name}, ${dark ? 'dark' : 'light'}, ${width} px`, () => inspector.inspect(one, { dark, width }));
    }
  }
  test(`${one.name}, forced colors`, () => inspector.inspect(one, { forcedColors: true }));
}
for (const lang of TAGS) {
  test(`every state in ${lang}, 320 px`, async () => {
    for (const one of FIXTURES) await inspector.inspect(one, { more: `&lang=${lang}`, width: 320 });
  });
}
