/** Shops when the service is killed at any moment: what each shop receives about an order stays legal and in order, and complete. */
import assert from 'node:assert/strict';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { after, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { eventually } from '../kit/app.ts';
import { startService } from '../kit/service.ts';
import { shopClient } from '../kit/shop-flows.ts';

const KILLS = process.env.FLORIN_LONG ? 40 : 2;
const ORDERS = process.env.FLORIN_LONG ? 200 : 16;
const EXPECTED = ['InvoiceCreated', 'InvoiceReceivedPayment', 'InvoiceProcessing', 'InvoicePaymentSettled', 'InvoiceSettled'];

test('a killed service sends each shop every event of its orders, and never an older one after a newer one', async () => {
  const taken = new Map<string, string[]>();
  const shop = createServer(async (request, reply) => {
    const parts: Buffer[] = [];
    for await (const part of request) parts.push(part as Buffer);
    const { invoiceId, type } = JSON.parse(Buffer.concat(parts).toString());
    // A shop takes its time, so that kills hit requests on their way.
    await sleep(10);
    taken.set(invoiceId, [...(taken.get(invoiceId) ?? []), type]);
    reply.writeHead(200).end();
  });
  await new Promise<void>((resolve) => shop.listen(0, '127.0.0.1', resolve));
  const service = await startService({ mode: 'test', environment: { PLANS: '{"enterprise":{"per_minute":0}}' } });
  after(async () => {
    await service.destroy();
    shop.close();
    shop.closeAllConnections();
  });
  const connected = await service.florin(
    ...['shop', 'connect', '--merchant', service.merchantId, '--mode', 'test', '--platform', 'magento'],
  );
  assert.deepEqual(Object.keys(connected), ['api_key', 'store_id', 'url']);
  assert.equal(connected.url, `${service.url}/btcpay`);
  const call = shopClient(connected.url, connected.api_key);
  const url = `http://127.0.0.1:${(shop.address() as AddressInfo).port}/webhook`;
  const webhook = await call('POST', `/api/v1/stores/${connected.store_id}/webhooks`, { url, authorizedEvents: { everything: true } });
  assert.equal(webhook.status, 200, webhook.text);
  const { sql } = service.database.db;
  const ids: string[] = [];
  for (let kill = 0; kill < KILLS; kill++) {
    for (let i = 0; i < ORDERS / KILLS; i++) {
      const { json } = await call('POST', '/api/v1/invoices', { amount: '25', currency: 'USD', metadata: { orderId: `${kill}-${i}` } });
      ids.push(json.id);
      const played = await service.test.post(`/v1/test/payments/${json.id}/simulate`, { scenario: 'success', currency: 'BTC' });
      assert.equal(played.status, 200, played.text);
    }
    await sleep(150 * (kill + 1));
    await service.end('SIGKILL');
    // The leases of a killed process end after a minute; here, at once.
    await sql`update deliveries set leased_until = null where state = 'pending'`;
    await service.start();
  }
  await eventually(
    async () => ids.filter((id) => !taken.get(id)?.includes('InvoiceSettled')),
    (left) => left.length === 0,
    120_000,
  );
  for (const id of ids) {
    // A request whose answer was lost arrives again, before anything later.
    const events = taken.get(id)!.filter((type, i, all) => type !== all[i - 1]);
    assert.deepEqual(events, EXPECTED, `${id}: ${taken.get(id)}`);
  }
});
