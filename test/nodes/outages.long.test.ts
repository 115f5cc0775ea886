/** A real node that hangs for longer than the service waits for an answer. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { eventually } from '../kit/app.ts';
import { AMOUNT, openNodeShop } from '../kit/node-shop.ts';
import { startBitcoind, startLitecoind } from '../kit/nodes.ts';

for (const [coin, start] of [
  ['BTC', startBitcoind],
  ['LTC', startLitecoind],
] as const) {
  test(`${coin}: a node that hangs is reported, nothing expires or completes meanwhile, and everything continues when it answers`, async (t) => {
    const node = await start();
    t.after(() => node.destroy());
    const { service, open, detail, reach, ready, begun } = await openNodeShop(t, [node], coin);
    await begun();
    const [paid, unpaid, later] = [await open(), await open(), await open()];
    await node.pay(paid.address, AMOUNT);
    await node.mine(1);
    await reach(paid.id, (d) => d.confirmations === 1);
    // It has both, but does not say so.
    await node.pay(later.address, AMOUNT);
    process.kill(node.pid(), 'SIGSTOP');
    await service.ageToDeadline(unpaid.id);
    await eventually(ready, (state) => /its source was read last \d+ s ago/.test(state.reasons.join()), 60_000);
    // The hanging request is abandoned, and the next one hangs too.
    await eventually(ready, (state) => /does not answer/.test(state.reasons.join()), 60_000);
    const refused = () => service.live.post('/v1/transactions/create', { crypto: coin, amount: 25, currency_fiat: 'USD' });
    await eventually(refused, ({ status, json }) => status === 503 && json.error.code === 'chain_unavailable', 90_000);
    assert.equal((await ready()).ready, false);
    assert.deepEqual(
      [(await detail(paid.id)).status, (await detail(paid.id)).confirmations, (await detail(unpaid.id)).status],
      ['processing', 1, 'pending'],
    );
    process.kill(node.pid(), 'SIGCONT');
    await reach(later.id, 'processing', 15_000);
    await node.mine(1);
    await reach(paid.id, 'completed');
    await node.mine(1);
    await reach(later.id, 'completed');
    await reach(unpaid.id, 'expired');
    assert.deepEqual((await ready()).reasons, []);
    assert.equal((await refused()).status, 201);
  });
}
