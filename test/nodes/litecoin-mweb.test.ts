/** Payments from MWEB wallets on a real Litecoin node: a peg-out appears under one transaction ID and is mined under another. */
// Invariant: A payment from MWEB counts once, in whichever transaction it arrives.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { HDKey } from '@scure/bip32';
import { eventually } from '../kit/app.ts';
import { base58check } from '../kit/base58.ts';
import { firstOf, isLongRun, longTest } from '../kit/long.ts';
import { type RealNode, rpcClient, startLitecoind, type TestNode } from '../kit/nodes.ts';
import { type NodeProxy, startProxy } from '../kit/proxy.ts';
import { type Service, startService } from '../kit/service.ts';
import { lookFor, openSource } from '../kit/source.ts';

/** 25 USD at 100 USD per coin. */
const AMOUNT = '0.25000000';
let node: RealNode;
let payer: TestNode['rpc'];
let proxy: NodeProxy;
let service: Service;
const expected = new Map<string, string>();

/** A node with active MWEB, and a wallet with only MWEB coins: everything it pays to other addresses is a peg-out. */
async function startMweb(coins: number): Promise<{ node: RealNode; payer: TestNode['rpc'] }> {
  const node = await startLitecoind({ hidesMweb: false });
  // MWEB becomes active with block 432, which must contain a peg-in.
  await node.mine(431 - ((await node.rpc('getblockcount')) as number));
  await node.rpc('createwallet', 'mweb');
  const payer = rpcClient(Number(new URL(node.url).port), 'mweb');
  for (let i = 0; i < coins; i++) await node.pay((await payer('getnewaddress', '', 'mweb')) as string, '1');
  await node.mine(2);
  return { node, payer };
}

before(async () => {
  ({ node, payer } = await startMweb(isLongRun ? 16 : 10));
  proxy = await startProxy(node.url);
  service = await startService({ environment: { LTC_NODE_URL: proxy.url, LTC_NETWORK: 'regtest', PRICES: 'static:LTC=100.00' } });
  const account = HDKey.fromMasterSeed(new Uint8Array(32).fill(11)).derive("m/84'/1'/0'").publicExtendedKey;
  await service.florin(
    ...['wallet', 'set', '--merchant', service.merchantId, '--coin', 'LTC', '--mode', 'live'],
    ...['--key', base58check.respell(account, 0x043587cf), '--script', 'p2wpkh'],
  );
  await service.looked('LTC');
});
after(async () => {
  await service?.destroy();
  await proxy?.stop();
  await node?.destroy();
});

const open = async (events: string): Promise<{ id: string; address: string }> => {
  const created = await service.live.post('/api/payment/create/simple', { amount_usd: 25, return_url: 'https://shop.example/' });
  assert.equal(created.status, 201, created.text);
  const id = created.json.transaction_id as string;
  expected.set(id, events);
  await service.choose(id, 'LTC');
  const chosen = await detail(id);
  assert.equal(chosen.amount, AMOUNT);
  return { id, address: chosen.payment_address };
};
const detail = async (id: string) => (await service.live.get(`/api/payment/${id}`)).json;
const reach = (id: string, status: string, exception: string | null = null, more: (d: any) => boolean = () => true) =>
  eventually(
    () => detail(id),
    (d) => d.status === status && d.exception === exception && more(d),
    60_000,
  );
/** Pays from MWEB coins only. Returns the transaction ID in the mempool. */
const pegOut = async (address: string, amount = AMOUNT): Promise<string> => {
  const txid = (await payer('sendtoaddress', address, amount)) as string;
  const sent = await node.rpc('getrawtransaction', txid, 1);
  const shown = sent.vkern.flatMap((kernel: any) => kernel.pegout).map((pegout: any) => pegout.value);
  assert.deepEqual(shown, [Number(amount)]);
  assert.ok(sent.vout.every((output: any) => output.ismweb));
  return txid;
};
/** The output of a block's last transaction that pays an address. */
const hogExOf = async (hash: string, address: string): Promise<{ txid: string }> => {
  const { tx } = await node.rpc('getblock', hash, 2);
  const hogEx = tx.at(-1);
  assert.equal(hogEx.vout[0].scriptPubKey.type, 'witness_mweb_hogaddr');
  assert.ok(hogEx.vout.some((output: any) => output.scriptPubKey.addresses?.includes(address)));
  return hogEx;
};

