/**
 * The pictures of the guides about shops, taken from the running product: `npm run screenshots -- shops` writes docs/images/shops/. Each
 * must stay small, because every install serves them. It also writes those of the plugin's page in the directory of WordPress, which go
 * into `assets` there: https://developer.wordpress.org/plugins/wordpress-org/how-your-plugin-assets-work/
 */
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import type { Browser, Page } from 'playwright-core';
import { connectShop, PLATFORM_PERMISSIONS } from '../src/shops/shop-keys.ts';
import { openTab } from '../test/kit/browser.ts';
import { shopClient } from '../test/kit/shop-flows.ts';
import { startWordPress } from '../test/kit/wordpress.ts';
import { atDesk, type Desk } from './pictures.ts';

const OUT = join(import.meta.dirname, '../docs/images/shops');
const MOST_BYTES = 60_000;
const DIRECTORY = join(import.meta.dirname, '../plugins/woocommerce/directory');
/** The pictures that the plugin's page has too, in the order of its readme.txt. */
const IN_DIRECTORY = ['modal', 'woocommerce-settings', 'own-plugin'];

async function shoot(page: Page, name: string): Promise<void> {
  const session = await page.context().newCDPSession(page);
  const { data } = (await session.send('Page.captureScreenshot', { format: 'webp', quality: 80 })) as { data: string };
  const bytes = Buffer.from(data, 'base64');
  if (bytes.length > MOST_BYTES) throw new Error(`${name}.webp has ${bytes.length} bytes`);
  writeFileSync(join(OUT, `${name}.webp`), bytes);
  process.stdout.write(`docs/images/shops/${name}.webp: ${Math.round(bytes.length / 1000)} kB\n`);
  const place = IN_DIRECTORY.indexOf(name);
  if (place >= 0) await page.screenshot({ path: join(DIRECTORY, `screenshot-${place + 1}.png`) });
}

/** The icon and the banner of the plugin's page, each also for screens of twice the density. */
async function drawPlugin(browser: Browser): Promise<void> {
  const logo = readFileSync(join(import.meta.dirname, '../deploy/templates/dokploy/florin/florin.svg'), 'utf8');
  const banner = `<div style="box-sizing:border-box; width:772px; height:250px; padding:0 56px; display:flex; align-items:center; gap:36px;
    background:#0a7440; color:#fff; font:22px/1.5 sans-serif"><div style="flex:none">${logo.replace('width="256" height="256"', 'width="150"')}</div>
    <div><b style="font-size:40px">Florin Payments</b><br>Bitcoin, Ethereum, stablecoins and more,<br>paid to your own wallet</div></div>`;
  const draw = async (name: string, html: string, [width, height]: [number, number], scale: number) => {
    const page = await browser.newPage({ viewport: { width, height }, deviceScaleFactor: scale });
    await page.setContent(`<body style="margin:0">${html}</body>`);
    await page.screenshot({ path: join(DIRECTORY, `${name}-${width * scale}x${height * scale}.png`) });
    await page.close();
  };
  for (const scale of [1, 2]) {
    await draw('icon', logo.replace('width="256" height="256"', 'width="128" height="128" style="display:block"'), [128, 128], scale);
    await draw('banner', banner, [772, 250], scale);
  }
}

/** The checkout of a made-up shop that opens the payment page over itself with the script of the plugin. */
async function shootModal(browser: Browser, publicUrl: string, connect: (origin: string) => Promise<{ apiKey: string }>): Promise<void> {
  let html = '';
  const shop = createServer((_, reply) => void reply.setHeader('content-type', 'text/html; charset=utf-8').end(html));
  await new Promise<void>((resolve) => shop.listen(0, '127.0.0.1', resolve));
  const origin = `http://127.0.0.1:${(shop.address() as AddressInfo).port}`;
  const body = {
    amount: '30.00',
    currency: 'USD',
    metadata: { orderId: '1042' },
    checkout: { redirectURL: `${origin}/thanks` },
  };
  const { apiKey } = await connect(origin);
  const { json: invoice, status, text } = await shopClient(`${publicUrl}/btcpay`, apiKey)('POST', '/api/v1/invoices', body);
  if (status !== 200) throw new Error(text);
  html = `<!doctype html><html lang="en"><head><title>Checkout</title><link rel="icon" href="data:,"><style>
    body { max-width: 900px; margin: 40px auto; font: 17px/1.6 sans-serif; color: #222 } p { display: flex; justify-content: space-between; border-bottom: 1px solid #ddd }
    button { padding: 12px 24px; border: 0; background: #5b3a1e; color: #fff; font: inherit }</style></head>
    <body><h1>Corner Coffee</h1><h2>Your order</h2><p><span>House blend, 1 kg</span><span>$24.00</span></p><p><span>Shipping</span><span>$6.00</span></p>
    <p><b>Total</b><b>$30.00</b></p><button>Place order</button><script src="${publicUrl}/btcpay/modal/btcpay.js"></script>
    <script>btcpay.showInvoice('${invoice.id}')</script></body></html>`;
  const customer = await openTab(browser, 'about:blank', { width: 1100 });
  await customer.page.setViewportSize({ width: 1100, height: 760 });
  await customer.page.goto(`${origin}/checkout`);
  const frame = customer.page.frameLocator('iframe');
  await frame.getByText('Litecoin').click();
  await frame.locator('#c-continue').click();
  await frame.locator('main[data-state="awaiting"]').waitFor();
  await shoot(customer.page, 'modal');
  await customer.close();
  shop.close();
  shop.closeAllConnections();
}

