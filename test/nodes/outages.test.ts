/** Real nodes that are away, hang, lose their data or read it again: what the service reports meanwhile, and that no payment is lost. */
// Invariant: No address is issued before its chain is followed; deposits to earlier ones are read back, and nothing expires before that.
import assert from 'node:assert/strict';
import { cpSync, readFileSync, renameSync, rmSync, truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, type TestContext, test } from 'node:test';
import { eventually } from '../kit/app.ts';
import { firstOf, longTest } from '../kit/long.ts';
import { AMOUNT, type NodeShop, openNodeShop } from '../kit/node-shop.ts';
import { type RealNode, startBitcoind, startLitecoind } from '../kit/nodes.ts';

/** A node that is away in one test after the other, and its shop. Nothing is treated as a reorganization in any of them. */
const shared = {} as { node: RealNode; shop: NodeShop };
/** Its folder, with a copy of how it was below the first block that this new install reads. */
let [now, earlier, height] = ['', '', 0];
const closers: (() => Promise<void>)[] = [];
before(async () => {
  const node = await startBitcoind();
  shared.node = node;
  closers.push(() => node.destroy());
  height = await node.rpc('getblockcount');
  await node.stop();
  [now, earlier] = [join(node.folder, 'regtest'), join(node.folder, 'before')];
  cpSync(now, earlier, { recursive: true });
  await node.start();
  await node.mine(10);
  await node.stop();
  shared.shop = await openNodeShop({ after: (close) => closers.push(close) }, [node]);
});
after(async () => {
  for (const close of closers.reverse()) await close();
});

test('no address of a coin is issued before its follower has started: it is refused, the page disables it, and later it can be paid', async () => {
  const { node } = shared;
  const { service, open, reach, begun } = shared.shop;
  const refused = await service.live.post('/v1/transactions/create', { crypto: 'BTC', amount: 25, currency_fiat: 'USD' });
  assert.deepEqual(
    [refused.status, refused.json.error.code, refused.headers.get('retry-after')],
    [503, 'chain_unavailable', '30'],
    refused.text,
  );
  assert.match(refused.json.error.message, /has not been reached yet/);
  const created = await service.live.post('/api/payment/create/simple', { amount_usd: 25, return_url: 'https://shop.example/' });
  const page = async () => (await fetch(`${service.url}/pay?id=${created.json.transaction_id}`)).text();
  assert.match(await page(), /take payments right now/);
  assert.equal((await service.database.db.sql`select 1 from deposit_addresses`).length, 0);
  await node.start();
  await begun();
  assert.doesNotMatch(await page(), /take payments right now/);
  const { id, address } = await open();
  await node.pay(address, AMOUNT);
  await node.mine(2);
  await reach(id, 'completed');
  assert.deepEqual((await service.florin('verify')).unwatched, []);
});

test('a node that is away is reported at once, and noticed again within five seconds, however long it was away', async () => {
  const { node } = shared;
  const { service, open, reach, ready } = shared.shop;
  const { id, address } = await open();
  await node.stop();
  await eventually(ready, (state) => !state.ready && /^BTC: the BTC node does not answer/.test(state.reasons.join()), 30_000);
  const [status] = (await service.florin('chain', 'status')).chains;
  assert.deepEqual([status.coin, status.sources[0].state, status.height, status.holds], ['BTC', 'down', null, []]);
  assert.match(status.troubles.join(), /does not answer/);
  // Long enough for pauses to grow to half a minute.
  await new Promise((resolve) => setTimeout(resolve, 26_000));
  await node.start();
  await node.pay(address, AMOUNT);
  await eventually(
    async () => (await service.live.get(`/api/payment/${id}`)).json,
    (d) => d.status === 'processing',
    12_000,
  );
  // The payment is written before the end of the round that makes the service ready again.
  await eventually(ready, (state) => state.ready);
  await node.mine(2);
  await reach(id, 'completed');
});

