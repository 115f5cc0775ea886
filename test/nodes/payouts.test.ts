/**
 * Payouts on a real node: requested over the API, approved, signed offline in one transaction, sent and confirmed. Whatever is repeated,
 * lost or killed on the way, every recipient is paid once.
 */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { signFile } from '../../signer/sign.ts';
import { signingFileText } from '../../src/core/signing-file.ts';
import { setDestination } from '../../src/money-out/destinations.ts';
import { followPayouts } from '../../src/money-out/follow-payouts.ts';
import { DEFAULT_WISH, readHoldings, readWallets } from '../../src/money-out/holdings.ts';
import { makePayoutFile } from '../../src/money-out/payout-files.ts';
import { approvePayouts, cancelPayout, getPayout, markPayoutSent } from '../../src/money-out/payouts.ts';
import { acceptSigned, cancelSweep, getSweep, makeSweep, readSigningFileOf, replaceSweep } from '../../src/money-out/sweeps.ts';
import { eventually, startTestApp, type TestApp } from '../kit/app.ts';
import { startBitcoind, type TestNode } from '../kit/nodes.ts';
import { account, giveWallet, openPayment, reach } from '../kit/shop.ts';

let node: TestNode;
let app: TestApp;
before(async () => {
  node = await startBitcoind();
  app = await startTestApp({
    ...{ BTC_NODE_URL: node.url, BTC_NETWORK: 'regtest', BTC_CONFIRMATIONS: '2' },
    ...{ PRICES: 'static:BTC=1000.00', LOG_LEVEL: 'fatal' },
  });
  await giveWallet(app, 'BTC');
});
after(async () => {
  await app?.stop();
  await node?.destroy();
});

const actor = { userId: '', name: 'Test', ip: '' };
const owner = () => ({ merchantId: app.merchant.merchantId, mode: 'live' }) as const;
const makeFile = () => makePayoutFile(app.app.ctx, { ...owner(), coin: 'BTC', speed: 'normal', actor });
const payout = (id: string) => getPayout(app.app.ctx, { ...owner(), id });
const stateOf = async (id: string) => (await payout(id)).state;
const sign = async (id: string, addresses: readonly string[]) => {
  const content = signingFileText(await readSigningFileOf(app.app.ctx, { ...owner(), id }));
  return signFile({ content, secret: account('BTC').privateExtendedKey, destination: addresses.join('\n') }).text;
};
const upload = (content: string) => acceptSigned(app.app.ctx, { ...owner(), content, actor });
const received = async (address: string) => Math.round((await node.rpc('getreceivedbyaddress', address)) * 1e8);