/**
 * Florin's own plugins: they connect with a secret key, which is shown once. A shop with the plugin for WooCommerce is then connected, and
 * shows its settings. The parts of WordPress around them are those of the plugin's tests.
 */
async function shootOwnPlugin({ page, publicUrl, app }: Desk): Promise<void> {
  await page.goto(`${publicUrl}/dashboard/test/keys`);
  await page.getByRole('button', { name: 'Create key' }).click();
  await page.getByLabel('Name').fill('Corner Coffee shop');
  await page.getByRole('dialog').getByRole('button', { name: 'Create key' }).click();
  await page.getByRole('dialog', { name: 'Your new secret key' }).waitFor();
  await shoot(page, 'secret-key');
  const shop = await startWordPress();
  try {
    const settings = { enabled: 'yes', server_url: publicUrl, api_key: app.merchant.keys.testSecret };
    await fetch(`${shop.url}/settings`, { method: 'POST', body: JSON.stringify(settings) });
    await page.goto(`${shop.url}/settings`);
    await page.getByText('Florin is connected in test mode').waitFor();
    await page.locator('input[type=text]').first().fill('https://pay.example');
    await shoot(page, 'woocommerce-settings');
  } finally {
    await shop.stop();
  }
  await app.app.ctx.db.sql`update endpoints set url = 'https://corner-coffee.example/?wc-api=florin'`;
  await page.goto(`${publicUrl}/dashboard/test/shops`);
  await page.getByText('corner-coffee.example').waitFor();
  await shoot(page, 'own-plugin');
}

export const shootShops = () =>
  atDesk({ width: 1_100, height: 760 }, async (desk) => {
    for (const folder of [OUT, DIRECTORY]) mkdirSync(folder, { recursive: true });
    await drawPlugin(desk.browser);
    const { app, publicUrl, browser, page } = desk;
    const { ctx } = app.app;
    await shootOwnPlugin(desk);
    const asked = new URLSearchParams([
      ...PLATFORM_PERMISSIONS.woocommerce.map((permission): [string, string] => ['permissions', permission]),
      ...[
        ['applicationName', 'Corner Coffee shop'] as [string, string],
        ['redirect', 'https://shop.example/?btcpay-settings-callback'] as [string, string],
      ],
    ]);
    await page.goto(`${publicUrl}/btcpay/api-keys/authorize?${asked}`);
    await page.getByText('wants to take payments for').waitFor();
    await shoot(page, 'pairing');

    const owner = { merchantId: app.merchant.merchantId, mode: 'test' as const };
    const connect = (platform: 'woocommerce' | 'prestashop', name: string, origin: string) =>
      ctx.db.begin((tx) =>
        connectShop(ctx, tx, { ...owner, platform, name, origin, permissions: PLATFORM_PERMISSIONS[platform], createdBy: 'Olga Owner' }),
      );
    await connect('prestashop', 'tea.example', 'https://tea.example');
    await connect('woocommerce', 'Corner Coffee shop', 'https://shop.example');
    await page.goto(`${publicUrl}/dashboard/test/shops`);
    await page.getByText('Corner Coffee shop').first().waitFor();
    await shoot(page, 'shops');
    await page.getByRole('button', { name: 'Connect a shop' }).click();
    await page.getByLabel('Platform').selectOption('prestashop');
    await page.getByLabel('Name', { exact: true }).fill('tea.example');
    await shoot(page, 'connect');
    await page.getByRole('button', { name: 'Create key' }).click();
    await page.getByText('Enter this in your shop').waitFor();
    await shoot(page, 'key');
    await shootModal(browser, publicUrl, (origin) => connect('woocommerce', 'Checkout', origin));
  });