longTest('a payment to an address issued before the follower started is found, and nothing expires before that', async (t) => {
  const node = await startBitcoind();
  t.after(() => node.destroy());
  const { service, open, reach, begun } = await openNodeShop(t, [node]);
  await begun();
  const paid = await open();
  const unpaid = await open();
  await service.end();
  // As in installs whose node was away when the addresses were issued.
  await service.database.db.sql.unsafe('delete from tips; delete from blocks; delete from chains');
  assert.match((await service.florin('verify')).unwatched.join(), /^BTC: 2 addresses given since .*: no block of BTC has been read yet$/);
  await node.pay(paid.address, AMOUNT);
  await node.mine(3);
  await service.ageToDeadline(unpaid.id);
  await service.start();
  const done = await reach(paid.id, 'completed');
  assert.deepEqual([done.confirmations, done.amount_received, done.exceptions], [3, AMOUNT, []]);
  await reach(unpaid.id, 'expired');
  assert.deepEqual((await service.florin('verify')).unwatched, []);
});

/** Every block above a height, as the network would send it again. */
async function readAbove(node: RealNode, height: number): Promise<string[]> {
  const blocks: string[] = [];
  for (let at = height + 1; at <= (await node.rpc('getblockcount')); at++)
    blocks.push((await node.rpc('getblock', await node.rpc('getblockhash', at), 0)) as string);
  return blocks;
}
async function handBack(node: RealNode, blocks: readonly string[]): Promise<void> {
  for (const block of blocks) assert.equal(await node.rpc('submitblock', block), null);
}
/** Nothing was treated as a reorganization: no hold, and no block was read twice. */
async function noReorg({ service: { database } }: NodeShop): Promise<void> {
  const rows = await database.db.sql`
    select hold_reason as hold, watched_from > (select min(height) from blocks b where b.chain = t.chain) as "fromStart", reorg_depth as depth,
      (select count(*)::int from transfers where unmined_since is not null or block_height is null) as unmined
    from tips t left join chain_guard using (chain)`;
  assert.deepEqual([...rows], [{ hold: null, fromStart: true, depth: null, unmined: 0 }]);
}
/** A payment with one of two confirmations, and one whose customer never paid. */
async function openBoth(node: RealNode, shop: NodeShop): Promise<{ paid: string; unpaid: string }> {
  const { id: paid, address } = await shop.open();
  const { id: unpaid } = await shop.open();
  await node.pay(address, AMOUNT);
  await node.mine(1);
  await shop.reach(paid, (d) => d.confirmations === 1);
  return { paid, unpaid };
}
/** The second one's window ends; both stay unchanged while the node shows less than before. */
async function staysBehind(node: RealNode, shop: NodeShop, { paid, unpaid }: { paid: string; unpaid: string }): Promise<void> {
  // The follower has seen the current state of the node.
  await eventually(
    async () => {
      const [row] = await shop.service.database.db.sql<{ reason: string | null }[]>`
        select behind_reason as reason from followers where failures = 0 and behind_code = 'older'`;
      return { reason: row?.reason, height: (await node.rpc('getblockcount')) as number };
    },
    ({ reason, height }) => reason?.endsWith(`behind what was read before (block ${height})`) === true,
  );
  const { confirmations, status, exceptions } = await shop.detail(paid);
  assert.deepEqual([confirmations, status, exceptions], [1, 'processing', []]);
  assert.equal((await shop.detail(unpaid)).status, 'pending', 'what the node does not show may have happened');
  await noReorg(shop);
}
/** The node has everything again, and the service continues. */
async function carriesOn(node: RealNode, shop: NodeShop, { paid, unpaid }: { paid: string; unpaid: string }): Promise<void> {
  await node.mine(1);
  const done = await shop.reach(paid, 'completed');
  assert.deepEqual([done.confirmations, done.amount_received, done.exceptions], [2, AMOUNT, []]);
  await shop.reach(unpaid, 'expired');
  await noReorg(shop);
  // A request that was under way while the node started may have failed: the next look clears its reason.
  await eventually(shop.ready, ({ reasons }) => reasons.length === 0);
}

test('a node that lost power and returns with an older state of its chain is behind: nothing is taken back, nothing expires', async () => {
  const { node, shop } = shared;
  const both = await openBoth(node, shop);
  const lost = await readAbove(node, height);
  await node.stop();
  rmSync(now, { recursive: true });
  renameSync(earlier, now);
  await shop.service.ageToDeadline(both.unpaid);
  await node.start();
  await staysBehind(node, shop, both);
  await handBack(node, lost);
  await carriesOn(node, shop, both);
});