test('a peg-out is seen in the mempool, mined under another transaction ID, counted once, complete at 24 confirmations', async () => {
  const { id, address } = await open('created processing completed');
  const txid = await pegOut(address);
  const seen = await reach(id, 'processing');
  assert.equal(seen.transaction_hash, txid);
  assert.equal(seen.confirmations_required, 24);
  const waiting = await service.live.get(`/api/crypto/transaction/${txid}?currency=LTC`);
  assert.equal(waiting.json.status, 'pending');
  assert.deepEqual([waiting.json.amount, waiting.json.inputs, waiting.json.outputs], [AMOUNT, [], [{ address, amount: AMOUNT }]]);
  assert.ok(Number(waiting.json.fee) > 0);
  const [hash] = await node.mine(1);
  const { txid: mined } = await hogExOf(hash!, address);
  assert.notEqual(mined, txid);
  const lookUp = await service.live.get(`/api/crypto/transaction/${mined}?currency=LTC`);
  assert.equal(lookUp.status, 200, lookUp.text);
  assert.equal(lookUp.json.fee, null);
  assert.ok(lookUp.json.outputs.some((output: any) => output.address === address && output.amount === AMOUNT));
  await assert.rejects(node.rpc('getrawtransaction', txid, 1), { code: -5 });
  const confirmed = await reach(id, 'processing', null, (d) => d.confirmations === 1);
  assert.equal(confirmed.transaction_hash, mined);
  assert.equal(confirmed.amount_received, AMOUNT);
  assert.equal(confirmed.transfers.length, 1);
  const [before] = seen.transfers;
  const [now] = confirmed.transfers;
  assert.deepEqual([now.ref, now.first_seen_at, now.amount_usd], [before.ref, before.first_seen_at, before.amount_usd]);
  await node.mine(22);
  await service.looked('LTC');
  const almost = await detail(id);
  assert.deepEqual([almost.status, almost.confirmations], ['processing', 23]);
  await node.mine(1);
  const done = await reach(id, 'completed');
  assert.equal(done.transfers.length, 1);
});

test('two peg-outs of the same value to two payments, mined by one transaction', async () => {
  const one = await open('created processing completed');
  const two = await open('created processing completed');
  const sent = [await pegOut(one.address), await pegOut(two.address)];
  for (const [i, { id }] of [one, two].entries()) assert.equal((await reach(id, 'processing')).transaction_hash, sent[i]);
  const [hash] = await node.mine(1);
  const { txid: mined } = await hogExOf(hash!, one.address);
  for (const { id } of [one, two]) {
    const confirmed = await reach(id, 'processing', null, (d) => d.confirmations === 1);
    assert.equal(confirmed.transaction_hash, mined);
    assert.equal(confirmed.transfers.length, 1);
    assert.equal(confirmed.amount_received, AMOUNT);
  }
  await node.mine(23);
  await reach(one.id, 'completed');
  await reach(two.id, 'completed');
});

for (const together of firstOf([true, false])) {
  test(`two peg-outs of the same value to one payment, mined ${together ? 'together' : 'one by one'}, are two transfers`, async () => {
    const { id, address } = await open('created processing completed');
    await pegOut(address, '0.125');
    await reach(id, 'pending', 'underpaid');
    if (!together) {
      await node.mine(1);
      await reach(id, 'pending', 'underpaid', (d) => d.transfers[0].block_height !== null);
    }
    await pegOut(address, '0.125');
    const both = await reach(id, 'processing');
    assert.equal(both.transfers.length, 2);
    await node.mine(24);
    const done = await reach(id, 'completed');
    assert.equal(done.transfers.length, 2);
    assert.ok(done.transfers.every((transfer: any) => transfer.block_height !== null));
    assert.equal(done.amount_received, AMOUNT);
  });
}

longTest('killed between the mempool and the block: counted once, with its first sighting', async () => {
  const { id, address } = await open('created processing completed');
  await pegOut(address);
  const seen = await reach(id, 'processing');
  await service.end('SIGKILL');
  await node.mine(1);
  await service.start();
  const confirmed = await reach(id, 'processing', null, (d) => d.confirmations === 1);
  assert.equal(confirmed.transfers.length, 1);
  assert.equal(confirmed.transfers[0].first_seen_at, seen.transfers[0].first_seen_at);
  await node.mine(23);
  await reach(id, 'completed');
});

longTest('sent and mined while the service is down: found only in the block', async () => {
  const { id, address } = await open('created processing completed');
  await service.end('SIGKILL');
  await pegOut(address);
  const [hash] = await node.mine(1);
  await service.start();
  const { txid } = await hogExOf(hash!, address);
  assert.equal((await reach(id, 'processing')).transaction_hash, txid);
  await node.mine(23);
  assert.equal((await reach(id, 'completed')).transfers.length, 1);
});

/** Another block replaces the last one, without its transaction. */
async function replaceTip(hash: string, txid: string): Promise<void> {
  await node.rpc('invalidateblock', hash);
  await node.rpc('prioritisetransaction', txid, 0, -100_000_000);
  await node.mine(1);
  await node.rpc('prioritisetransaction', txid, 0, 100_000_000);
}

