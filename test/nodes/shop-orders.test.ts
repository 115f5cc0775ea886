/** Orders of shops that are paid with real coins: the events follow real confirmations, and the recorded flows of plugins are replayed. */
// Invariant: Everything that plugins do in the recordings works, with simulated payments and with real coins.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type LiveShop, openLiveShop } from '../kit/live-shop.ts';
import { replayFlow } from '../kit/replay-flow.ts';
import { PLUGIN_FLOWS, readFlow } from '../kit/shop-flows.ts';

test('orders of shops that are paid on a real chain', async (t) => {
  const shop = await openLiveShop(t);
  await t.test('processing when the payment is seen, settled when it is confirmed', () => followOrder(shop));
  for (const [name, platform] of [...PLUGIN_FLOWS, ['coinbase-commerce-woocommerce-1.4.1', 'coinbase-commerce'] as const])
    await t.test(`the recorded flow ${name}: calls, webhooks and what the plugin reads`, async () => {
      await replayFlow(await shop.connectFlow(platform), readFlow(name));
    });
});

async function followOrder({ node, service, call, order, read, until, typesOf }: LiveShop): Promise<void> {
  const { id, address } = await order('1001');
  const txid = await node.pay(address, '0.025');
  await until(id, 'InvoiceProcessing');
  const processing = await read(id);
  assert.deepEqual([processing.status, processing.additionalStatus, processing.paidAmount], ['Processing', 'None', '25.00']);
  await node.mine(1);
  await service.looked('BTC');
  assert.equal((await read(id)).status, 'Processing', 'one of two confirmations');
  await node.mine(1);
  const hits = await until(id, 'InvoiceSettled');
  assert.deepEqual(typesOf(id), [
    'InvoiceCreated',
    'InvoiceReceivedPayment',
    'InvoiceProcessing',
    'InvoicePaymentSettled',
    'InvoiceSettled',
  ]);
  const [, received, , confirmed, settled] = hits.map(({ event }) => event);
  for (const { payment, paymentMethodId, afterExpiration } of [received, confirmed]) {
    assert.match(payment.id, new RegExp(`^${txid}-\\d+$`));
    assert.deepEqual([payment.value, payment.destination, paymentMethodId, afterExpiration], ['0.02500000', address, 'BTC-CHAIN', false]);
  }
  assert.deepEqual([received.payment.status, confirmed.payment.status], ['Processing', 'Settled']);
  assert.deepEqual([settled.overPaid, settled.manuallyMarked, settled.metadata], [false, false, { orderId: '1001' }]);
  const [method] = (await call('GET', `/invoices/${id}/payment-methods`)).json;
  assert.deepEqual([method.totalPaid, method.due, method.payments[0].id], ['0.02500000', '0.00000000', received.payment.id]);
  assert.deepEqual([(await read(id)).status, (await read(id)).additionalStatus], ['Settled', 'None']);
}
