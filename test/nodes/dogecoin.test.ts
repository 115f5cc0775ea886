/** Live payments on a scripted Dogecoin node: an old RPC, merge-mined blocks, amounts beyond what a double can represent. */
import assert from 'node:assert/strict';
import { type ScriptedNode, startScriptedNode } from '../kit/scripted-node.ts';
import { tellStories } from './stories.ts';

let node: ScriptedNode;
tellStories({
  coin: 'DOGE',
  startNode: async () => {
    node = await startScriptedNode('DOGE');
    return node;
  },
  price: '0.25',
  amount: 100,
  addresses: [{ script: 'p2pkh', path: "m/44'/1'/0'", pattern: /^[mn]/ }],
  more: ({ told, open, reach, mine }) => {
    // Invariant: Amounts that do not fit a double are exact.
    told('an amount past 2^53 arrives to its last unit', 'created processing completed', async (name, events) => {
      const { id, address } = await open(name, events);
      await node.pay(address, '98765432.12345678');
      const seen = await reach(id, 'processing');
      assert.equal(seen.amount_announced, '98765432.12345678');
      await mine(2);
      const done = await reach(id, 'completed', 'overpaid');
      assert.equal(done.amount_overpaid, '98765332.12345678');
    });

    told('paid in a merge-mined block and in an ordinary one', 'created processing completed', async (name, events) => {
      const merged: boolean[] = [];
      for (let i = 0; i < 2; i++) {
        const { id, address } = await open(name, events);
        await node.pay(address, '100');
        const [hash] = await mine(1);
        const { version } = await node.rpc('getblockheader', hash);
        merged.push((version & 0x100) !== 0);
        await reach(id, 'processing', null, (d) => d.transfers[0].block_hash === hash);
        await mine(2);
        await reach(id, 'completed');
      }
      assert.deepEqual(merged.toSorted(), [false, true]);
    });
  },
});
