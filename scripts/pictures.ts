/** The running product for its pictures: a made-up business, and a browser in which its owner is signed in. */
import type { Browser, Page } from 'playwright-core';
import { buildApp } from '../src/web/dashboard/build.ts';
import { startTestApp, type TestApp } from '../test/kit/app.ts';
import { openTab, startBrowser } from '../test/kit/browser.ts';
import { freePort } from '../test/kit/nodes.ts';

export type Desk = { app: TestApp; publicUrl: string; browser: Browser; page: Page };

/** Takes pictures at a screen of this size; then everything is stopped. */
export async function atDesk({ width, height }: { width: number; height: number }, take: (desk: Desk) => Promise<void>): Promise<void> {
  const port = await freePort();
  await buildApp({ info: () => {} });
  const app = await startTestApp({ PORT: String(port), PUBLIC_URL: `http://localhost:${port}`, HOST: 'localhost', LOG_LEVEL: 'error' });
  const browser = await startBrowser();
  try {
    await app.app.ctx.db.sql`update merchants set name = 'Corner Coffee'`;
    const { page } = await openTab(browser, app.merchant.setupUrl, { width });
    await page.setViewportSize({ width, height });
    await page.getByLabel('Name').fill('Olga Owner');
    await page.getByLabel(/E-?mail/).fill('olga@shop.example');
    await page.getByLabel('Password').fill('correct horse battery');
    await page.getByRole('button', { name: 'Create account' }).click();
    await page.getByRole('heading', { name: 'Home' }).waitFor();
    await take({ app, publicUrl: app.config.publicUrl, browser, page });
  } finally {
    await browser.close();
    await app.stop();
  }
}
