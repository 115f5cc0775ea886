/** Which approved refunds are in a signing file, when others cannot be paid, and when a payout has to spend the same deposit. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setDestination } from '../../src/money-out/destinations.ts';
import { followPayouts } from '../../src/money-out/follow-payouts.ts';
import { readHoldings, readWallets } from '../../src/money-out/holdings.ts';
import { makePayoutFile } from '../../src/money-out/payout-files.ts';
import { approvePayouts } from '../../src/money-out/payouts.ts';
import { makeRefundFile } from '../../src/money-out/refund-files.ts';
import { approveRefund } from '../../src/money-out/refunds.ts';
import { cancelSweep } from '../../src/money-out/sweeps.ts';
import { giveWallet } from '../kit/shop.ts';
import { type SteppedShop, tellStepped } from '../kit/stepped-shop.ts';

const DESTINATION = 'bc1qw508d6qejxtdg4y5r3zarvary0c5xw7kv8f3t4';
const CUSTOMER = 'bc1q34aq5drpuwy3wgl9lhup9892qp6svr8ldzyy7c';
const actor = { userId: '', name: 'Test', ip: '' };

type Desk = SteppedShop & { refund(paymentId: string, amount?: string): Promise<string>; makeFile(): ReturnType<typeof makeRefundFile> };
const tell = (story: (desk: Desk, owner: { merchantId: string; mode: 'live' }) => Promise<void>) =>
  tellStepped(
    ['own'],
    async (told) => {
      const { ctx } = told.app.app;
      const owner = { merchantId: told.app.merchant.merchantId, mode: 'live' } as const;
      await setDestination(ctx, { ...owner, coin: 'BTC', address: DESTINATION, ends: DESTINATION.slice(-6), actor: null });
      const refund = async (paymentId: string, amount?: string) => {
        const { json } = await told.app.live.post('/v1/refunds', { payment_id: paymentId, address: CUSTOMER, ...(amount && { amount }) });
        await approveRefund(ctx, { ...owner, id: json.id, actor });
        return json.id as string;
      };
      const makeFile = () => makeRefundFile(ctx, { ...owner, coin: 'BTC', speed: 'normal', actor });
      await story({ ...told, refund, makeFile }, owner);
    },
    { environment: { PRICES: 'static:BTC=1000.00' } },
  );
/** Payments that are paid and confirmed. */
async function receive({ pay, chain, look }: SteppedShop, ...dollars: number[]): Promise<string[]> {
  const ids = await pay(chain, ...dollars);
  chain.mine(8);
  await look(2);
  return ids;
}

test('a refund that an older wallet cannot pay does not hold up those of other wallets', async () => {
  await tell(async (desk) => {
    const [old] = await receive(desk, 25);
    // Everything, so nothing is left for the fee.
    const unpaid = await desk.refund(old!);
    await assert.rejects(desk.makeFile(), { code: 'refund_file_empty', message: /not enough for it and the fee/ });
    await giveWallet(desk.app, 'BTC', { seed: 8 });
    const [next] = await receive(desk, 25);
    const paid = await desk.refund(next!, '0.01000000');
    const { refunds, left } = await desk.makeFile();
    assert.deepEqual([refunds, left.map(({ id }) => id)], [[paid], [unpaid]]);
    await assert.rejects(desk.makeFile(), { code: 'refund_file_empty', message: /not enough for it and the fee/ });
  });
});

test('refunds that cannot be paid take no place in a file, and a file pays at most 20', async () => {
  await tell(async (desk) => {
    const ids = await receive(desk, ...Array.from({ length: 22 }, () => 25));
    // The fee is more than a quarter of them.
    const small: string[] = [];
    for (let i = 0; i < 21; i++) small.push(await desk.refund(ids[0]!, '0.00000546'));
    const large: string[] = [];
    for (const id of ids.slice(1)) large.push(await desk.refund(id, '0.01000000'));
    const first = await desk.makeFile();
    assert.deepEqual([first.refunds, first.left.map(({ id }) => id)], [large.slice(0, 20), small]);
    const second = await desk.makeFile();
    assert.deepEqual(second.refunds, large.slice(20));
  });
});

test('a refund leaves the deposit that an approved payout has to spend, until the payout is in a file', async () => {
  await tell(async (desk, owner) => {
    const { ctx } = desk.app.app;
    const [paymentId] = await receive(desk, 60);
    const { json } = await desk.app.live.post('/v1/payouts', { currency: 'BTC', amount: '0.02', address: CUSTOMER });
    await approvePayouts(ctx, { ...owner, which: { id: json.id }, actor });
    const makePayouts = () => makePayoutFile(ctx, { ...owner, coin: 'BTC', speed: 'normal', actor });
    const { sweep } = await makePayouts();
    await cancelSweep(ctx, { ...owner, id: sweep.id, actor });
    await followPayouts(ctx);
    const refund = await desk.refund(paymentId!, '0.01000000');
    const [wallet] = await readWallets(ctx, owner);
    const { holdings } = await readHoldings(ctx, { ...owner, walletId: wallet!.id, coin: 'BTC' });
    assert.deepEqual(
      holdings.map(({ stays }) => stays),
      ['payout_approved'],
    );
    await receive(desk, 30);
    await assert.rejects(desk.makeFile(), { code: 'refund_file_empty', message: /an approved payout has to spend its deposit/ });
    const again = await makePayouts();
    assert.deepEqual(again.payouts, [json.id]);
    // The payout spends the deposit, so the refund is paid from another one.
    assert.deepEqual((await desk.makeFile()).refunds, [refund]);
  });
});

test('refunds whose deposits are in more blocks than peers bring at once wait for the next file', async () => {
  await tell(async (desk) => {
    const ids: string[] = [];
    for (let i = 0; i < 3; i++) ids.push(...(await receive(desk, 25)));
    const refunds: string[] = [];
    for (const id of ids) refunds.push(await desk.refund(id, '0.01000000'));
    // As a source that reads previous transactions from whole blocks.
    Object.assign(desk.app.app.ctx.chains.get('bitcoin')!.outlet, { mostBlocks: 2 });
    const first = await desk.makeFile();
    assert.deepEqual(first.refunds, refunds.slice(0, 2));
    assert.deepEqual(first.left, [{ id: refunds[2], reason: 'the file is full; it can be in the next one' }]);
    assert.deepEqual((await desk.makeFile()).refunds, refunds.slice(2));
  });
});
