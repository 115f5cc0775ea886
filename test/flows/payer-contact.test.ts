/** How customers reach the merchant from each page that tells them to: the support contact, or else the merchant's website. */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { changeSettings } from '../../src/merchants/merchants.ts';
import { eventually, startTestApp, type TestApp } from '../kit/app.ts';

let app: TestApp;
before(async () => {
  app = await startTestApp();
  await changeSettings(app.app.ctx, { merchantId: app.merchant.merchantId, settings: { website: 'https://shop.example/' } });
});
after(() => app?.stop());

const textOf = async (path: string): Promise<string> => (await fetch(app.url + path)).text();
const WEBSITE = /<a(?: class="main")? href="https:\/\/shop\.example\/" rel="noopener" target="_blank">Contact Test shop<\/a>/;

/** A test payment without a return URL, so that nothing else on its page leads to the merchant. */
async function paymentAfter(scenario: string, { seconds = 0, currency = 'BTC' } = {}): Promise<string> {
  const { json } = await app.test.post('/v1/payments', { amount: '97.00', currency: 'USD' });
  await app.test.post(`/v1/test/payments/${json.id}/simulate`, { scenario, currency });
  if (seconds > 0) await app.test.post('/v1/test/clock/advance', { payment_id: json.id, seconds });
  return json.id;
}
const ENDS: readonly [state: string, scenario: string, more?: { seconds?: number; currency?: string }][] = [
  ['completed', 'success'],
  ['overpaid', 'overpaid'],
  ['expired', 'expired'],
  ['expired_partial', 'failed'],
  ['late', 'late'],
  ['failed', 'replaced', { seconds: 90_000 }],
  ['reversed', 'reversed'],
  ['wrong_network', 'wrong_network', { currency: 'ETH' }],
  ['wrong_token', 'wrong_token', { currency: 'ETH' }],
];

for (const [state, scenario, more] of ENDS)
  test(`a page in the state ${state} leads to the website of a merchant without a support contact`, async () => {
    const id = await paymentAfter(scenario, more);
    const page = await eventually(
      () => textOf(`/pay?id=${id}`),
      (text) => text.includes(`data-state="${state}"`),
    );
    assert.match(page, WEBSITE);
  });

test('so do a canceled payment, a link that cannot be paid, and a refund whose link has ended', async () => {
  const { ctx } = app.app;
  const { merchantId } = app.merchant;
  const { json } = await app.test.post('/v1/payments', { amount: '97.00', currency: 'USD' });
  await app.test.post(`/v1/payments/${json.id}/cancel`, {});
  const canceled = await textOf(`/pay?id=${json.id}`);
  assert.match(canceled, /data-state="cancelled"/);
  assert.match(canceled, WEBSITE);

  const { id } = (await app.live.post('/v1/payment_links', { name: 'Mug', amount: '25.00' })).json;
  const unavailable = await textOf(`/link/${id}`);
  assert.match(unavailable, /data-state="unavailable"/);
  assert.match(unavailable, WEBSITE);

  await changeSettings(ctx, { merchantId, settings: { supportContact: 'help@shop.example' } });
  const page = await textOf(`/pay?id=${await paymentAfter('failed')}`);
  assert.match(page, /href="mailto:help@shop\.example/);
  assert.doesNotMatch(page, WEBSITE);
});
