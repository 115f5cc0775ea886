/** Orders of shops that are paid in part, or too late, with real coins. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { openLiveShop } from '../kit/live-shop.ts';

test('orders that are paid in parts, too little or too late: never settled before the merchant accepts the money', async (t) => {
  const { node, service, call, order, read, until, typesOf } = await openLiveShop(t);
  const stateOf = async (id: string) => {
    const { status, additionalStatus } = await read(id);
    return `${status} ${additionalStatus}`;
  };
  /** The merchant accepts what arrived, by the button of the plugin. */
  const accept = async (id: string) => {
    const marked = await call('POST', `/invoices/${id}/status`, { status: 'Settled' });
    assert.equal(marked.status, 200, marked.text);
  };
  await t.test('two parts', async () => {
    const { id, address } = await order('2001');
    await node.pay(address, '0.01');
    await until(id, 'InvoiceReceivedPayment');
    assert.equal(await stateOf(id), 'New PaidPartial');
    await node.pay(address, '0.015');
    await until(id, 'InvoiceProcessing');
    await node.mine(2);
    await until(id, 'InvoiceSettled');
    const types = typesOf(id);
    assert.deepEqual(types.slice(0, 4), ['InvoiceCreated', 'InvoiceReceivedPayment', 'InvoiceReceivedPayment', 'InvoiceProcessing']);
    assert.deepEqual(types.slice(4), ['InvoicePaymentSettled', 'InvoicePaymentSettled', 'InvoiceSettled']);
    assert.equal(await stateOf(id), 'Settled None');
  });
  await t.test('too little', async () => {
    const { id, address } = await order('2002');
    await node.pay(address, '0.01');
    await until(id, 'InvoiceReceivedPayment');
    await service.ageToDeadline(id);
    await node.mine(2);
    // A payment with money in it gets more time once; after that it ends.
    await service.looked('BTC');
    await service.ageToDeadline(id);
    await node.mine(1);
    const [expired] = (await until(id, 'InvoiceExpired')).filter(({ event }) => event.type === 'InvoiceExpired');
    assert.equal(expired!.event.partiallyPaid, true);
    assert.equal(await stateOf(id), 'Expired PaidPartial');
    assert.ok(!typesOf(id).includes('InvoiceSettled'));
    await accept(id);
    const settled = (await until(id, 'InvoiceSettled')).at(-1)!.event;
    assert.deepEqual([settled.type, settled.manuallyMarked], ['InvoiceSettled', true]);
    assert.equal(await stateOf(id), 'Settled Marked');
  });
  await t.test('too late', async () => {
    const { id, address } = await order('2003');
    await service.ageToDeadline(id);
    await node.mine(1);
    const [expired] = (await until(id, 'InvoiceExpired')).filter(({ event }) => event.type === 'InvoiceExpired');
    assert.equal(expired!.event.partiallyPaid, false);
    await node.pay(address, '0.025');
    const received = (await until(id, 'InvoiceReceivedPayment')).at(-1)!.event;
    assert.equal(received.afterExpiration, true);
    await node.mine(6);
    await service.looked('BTC');
    assert.equal(await stateOf(id), 'Expired PaidPartial', 'shops deliver what is paid late, so it is never called that');
    assert.deepEqual(typesOf(id), ['InvoiceCreated', 'InvoiceExpired', 'InvoiceReceivedPayment']);
    await accept(id);
    await until(id, 'InvoiceSettled');
    assert.deepEqual(typesOf(id).slice(3), ['InvoiceProcessing', 'InvoiceSettled']);
    assert.equal(await stateOf(id), 'Settled Marked');
  });
});
