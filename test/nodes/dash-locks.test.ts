/** DASH payments decided by InstantSend and ChainLocks, on a scripted node whose masternodes lock on command. */
// Invariant: Only locks from your own node complete a Dash payment early, and only as the table allows.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { HDKey } from '@scure/bip32';
import { eventually } from '../kit/app.ts';
import { base58check } from '../kit/base58.ts';
import { type ScriptedNode, startScriptedNode } from '../kit/scripted-node.ts';
import { type Service, startService } from '../kit/service.ts';

const PRICE_USD = 50;
let node: ScriptedNode;
let service: Service;
const expected = new Map<string, string>();

before(async () => {
  node = await startScriptedNode('DASH');
  service = await startService({
    environment: { DASH_NODE_URL: node.url, DASH_NETWORK: 'regtest', PRICES: `static:DASH=${PRICE_USD}.00` },
  });
  const account = HDKey.fromMasterSeed(new Uint8Array(32).fill(9)).derive("m/44'/1'/0'").publicExtendedKey;
  await service.florin(
    ...['wallet', 'set', '--merchant', service.merchantId, '--coin', 'DASH', '--mode', 'live'],
    ...['--key', base58check.respell(account, 0x043587cf), '--script', 'p2pkh'],
  );
  await service.looked('DASH');
});
after(async () => {
  await service?.destroy();
  await node?.destroy();
});

const open = async (usd: number, events: string): Promise<{ id: string; address: string; amount: string }> => {
  const created = await service.live.post('/api/payment/create/simple', { amount_usd: usd, return_url: 'https://shop.example/' });
  assert.equal(created.status, 201, created.text);
  const id = created.json.transaction_id as string;
  expected.set(id, events);
  await service.choose(id, 'DASH');
  const chosen = await detail(id);
  assert.equal(chosen.amount, (usd / PRICE_USD).toFixed(8));
  return { id, address: chosen.payment_address, amount: chosen.amount };
};
const detail = async (id: string) => (await service.live.get(`/api/payment/${id}`)).json;
const reach = (id: string, status: string, exception: string | null = null) =>
  eventually(
    () => detail(id),
    (d) => d.status === status && d.exception === exception,
    60_000,
  );
const locksOf = async (id: string): Promise<(string | null)[]> => {
  const rows = await service.database.db.sql<{ lock: string | null }[]>`select lock from transfers where payment_id = ${id}`;
  return rows.map((row) => row.lock);
};
/** Everything has been read, and the payment still waits. */
const stays = async (id: string, confirmations: number) => {
  await service.looked('DASH');
  const now = await detail(id);
  assert.equal(now.status, 'processing');
  assert.equal(now.confirmations, confirmations);
};

test('a node without locks: 24 confirmations complete, 23 do not', async () => {
  const { id, address, amount } = await open(25, 'created processing completed');
  await node.pay(address, amount);
  const seen = await reach(id, 'processing');
  assert.equal(seen.completion_rule, 'instantsend');
  assert.equal(seen.confirmations_required, null);
  await node.mine(23);
  await stays(id, 23);
  await node.mine(1);
  assert.equal((await reach(id, 'completed')).confirmations, 24);
});

test('below 1,000 USD an InstantSend lock completes without a block', async () => {
  const { id, address, amount } = await open(25, 'created processing completed');
  const txid = await node.pay(address, amount);
  await reach(id, 'processing');
  await stays(id, 0);
  node.lockTransaction(txid);
  const done = await reach(id, 'completed');
  assert.equal(done.confirmations, 0);
  assert.deepEqual(await locksOf(id), ['instantsend']);
});

test('once locked, the coins cannot be spent again', async () => {
  const { id, address, amount } = await open(25, 'created processing completed');
  const txid = await node.pay(address, amount);
  await reach(id, 'processing');
  node.lockTransaction(txid);
  const again = node.spendAgain(txid, await node.newAddress(), amount);
  await assert.rejects(node.rpc('sendrawtransaction', again), /tx-txlock-conflict/);
  const done = await reach(id, 'completed');
  assert.equal(done.transaction_hash, txid);
});

