/**
 * A wallet of two out of three keys on a real node: paid, swept, refunded and paid out, signed by the wallet of the node, or in a long run
 * also by Electrum, and by the signer page in a browser with the network cut.
 */
import assert from 'node:assert/strict';
import { rmSync } from 'node:fs';
import { after, before, test } from 'node:test';
import type { Browser } from 'playwright-core';
import { signFile } from '../../signer/sign.ts';
import { descriptorChecksum } from '../../src/addresses/descriptor.ts';
import { signingFileText } from '../../src/core/signing-file.ts';
import { approveOutgoing } from '../../src/outgoing/decisions.ts';
import { getOutgoing } from '../../src/outgoing/outgoing-payments.ts';
import { DEFAULT_WISH } from '../../src/signing/holdings.ts';
import { makePayoutFile } from '../../src/signing/payout-files.ts';
import { makeRefundFile } from '../../src/signing/refund-files.ts';
import { psbtsOf } from '../../src/signing/signed.ts';
import { acceptSigned, getSweep, makeSweep, readSigningFileOf, replaceSweep, sweepBody } from '../../src/signing/signing-files.ts';
import { sizeOfRaw } from '../../src/signing/utxo-check.ts';
import { setDestination } from '../../src/wallets/destinations.ts';
import { setWallet } from '../../src/wallets/wallets.ts';
import { eventually, startTestApp, type TestApp } from '../kit/app.ts';
import { startBrowser } from '../kit/browser.ts';
import { electrumCosigner } from '../kit/electrum-program.ts';
import { firstOf, isLongRun } from '../kit/long.ts';
import { accountKeyOf, multisigDescriptor, type Policy, signer } from '../kit/multisig.ts';
import { type RealNode, rpcClient, startBitcoind } from '../kit/nodes.ts';
import { beginFollowing, openPayment, reach } from '../kit/shop.ts';
import { openSignerPage, type SignerPage } from '../kit/signer-page.ts';

const FORMS: readonly [name: string, policy: Policy][] = [
  ['wsh(sortedmulti)', { required: 2, of: 3 }],
  ['sh(wsh(sortedmulti))', { required: 2, of: 3, wraps: (multi) => `sh(wsh(${multi}))` }],
  ['wsh(multi)', { required: 2, of: 3, isSorted: false }],
];
let node: RealNode;
let app: TestApp;
let browser: Browser;
let page: SignerPage;
before(async () => {
  browser = await startBrowser();
  page = await openSignerPage(browser);
  node = await startBitcoind();
  app = await startTestApp({
    ...{ BTC_NODE_URL: node.url, BTC_NETWORK: 'regtest', BTC_CONFIRMATIONS: '2' },
    ...{ PRICES: 'static:BTC=1000.00', LOG_LEVEL: 'fatal' },
  });
});
after(async () => {
  await browser?.close();
  await app?.stop();
  await node?.destroy();
});

const actor = { userId: '', name: 'Test', ip: '' };
const owner = () => ({ merchantId: app.merchant.merchantId });
const upload = (content: string) => acceptSigned(app.app.ctx, { ...owner(), content, actor });
const fileOf = (id: string) => readSigningFileOf(app.app.ctx, { ...owner(), id });
const stateOf = async (id: string) => (await getSweep(app.app.ctx, { ...owner(), id })).sweep.state;
/** The page in its browser, or in short runs for all forms but one the code of the page. */
async function signedByPage(form: string, { id, seed, destination, recipients = '' }: Asked): Promise<string> {
  const asked = { content: signingFileText(await fileOf(id)), secret: signer(seed).privateExtendedKey, destination, recipients };
  return isLongRun || form === FORMS[0]![0] ? page.sign(asked) : signFile(asked).text;
}
type Asked = { id: string; seed: number; destination: string; recipients?: string };

/** How the first signer signs: with all three keys, of which it has one. What is signed is complete only with `finalize`. */
type Sign = (psbt: string, finalize: boolean) => Promise<string>;
let wallets = 0;
async function nodeSigner(policy: Policy): Promise<Sign> {
  const name = `signer ${++wallets}`;
  await node.rpc('createwallet', name, false, true);
  const rpc = rpcClient(Number(new URL(node.url).port), name);
  const { publicKey, privateKey } = accountKeyOf(1);
  const body = multisigDescriptor(policy).split('#')[0]!.replace(publicKey, privateKey).replaceAll('<0;1>', '0');
  const [{ success, error }] = await rpc('importdescriptors', [
    { desc: `${body}#${descriptorChecksum(body)}`, timestamp: 'now', range: [0, 50] },
  ]);
  assert.ok(success, JSON.stringify(error));
  return async (psbt, finalize) => (await rpc('walletprocesspsbt', psbt, true, 'ALL', true, finalize)).psbt;
}

/** Electrum has addresses of this wallet too. It completes a transaction as soon as it can. */
async function electrumSigner(policy: Policy, addresses: readonly string[]): Promise<Sign> {
  const electrum = electrumCosigner(policy);
  after(() => rmSync(electrum.folder, { recursive: true }));
  assert.deepEqual(JSON.parse(await electrum.call('listaddresses', '--receiving')).slice(0, addresses.length), addresses);
  return (psbt) => electrum.call('signtransaction', psbt);
}
const SIGNERS = ['the node', ...(isLongRun ? ['Electrum'] : [])];

async function receive(count: number): Promise<string[]> {
  const payments = [];
  for (let i = 0; i < count; i++) payments.push(await openPayment(app, 'BTC', 25));
  await node.payMany(payments.map(({ address, amount }) => [address, amount] as const));
  await node.mine(2);
  for (const { id } of payments) await reach(app, id, ({ status }) => status === 'completed');
  return payments.map(({ id }) => id);
}
async function mineUntil(id: string, state: string): Promise<void> {
  await eventually(
    async () => {
      await node.mine(1);
      return stateOf(id);
    },
    (now) => now === state,
    60_000,
  );
}

