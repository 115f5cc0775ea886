/** A refund of a Lightning payment that a member sent on-chain is followed to its confirmations, on a real node. */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { approveOutgoing, markOutgoingSent } from '../../src/outgoing/decisions.ts';
import { eventually } from '../kit/app.ts';
import { type LightningShop, ok, startLightningShop } from '../kit/lightning-shop.ts';
import { startBitcoind, type TestNode } from '../kit/nodes.ts';

let node: TestNode;
let shop: LightningShop;
before(async () => {
  node = await startBitcoind();
  shop = await startLightningShop({ BTC_NODE_URL: node.url, BTC_CONFIRMATIONS: '2' });
  await shop.use('lnd');
});
after(async () => {
  await shop?.stop();
  await node?.destroy();
});

test('a transaction that pays the refund confirms it, and one that pays less does not', async () => {
  const { ctx } = shop.app.app;
  const owner = { merchantId: shop.app.merchant.merchantId, mode: 'live', kind: 'refund' } as const;
  const actor = { userId: '', name: 'Test', ip: '' };
  const { id: payment, invoice } = await shop.ask('97.00');
  shop.pair.pay(invoice);
  await shop.reached(payment, 'completed');
  const read = async (id: string) => ok(await shop.app.live.get(`/v1/refunds/${id}`));
  const looked = async (id: string, check: (refund: any) => boolean) => {
    await ctx.db.sql`update outgoing_payments set looked_at = null where id = ${id}`;
    return eventually(() => read(id), check, 60_000);
  };
  for (const [paid, state] of [
    ['0.0001', 'confirmed'],
    ['0.00009999', 'sent'],
  ] as const) {
    const address = await node.newAddress();
    const made = ok(await shop.app.live.post('/v1/refunds', { payment_id: payment, amount: '0.0001', address }), 201);
    await approveOutgoing(ctx, { ...owner, id: made.id, actor });
    const txid = await node.pay(address, paid);
    await markOutgoingSent(ctx, { ...owner, id: made.id, txid, actor });
    const sent = await read(made.id);
    assert.deepEqual([sent.status, sent.transaction_hash, sent.network], ['sent', txid, 'bitcoin']);
    await node.mine(6);
    const done = await looked(made.id, (refund) => (state === 'confirmed' ? refund.status === state : refund.failure !== null));
    assert.equal(done.status, state);
    if (state === 'sent') assert.match(done.failure, /does not pay 0\.00010000 BTC to the address/);
  }
});
