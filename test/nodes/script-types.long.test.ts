/** Nodes accept what was signed for wallets of every address type: Taproot, nested segwit and legacy, in sweeps and refunds. */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { signFile } from '../../signer/sign.ts';
import type { BitcoinScript } from '../../src/addresses/params.ts';
import { signingFileText } from '../../src/core/signing-file.ts';
import { getMerchant } from '../../src/merchants/merchants.ts';
import { approveOutgoing } from '../../src/outgoing/decisions.ts';
import { DEFAULT_WISH } from '../../src/signing/holdings.ts';
import { makeRefundFile } from '../../src/signing/refund-files.ts';
import { acceptSigned, getSweep, makeSweep, readSigningFileOf, type Sweep } from '../../src/signing/signing-files.ts';
import { setDestination } from '../../src/wallets/destinations.ts';
import { setWallet } from '../../src/wallets/wallets.ts';
import { eventually, startTestApp, type TestApp } from '../kit/app.ts';
import { base58check } from '../kit/base58.ts';
import { startBitcoind, startLitecoind, type TestNode } from '../kit/nodes.ts';
import { account, beginFollowing, openPayment, reach } from '../kit/shop.ts';

type Coin = 'BTC' | 'LTC';
const KINDS: readonly [Coin, BitcoinScript, start: RegExp][] = [
  ['BTC', 'p2tr', /^bcrt1p/],
  ['BTC', 'p2sh-p2wpkh', /^2/],
  ['BTC', 'p2pkh', /^[mn]/],
  ['LTC', 'p2tr', /^rltc1p/],
  ['LTC', 'p2sh-p2wpkh', /^[Q2]/],
  ['LTC', 'p2pkh', /^[mn]/],
];
let nodes: Record<Coin, TestNode>;
let app: TestApp;
before(async () => {
  const [BTC, LTC] = await Promise.all([startBitcoind(), startLitecoind()]);
  nodes = { BTC, LTC };
  app = await startTestApp({
    ...{ BTC_NODE_URL: BTC.url, BTC_NETWORK: 'regtest', BTC_CONFIRMATIONS: '1' },
    ...{ LTC_NODE_URL: LTC.url, LTC_NETWORK: 'regtest', LTC_CONFIRMATIONS: '1' },
    ...{ PRICES: 'static:BTC=1000.00,LTC=1000.00', LOG_LEVEL: 'fatal' },
  });
  await beginFollowing(app, 'BTC', 'LTC');
});
after(async () => {
  await app?.stop();
  for (const node of Object.values(nodes ?? {})) await node.destroy();
});

const actor = { userId: '', name: 'Test', ip: '' };
for (const [i, [coin, script, start]] of KINDS.entries())
  test(`a node accepts a refund and a sweep in ${coin} from ${script} addresses`, async () => {
    const { ctx } = app.app;
    const owner = { merchantId: app.merchant.merchantId, mode: 'live' } as const;
    // Cached a moment before the wallet is set, as by the dashboard.
    await getMerchant(ctx, owner);
    // Each type has a wallet of its own.
    const key = account(coin, 20 + i);
    await setWallet(ctx, { ...owner, coin, script, accountKey: base58check.respell(key.publicExtendedKey, 0x043587cf) });
    const payments = [await openPayment(app, coin, 25), await openPayment(app, coin, 40)];
    for (const { address } of payments) assert.match(address, start);
    await nodes[coin].payMany(payments.map(({ address, amount }) => [address, amount] as const));
    await nodes[coin].mine(1);
    for (const { id } of payments) await reach(app, id, ({ status }) => status === 'completed');
    const [destination, customer] = [await nodes[coin].newAddress(), await nodes[coin].newAddress()];
    await setDestination(ctx, { ...owner, coin, address: destination, ends: destination.slice(-6), actor: null });

    const send = async ({ id, purpose }: Sweep): Promise<string> => {
      const content = signingFileText(await readSigningFileOf(ctx, { ...owner, id }));
      const text = signFile({
        content,
        secret: key.privateExtendedKey,
        destination,
        recipients: purpose === 'refund' ? customer : '',
      }).text;
      await acceptSigned(ctx, { ...owner, content: text, actor });
      const { txid } = (await getSweep(ctx, { ...owner, id })).transactions[0]!;
      await eventually(
        () => nodes[coin].rpc('getrawmempool') as Promise<string[]>,
        (mempool) => mempool.includes(txid),
        60_000,
      );
      await nodes[coin].mine(1);
      await eventually(
        async () => (await getSweep(ctx, { ...owner, id })).sweep.state,
        (state) => state === 'confirmed',
        60_000,
      );
      return txid;
    };
    const { json } = await app.live.post('/v1/refunds', { payment_id: payments[0]!.id, amount: '0.01000000', address: customer });
    await approveOutgoing(ctx, { kind: 'refund', ...owner, id: json.id, actor });
    await send((await makeRefundFile(ctx, { ...owner, coin, speed: 'normal', actor })).sweep);
    assert.equal(Math.round((await nodes[coin].rpc('getreceivedbyaddress', customer)) * 1e8), 1_000_000);
    const { sweep } = await makeSweep(ctx, { ...owner, coin, walletId: null, wish: DEFAULT_WISH, actor });
    const { value } = await nodes[coin].rpc('gettxout', await send(sweep), 0);
    assert.equal(Math.round(value * 1e8), Number(sweep.totalUnits));
    assert.equal(sweep.totalUnits + sweep.feeUnits, 4_000_000n);
  });
