/**
 * The pictures of the guides about shops, taken from the running product: `npm run screenshots -- shops` writes docs/images/shops/. Each
 * must stay small, because every install serves them.
 */
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Page } from 'playwright-core';
import { PLATFORM_PERMISSIONS } from '../src/shops/permissions.ts';
import { connectShop } from '../src/shops/shop-keys.ts';
import { buildApp } from '../src/web/dashboard/build.ts';
import { startTestApp } from '../test/kit/app.ts';
import { openTab, startBrowser } from '../test/kit/browser.ts';
import { freePort } from '../test/kit/nodes.ts';

const OUT = join(import.meta.dirname, '../docs/images/shops');
const MOST_BYTES = 60_000;

async function shoot(page: Page, name: string): Promise<void> {
  const session = await page.context().newCDPSession(page);
  const { data } = (await session.send('Page.captureScreenshot', { format: 'webp', quality: 80 })) as { data: string };
  const bytes = Buffer.from(data, 'base64');
  if (bytes.length > MOST_BYTES) throw new Error(`${name}.webp has ${bytes.length} bytes`);
  writeFileSync(join(OUT, `${name}.webp`), bytes);
  process.stdout.write(`docs/images/shops/${name}.webp: ${Math.round(bytes.length / 1000)} kB\n`);
}

export async function shootShops(): Promise<void> {
  mkdirSync(OUT, { recursive: true });
  const port = await freePort();
  await buildApp({ info: () => {} });
  const app = await startTestApp({ PORT: String(port), PUBLIC_URL: `http://localhost:${port}`, HOST: 'localhost', LOG_LEVEL: 'error' });
  const browser = await startBrowser();
  try {
    const { ctx } = app.app;
    const { publicUrl } = app.config;
    await ctx.db.sql`update merchants set name = 'Corner Coffee'`;
    const desk = await openTab(browser, app.merchant.setupUrl, { width: 1100, reducedMotion: true });
    await desk.page.setViewportSize({ width: 1100, height: 760 });
    await desk.page.getByLabel('Name').fill('Olga Owner');
    await desk.page.getByLabel(/E-?mail/).fill('olga@shop.example');
    await desk.page.getByLabel('Password').fill('correct horse battery');
    await desk.page.getByRole('button', { name: 'Create account' }).click();
    await desk.page.getByRole('heading', { name: 'Home' }).waitFor();

    const asked = new URLSearchParams([
      ...PLATFORM_PERMISSIONS.woocommerce.map((permission): [string, string] => ['permissions', permission]),
      ...[
        ['applicationName', 'Corner Coffee shop'] as [string, string],
        ['redirect', 'https://shop.example/?btcpay-settings-callback'] as [string, string],
      ],
    ]);
    await desk.page.goto(`${publicUrl}/btcpay/api-keys/authorize?${asked}`);
    await desk.page.getByText('wants to take payments for').waitFor();
    await shoot(desk.page, 'pairing');

    const owner = { merchantId: app.merchant.merchantId, mode: 'test' as const };
    const connect = (platform: 'woocommerce' | 'prestashop', name: string, origin: string) =>
      ctx.db.begin((tx) =>
        connectShop(ctx, tx, { ...owner, platform, name, origin, permissions: PLATFORM_PERMISSIONS[platform], createdBy: 'Olga Owner' }),
      );
    await connect('prestashop', 'tea.example', 'https://tea.example');
    await connect('woocommerce', 'Corner Coffee shop', 'https://shop.example');
    await desk.page.goto(`${publicUrl}/dashboard/test/shops`);
    await desk.page.getByText('Corner Coffee shop').first().waitFor();
    await shoot(desk.page, 'shops');
    await desk.page.getByRole('button', { name: 'Connect a shop' }).click();
    await desk.page.getByLabel('Platform').selectOption('prestashop');
    await desk.page.getByLabel('Name', { exact: true }).fill('tea.example');
    await shoot(desk.page, 'connect');
    await desk.page.getByRole('button', { name: 'Create key' }).click();
    await desk.page.getByText('Enter this in your shop').waitFor();
    await shoot(desk.page, 'key');
  } finally {
    await browser.close();
    await app.stop();
  }
}
