/** Live payments on a real Litecoin node: the merchant's account key, the payer's wallet, the follower between them. */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { HDKey } from '@scure/bip32';
import { setWallet } from '../../src/merchants/wallets.ts';
import { chooseCoin } from '../../src/payments/payments.ts';
import { createEndpoint } from '../../src/webhooks/endpoints.ts';
import { eventually, startTestApp, type TestApp } from '../kit/app.ts';
import { base58check } from '../kit/base58.ts';
import { startLitecoind, type TestNode } from '../kit/nodes.ts';
import { type Receiver, startReceiver } from '../kit/receiver.ts';

let node: TestNode;
let app: TestApp;
let receiver: Receiver;
before(async () => {
  node = await startLitecoind();
  receiver = await startReceiver();
  app = await startTestApp({ LTC_NODE_URL: node.url, LTC_NETWORK: 'regtest', LTC_CONFIRMATIONS: '2' });
  const account = HDKey.fromMasterSeed(new Uint8Array(32).fill(7)).derive("m/84'/1'/0'").publicExtendedKey;
  // The same point in the spelling of test networks.

  const { merchantId } = app.merchant;
  await setWallet(app.app.ctx, { merchantId, coin: 'LTC', accountKey: base58check.respell(account, 0x043587cf), script: 'p2wpkh' });
  await createEndpoint(app.app.ctx, { merchantId, mode: 'live', url: receiver.url, events: ['*'], description: null });
  await eventually(
    async () => (await app.app.ctx.db.sql`select 1 from tips where coin = 'LTC'`).length,
    (n) => n === 1,
  );
});
after(async () => {
  await app?.stop();
  await receiver?.stop();
  await node?.destroy();
});

/** A live payment of 25 USD in LTC at 100.00 USD: 0.25 LTC. */
const open = async (): Promise<{ id: string; address: string }> => {
  const created = await app.live.post('/api/payment/create/simple', { amount_usd: 25, return_url: 'https://shop.example/' });
  assert.equal(created.status, 201, created.text);
  const view = await chooseCoin(app.app.ctx, { paymentId: created.json.transaction_id, coin: 'LTC' });
  assert.equal(view.settlement.amountUnits, 25_000_000n);
  return { id: created.json.transaction_id, address: view.quote!.address };
};
const detail = async (id: string) => (await app.live.get(`/api/payment/${id}`)).json;
const reach = (id: string, status: string, exception: string | null = null) =>
  eventually(
    () => detail(id),
    (d) => d.status === status && d.exception === exception,
    20_000,
  );
const typesOf = (id: string) =>
  receiver.received
    .filter((r) => r.event.data.id === id)
    .map((r) => r.event.type.replace('payment.', ''))
    .join(' ');

test('an exact payment: seen, confirmed twice, completed', async () => {
  const { id, address } = await open();
  assert.match(address, /^rltc1q/);
  const txid = await node.pay(address, '0.25');
  const seen = await reach(id, 'processing');
  assert.equal(seen.transaction_hash, txid);
  assert.equal(seen.confirmations_required, 2);
  await node.mine(1);
  await eventually(
    () => detail(id),
    (d) => d.confirmations === 1,
    20_000,
  );
  assert.equal((await detail(id)).status, 'processing');
  await node.mine(1);
  const done = await reach(id, 'completed');
  assert.equal(done.amount_received, '0.25000000');
  await eventually(
    async () => typesOf(id),
    (types) => types === 'created processing completed',
  );
});

test('two partial payments add up', async () => {
  const { id, address } = await open();
  await node.pay(address, '0.1');
  const partial = await reach(id, 'pending', 'underpaid');
  assert.equal(partial.amount_remaining, '0.15000000');
  await node.pay(address, '0.15');
  await reach(id, 'processing');
  await node.mine(2);
  await reach(id, 'completed');
});

test('more than needed completes as overpaid', async () => {
  const { id, address } = await open();
  await node.pay(address, '0.5');
  await node.mine(2);
  const done = await reach(id, 'completed', 'overpaid');
  assert.equal(done.amount_overpaid, '0.25000000');
});

test('a reorganisation of 13 blocks takes confirmations back and gives them again', async () => {
  const { id, address } = await open();
  await node.pay(address, '0.25');
  const [block] = await node.mine(1);
  await eventually(
    () => detail(id),
    (d) => d.confirmations === 1,
    20_000,
  );
  await node.rpc('invalidateblock', block);
  await node.mine(1);
  await reach(id, 'processing');
  await node.mine(13);
  await reach(id, 'completed');
});

test('a payment completed before a deep reorganisation stays completed', async () => {
  const { id, address } = await open();
  await node.pay(address, '0.25');
  const blocks = await node.mine(13);
  await reach(id, 'completed');
  await node.rpc('invalidateblock', blocks[0]);
  await node.mine(14);
  await eventually(
    () => detail(id),
    (d) => d.status === 'completed' && d.confirmations >= 13,
    20_000,
  );
});

test('the node goes away and comes back', async () => {
  const { id, address } = await open();
  await node.pay(address, '0.25');
  await reach(id, 'processing');
  await node.stop();
  assert.equal((await detail(id)).status, 'processing');
  await node.start();
  await node.mine(2);
  await reach(id, 'completed');
});

test('look-ups of a transaction, of fees, and the honest answer for a balance', async () => {
  const { id, address } = await open();
  const txid = await node.pay(address, '0.25');
  await node.mine(1);
  await reach(id, 'processing');
  const found = await app.live.get(`/api/crypto/transaction/${txid}?currency=LTC`);
  assert.equal(found.status, 200, found.text);
  assert.equal(found.json.status, 'confirmed');
  assert.ok(found.json.outputs.some((o: { address: string; amount: string }) => o.address === address && o.amount === '0.25000000'));
  assert.ok(Number(found.json.fee) > 0);
  const fees = await app.live.get('/api/crypto/fees?currency=LTC');
  assert.equal(fees.status, 200, fees.text);
  assert.ok(fees.json.fees.fast.total_fee_ltc);
  const balance = await app.live.get(`/api/crypto/balance?currency=LTC&address=${address}`);
  assert.equal(balance.status, 501);
  assert.equal(balance.json.error.code, 'not_supported');
  assert.equal((await app.live.get(`/api/crypto/transaction/${'0'.repeat(64)}?currency=LTC`)).status, 404);
});
