/** Recorded answers of real Dogecoin, Dash and Litecoin nodes, read to the last unit. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { parseBlock } from '../../src/chains/bitcoin/block-proof.ts';
import { showHash } from '../../src/chains/bitcoin/header.ts';
import { x11 } from '../../src/chains/bitcoin/x11/x11.ts';
import { startRecordedNode } from '../kit/recorded-node.ts';
import { type Recording, recordings, startScriptedNode } from '../kit/scripted-node.ts';
import { lookFor, openSource } from '../kit/source.ts';

const open = async (t: { after(end: () => Promise<void>): void }, coin: 'LTC' | 'DASH' | 'DOGE', name: string, more?: Recording[]) => {
  const node = await startRecordedNode(name, more);
  const source = openSource(coin, node.url);
  t.after(async () => {
    await source.close();
    await node.stop();
  });
  return source;
};
const txidOf = (name: string, label: string) => recordings(name).get(label)!.request.params[0] as string;

test('DOGE: a transaction as recorded, pending and mined; the value of an unknown input is not invented', async (t) => {
  const name = 'dogecoin-1.14.9';
  const source = await open(t, 'DOGE', name);
  const txid = txidOf(name, 'getrawtransaction-confirmed');
  const waiting = {
    txid,
    status: 'pending',
    confirmations: 0,
    blockHeight: null,
    blockHash: null,
    timestamp: null,
    amountUnits: 49_999_999_774_000n,
    // The node knows the fee of pending transactions, but not the value of unknown inputs.
    feeUnits: 226_000n,
    inputs: null,
    outputs: [
      { address: 'n1oUK4z55TXRyRCitHAFYScRtXNG54A5ti', units: 150_000_000n },
      { address: 'mjzbG7ur5sk1mtjrB6v3XcUctxDXcs9aTF', units: 49_999_849_774_000n },
    ],
  };
  assert.deepEqual(await source.transaction(txid), waiting);
  const mined = await open(t, 'DOGE', name, [recordings(name).get('getrawtransaction-confirmed')!]);
  assert.deepEqual(await mined.transaction(txid), {
    ...waiting,
    feeUnits: null,
    status: 'confirmed',
    confirmations: 1,
    blockHeight: 111,
    blockHash: 'b975619db260bcd4dcb26abc8b29a776bca33a15dc9556fdea14d5e8e267b198',
    timestamp: new Date(1_795_221_962_000),
  });
  const coinbase = await source.transaction(txidOf(name, 'getrawtransaction-coinbase'));
  assert.deepEqual(coinbase.inputs, [{ address: 'coinbase', units: 50_000_000_226_000n }]);
  assert.deepEqual(coinbase.outputs[1], { address: '', units: 0n, type: 'nulldata' });
  assert.equal(coinbase.blockHeight, 111);
  assert.deepEqual(coinbase.timestamp, new Date(1_795_221_962_000));
  await assert.rejects(source.transaction('0'.repeat(64)), { kind: 'not_found' });
});

test('DOGE: without an estimate, the fee is the recommended 0.01 per kilobyte', async (t) => {
  const source = await open(t, 'DOGE', 'dogecoin-1.14.9');
  assert.deepEqual(
    (await source.fees()).map(({ speed, rateE8, units, source: from }) => [speed, rateE8, units, from]),
    ['fast', 'normal', 'slow'].map((speed) => [speed, 100_000_000_000n, 226_000n, 'fallback']),
  );
});

test('DASH: a transaction as recorded, with its inputs from the spent index', async (t) => {
  const source = await open(t, 'DASH', 'dash-23.1.2');
  const txid = txidOf('dash-23.1.2', 'getrawtransaction-mempool');
  const found = await source.transaction(txid);
  assert.equal(found.feeUnits, 4_500n);
  assert.deepEqual(found.inputs, [{ address: 'yZTXmF3khWywqzEF5FnNbNe3VaC1kTENdx', units: 50_000_000_000n }]);
  assert.deepEqual(found.outputs, [
    { address: 'yUPBCogG7n9Rt2FWih41B6FGXMbkAsLY8t', units: 150_000_000n },
    { address: 'yRrkYzztiVqiBxX8YguFqht4kNtGw62okJ', units: 49_849_995_500n },
  ]);
  assert.deepEqual(
    (await source.fees()).map(({ rateE8, units, source: from }) => [rateE8, units, from]),
    Array(3).fill([100_000_000n, 226n, 'fallback']),
  );
  assert.deepEqual(await source.txState(txid), { state: 'mempool', blockHash: null, lock: null });
  assert.deepEqual(await source.txState('0'.repeat(64)), { state: 'unknown', blockHash: null, lock: null });
  assert.deepEqual(await source.finality(), { safe: null, finalized: null, chainlock: null, tip: null });
});

const tipIs = (hash: string): Recording => ({
  label: 'tip',
  request: { method: 'getbestblockhash', params: [] },
  status: 200,
  body: `{"result":"${hash}","error":null,"id":1}`,
});

test('DASH: locks as recorded on a network with masternodes', async (t) => {
  const name = 'dash-23.1.2-instantsend';
  const all = recordings(name);
  const txid = txidOf(name, 'instantlocked');
  const best = JSON.parse(all.get('getbestchainlock')!.body).result;
  const hashAt = (hash: string): Recording => ({
    label: 'getblockhash',
    request: { method: 'getblockhash', params: [best.height] },
    status: 200,
    body: `{"result":"${hash}","error":null,"id":1}`,
  });
  const tip = tipIs('e'.repeat(64));
  for (const [label, state, lock] of [
    ['seen-before-lock', 'mempool', null],
    ['instantlocked', 'mempool', 'instantsend'],
    ['confirmed-chainlocked', 'mined', 'chainlock'],
  ] as const) {
    const source = await open(t, 'DASH', name, [all.get(label)!, hashAt(best.blockhash), tip]);
    assert.deepEqual(await source.txState(txid), { state, blockHash: state === 'mined' ? best.blockhash : null, lock }, label);
    assert.deepEqual(await source.finality(), { safe: null, finalized: null, chainlock: best.height, tip: 'e'.repeat(64) });
  }
  // The lock of a block that is not on the node's chain proves nothing about its height.
  const elsewhere = await open(t, 'DASH', name, [hashAt('f'.repeat(64)), tip]);
  assert.equal((await elsewhere.finality()).chainlock, null);
});

test('DOGE and DASH: fee and inputs of a transaction, looked up individually', async (t) => {
  for (const coin of ['DOGE', 'DASH'] as const) {
    const node = await startScriptedNode(coin);
    const source = openSource(coin, node.url);
    t.after(async () => {
      await source.close();
      await node.destroy();
    });
    const address = await node.newAddress();
    const txid = await node.pay(address, '1.5');
    const { vin } = await node.rpc('getrawtransaction', txid, 1);
    const [before] = await Promise.all(vin.map((i: any) => node.rpc('getrawtransaction', i.txid, 1)));
    const script = before.vout[vin[0].vout].scriptPubKey;
    const found = await source.transaction(txid);
    const units = coin === 'DOGE' ? 500_000_000_000n : 5_000_000_000n;
    assert.deepEqual(found.inputs, [{ address: script.address ?? script.addresses[0], units }]);
    assert.equal(found.feeUnits, coin === 'DOGE' ? 226_000n : 4_500n);
    assert.equal(found.amountUnits, units - found.feeUnits!);
    assert.deepEqual(found.outputs[0], { address, units: 150_000_000n });
  }
});

test('DOGE and DASH: what the node reports about itself', async (t) => {
  for (const [coin, software, version, txindex] of [
    ['DOGE', 'Shibetoshi:1.14.9', 1_140_900, null],
    ['DASH', 'Dash Core:23.1.2', 230_102, true],
  ] as const) {
    const node = await startScriptedNode(coin);
    const source = openSource(coin, node.url);
    const stranger = openSource(coin, node.url.replace(':test@', ':wrong@'));
    t.after(async () => {
      await source.close();
      await stranger.close();
      await node.destroy();
    });
    const tip = await source.tip();
    assert.deepEqual([tip.height, tip.hash], [102, await node.rpc('getblockhash', 102)]);
    const { mempool: _, ...health } = await source.health();
    assert.deepEqual(health, {
      ...{ tip, headers: 102, syncing: false, software, version, network: 'regtest', pruned: false, txindex, peers: 0 },
    });
    assert.equal(await source.blockAt(103), null);
    assert.equal(await source.block('0'.repeat(64)), null);
    await assert.rejects(stranger.tip(), { kind: 'outage', message: /refuses user and password/ });
    await node.stop();
    await assert.rejects(source.tip(), { kind: 'outage' });
    const loaded = Promise.withResolvers<void>();
    const starting = node.start({ loaded: loaded.promise });
    // Until it listens and has loaded its blocks: an outage that ends.
    const first = await source.tip().then(
      () => null,
      (error) => error,
    );
    assert.equal(first?.kind, 'outage');
    loaded.resolve();
    await starting;
    assert.deepEqual(await source.tip(), tip);
  }
});

// Invariant: A block that is not the one asked for is refused.
test('a block that is not the one asked for is refused', async (t) => {
  const hex = readFileSync(join(import.meta.dirname, '../fixtures/blocks/dogecoin-12345.hex'), 'utf8').trim();
  const { hash, parent, merkleRoot, time } = parseBlock(Buffer.from(hex, 'hex'), 'DOGE');
  const answers = (asked: string, change: object): Recording[] => {
    const head = { hash: asked, height: 12_345, merkleroot: merkleRoot, previousblockhash: parent, time: time.getTime() / 1000, ...change };
    const reply = (method: string, params: unknown[], result: unknown): Recording => ({
      label: method,
      request: { method, params },
      status: 200,
      body: JSON.stringify({ result, error: null, id: 1 }),
    });
    return [reply('getblockheader', [asked], head), reply('getblock', [asked, 0], hex)];
  };
  const fetch = async (coin: 'DOGE' | 'DASH', asked: string, change: object = {}) =>
    (await open(t, coin, coin === 'DOGE' ? 'dogecoin-1.14.9' : 'dash-23.1.2', answers(asked, change))).fetchBlock(asked);
  const other = 'a'.repeat(64);
  assert.equal((await fetch('DOGE', hash)).ref.height, 12_345);
  await assert.rejects(fetch('DOGE', other), /another block/);
  // The same bytes have another hash on Dash.
  const named = showHash(x11(Buffer.from(hex.slice(0, 160), 'hex')));
  assert.equal((await fetch('DASH', named)).ref.hash, named);
  await assert.rejects(fetch('DASH', hash), /another block/);
  await assert.rejects(fetch('DASH', named, { hash }), /does not fit/);
  await assert.rejects(fetch('DASH', named, { merkleroot: other }), /does not fit/);
  await assert.rejects(fetch('DASH', named, { previousblockhash: other }), /does not fit/);
});

test('LTC: a peg-out as recorded, pending and mined; the hidden parts of MWEB are left out', async (t) => {
  const name = 'litecoin-0.21.2.1-mweb';
  const all = recordings(name);
  const txid = txidOf(name, 'mweb-pegout-mempool');
  const full = JSON.parse(all.get('mweb-pegout-mempool')!.body).result;
  const pool: Recording[] = [
    tipIs('e'.repeat(64)),
    { label: 'pool', request: { method: 'getrawmempool', params: [] }, status: 200, body: `{"result":["${txid}"],"error":null,"id":1}` },
    {
      label: 'raw',
      request: { method: 'getrawtransaction', params: [txid, 0] },
      status: 200,
      body: `{"result":"${full.hex}","error":null,"id":1}`,
    },
  ];
  const source = await open(t, 'LTC', name, pool);
  const key = '00148763a280dbd1d694f8b0118933008fb5a1861e0f';
  const mempool = await source.fetchMempool();
  assert.equal(mempool.beside, 'e'.repeat(64));
  const scan = await mempool.scan(lookFor(key));
  assert.deepEqual(scan.sightings, [{ key, ref: `${txid}:pegout:0`, txid, units: 150_000_000n, kind: 'pegout', spends: [], lock: null }]);
  const waiting = await source.transaction(txid);
  assert.deepEqual(waiting.inputs, []);
  assert.deepEqual(waiting.outputs, [{ address: 'rltc1qsa369qxm68tff79szxynxqy0kkscv8s0nesjqh', units: 150_000_000n }]);
  assert.equal(waiting.feeUnits, 2_820n);
});
