/** The pictures of the README, taken from the running product with made-up sales: `npm run screenshots` writes docs/images/. */
import { mkdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import type { TestApp } from '../test/kit/app.ts';
import { openTab } from '../test/kit/browser.ts';
import { startTestServer } from '../test/kit/database.ts';
import { atDesk } from './pictures.ts';
import { shootShops } from './shop-screenshots.ts';

const OUT = join(import.meta.dirname, '../docs/images');
const DAY_SECONDS = 86_400;
/** Sales of the last days, oldest first: coin and US dollars. */
const SALES: readonly (readonly [coin: string, usd: number])[][] = [
  [
    ['btc', 120],
    ['ltc', 45],
  ],
  [
    ['eth', 80],
    ['doge', 25],
    ['btc', 64],
  ],
  [['btc', 210]],
  [
    ['ltc', 39],
    ['eth', 150],
    ['dash', 30],
  ],
  [
    ['btc', 95],
    ['eth', 42],
    ['ltc', 60],
    ['doge', 18],
  ],
  [
    ['eth', 175],
    ['btc', 88],
  ],
  [
    ['btc', 240],
    ['dash', 55],
    ['eth', 99],
  ],
  [
    ['ltc', 72],
    ['btc', 130],
    ['eth', 61],
  ],
  [
    ['btc', 310],
    ['eth', 120],
  ],
  [
    ['doge', 35],
    ['btc', 145],
    ['ltc', 90],
    ['eth', 210],
  ],
];

/** Pays in test mode on a test clock that moves a day at a time, then moves the daily totals back so that the last day is today. */
async function sell({ app, test }: TestApp): Promise<void> {
  for (const [day, sales] of SALES.entries()) {
    const ids: string[] = [];
    for (const [i, [coin, usd]] of sales.entries()) {
      const reply = await test.post('/api/payment/create/simple', {
        amount_usd: usd,
        return_url: 'https://shop.example/thanks',
        invoice_id: `A-${1001 + day * 10 + i}`,
      });
      await test.post(`/v1/test/payments/${reply.json.id}/simulate`, { scenario: 'success', currency: coin.toUpperCase() });
      ids.push(reply.json.id);
    }
    const left = new Set(ids);
    for (let minute = 0; left.size > 0; minute++) {
      if (minute === 60) throw new Error(`Not completed within an hour of the test clock: ${[...left].join(', ')}`);
      await test.post('/v1/test/clock/advance', { seconds: 60 });
      for (const id of left) if ((await test.get(`/api/payment/${id}`)).json.status === 'completed') left.delete(id);
    }
    if (day < SALES.length - 1) await test.post('/v1/test/clock/advance', { seconds: DAY_SECONDS });
  }
  const { sql } = app.ctx.db;
  const days = SALES.length - 1;
  // One step at a time would meet the next day's rows under their key.
  await sql`with moved as (delete from payment_quarters returning *)
    insert into payment_quarter_deltas (merchant_id, mode, quarter, measure, coin, payments, usd_cents, seconds)
    select merchant_id, mode, quarter, measure, coin, payments, usd_cents, seconds from moved`;
  await sql`delete from payment_days`;
  await sql`update payment_quarter_deltas set quarter = quarter - ${days}::int * interval '24 hours'`;
}

const take = () =>
  atDesk({ width: 1_280, height: 844 }, async ({ app, publicUrl, browser, page }) => {
    mkdirSync(OUT, { recursive: true });
    await page.getByRole('button', { name: 'Dismiss' }).click();
    await sell(app);
    await page.goto(`${publicUrl}/dashboard/test/home?range=30d`);
    await page.getByRole('img', { name: /volume/i }).waitFor();
    await page.screenshot({ path: join(OUT, 'dashboard.png') });
    const phone = await openTab(browser, 'about:blank', { width: 390 });
    await phone.page.context().addCookies(await page.context().cookies());
    const preview = new URLSearchParams({ state: 'awaiting BTC', accent: '#0f5bd7' });
    await phone.page.goto(`${publicUrl}/dashboard/api/live/settings/checkout/preview?${preview}`);
    await phone.page.locator('main[data-state]').waitFor();
    await phone.page.setViewportSize({ width: 390, height: 1_060 });
    await phone.page.screenshot({ path: join(OUT, 'payment-page.png') });
    for (const name of ['dashboard', 'payment-page'])
      process.stdout.write(`docs/images/${name}.png: ${Math.round(statSync(join(OUT, `${name}.png`)).size / 1000)} kB\n`);
  });

const server = await startTestServer();
process.env.FLORIN_TEST_DATABASE = server.host;
try {
  if (process.argv.includes('shops')) await shootShops();
  else await take();
} finally {
  await server.stop();
}