for (const seenFirst of firstOf([true, false])) {
  const how = seenFirst ? 'seen before its block' : 'found in its block';
  test(`${how}, then reorganized away and mined by another transaction: it counts once throughout`, async () => {
    const { id, address } = await open('created processing completed');
    if (!seenFirst) await service.end('SIGKILL');
    const txid = await pegOut(address);
    if (seenFirst) await reach(id, 'processing');
    const [hash] = await node.mine(1);
    if (!seenFirst) await service.start();
    const first = await hogExOf(hash!, address);
    const confirmed = await reach(id, 'processing', null, (d) => d.confirmations === 1);
    assert.equal(confirmed.transaction_hash, first.txid);
    await replaceTip(hash!, txid);
    assert.deepEqual(await node.rpc('getrawmempool'), [txid]);
    await reach(id, 'processing', null, (d) => d.confirmations === 0 && d.transaction_hash === txid);
    // After a restart, the service reads the whole mempool again.
    await service.end('SIGKILL');
    await service.start();
    await service.looked('LTC');
    assert.equal((await detail(id)).transfers.length, 1);
    // Another peg-out in the block changes its transaction.
    await pegOut(await node.newAddress());
    const [again] = await node.mine(1);
    const second = await hogExOf(again!, address);
    assert.notEqual(second.txid, first.txid);
    const back = await reach(id, 'processing', null, (d) => d.confirmations === 1);
    assert.equal(back.transaction_hash, second.txid);
    assert.equal(back.transfers.length, 1);
    assert.equal(back.transfers[0].first_seen_at, confirmed.transfers[0].first_seen_at);
    await node.mine(23);
    assert.equal((await reach(id, 'completed')).amount_received, AMOUNT);
  });
}

longTest('a reorganization between reading the blocks and the mempool: it counts once throughout', async () => {
  const { id, address } = await open('created processing completed');
  await service.end('SIGKILL');
  const txid = await pegOut(address);
  const [hash] = await node.mine(1);
  await service.start();
  await reach(id, 'processing', null, (d) => d.confirmations === 1);
  await proxy.beforeNext('getrawmempool', () => replaceTip(hash!, txid));
  const back = await reach(id, 'processing', null, (d) => d.transaction_hash === txid);
  assert.equal(back.transfers.length, 1);
  await node.mine(24);
  const done = await reach(id, 'completed');
  assert.deepEqual([done.transfers.length, done.amount_received], [1, AMOUNT]);
});

longTest('seen before its block, and back in the mempool before the next look: it counts once throughout', async () => {
  const { id, address } = await open('created processing completed');
  const txid = await pegOut(address);
  await reach(id, 'processing');
  const fetched = proxy.beforeNext('getblock', async () => {});
  const [hash] = await node.mine(1);
  await fetched;
  await proxy.beforeNext('getrawmempool', () => replaceTip(hash!, txid));
  const back = await reach(id, 'processing', null, (d) => d.confirmations === 0 && d.transaction_hash === txid);
  assert.equal(back.transfers.length, 1);
  await node.mine(24);
  const done = await reach(id, 'completed');
  assert.deepEqual([done.transfers.length, done.amount_received], [1, AMOUNT]);
});

test('a peg-out that is never mined: absence alone changes nothing, a day of it fails the payment', async () => {
  const { id, address } = await open('created processing failed');
  await pegOut(address);
  await reach(id, 'processing');
  await node.stop();
  await node.start({ emptyMempool: true });
  assert.deepEqual(await node.rpc('getrawmempool'), []);
  await eventually(
    () => service.database.db.sql`select absent_since from transfers where payment_id = ${id}`,
    ([row]) => row!.absent_since !== null,
    60_000,
  );
  await service.looked('LTC');
  assert.equal((await detail(id)).status, 'processing');
  await service.age(id, 23.5 * 3_600);
  await service.looked('LTC');
  assert.equal((await detail(id)).status, 'processing');
  await service.age(id, 3_600);
  const failed = await reach(id, 'failed');
  assert.equal(failed.amount_received, '0.00000000');
});

test('a node that hides MWEB in raw transactions and blocks still shows a peg-out, pending and mined', async (t) => {
  await node.stop();
  await node.start({ flags: ['-rpcserialversion=1'] });
  const source = openSource('LTC', node.url);
  // A node that stops waits for open connections.
  t.after(() => source.close());
  const address = await node.newAddress();
  const key = (await node.rpc('validateaddress', address)).scriptPubKey as string;
  await node.rpc('loadwallet', 'mweb').catch(() => {});
  const txid = (await payer('sendtoaddress', address, AMOUNT)) as string;
  const { sightings: waiting } = await (await source.fetchMempool()).scan(lookFor(key));
  assert.deepEqual(
    waiting.map((s) => [s.txid, s.ref, s.kind, s.units]),
    [[txid, `${txid}:pegout:0`, 'pegout', 25_000_000n]],
  );
  const [hash] = await node.mine(1);
  const { txid: mined } = (await node.rpc('getblock', hash, 2)).tx.at(-1);
  assert.deepEqual(
    (await (await source.fetchBlock(hash!)).scan(lookFor(key))).sightings.map((s) => [s.txid, s.kind, s.units]),
    [[mined, 'pegout', 25_000_000n]],
  );
});

test('every event arrived exactly once, in order, with a valid signature', async () => {
  for (const [id, events] of expected) {
    await eventually(
      async () => service.eventsOf(id).join(' '),
      (types) => types === events,
      60_000,
    );
  }
  assert.equal(expected.size, isLongRun ? 12 : 6);
});
