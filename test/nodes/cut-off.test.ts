/** Real nodes cut off from their peers, under mainnet rules: such a node is behind, and transactions that it does not show may exist. */
import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { readServiceReadiness } from '../../src/http/health.ts';
import { eventually, startTestApp, type TestApp } from '../kit/app.ts';
import { type RealNode, startBitcoind } from '../kit/nodes.ts';
import { agePayment } from '../kit/payments.ts';
import { giveWallet, openPayment } from '../kit/shop.ts';
import { stepByHand } from '../kit/stepped-shop.ts';

const MINUTE = 60;
const minutesAgo = (minutes: number) => Math.floor(Date.now() / 1000) - minutes * MINUTE;

/** A node of the network that found its last block 50 minutes ago, and the merchant's own node connected to it. */
async function startPair(t: TestContext): Promise<{ network: RealNode; own: RealNode }> {
  const network = await startBitcoind({ listens: true, clock: minutesAgo(50) });
  t.after(() => network.destroy());
  const own = await startBitcoind({ empty: true });
  t.after(() => own.destroy());
  await connect(own, network);
  return { network, own };
}
async function connect(own: RealNode, network: RealNode): Promise<void> {
  await own.rpc('setnetworkactive', true);
  await own.rpc('addnode', network.p2p, 'onetry');
  const tip = await network.rpc('getbestblockhash');
  await eventually(
    () => own.rpc('getbestblockhash'),
    (hash) => hash === tip,
  );
}
async function cutOff(own: RealNode): Promise<void> {
  await own.rpc('setnetworkactive', false);
  await eventually(
    async () => (await own.rpc('getnetworkinfo')).connections as number,
    (connections) => connections === 0,
  );
}
/** Pays a payment as of 30 minutes ago, and mines so many blocks at that time. */
async function payOn(network: RealNode, { address, amount }: { address: string; amount: string }, blocks: number): Promise<void> {
  await network.rpc('setmocktime', minutesAgo(30));
  await network.pay(address, amount);
  await network.mine(blocks);
}

type Shop = {
  app: TestApp;
  look(times?: number): Promise<void>;
  detail(id: string): Promise<any>;
  /** Lets 70 minutes pass in which nobody reads the chain; the one-hour windows end. */
  letPass(...ids: string[]): Promise<void>;
  noReorg(): Promise<void>;
};
async function openShop(t: TestContext, nodes: readonly RealNode[]): Promise<Shop> {
  const app = await startTestApp(
    { BTC_NODE_URL: nodes.map(({ url }) => url).join(','), BTC_NETWORK: 'regtest', BTC_CONFIRMATIONS: '1', LOG_LEVEL: 'silent' },
    { roles: ['api'] },
  );
  t.after(() => app.stop());
  await giveWallet(app, 'BTC');
  const { db } = app.app.ctx;
  const step = stepByHand(app, { binding: true });
  const look = async (times = 1) => {
    for (let i = 0; i < times; i++) {
      // As if it were time to look at each again.
      await db.sql`update payments set due_at = clock_timestamp() where status = 'pending'`;
      await step();
    }
  };
  // The second one sees a node that has been connected for a minute.
  await look(2);
  return {
    app,
    look,
    detail: async (id) => (await app.live.get(`/api/payment/${id}`)).json,
    letPass: async (...ids) => {
      const by = `${70 * MINUTE} seconds`;
      for (const id of ids) await agePayment(db, id, 70 * MINUTE);
      await db.sql`update deposit_addresses set created_at = created_at - ${by}::interval`;
      await db.sql`
        update tips set scanned_through = scanned_through - ${by}::interval, watched_since = watched_since - ${by}::interval`;
    },
    noReorg: async () => {
      const rows = await db.sql`
        select t.hold_reason as hold, g.reorg_depth as depth, (select count(*)::int from transfers where unmined_since is not null) as unmined
        from tips t left join chain_guard g using (chain)`;
      assert.deepEqual([...rows], [{ hold: null, depth: null, unmined: 0 }]);
    },
  };
}

test('a node without peers: payments made in time elsewhere neither expire nor count as late, and unpaid ones expire afterwards', async (t) => {
  const { network, own } = await startPair(t);
  const { app, look, detail, letPass, noReorg } = await openShop(t, [own]);
  assert.deepEqual((await readServiceReadiness(app.app.ctx)).reasons, []);
  const [paid, unpaid] = [await openPayment(app, 'BTC', 50), await openPayment(app, 'BTC', 50)];
  await cutOff(own);
  await payOn(network, paid, 2);
  await letPass(paid.id, unpaid.id);
  await look(3);
  const statuses = async () => [(await detail(paid.id)).status, (await detail(unpaid.id)).status];
  assert.deepEqual(await statuses(), ['pending', 'pending']);
  assert.deepEqual((await readServiceReadiness(app.app.ctx)).reasons, ['BTC: the node has no peers; nothing expires meanwhile']);
  await connect(own, network);
  await look();
  assert.deepEqual(await statuses(), ['completed', 'pending'], 'connected for less than a minute');
  await look(2);
  assert.deepEqual(await statuses(), ['completed', 'expired']);
  assert.deepEqual((await detail(paid.id)).exceptions, []);
  assert.deepEqual((await readServiceReadiness(app.app.ctx)).reasons, []);
  await noReorg();
});

test('when the cut-off one of two nodes takes over, it is behind: it takes nothing back, completes nothing and expires nothing', async (t) => {
  const { network, own } = await startPair(t);
  const { app, look, detail, letPass, noReorg } = await openShop(t, [network, own]);
  const [paid, unpaid] = [await openPayment(app, 'BTC', 50), await openPayment(app, 'BTC', 50)];
  await cutOff(own);
  await payOn(network, paid, 3);
  await letPass(paid.id, unpaid.id);
  await look();
  const held = await detail(paid.id);
  assert.deepEqual([held.status, held.confirmations], ['processing', 3]);
  assert.match(held.hold_reason, /differ by more than 2 blocks/);
  await network.stop();
  // As if the last read had just happened.
  await letPass();
  await look(3);
  const after = await detail(paid.id);
  assert.deepEqual([after.status, after.confirmations, after.transfers], ['processing', 3, held.transfers]);
  const reasons = async () => (await readServiceReadiness(app.app.ctx)).reasons.join();
  await app.app.ctx.db.sql`update followers set behind_since = behind_since - interval '1 minute'`;
  assert.match(await reasons(), /BTC: the source is 3 blocks behind what was read before/);
  await noReorg();
  await network.start();
  await connect(own, network);
  await look(3);
  assert.equal((await detail(paid.id)).status, 'completed');
  assert.equal((await detail(unpaid.id)).status, 'expired');
  assert.equal(await reasons(), '');
  await noReorg();
});