for (const [[name, policy], program] of firstOf(FORMS).flatMap((form) => SIGNERS.map((program) => [form, program] as const))) {
  // Electrum sorts the keys of every wallet.
  if (program === 'Electrum' && policy.isSorted === false) continue;
  test(`${name}: addresses are those of the node, and money is swept, refunded and paid out with two of three keys, one of ${program}`, async () => {
    const { ctx } = app.app;
    const descriptor = multisigDescriptor(policy);
    const { firstAddresses } = await setWallet(ctx, { ...owner(), coin: 'BTC', accountKey: descriptor });
    const external = descriptor.split('#')[0]!.replaceAll('<0;1>', '0');
    assert.deepEqual(firstAddresses, await node.rpc('deriveaddresses', `${external}#${descriptorChecksum(external)}`, [0, 4]));
    await beginFollowing(app, 'BTC');
    const sign = await (program === 'Electrum' ? electrumSigner(policy, firstAddresses) : nodeSigner(policy));
    const payments = await receive(4);
    const destination = await node.newAddress();
    await setDestination(ctx, { ...owner(), coin: 'BTC', address: destination, ends: destination.slice(-6), actor: null });

    // A refund of all of a payment, whose fee another deposit pays.
    const customer = await node.newAddress();
    const { json: made } = await app.live.post('/v1/refunds', { payment_id: payments[0], address: customer });
    await approveOutgoing(ctx, { kind: 'refund', ...owner(), mode: 'live', id: made.id, actor });
    const { sweep: refund } = await makeRefundFile(ctx, { ...owner(), coin: 'BTC', speed: 'normal', actor });
    await upload(await signedByPage(name, { id: refund.id, seed: 2, destination, recipients: customer }));
    assert.equal(await stateOf(refund.id), 'made', 'one signature does not send it');
    await upload(await sign(psbtsOf(await fileOf(refund.id))[0]!, true));
    await mineUntil(refund.id, 'confirmed');
    await eventually(
      () => getOutgoing(ctx, { kind: 'refund', ...owner(), mode: 'live', id: made.id }),
      ({ state }) => state === 'confirmed',
    );
    assert.equal(Math.round((await node.rpc('getreceivedbyaddress', customer)) * 1e8), 2_500_000);

    // A payout, signed by the program first.
    const supplier = await node.newAddress();
    const asked = await app.live.post('/v1/payouts', {
      currency: 'BTC',
      amount: '0.01',
      address: supplier,
      payout_reference: `${name} ${program}`,
    });
    await approveOutgoing(ctx, { kind: 'payout', ...owner(), mode: 'live', id: asked.json.id, actor });
    const { sweep: payout } = await makePayoutFile(ctx, { ...owner(), coin: 'BTC', speed: 'normal', actor });
    await upload(await sign(psbtsOf(await fileOf(payout.id))[0]!, false));
    await upload(await signedByPage(name, { id: payout.id, seed: 3, destination, recipients: `${supplier} 0.01` }));
    await mineUntil(payout.id, 'confirmed');
    assert.equal(Math.round((await node.rpc('getreceivedbyaddress', supplier)) * 1e8), 1_000_000);

    // What is left, signed by the node first, then with a higher fee by the page first.
    const { sweep } = await makeSweep(ctx, { ...owner(), coin: 'BTC', walletId: null, wish: DEFAULT_WISH, actor });
    const byNode = await sign(psbtsOf(await fileOf(sweep.id))[0]!, false);
    assert.equal((await upload(byNode)).isKnown, false);
    assert.equal((await upload(byNode)).isKnown, true);
    const { signatures } = sweepBody((await getSweep(ctx, { ...owner(), id: sweep.id })).sweep);
    assert.deepEqual(
      [signatures!.required, signatures!.signers.filter(({ has_signed }) => has_signed).map(({ path }) => path)],
      [2, ["m/48'/1'/0'/2'/0"]],
    );
    await upload(await signedByPage(name, { id: sweep.id, seed: 3, destination }));
    await eventually(
      () => stateOf(sweep.id),
      (state) => state === 'sent',
    );
    const second = await replaceSweep(ctx, { ...owner(), id: sweep.id, speed: 'fast', actor });
    assert.ok(second.feeUnits > sweep.feeUnits);
    assert.deepEqual(second.signedBy, []);
    await assert.rejects(upload(byNode), { code: 'signed_file_refused' });
    await upload(await signedByPage(name, { id: sweep.id, seed: 2, destination }));
    await upload(await sign(psbtsOf(await fileOf(sweep.id))[0]!, false));
    await eventually(
      () => node.rpc('getrawmempool') as Promise<string[]>,
      (mempool) => mempool.length === 1,
    );
    const [{ raw } = { raw: Buffer.alloc(0) }] = await ctx.db.sql<{ raw: Buffer }[]>`
      select raw from signed_transactions where file_id = ${sweep.id} and round = 0`;
    const rate = Number(sweep.feeUnits) / sizeOfRaw(raw);
    const [normal] = (await ctx.chains.get('bitcoin')!.fees()).filter(({ speed }) => speed === DEFAULT_WISH.speed);
    assert.ok(rate >= Number(normal!.rateE8) / 1e8 && rate < (Number(normal!.rateE8) / 1e8) * 1.1, `${rate} of ${normal!.rateE8}`);
    await mineUntil(sweep.id, 'confirmed');
    page.assertSilent();
  });
}