test('payouts: requested, approved, signed in one transaction, sent, confirmed, and each recipient is paid once', async () => {
  const { ctx } = app.app;
  const deposits = [];
  for (let i = 0; i < 3; i++) deposits.push(await openPayment(app, 'BTC', 25));
  await node.payMany(deposits.map(({ address, amount }) => [address, amount] as const));
  await node.mine(2);
  for (const { id } of deposits) await reach(app, id, ({ status }) => status === 'completed');
  const destination = await node.newAddress();
  await setDestination(ctx, { ...owner(), coin: 'BTC', address: destination, ends: destination.slice(-6), actor: null });

  const [ada, bob] = [await node.newAddress(), await node.newAddress()];
  const ask = (body: object, key: string) => app.live.post('/v1/payouts', { currency: 'BTC', ...body }, { 'Idempotency-Key': key });
  const first = await ask({ amount: '0.02', address: ada, payout_reference: 'ada-1' }, 'one');
  assert.equal(first.status, 201, first.text);
  assert.deepEqual(
    (await ask({ amount: '0.02', address: ada, payout_reference: 'ada-1' }, 'one')).json,
    first.json,
    'a repeat is the same payout',
  );
  const again = await ask({ amount: '0.02', address: ada, payout_reference: 'ada-1' }, 'two');
  assert.deepEqual([again.status, again.json.error.code, again.json.error.param], [409, 'payout_exists', 'payout_reference']);
  // At 1,000 USD a coin.
  const second = await ask({ amount_usd: '30.00', address: bob }, 'three');
  assert.deepEqual([second.json.amount, second.json.status], ['0.03000000', 'requested']);
  const ids = [first.json.id as string, second.json.id as string];
  await assert.rejects(makeFile(), { code: 'payout_file_empty' }, 'nothing is approved');
  // A double click.
  const clicks = await Promise.allSettled([1, 2].map(() => approvePayouts(ctx, { ...owner(), which: { id: ids[0]! }, actor })));
  assert.deepEqual(clicks.map(({ status }) => status).toSorted(), ['fulfilled', 'rejected']);
  await approvePayouts(ctx, { ...owner(), which: { id: ids[1]! }, actor });

  // Two members make the file at the same moment: one of them gets it.
  const files = await Promise.allSettled([makeFile(), makeFile()]);
  const [lost] = files.flatMap((one) => (one.status === 'rejected' ? [one.reason.code] : []));
  assert.ok(lost === 'payout_file_empty' || lost === 'sweep_busy', lost);
  const [canceled] = files.flatMap((one) => (one.status === 'fulfilled' ? [one.value] : []));
  assert.deepEqual(canceled!.payouts.toSorted(), ids.toSorted());
  const inFile = { code: 'payout_in_file' };
  await assert.rejects(markPayoutSent(ctx, { ...owner(), id: ids[0]!, txid: 'ab'.repeat(32), actor }), inFile);
  const canceling = { ...owner(), id: ids[0]!, actor, idempotency: null, render: () => ({ status: 200, body: '' }) };
  await assert.rejects(cancelPayout(ctx, canceling), inFile);
  const everybody = [ada, bob, destination];
  // Somebody kept a signed copy of a file that was canceled: the next file spends the same output, so only one of them can be mined.
  const kept = JSON.parse(await sign(canceled!.sweep.id, everybody)) as { transactions: string[] };
  await cancelSweep(ctx, { ...owner(), id: canceled!.sweep.id, actor });
  // Also before the payouts know that their file was canceled.
  const [wallet] = await readWallets(ctx, owner());
  const { holdings } = await readHoldings(ctx, { ...owner(), walletId: wallet!.id, coin: 'BTC' });
  assert.equal(holdings.filter(({ stays }) => stays === 'payout_approved').length, 1, 'no sweep spends the output of an approved payout');
  await eventually(
    async () => Promise.all(ids.map(payout)),
    (both) => both.every(({ sweepId }) => sweepId === null),
  );
  const sweeping = await makeSweep(ctx, { ...owner(), coin: 'BTC', walletId: null, wish: DEFAULT_WISH, actor });
  assert.equal(sweeping.sweep.inputCount, 2);
  await cancelSweep(ctx, { ...owner(), id: sweeping.sweep.id, actor });

  const { sweep } = await makeFile();
  const anchors = await ctx.db.sql<{ anchor: string; spent: boolean }[]>`
    select anchor, exists (select 1 from sweep_inputs i where i.sweep_id = ${sweep.id} and i.input = p.anchor) as spent from payouts p`;
  assert.deepEqual([new Set(anchors.map(({ anchor }) => anchor)).size, anchors.every(({ spent }) => spent)], [1, true]);
  const [asked] = (await readSigningFileOf(ctx, { ...owner(), id: sweep.id })).requests;
  assert.ok(asked?.kind === 'psbt');
  assert.deepEqual(asked.lines.map(({ purpose, to, units, reference }) => [purpose, to, units, reference]).slice(0, 2), [
    ['payout', ada, 2_000_000n, 'ada-1'],
    ['payout', bob, 3_000_000n, ids[1]],
  ]);
  await assert.rejects(sign(sweep.id, [ada, destination]), /not among the addresses/, 'the signer knows every recipient');
  const text = await sign(sweep.id, everybody);
  // An upload that is repeated, and a killed process that repeats its round.
  assert.deepEqual([(await upload(text)).isKnown, (await upload(text)).isKnown], [false, true]);
  await eventually(
    () => Promise.all(ids.map(stateOf)),
    (states) => states.every((state) => state === 'sent'),
  );
  await replaceSweep(ctx, { ...owner(), id: sweep.id, speed: 'fast', actor });
  await upload(await sign(sweep.id, everybody));
  const { transactions } = await getSweep(ctx, { ...owner(), id: sweep.id });
  await eventually(
    () => node.rpc('getrawmempool') as Promise<string[]>,
    (mempool) => mempool.includes(transactions[1]!.txid) && !mempool.includes(transactions[0]!.txid),
  );
  await node.mine(1);
  // Broadcast again, the replaced one too, and the copy of the canceled file.
  for (const { raw } of await ctx.db.sql<{ raw: Uint8Array }[]>`select raw from sweep_transactions where sweep_id = ${sweep.id}`)
    await assert.rejects(node.rpc('sendrawtransaction', Buffer.from(raw).toString('hex')));
  await assert.rejects(node.rpc('sendrawtransaction', kept.transactions[0]));
  await node.mine(1);
  await eventually(
    () => Promise.all(ids.map(stateOf)),
    (states) => states.every((state) => state === 'confirmed'),
  );
  await followPayouts(ctx);
  assert.deepEqual([await received(ada), await received(bob)], [2_000_000, 3_000_000], 'once, and in full');
  assert.deepEqual([(await payout(ids[0]!)).txid, (await payout(ids[1]!)).txid], [transactions[1]!.txid, transactions[1]!.txid]);
  const { json: listed } = await app.live.get('/v1/payouts?status=confirmed&payout_reference=ada-1');
  assert.deepEqual(
    listed.data.map(({ id }: any) => id),
    [ids[0]],
  );
  const { data } = (await app.live.get('/v1/events?limit=100')).json;
  assert.deepEqual(
    data.filter((event: any) => event.data.id === ids[0]).map(({ type, data }: any) => [type, data.sequence]),
    [
      ['payout.confirmed', 4],
      ['payout.sent', 3],
      ['payout.approved', 2],
      ['payout.requested', 1],
    ],
  );
  await assert.rejects(makeFile(), { code: 'payout_file_empty' });
  for (const id of ids) await assert.rejects(approvePayouts(ctx, { ...owner(), which: { id }, actor }), { code: 'payout_state' });
});
