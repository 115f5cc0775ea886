/** A payment link that many customers open at once, such as at a stand: all from one address, as behind a proxy, or each from its own. */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { asIfFollowed, startTestApp, type TestApp } from '../kit/app.ts';
import { giveWallet } from '../kit/shop.ts';

const CUSTOMERS = 60;
let app: TestApp;
let link: string;
before(async () => {
  // Nothing is paid, so no node is needed: it makes Bitcoin a configured coin.
  const node = { BTC_NODE_URL: 'http://florin:test@127.0.0.1:1', LOG_LEVEL: 'fatal' };
  app = await startTestApp({ ...node, TRUSTED_PROXIES: '127.0.0.1' }, { roles: ['api', 'worker'] });
  await giveWallet(app, 'BTC');
  await asIfFollowed(app, 'BTC');
  link = (await app.live.post('/v1/payment_links', { name: 'Ticket', amount: '25.00' })).json.id;
});
after(() => app?.stop());

const ask = async (path: string, ip: string, form?: Record<string, string>) => {
  const reply = await fetch(app.url + path, {
    ...{ redirect: 'manual', headers: { 'x-forwarded-for': ip } },
    ...(form && { method: 'POST', body: new URLSearchParams(form) }),
  });
  const { headers } = reply;
  return { status: reply.status, location: headers.get('location'), wait: headers.get('retry-after'), text: await reply.text() };
};
const tokenIn = (text: string): string => /name="token" value="([^"]+)"/.exec(text)![1]!;
/** Opens the link. Returns the reply to its form. */
async function start(ip: string) {
  const { text } = await ask(`/link/${link}`, ip);
  return ask(`/link/${link}`, ip, { token: tokenIn(text), lang: 'en' });
}
/** The customer's way to an address to pay to. */
async function reach(ip: string): Promise<void> {
  const started = await start(ip);
  assert.equal(started.status, 303, started.text);
  const id = new URL(started.location!, app.url).searchParams.get('id')!;
  const { text } = await ask(`/pay?id=${id}`, ip);
  const chosen = await ask('/pay/select', ip, { id, token: tokenIn(text), currency: 'BTC' });
  assert.equal(chosen.status, 303, chosen.text);
  assert.match((await ask(`/pay?id=${id}`, ip)).text, /data-state="awaiting"/);
}

test('sixty customers behind one address all get an address to pay to', async () => {
  for (let i = 0; i < CUSTOMERS; i++) await reach('203.0.113.7');
});

test('so do sixty customers with addresses of their own', async () => {
  for (let i = 0; i < CUSTOMERS; i++) await reach(`198.51.100.${i}`);
});

test('a customer who is one too many has to wait, and keeps the form to try again', async () => {
  let refused = await start('192.0.2.1');
  for (let i = 0; i < 4 * CUSTOMERS && refused.status !== 429; i++) refused = await start('192.0.2.1');
  assert.equal(refused.status, 429);
  assert.match(refused.wait ?? '', /^\d+$/);
  assert.match(refused.text, /data-state="link"[\s\S]*role="alert">Too many attempts\. Wait a minute, then try again\.<[\s\S]*id="start"/);
});
