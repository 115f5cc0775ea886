/** Which approved refunds are in a signing file, when others cannot be paid, and when a payout has to spend the same deposit. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { signFile } from '../../signer/sign.ts';
import { formatUnits } from '../../src/core/money.ts';
import { signingFileText } from '../../src/core/signing-file.ts';
import { approveOutgoing } from '../../src/outgoing/decisions.ts';
import { followOutgoing } from '../../src/outgoing/follow-outgoing.ts';
import { readHoldings, readWallets } from '../../src/signing/holdings.ts';
import { makePayoutFile } from '../../src/signing/payout-files.ts';
import { makeRefundFile } from '../../src/signing/refund-files.ts';
import { acceptSigned, cancelSweep, readSigningFileOf, replaceSweep } from '../../src/signing/signing-files.ts';
import { neededFor } from '../../src/signing/utxo.ts';
import { setDestination } from '../../src/wallets/destinations.ts';
import { account, giveWallet } from '../kit/shop.ts';
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
        await approveOutgoing(ctx, { kind: 'refund', ...owner, id: json.id, actor });
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
    const { json } = await desk.app.live.post('/v1/payouts', {
      currency: 'BTC',
      amount: '0.02',
      address: CUSTOMER,
      payout_reference: 'one',
    });
    await approveOutgoing(ctx, { kind: 'payout', ...owner, id: json.id, actor });
    const makePayouts = () => makePayoutFile(ctx, { ...owner, coin: 'BTC', speed: 'normal', actor });
    const { sweep } = await makePayouts();
    await cancelSweep(ctx, { ...owner, id: sweep.id, actor });
    await followOutgoing(ctx);
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

test('a fee is raised for the refunds that can pay it, and signed files are recognized as a whole', async () => {
  await tell(async (desk, owner) => {
    const { ctx } = desk.app.app;
    const [first, second] = await receive(desk, 25, 25);
    const chain = ctx.chains.get('bitcoin')!;
    const rateE8 = (await chain.fees()).find(({ speed }) => speed === 'normal')!.rateE8;
    const fee = neededFor({ units: 0n, scripts: [new Uint8Array(22)] }, { inputs: 1, inputSize: 68n, rateE8 });
    await desk.refund(first!, '0.01000000');
    // Nothing is left to pay a higher fee from.
    await desk.refund(second!, formatUnits('BTC', 2_500_000n - fee));
    const { sweep } = await desk.makeFile();
    const read = () => readSigningFileOf(ctx, { ...owner, id: sweep.id });
    const sign = async () => {
      const content = signingFileText(await read());
      return signFile({ content, secret: account('BTC').privateExtendedKey, destination: DESTINATION, recipients: CUSTOMER }).text;
    };
    const upload = async (content: string) => (await acceptSigned(ctx, { ...owner, content, actor })).isKnown;
    const raise = () => replaceSweep(ctx, { ...owner, id: sweep.id, speed: 'normal', actor });
    const stored = async () =>
      (
        await ctx.db.sql<{ at: string }[]>`
        select round || ' ' || number as at from signed_transactions where file_id = ${sweep.id} order by round, number`
      ).map(({ at }) => at);
    const text = await sign();
    assert.deepEqual([await upload(text), await upload(text)], [false, true]);
    const [, without] = (await read()).requests;
    const once = await raise();
    assert.deepEqual((await read()).requests[1], without);
    const twice = await raise();
    assert.deepEqual([twice.feeUnits, twice.totalUnits], [once.feeUnits, once.totalUnits], 'nobody signed the round before');
    const raised = await sign();
    assert.deepEqual([await upload(raised), await upload(raised)], [false, true]);
    assert.deepEqual(await stored(), ['0 0', '0 1', '2 0'], 'what did not change is stored once');
    const again = await raise();
    assert.ok(again.feeUnits > twice.feeUnits);
    // The other one is mined, so nothing can be raised.
    await ctx.db
      .sql`update signed_transactions set block_height = 1, block_hash = 'ab' where file_id = ${sweep.id} and number = 0 and round = 0`;
    await assert.rejects(raise(), { code: 'sweep_empty', message: /the money is not enough for a higher fee/ });
  });
});
