/** Small entrances: what they let through and what they refuse. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer, type IncomingMessage, request } from 'node:http';
import type { AddressInfo } from 'node:net';
import { type TestContext, test } from 'node:test';
import { startTestApp } from '../kit/app.ts';

/** A proxy on this machine that does not forward the client's address; `host`: whether it forwards the requested name. */
async function silentProxy(t: TestContext, url: string, { host }: { host: boolean }): Promise<string> {
  const proxy = createServer((incoming, reply) => {
    const headers = { ...incoming.headers, host: host ? 'pay.example' : new URL(url).host };
    request(url + incoming.url, { headers }, (answer) => {
      reply.writeHead(answer.statusCode!);
      answer.pipe(reply);
    }).end();
  }).listen(0, '127.0.0.1');
  await once(proxy, 'listening');
  t.after(() => proxy.close());
  return `http://127.0.0.1:${(proxy.address() as AddressInfo).port}`;
}
const statusOf = async (url: string, headers: Record<string, string> = {}): Promise<number> => {
  const [reply] = (await once(request(url, { headers }).end(), 'response')) as [IncomingMessage];
  reply.resume();
  return reply.statusCode!;
};

test('metrics stay inside the install, also behind a local proxy that does not forward client addresses', async (t) => {
  const outside = await startTestApp({ PUBLIC_URL: 'https://pay.example', TRUSTED_PROXIES: '127.0.0.1', METRICS_TOKEN: 'figures' });
  t.after(() => outside.stop());
  for (const host of [true, false]) {
    const proxy = await silentProxy(t, outside.url, { host });
    assert.equal(await statusOf(`${proxy}/metrics`), 401);
    assert.match(await (await fetch(`${proxy}/metrics`)).text(), /METRICS_TOKEN/);
    assert.equal(await statusOf(`${proxy}/metrics`, { authorization: 'Bearer figures' }), 200);
  }
  const inside = await startTestApp();
  t.after(() => inside.stop());
  assert.equal(await statusOf(`${inside.url}/metrics`), 200);
  assert.equal(await statusOf(`${await silentProxy(t, inside.url, { host: true })}/metrics`), 401);
  for (const name of ['forwarded', 'via', 'x-real-ip', 'x-forwarded-for', 'x-forwarded-proto', 'x-forwarded-host'])
    assert.equal(await statusOf(`${inside.url}/metrics`, { [name]: '1' }), 401, name);
});

test('a test payment returns to https, or over http only to this machine', async (t) => {
  const app = await startTestApp();
  t.after(() => app.stop());
  const create = (return_url: string) => app.test.post('/api/payment/create/simple', { amount_usd: 25, return_url });
  for (const url of [
    'http://localhost:4000/thanks',
    'http://shop.localhost/',
    'http://127.0.0.1:4000/',
    'http://[::1]:4000/',
    'https://shop.example/',
  ])
    assert.equal((await create(url)).status, 201, url);
  for (const url of [
    'http://shop.example/',
    'http://10.0.0.7/',
    'http://localhost.example/',
    'http://127.0.0.1.example/',
    'http://xlocalhost/',
  ]) {
    const { status, json } = await create(url);
    assert.deepEqual([status, json.error.code, json.error.param], [400, 'url_invalid', 'return_url'], url);
  }
});