test('locked before the service looked: the payment completes as soon as it is seen', async () => {
  const { id, address, amount } = await open(25, 'created processing completed');
  await service.end('SIGKILL');
  node.lockTransaction(await node.pay(address, amount));
  await service.start();
  await reach(id, 'completed');
});

test('from 1,000 USD the InstantSend lock also requires one block', async () => {
  const { id, address, amount } = await open(2_000, 'created processing completed');
  const txid = await node.pay(address, amount);
  node.lockTransaction(txid);
  const seen = await reach(id, 'processing');
  assert.equal(seen.completion_rule, 'instantsend_or_chainlock');
  await stays(id, 0);
  await node.mine(1);
  assert.equal((await reach(id, 'completed')).confirmations, 1);
});

test('without its own lock, the ChainLock of its block completes it', async () => {
  const { id, address, amount } = await open(2_000, 'created processing completed');
  await node.pay(address, amount);
  await node.mine(1);
  await reach(id, 'processing');
  await stays(id, 1);
  node.lockChain();
  const done = await reach(id, 'completed');
  assert.equal(done.confirmations, 1);
  await service.looked('DASH');
  const [tip] = await service.database.db.sql`select height, chainlock_height from tips where chain = 'DASH'`;
  assert.equal(tip!.chainlock_height, tip!.height);
});

test('from 10,000 USD only a ChainLock completes, at one confirmation', async () => {
  const { id, address, amount } = await open(20_000, 'created processing completed');
  const txid = await node.pay(address, amount);
  node.lockTransaction(txid);
  const seen = await reach(id, 'processing');
  assert.equal(seen.completion_rule, 'chainlock');
  await node.mine(1);
  await stays(id, 1);
  node.lockChain();
  assert.equal((await reach(id, 'completed')).confirmations, 1);
});

test('the lock of an earlier block does not cover a later one: that takes six confirmations', async () => {
  const { id, address, amount } = await open(25, 'created processing completed');
  await node.pay(address, amount);
  await node.mine(5);
  await reach(id, 'processing');
  await stays(id, 5);
  await node.mine(1);
  assert.equal((await reach(id, 'completed')).confirmations, 6);
});

test('an InstantSend lock survives a reorganization of its block', async () => {
  const { id, address, amount } = await open(20_000, 'created processing completed');
  const txid = await node.pay(address, amount);
  node.lockTransaction(txid);
  const [block] = await node.mine(1);
  await reach(id, 'processing');
  await stays(id, 1);
  await node.rpc('invalidateblock', block);
  // Another block replaces it, without the payment.
  node.mineEmpty();
  await stays(id, 0);
  assert.deepEqual(await locksOf(id), ['instantsend']);
  await node.mine(1);
  node.lockChain();
  await reach(id, 'completed');
});

test('without a lock, a double-spend in a block reverses the payment; paid again it completes', async () => {
  const { id, address, amount } = await open(25, 'created processing processing completed');
  const txid = await node.pay(address, amount);
  await reach(id, 'processing');
  const again = node.spendAgain(txid, await node.newAddress(), amount);
  await assert.rejects(node.rpc('sendrawtransaction', again), /txn-mempool-conflict/);
  await node.mineWith([again]);
  const back = await reach(id, 'pending', 'replaced');
  assert.equal(back.amount_received, '0.00000000');
  node.lockTransaction(await node.pay(address, amount));
  await reach(id, 'completed');
});

test('every event arrived exactly once, in order, with a valid signature', async () => {
  for (const [id, events] of expected) {
    await eventually(
      async () => service.eventsOf(id).join(' '),
      (types) => types === events,
      60_000,
    );
  }
  assert.equal(expected.size, 10);
});
