/** Nodes and providers that are onion services: reached through the proxy alone, also without TLS. */
import assert from 'node:assert/strict';
import { createServer } from 'node:net';
import { after, afterEach, before, test } from 'node:test';
import { connect } from 'node:tls';
import type { LightningKind } from '../../src/lightning/access.ts';
import { eventually } from '../kit/app.ts';
import { type LightningShop, ok, startLightningShop } from '../kit/lightning-shop.ts';
import { startSocksProxy, type TestProxy } from '../kit/socks-proxy.ts';

const ONION = `${'abcdefghijklmnopqrstuvwxyz234567'.repeat(2).slice(0, 56)}.onion`;
let shop: LightningShop;
let proxy: TestProxy;
/** An onion service speaks plain HTTP at port 80, and TLS at others. */
const plain = createServer((socket) => {
  const front = connect({ port: Number(new URL(shop.fronts.url).port), host: '127.0.0.1', rejectUnauthorized: false });
  socket.on('error', () => {}).on('close', () => front.destroy());
  front.on('error', () => {}).on('close', () => socket.destroy());
  socket.pipe(front).pipe(socket);
});
before(async () => {
  await new Promise<void>((resolve) => plain.listen(0, '127.0.0.1', resolve));
  const { port: plainPort } = plain.address() as { port: number };
  proxy = await startSocksProxy({ method: 2, where: (_host, port) => (port === 80 ? plainPort : Number(new URL(shop.fronts.url).port)) });
  shop = await startLightningShop({ P2P_PROXY: proxy.url });
});
after(async () => {
  await shop?.stop();
  await proxy?.close();
  plain.close();
});
afterEach(() => shop.fronts.behave());

for (const [kind, port, access] of [
  ['lnd', 8080, { address: `https://${ONION}:8080` }],
  ['phoenixd', 80, { address: `http://${ONION}` }],
  ['address', 80, { address: `shop@${ONION}` }],
  ['nwc', 80, {}],
] as const satisfies readonly (readonly [LightningKind, number, object])[])
  test(`a payment by an onion service (${kind}) is completed, and everything goes through the proxy`, async () => {
    proxy.asked.length = 0;
    const own = (text: string) => text.replaceAll(shop.fronts.url, `http://${ONION}`);
    shop.fronts.behave(({ status, json }) => ({ status, json: typeof json === 'string' ? json : JSON.parse(own(JSON.stringify(json))) }));
    const credential = shop.fronts.nwc.replace(/relay=[^&]*/, `relay=${encodeURIComponent(`ws://${ONION}`)}`);
    await shop.use(kind, kind === 'nwc' ? { credential } : access);
    const { id, invoice } = await shop.ask();
    shop.pair.pay(invoice);
    await shop.reached(id, 'completed');
    assert.ok(proxy.asked.length >= 3);
    assert.deepEqual([...new Set(proxy.asked)], [`${ONION}:${port}`], 'the name stays a name');
    assert.deepEqual([...new Set(proxy.users)], [ONION], 'one circuit for it');
  });

test('plain HTTP stays refused for every other host', async () => {
  await assert.rejects(shop.use('lnd', { address: shop.fronts.url.replace('https', 'http') }), /must be a URL such as https/);
});

test('webhooks go to onion services as well', async () => {
  const made = ok(await shop.app.live.post('/v1/webhook_endpoints', { url: `http://${ONION}/hook`, events: ['payment.created'] }), 201);
  const id = await shop.create();
  const hook = await eventually(
    async () => shop.fronts.asked.find(({ path, body }) => path === '/hook' && body.data.id === id),
    (found) => found !== undefined,
  );
  assert.equal(hook!.body.type, 'payment.created');
  ok(await shop.app.live.delete(`/v1/webhook_endpoints/${made.id}`));
});
