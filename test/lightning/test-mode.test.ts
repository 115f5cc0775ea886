/** Lightning in test mode: a simulated invoice, whose scenarios need no node and no provider. */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { eventually, type Reply, startTestApp, type TestApp } from '../kit/app.ts';

let app: TestApp;
before(async () => {
  app = await startTestApp();
});
after(() => app?.stop());
const ok = (reply: Reply, status = 200): any => {
  assert.equal(reply.status, status, reply.text);
  return reply.json;
};
async function play(scenario: string): Promise<string> {
  const body = { amount_usd: 9.7, return_url: 'https://shop.example/', payment_address: `test_lightning_${scenario}` };
  const id: string = ok(await app.test.post('/api/payment/create/simple', body), 201).transaction_id;
  await fetch(`${app.url}/pay?id=${id}`);
  return id;
}
const detail = async (id: string): Promise<any> => ok(await app.test.get(`/api/payment/${id}`));

for (const [scenario, status, exception, received] of [
  ['success', 'completed', null, '0.00010000'],
  ['overpaid', 'completed', 'overpaid', '0.00015000'],
  ['late', 'expired', 'late', '0.00010000'],
  ['expired', 'expired', null, '0.00000000'],
] as const)
  test(`test_lightning_${scenario} ends as ${status}${exception ? `, ${exception}` : ''}`, async () => {
    const id = await play(scenario);
    const done = await eventually(
      () => detail(id),
      (one) => one.status === status && one.exception === exception,
    );
    assert.deepEqual([done.currency, done.network, done.amount_received], ['BTC', 'lightning', received]);
    assert.equal(done.payment_address, `test_lightning_${scenario}`);
    if (status === 'completed') assert.deepEqual([done.verified_by, done.confirmations, done.confirmations_required], ['preimage', 0, 0]);
  });

test('test_lightning_held is called paid without proof for ten minutes, and then completes', async () => {
  const id = await play('held');
  const held = await eventually(
    () => detail(id),
    (one) => one.status === 'processing',
  );
  assert.match(held.hold_reason, /preimage/);
  ok(await app.test.post('/v1/test/clock/advance', { seconds: 601, payment_id: id }));
  await eventually(
    () => detail(id),
    (one) => one.status === 'completed',
  );
});

test('a simulated invoice that is paid never says that a proof is missing', async () => {
  const id = await play('success');
  const seen = new Set<string>();
  const done = await eventually(
    async () => {
      const one = await detail(id);
      seen.add(`${one.status} ${one.hold_reason} ${one.transfers.length}`);
      return one;
    },
    (one) => one.status === 'completed',
  );
  assert.equal(done.verified_by, 'preimage');
  assert.ok(
    [...seen].every((state) => ['pending null 0', 'completed null 1'].includes(state)),
    [...seen].join('; '),
  );
});

test('Lightning plays only what can happen to an invoice', async () => {
  const body = { amount_usd: 9.7, return_url: 'https://shop.example/', payment_address: 'test_lightning_underpaid' };
  const reply = await app.test.post('/api/payment/create/simple', body);
  assert.equal(reply.status, 400);
  assert.match(reply.json.error.message, /success, held, overpaid, late, expired/);
});