longTest('a node that lost its blocks and reads the chain from the start is behind until it has caught up', async (t) => {
  const node = await startBitcoind();
  t.after(() => node.destroy());
  const shop = await openNodeShop(t, [node]);
  await shop.begun();
  const both = await openBoth(node, shop);
  const lost = await readAbove(node, 0);
  await node.stop();
  for (const folder of ['blocks', 'chainstate', 'indexes']) rmSync(join(node.folder, 'regtest', folder), { recursive: true, force: true });
  await shop.service.ageToDeadline(both.unpaid);
  await node.start({ wallet: false });
  assert.equal(await node.rpc('getblockcount'), 0);
  await staysBehind(node, shop, both);
  // Halfway, and just before the block with the payment.
  for (const to of [60, lost.length - 1]) {
    await handBack(node, lost.slice(await node.rpc('getblockcount'), to));
    await staysBehind(node, shop, both);
  }
  await handBack(node, lost.slice(-1));
  await node.openWallet();
  await carriesOn(node, shop, both);
});

/** Cuts a block file in half, without the space that a node reserves at its end. Returns a function that restores it. */
function halve(file: string): () => void {
  const all = readFileSync(file);
  let end = all.length;
  while (all[end - 1] === 0) end--;
  truncateSync(file, Math.floor(end / 2));
  return () => writeFileSync(file, all);
}
async function openLitecoin(t: TestContext): Promise<{ node: RealNode; shop: NodeShop }> {
  const node = await startLitecoind();
  t.after(() => node.destroy());
  const shop = await openNodeShop(t, [node], 'LTC');
  await shop.begun();
  return { node, shop };
}
for (const coin of firstOf(['BTC', 'LTC'] as const)) {
  test(`${coin}: a node that is restarted with -reindex and -reindex-chainstate while payments are open takes nothing back`, async (t) => {
    const { node, shop } = coin === 'BTC' ? shared : await openLitecoin(t);
    const both = await openBoth(node, shop);
    const height = await node.rpc('getblockcount');
    await shop.service.ageToDeadline(both.unpaid);
    await node.stop();
    // It reads half of its blocks and stays there, however fast the machine is.
    const giveBack = halve(join(node.folder, 'regtest/blocks/blk00000.dat'));
    await node.start({ flags: ['-reindex'], wallet: false });
    const half = await eventually(
      () => node.rpc('getblockcount'),
      (reached) => reached > 30,
    );
    assert.ok(half < height, `block ${half} of ${height}`);
    await staysBehind(node, shop, both);
    await node.stop();
    giveBack();
    for (const flag of ['-reindex', '-reindex-chainstate']) {
      await node.start({ flags: [flag], wallet: false });
      await eventually(
        () => node.rpc('getblockcount'),
        (reached) => reached === height,
        60_000,
      );
      await shop.service.looked(coin);
      const { confirmations, status } = await shop.detail(both.paid);
      assert.deepEqual([confirmations, status], [1, 'processing'], flag);
      await noReorg(shop);
      await node.stop();
    }
    await node.start();
    await carriesOn(node, shop, both);
  });
}

test('the first of two nodes hangs: a payment is seen within seconds through the second, and the first is read again afterwards', async (t) => {
  const second = await startBitcoind({ listens: true });
  t.after(() => second.destroy());
  const first = await startBitcoind({ empty: true });
  t.after(() => first.destroy());
  await first.rpc('addnode', second.p2p, 'onetry');
  const height = await second.rpc('getblockcount');
  await eventually(
    () => first.rpc('getblockcount'),
    (reached) => reached === height,
  );
  const shop = await openNodeShop(t, [first, second]);
  await shop.begun();
  const { id, address } = await shop.open();
  process.kill(first.pid(), 'SIGSTOP');
  await second.pay(address, AMOUNT);
  await shop.reach(id, 'processing', 15_000);
  await second.mine(2);
  await shop.reach(id, 'completed', 15_000);
  const sources = async () => (await shop.service.florin('chain', 'status')).chains[0].sources as { state: string; followed: boolean }[];
  assert.deepEqual(
    (await sources()).map(({ state }) => state),
    ['down', 'ok'],
  );
  process.kill(first.pid(), 'SIGCONT');
  await eventually(sources, ([one]) => one!.state === 'ok');
  await noReorg(shop);
});
