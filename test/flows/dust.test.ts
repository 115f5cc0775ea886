/** Thousands of transactions with next to nothing in them, which anybody can send to a deposit address. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { MOST_TRANSFERS, readHoldings, readWallets } from '../../src/signing/holdings.ts';
import { listSweepable } from '../../src/signing/signing-files.ts';
import { tellStepped } from '../kit/stepped-shop.ts';

test('dust is counted and does not hide the deposits that arrived after it', async () => {
  await tellStepped(['own'], async ({ app, chain, look, pay }) => {
    const { ctx } = app.app;
    const owner = { merchantId: app.merchant.merchantId };
    const ids = await pay(chain, 25, 40);
    chain.mine(8);
    await look(2);
    const count = MOST_TRANSFERS + 1;
    await ctx.db.sql`
      insert into transfers (coin, ref, payment_id, merchant_id, txid, address, units, kind, first_seen_at, block_height, block_hash)
      select coin, lpad(n::text, 64, '0') || ':0', payment_id, merchant_id, lpad(n::text, 64, '0'), address, 545, kind,
        first_seen_at - interval '1 day', block_height, block_hash
      from transfers, generate_series(1, ${count}) as n where payment_id = ${ids[0]!}`;
    const [listed] = await listSweepable(ctx, owner);
    assert.deepEqual([listed!.count, listed!.remains], [2, [{ reason: 'dust', count, units: BigInt(count) * 545n }]]);
    // What its customer sent is all read while a refund is open.
    const [wallet] = await readWallets(ctx, owner);
    const read = async () => (await readHoldings(ctx, { ...owner, walletId: wallet!.id, coin: 'BTC' })).holdings.length;
    assert.equal(await read(), 2);
    await ctx.db.sql`delete from transfers where payment_id = ${ids[0]!} and units = 545 and ref > lpad('10', 64, '0')`;
    await ctx.db.sql`update payments set refund_requested_at = now(), exceptions = '{overpaid}' where id = ${ids[0]!}`;
    assert.equal(await read(), 11);
  });
});
