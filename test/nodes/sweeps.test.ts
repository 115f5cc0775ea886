/** Money leaves deposit addresses: listed, made into a file, signed by the code of the signer page, sent and followed on real nodes. */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { signFile } from '../../signer/sign.ts';
import { signingFileText } from '../../src/core/signing-file.ts';
import { setDestination } from '../../src/money-out/destinations.ts';
import { DEFAULT_WISH } from '../../src/money-out/holdings.ts';
import { acceptSigned, getSweep, listSweepable, makeSweep, readSigningFileOf } from '../../src/money-out/sweeps.ts';
import { eventually, startTestApp, type TestApp } from '../kit/app.ts';
import { type RealNode, startBitcoind } from '../kit/nodes.ts';
import { account, giveWallet, openPayment, reach } from '../kit/shop.ts';

let node: RealNode;
let app: TestApp;
before(async () => {
  node = await startBitcoind();
  app = await startTestApp({
    BTC_NODE_URL: node.url,
    BTC_NETWORK: 'regtest',
    BTC_CONFIRMATIONS: '2',
    PRICES: 'static:BTC=1000.00',
    LOG_LEVEL: 'fatal',
  });
  await giveWallet(app, 'BTC');
  await eventually(
    async () => ((await (await fetch(`${app.url}/readyz`)).json()) as any).followers?.BTC,
    (follower) => follower !== undefined,
    60_000,
  );
});
after(async () => {
  await app?.stop();
  await node?.destroy();
});

const actor = { userId: '', name: 'Test', ip: '' };
const secret = account('BTC').privateExtendedKey;

test('a sweep in BTC: listed, made, signed offline, sent and followed to its confirmation', async () => {
  const { ctx } = app.app;
  const owner = { merchantId: app.merchant.merchantId };
  const payments = [];
  for (let i = 0; i < 3; i++) payments.push(await openPayment(app, 'BTC', 25));
  await node.payMany(payments.map(({ address, amount }) => [address, amount] as const));
  await node.mine(2);
  for (const { id } of payments) await reach(app, id, ({ status }) => status === 'completed');
  const address = await node.newAddress();
  await setDestination(ctx, { ...owner, coin: 'BTC', address, ends: address.slice(-6), actor: null });
  const [listed] = await listSweepable(ctx, owner);
  assert.deepEqual([listed!.coin, listed!.count, listed!.units, listed!.remains], ['BTC', 3, 7_500_000n, []]);
  const { sweep } = await makeSweep(ctx, { ...owner, coin: 'BTC', walletId: null, wish: DEFAULT_WISH, actor });
  assert.equal(sweep.totalUnits + sweep.feeUnits, 7_500_000n);
  await assert.rejects(makeSweep(ctx, { ...owner, coin: 'BTC', walletId: null, wish: DEFAULT_WISH, actor }), { code: 'sweep_empty' });
  const content = signingFileText(await readSigningFileOf(ctx, { ...owner, id: sweep.id }));
  const { text } = signFile({ content, secret, ends: address.slice(-6) });
  assert.equal((await acceptSigned(ctx, { ...owner, content: text, actor })).isKnown, false);
  assert.equal((await acceptSigned(ctx, { ...owner, content: text, actor })).isKnown, true);
  const state = async () => (await getSweep(ctx, { ...owner, id: sweep.id })).sweep;
  await eventually(state, (one) => one.state === 'sent');
  await node.mine(1);
  const { transactions } = await eventually(
    () => getSweep(ctx, { ...owner, id: sweep.id }),
    (one) => one.transactions[0]?.blockHeight != null,
  );
  assert.equal((await state()).state, 'sent');
  await node.mine(1);
  await eventually(state, (one) => one.state === 'confirmed');
  const received = await node.rpc('gettransaction', transactions[0]!.txid);
  assert.equal(Math.round(received.amount * 1e8), Number(sweep.totalUnits));
  assert.deepEqual(await listSweepable(ctx, owner), []);
});
