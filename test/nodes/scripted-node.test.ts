/** The scripted node is compared with what real nodes answered: same statuses, keys, order, types of values, errors. */
// Invariant: The scripted node answers like the recorded real one.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { recordings, startScriptedNode } from '../kit/scripted-node.ts';

/** A reply with every value replaced by its type; number literals keep their form, so that `1.50000000` is not `1.5`. */
function shapeOf(body: string): unknown {
  const parsed = JSON.parse(body, ((_key: string, value: unknown, { source }: { source: string }) =>
    typeof value === 'number' ? `number ${source}` : value) as (key: string, value: unknown) => unknown);
  const name = (value: unknown, key = ''): unknown => {
    if (Array.isArray(value)) return value.length === 0 ? [] : [name(value[0])];
    if (typeof value === 'object' && value !== null) {
      const rows = Object.entries(value).map(([k, v]) => [/^[0-9a-f]{64}$/.test(k) ? 'txid' : k, name(v, k)]);
      return rows[0]?.[0] === 'txid' && rows.length > 0 && /^[0-9a-f]{64}$/.test(Object.keys(value)[0]!) ? { txid: rows[0]![1] } : rows;
    }
    if (typeof value === 'string' && value.startsWith('number ')) return /\.\d{8}$/.test(value) ? 'amount' : 'number';
    if (typeof value === 'string') return key === 'message' || key === 'instantlock' ? value : 'text';
    return value === null ? null : typeof value;
  };
  return name(parsed);
}

for (const coin of ['DOGE', 'DASH'] as const) {
  test(`${coin}: the scripted node answers like the recorded one`, async (t) => {
    const node = await startScriptedNode(coin, { spentIndex: coin === 'DASH' });
    t.after(() => node.destroy());
    const recorded = recordings(coin === 'DOGE' ? 'dogecoin-1.14.9' : 'dash-23.1.2');
    let id = 0;
    const ask = async (method: string, params: unknown[]) => {
      const reply = await fetch(`${new URL(node.url).origin}/wallet/florin`, {
        method: 'POST',
        headers: { authorization: `Basic ${Buffer.from('florin:test').toString('base64')}` },
        body: JSON.stringify({ jsonrpc: '1.0', id: ++id, method, params }),
      });
      return { status: reply.status, body: await reply.text() };
    };
    let checked = 0;
    const same = async (label: string, method: string, ...params: unknown[]) => {
      const wanted = recorded.get(label)!;
      assert.equal(method, wanted.request.method);
      const { status, body } = await ask(method, params);
      assert.equal(status, wanted.status, label);
      assert.deepEqual(shapeOf(body), shapeOf(wanted.body), label);
      assert.ok(body.endsWith('}\n'));
      checked++;
    };
    const verbose = coin === 'DOGE' ? true : 1;
    await same('getnetworkinfo', 'getnetworkinfo');
    await same('getblockchaininfo', 'getblockchaininfo');
    await same('getmempoolinfo-empty', 'getmempoolinfo');
    await same('estimatesmartfee-nodata', 'estimatesmartfee', 2);
    const txid = await node.pay(await node.newAddress(), '1.5');
    await same('getrawmempool', 'getrawmempool');
    await same('getrawmempool-verbose', 'getrawmempool', true);
    await same('getmempoolentry', 'getmempoolentry', txid);
    await same('getrawtransaction-mempool', 'getrawtransaction', txid, verbose);
    const [hash] = await node.mine(1);
    await same('getblockhash', 'getblockhash', 103);
    await same('getblockheader', 'getblockheader', hash);
    await same('getblock-v1', 'getblock', hash, verbose);
    await same('getrawtransaction-confirmed', 'getrawtransaction', txid, verbose);
    await same('gettxout', 'gettxout', txid, 0);
    if (coin === 'DOGE') {
      const [coinbase] = (await node.rpc('getblock', hash, true)).tx;
      await same('getrawtransaction-coinbase', 'getrawtransaction', coinbase, verbose);
    }
    await same('err-unknown-txid', 'getrawtransaction', '0'.repeat(64));
    await same('err-height', 'getblockhash', 99_999);
    await same('err-method', 'nope');
    await same('err-decode', 'sendrawtransaction', '00');
    await same('err-args', 'getblockhash');
    await node.rpc('invalidateblock', hash);
    await same('reorg-stale-header', 'getblockheader', hash);
    await same('reorg-getrawtransaction', 'getrawtransaction', txid, verbose);
    await node.mine(2);
    await same('reorg-remined', 'getrawtransaction', txid, verbose);
    assert.ok(checked >= 20);

    const batch = await fetch(`${new URL(node.url).origin}/wallet/florin`, {
      method: 'POST',
      headers: { authorization: `Basic ${Buffer.from('florin:test').toString('base64')}` },
      body: JSON.stringify([
        { id: 'a', method: 'getblockcount', params: [] },
        { id: 'b', method: 'nope', params: [] },
      ]),
    });
    assert.equal(batch.status, 200);
    assert.deepEqual(
      ((await batch.json()) as any[]).map((row) => [row.id, row.error?.code ?? null]),
      [
        ['a', null],
        ['b', -32601],
      ],
    );
    const from = performance.now();
    const refused = await fetch(new URL(node.url).origin, { method: 'POST', body: '{}' });
    assert.equal(refused.status, 401);
    assert.equal(await refused.text(), '');
    assert.ok(performance.now() - from >= 240);
  });
}

test('DASH: locks and errors are reported like on the recorded node', async (t) => {
  const node = await startScriptedNode('DASH', { spentIndex: true });
  t.after(() => node.destroy());
  const recorded = recordings('dash-23.1.2-instantsend');
  const result = (label: string) => JSON.parse(recorded.get(label)!.body).result;
  const flags = ({ instantlock, instantlock_internal, chainlock }: any) => ({ instantlock, instantlock_internal, chainlock });
  await assert.rejects(node.rpc('getbestchainlock'), { code: -32603 });
  const txid = await node.pay(await node.newAddress(), '1.25');
  assert.deepEqual(flags(await node.rpc('getrawtransaction', txid, 1)), flags(result('seen-before-lock')));
  node.lockTransaction(txid);
  assert.deepEqual(flags(await node.rpc('getrawtransaction', txid, 1)), flags(result('instantlocked')));
  assert.equal((await node.rpc('getmempoolentry', txid)).instantlock, result('mempoolentry-instantlocked').instantlock);
  const refusal = JSON.parse(recorded.get('err-doublespend-of-locked')!.body).error;
  await assert.rejects(node.rpc('sendrawtransaction', node.spendAgain(txid, await node.newAddress(), '1')), {
    code: refusal.code,
    message: `sendrawtransaction: ${refusal.message}`,
  });
  const [hash] = await node.mine(1);
  node.lockChain();
  assert.deepEqual(flags(await node.rpc('getrawtransaction', txid, 1)), flags(result('confirmed-chainlocked')));
  assert.equal((await node.rpc('getblock', hash)).chainlock, result('block-chainlocked-v2').chainlock);
  const best = await node.rpc('getbestchainlock');
  assert.deepEqual(Object.keys(best), Object.keys(result('getbestchainlock')));
  assert.equal(best.blockhash, hash);
  // A transaction without its own lock has only the block's.
  const [coinbase] = (await node.rpc('getblock', hash)).tx;
  const { instantlock, instantlock_internal } = result('block-chainlocked-v2').tx[0];
  const told = await node.rpc('getrawtransaction', coinbase, 1);
  assert.deepEqual([told.instantlock, told.instantlock_internal, told.type], [instantlock, instantlock_internal, 5]);
});
