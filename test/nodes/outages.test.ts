/** Real nodes that are away, hang, lose their data or are cut off: what the service says meanwhile, and that no payment is lost. */
import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { HDKey } from '@scure/bip32';
import { eventually } from '../kit/app.ts';
import { base58check } from '../kit/base58.ts';
import { startBitcoind, type TestNode } from '../kit/nodes.ts';
import { type Service, startService } from '../kit/service.ts';

const AMOUNT = '0.02500000';
const accountKey = base58check.respell(
  HDKey.fromMasterSeed(new Uint8Array(32).fill(7)).derive("m/84'/1'/0'").publicExtendedKey,
  0x043587cf,
);

type Kit = {
  service: Service;
  node: TestNode;
  open(): Promise<{ id: string; address: string }>;
  reach(id: string, status: string): Promise<any>;
};

/** A shop that takes BTC from a node on regtest. */
async function openShop(t: TestContext, node: TestNode, environment: Record<string, string> = {}): Promise<Kit> {
  const service = await startService({
    environment: { BTC_NODE_URL: node.url, BTC_NETWORK: 'regtest', BTC_CONFIRMATIONS: '2', PRICES: 'static:BTC=1000.00', ...environment },
  });
  t.after(() => service.destroy());
  await service.florin(
    ...['wallet', 'set', '--merchant', service.merchantId, '--coin', 'BTC', '--mode', 'live', '--key', accountKey, '--script', 'p2wpkh'],
  );
  return {
    service,
    node,
    open: async () => {
      const made = await service.live.post('/v1/transactions/create', { crypto: 'BTC', amount: 25, currency_fiat: 'USD' });
      assert.equal(made.status, 201, made.text);
      assert.equal(made.json.amount, AMOUNT);
      return { id: made.json.transaction_id, address: made.json.payment_address };
    },
    reach: (id, status) =>
      eventually(
        async () => (await service.live.get(`/api/payment/${id}`)).json,
        (d) => d.status === status,
        60_000,
      ),
  };
}
const ready = async ({ url }: Service) => (await fetch(`${url}/readyz`)).json() as Promise<any>;
const begun = (service: Service) =>
  eventually(
    () => ready(service),
    (state) => state.followers?.BTC !== undefined,
    60_000,
  );

test('no address of a coin is given before its follower has begun: it is refused, the page greys it out, and then it can be paid', async (t) => {
  const node = await startBitcoind();
  t.after(() => node.destroy());
  await node.stop();
  const { service, open, reach } = await openShop(t, node);
  const refused = await service.live.post('/v1/transactions/create', { crypto: 'BTC', amount: 25, currency_fiat: 'USD' });
  assert.deepEqual(
    [refused.status, refused.json.error.code, refused.headers.get('retry-after')],
    [503, 'chain_unavailable', '30'],
    refused.text,
  );
  assert.match(refused.json.error.message, /has not been reached yet/);
  const created = await service.live.post('/api/payment/create/simple', { amount_usd: 25, return_url: 'https://shop.example/' });
  const page = async () => (await fetch(`${service.url}/pay?id=${created.json.transaction_id}`)).text();
  assert.match(await page(), /not available right now/);
  assert.equal((await service.database.db.sql`select 1 from deposit_addresses`).length, 0);
  await node.start();
  await begun(service);
  assert.doesNotMatch(await page(), /not available right now/);
  const { id, address } = await open();
  await node.pay(address, AMOUNT);
  await node.mine(2);
  await reach(id, 'completed');
  assert.deepEqual((await service.florin('verify')).unwatched, []);
});

test('a node that is away is named at once and again noticed within five seconds, however long it was away', async (t) => {
  const node = await startBitcoind();
  t.after(() => node.destroy());
  const { service, open, reach } = await openShop(t, node);
  await begun(service);
  const { id, address } = await open();
  await node.stop();
  await eventually(
    () => ready(service),
    (state) => !state.ready && /^BTC: the BTC node does not answer/.test(state.reasons.join()),
    30_000,
  );
  const [status] = (await service.florin('chain', 'status')).chains;
  assert.deepEqual([status.coin, status.sources[0].state, status.height, status.holds], ['BTC', 'down', null, []]);
  assert.match(status.troubles.join(), /does not answer/);
  // As long as pauses would grow to half a minute.
  await new Promise((resolve) => setTimeout(resolve, 26_000));
  await node.start();
  await node.pay(address, AMOUNT);
  await eventually(
    async () => (await service.live.get(`/api/payment/${id}`)).json,
    (d) => d.status === 'processing',
    12_000,
  );
  assert.equal((await ready(service)).ready, true);
  await node.mine(2);
  await reach(id, 'completed');
});

test('a payment to an address that was given before the follower had begun is found, and nothing expires before', async (t) => {
  const node = await startBitcoind();
  t.after(() => node.destroy());
  const { service, open, reach } = await openShop(t, node);
  await begun(service);
  const paid = await open();
  const unpaid = await open();
  await service.end();
  // As installs are whose node was away when the addresses were given.
  await service.database.db.sql.unsafe('delete from tips; delete from blocks; delete from chains');
  const verified = service.florin('verify').catch((error) => JSON.parse(error.stdout));
  assert.match((await verified).unwatched.join(), /^BTC: 2 addresses given since .*: no block of BTC has been read yet$/);
  await node.pay(paid.address, AMOUNT);
  await node.mine(3);
  await service.age(unpaid.id, 3_601);
  await service.start();
  const done = await reach(paid.id, 'completed');
  assert.deepEqual([done.confirmations, done.amount_received, done.exceptions], [3, AMOUNT, []]);
  await reach(unpaid.id, 'expired');
  assert.deepEqual((await service.florin('verify')).unwatched, []);
});
