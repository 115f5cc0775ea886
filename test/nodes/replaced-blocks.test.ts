/** What a node with an index of transactions says about those of blocks that were replaced. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { startBitcoind } from '../kit/nodes.ts';
import { openSource } from '../kit/source.ts';

test('BTC: a transaction that another one replaced together with its block is not mined', async (t) => {
  const node = await startBitcoind();
  const source = openSource('BTC', node.url);
  t.after(async () => {
    await source.close();
    await node.destroy();
  });
  const address = await node.newAddress();
  const txid = await node.pay(address, '1');
  const [hash] = await node.mine(1);
  assert.deepEqual(await source.txState(txid), { state: 'mined', blockHash: hash, lock: null });
  await node.rpc('invalidateblock', hash);
  assert.equal((await source.txState(txid)).state, 'mempool');
  const other = await node.replace(txid, address, '1');
  const [instead] = await node.mine(2);
  // The index still has it.
  assert.equal((await node.rpc('getrawtransaction', txid, 1)).blockhash, hash);
  assert.deepEqual(await source.txState(txid), { state: 'unknown', blockHash: null, lock: null });
  assert.deepEqual(await source.txState(other), { state: 'mined', blockHash: instead, lock: null });
});
