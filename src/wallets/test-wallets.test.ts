import assert from 'node:assert/strict';
import { mock, test } from 'node:test';
import { HDKey } from '@scure/bip32';
import { testDeposit } from './test-wallets.ts';

test('the address of a test payment is derived once, however often the payment is read', () => {
  const of = { merchantId: 'mer_1', paymentId: 'pay_1', coin: 'BTC' } as const;
  const first = testDeposit(of);
  const derive = mock.method(HDKey.prototype, 'deriveChild');
  try {
    for (let read = 0; read < 100; read++) assert.deepEqual(testDeposit(of), first);
    assert.equal(derive.mock.callCount(), 0);
    assert.notEqual(testDeposit({ ...of, paymentId: 'pay_2' }).address, first.address);
    assert.equal(derive.mock.callCount(), 1);
  } finally {
    derive.mock.restore();
  }
});
