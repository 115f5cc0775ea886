/**
 * A service with one merchant whose name servers answer late or never. Runs in separate network and mount namespaces, where
 * /etc/resolv.conf names the server below. Prints the results of everything else in the meantime as JSON.
 */
import { lookup } from 'node:dns/promises';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { createMerchant } from '../../src/merchants/merchants.ts';
import { type Client, client, eventually, startTestApp } from './app.ts';
import { startNameServer } from './name-server.ts';
import { startReceiver } from './receiver.ts';

const ENDPOINTS = 16;
const PAYMENTS = 40;
let isSlow = false;
const names = await startNameServer(
  async (name) => {
    if (!name.startsWith('slow')) return ['127.0.0.1'];
    if (!isSlow) return ['11.11.11.11'];
    if (/[02468]\./.test(name)) return null;
    await sleep(2_000);
    return [];
  },
  { port: 53 },
);
const service = await startTestApp();
const receiver = await startReceiver();
const prices = createServer((_, reply) => reply.end('a price')).listen(0, '127.0.0.1');

const addEndpoint = async (merchant: Client, url: string) => {
  const made = await merchant.post('/v1/webhook_endpoints', { url, events: ['payment.created'] });
  if (made.status !== 201) throw new Error(made.text);
};
const pay = async (merchant: Client) => {
  const payments = Array.from({ length: PAYMENTS }, () =>
    merchant.post('/api/payment/create/simple', { amount_usd: 25, return_url: 'https://shop.example/' }),
  );
  for (const { status, text } of await Promise.all(payments)) if (status !== 201) throw new Error(text);
};
for (let i = 0; i < ENDPOINTS; i++) await addEndpoint(service.test, `https://slow${i}.example/hook`);
const other = client(service.url, (await createMerchant(service.app.ctx, { name: 'Other shop', plan: 'enterprise' })).keys.testSecret);
await addEndpoint(other, receiver.url.replace('127.0.0.1', 'fast.example'));

isSlow = true;
const before = names.asked.length;
await pay(service.test);
await eventually(
  async () => new Set(names.asked.slice(before).filter((name) => name.startsWith('slow'))).size,
  (count) => count >= 2,
);
await pay(other);
const inTime = <T>(work: Promise<T>): Promise<T | 'never'> => Promise.race([work, sleep(60_000, 'never' as const)]);
const [found, price, taken] = await Promise.all([
  inTime(lookup('price.example').then(({ address }) => address)),
  inTime(
    service.app.ctx.outgoing
      .request({ url: `http://price.example:${(prices.address() as AddressInfo).port}/`, timeoutMs: 120_000, maxReplyBytes: 100 })
      .then(({ body }) => Buffer.from(body).toString()),
  ),
  inTime(
    eventually(
      async () => receiver.received.length,
      (count) => count === PAYMENTS,
      120_000,
    ),
  ),
]);
process.stdout.write(JSON.stringify({ found, price, taken }));
if (found !== 'never' && taken !== 'never') await service.stop();
process.exit(0);
