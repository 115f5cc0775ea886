/** ETH and tokens leave deposit addresses on a real EVM: one transfer each, authorizations in a batch, and transfers with gas paid first. */
// Invariant: A refund in ETH or a token is paid once, also when its files are made again, uploaded twice, or its block is replaced.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { HIGH_FEE, signFile } from '../../signer/sign.ts';
import { checksumAddress } from '../../src/addresses/evm-address.ts';
import { trialBalance } from '../../src/books/books.ts';
import { COIN, type Coin } from '../../src/core/coin.ts';
import { parseDecimal } from '../../src/core/money.ts';
import { type AccountRequest, readSignedFile, type SigningFile, signedFileText, signingFileText } from '../../src/core/signing-file.ts';
import { MULTICALL3, readSignedTransaction as readTransaction, selector, word } from '../../src/evm/transaction.ts';
import { changeSettings } from '../../src/merchants/merchants.ts';
import { approveOutgoing, cancelOutgoing, markOutgoingSent } from '../../src/outgoing/decisions.ts';
import { followOutgoing, followSentByHand } from '../../src/outgoing/follow-outgoing.ts';
import { getOutgoing } from '../../src/outgoing/outgoing-payments.ts';
import { DEFAULT_WISH } from '../../src/signing/holdings.ts';
import { makeRefundFile } from '../../src/signing/refund-files.ts';
import {
  acceptSigned,
  cancelSweep,
  getSweep,
  listSweepable,
  makeSweep,
  readSigningFileOf,
  replaceSweep,
} from '../../src/signing/signing-files.ts';
import { setDestination } from '../../src/wallets/destinations.ts';
import { eventually, startTestApp, type TestApp } from '../kit/app.ts';
import { type EthNode, startAnvil } from '../kit/nodes.ts';
import { account, giveWallet, reach } from '../kit/shop.ts';

const { runtime } = JSON.parse(readFileSync(join(import.meta.dirname, '../fixtures/contracts/tokens.json'), 'utf8'));
const [USDC, USDT] = ['USDC@ethereum', 'USDT@ethereum'] as const satisfies Coin[];
/** Where the code behind USDC is, which is called through a proxy as on mainnet. */
const LOGIC = '0x00000000000000000000000000000000000c0de1';
const LOGIC_SLOT = '0x7050c9e0f4ca769c69bd3a8ef740bc37934f8e2c036e5a723fd8ee048ed3f8c3';
const DESTINATION = '0x00000000000000000000000000000000000A11cE';
const actor = { userId: '', name: 'Test', ip: '' };
const secret = account('ETH').privateExtendedKey;

let node: EthNode;
let app: TestApp;
const contract = (coin: Coin): string => COIN[coin].contract!;
const owner = () => ({ merchantId: app.merchant.merchantId });
before(async () => {
  node = await startAnvil();
  await node.rpc('anvil_setCode', LOGIC, `0x${runtime.Token}`);
  await node.rpc('anvil_setCode', contract(USDC), `0x${runtime.Proxy}`);
  await node.rpc('anvil_setStorageAt', contract(USDC), LOGIC_SLOT, `0x${word(LOGIC)}`);
  // Without the functions of EIP-3009, as USDT is: its name says that they are not there.
  await node.rpc('anvil_setCode', contract(USDT), `0x${runtime.Token.replaceAll(selector('DOMAIN_SEPARATOR()'), 'deadbeef')}`);
  await node.rpc('anvil_setCode', MULTICALL3, `0x${runtime.Multicall3}`);
  app = await startTestApp({
    ETH_NODE_URL: node.url,
    ETH_CHAIN_ID: '31337',
    ETH_NETWORK: 'regtest',
    ETH_CONFIRMATIONS: '2',
    PRICES: 'static:ETH=2500.00,USDC=1.00,USDT=1.00',
    LOG_LEVEL: 'fatal',
  });
  await giveWallet(app, 'ETH');
  await changeSettings(app.app.ctx, { ...owner(), settings: { tokens: [USDC, USDT] } });
  await eventually(
    async () => ((await (await fetch(`${app.url}/readyz`)).json()) as any).followers?.ETH,
    (follower) => follower !== undefined,
    60_000,
  );
  await setDestination(app.app.ctx, { ...owner(), coin: 'ETH', address: DESTINATION, ends: DESTINATION.slice(-6), actor: null });
});
after(async () => {
  await app?.stop();
  await node?.destroy();
});

const create = async (crypto: string, amount = 25): Promise<{ id: string; address: string; amount: string }> => {
  const made = await app.live.post('/v1/transactions/create', { amount, currency_fiat: 'USD', crypto, network: 'ethereum' });
  assert.equal(made.status, 201, made.text);
  return { id: made.json.transaction_id, address: made.json.payment_address, amount: made.json.amount };
};
async function paid(crypto: string, count: number, pay: (address: string) => Promise<unknown>): Promise<string[]> {
  const payments = [];
  for (let i = 0; i < count; i++) payments.push(await create(crypto));
  for (const { address } of payments) await pay(address);
  await node.mine(2);
  for (const { id } of payments) await reach(app, id, ({ status }) => status === 'completed');
  return payments.map(({ address }) => address);
}
const mint =
  (coin: Coin, units = 25_000_000n) =>
  (address: string) =>
    node.send({ to: contract(coin), data: `0x${selector('mint(address,uint256)')}${word(address)}${word(units)}`, gas: 200_000 });
const held = async (coin: Coin, address: string): Promise<bigint> =>
  BigInt(await node.rpc('eth_call', { to: contract(coin), data: `0x${selector('balanceOf(address)')}${word(address)}` }, 'latest'));
/** Empty blocks lower the price of gas, down to less than the unit in which sources report fees. */
async function resetPrice(): Promise<void> {
  await node.rpc('anvil_setNextBlockBaseFeePerGas', '0x3b9aca00');
  await node.mine(1);
}
async function make(coin: Coin) {
  await resetPrice();
  return makeSweep(app.app.ctx, { ...owner(), coin, walletId: null, wish: DEFAULT_WISH, actor });
}
const contentOf = async (id: string) => signingFileText(await readSigningFileOf(app.app.ctx, { ...owner(), id }));
const sign = async (id: string) => signFile({ content: await contentOf(id), secret, destination: DESTINATION }).text;
const upload = (content: string) => acceptSigned(app.app.ctx, { ...owner(), content, actor });
/** Mines until the sweep is over. */
const finish = (id: string) =>
  eventually(
    async () => {
      await node.mine(1);
      return (await getSweep(app.app.ctx, { ...owner(), id })).sweep;
    },
    ({ state }) => state === 'confirmed' || state === 'failed',
    60_000,
  );
/** Sends ETH to the address that the error names. */
async function payGas(coin: Coin): Promise<void> {
  await assert.rejects(make(coin), (error: any) => {
    assert.equal(error.code, 'sweep_gas_missing');
    return true;
  });
  const error: any = await make(coin).catch((failed) => failed);
  const [, address] = /address (0x[0-9a-fA-F]{40})/.exec(error.message) ?? [];
  await node.send({ to: address!, value: 10n ** 18n });
  await node.mine(1);
}

test('ETH: one transfer from each address, for all that is left after the fee', async () => {
  const addresses = await paid('ETH', 3, (to) => node.send({ to, value: 10n ** 16n }));
  const { sweep } = await make('ETH');
  assert.equal(sweep.inputCount, 3);
  assert.equal(sweep.totalUnits + sweep.feeUnits, 3n * 10n ** 16n);
  await upload(await sign(sweep.id));
  const done = await finish(sweep.id);
  assert.deepEqual([done.state, done.failure], ['confirmed', null]);
  assert.equal(BigInt(await node.rpc('eth_getBalance', DESTINATION, 'latest')), sweep.totalUnits);
  for (const address of addresses) assert.equal(await node.rpc('eth_getTransactionCount', address, 'latest'), '0x1');
});

test('USDC: authorizations in one transaction that the gas address pays for; a frozen address stays', async (t) => {
  const addresses = await paid('USDC', 8, mint(USDC));
  const frozen = addresses[3]!;
  const freeze = (on: bigint) =>
    node.send({ to: contract(USDC), data: `0x${selector('freeze(address,bool)')}${word(frozen)}${word(on)}`, gas: 100_000 });
  await freeze(1n);
  await node.mine(1);
  await payGas(USDC);
  const { sweep, remains } = await make(USDC);
  assert.deepEqual(remains, [{ reason: 'frozen', count: 1, units: 25_000_000n }]);
  assert.equal(sweep.totalUnits, 175_000_000n);
  const text = await sign(sweep.id);
  assert.equal((await upload(text)).isKnown, false);
  assert.equal((await upload(text)).isKnown, true);
  // Also once the transaction waits at the node, where its transfers cannot be made a second time.
  await eventually(
    () => getSweep(app.app.ctx, { ...owner(), id: sweep.id }),
    (one) => one.sweep.state === 'sent',
  );
  assert.equal((await upload(text)).isKnown, true);
  const done = await finish(sweep.id);
  assert.deepEqual([done.state, done.failure], ['confirmed', null]);
  assert.equal((await upload(text)).isKnown, true);
  assert.equal(await held(USDC, DESTINATION), 175_000_000n);
  const { transactions } = await getSweep(app.app.ctx, { ...owner(), id: sweep.id });
  const { gasUsed } = await node.rpc('eth_getTransactionReceipt', transactions[0]!.txid);
  t.diagnostic(`gas for each of 7 addresses: ${Math.round(Number(gasUsed) / 7)}`);
  await freeze(0n);
  await node.mine(1);
  const again = await make(USDC);
  assert.deepEqual([again.sweep.totalUnits, again.remains], [25_000_000n, []]);
  // Frozen after the file was made: the service sees it before anything is sent.
  const late = await sign(again.sweep.id);
  await freeze(1n);
  await node.mine(1);
  await assert.rejects(upload(late), (error: any) => error.code === 'signed_file_refused' && /would fail/.test(error.message));
  await cancelSweep(app.app.ctx, { ...owner(), id: again.sweep.id, actor });
});

test('USDC: a refund in several files that a stranger may send is paid once, and what is left is swept', async () => {
  const { ctx } = app.app;
  const payment = await create('USDC', 250);
  await mint(USDC, 250_000_000n)(payment.address);
  await node.mine(2);
  await reach(app, payment.id, ({ status }) => status === 'completed');
  const customer = checksumAddress('00000000000000000000000000000000000cafe1');
  const signed = async (id: string) => signFile({ content: await contentOf(id), secret, recipients: customer }).text;
  const makeFile = async () => {
    await resetPrice();
    return makeRefundFile(ctx, { ...owner(), coin: USDC, speed: 'normal', actor });
  };
  const refundOf = (id: string) => getOutgoing(ctx, { kind: 'refund', ...owner(), mode: 'live', id });
  const request = async (amount: string): Promise<string> => {
    const made = await app.live.post('/v1/refunds', { payment_id: payment.id, amount, address: customer });
    assert.equal(made.status, 201, made.text);
    await approveOutgoing(ctx, { kind: 'refund', ...owner(), mode: 'live', id: made.json.id, actor });
    return made.json.id;
  };
  const noncesIn = async (id: string) =>
    (await readSigningFileOf(ctx, { ...owner(), id })).requests.flatMap((one) =>
      one.kind === 'batch' ? one.authorizations.map(({ nonce }) => nonce) : [],
    );

  const first = await request('100');
  const canceled = await makeFile();
  const published = await signed(canceled.sweep.id);
  const taken = await makeSweep(ctx, { ...owner(), coin: USDC, walletId: null, wish: DEFAULT_WISH, actor }).catch(({ code }) => code);
  assert.ok(taken === 'sweep_empty' || taken === 'sweep_busy', 'a sweep does not take what a refund reserves');
  await assert.rejects(makeFile(), { code: 'refund_file_empty' });
  await cancelSweep(ctx, { ...owner(), id: canceled.sweep.id, actor });
  await eventually(
    () => refundOf(first),
    ({ sweepId }) => sweepId === null,
  );
  const again = await makeFile();
  assert.deepEqual(await noncesIn(again.sweep.id), await noncesIn(canceled.sweep.id));
  // Somebody else sends the authorization of the canceled file, before the transaction that Florin then sends.
  const sendAs = async (text: string): Promise<void> => {
    const { data } = readTransaction(Buffer.from(readSignedFile(text).transactions[0]!, 'hex'))!;
    await node.send({ to: MULTICALL3, data: `0x${Buffer.from(data).toString('hex')}`, gas: 400_000 });
    await node.mine(1);
  };
  /** Uploads a file whose transaction is mined and does nothing. */
  const sendInVain = async (id: string) => {
    await node.rpc('anvil_setCode', MULTICALL3, '0x');
    await upload(await signed(id));
    const { state } = await finish(id);
    await node.rpc('anvil_setCode', MULTICALL3, `0x${runtime.Multicall3}`);
    return state;
  };
  await sendAs(published);
  assert.equal(await held(USDC, customer), 100_000_000n);
  assert.equal(await sendInVain(again.sweep.id), 'confirmed');
  await eventually(
    () => refundOf(first),
    ({ state }) => state === 'confirmed',
  );
  assert.equal(await held(USDC, customer), 100_000_000n, 'once');

  const second = await request('50');
  const { sweep } = await makeFile();
  await upload(await signed(sweep.id));
  await eventually(
    () => refundOf(second),
    ({ state }) => state === 'sent',
  );
  const nonces = await noncesIn(sweep.id);
  await replaceSweep(ctx, { ...owner(), id: sweep.id, speed: 'fast', actor });
  assert.deepEqual(await noncesIn(sweep.id), nonces, 'a higher fee keeps the authorization');
  await upload(await signed(sweep.id));
  await finish(sweep.id);
  await eventually(
    () => refundOf(second),
    ({ state }) => state === 'confirmed',
  );
  assert.equal(await held(USDC, customer), 150_000_000n);
  assert.equal(await held(USDC, payment.address), 100_000_000n);

  // The transaction does not execute the authorization, so anybody can still send it: the refund has not failed before that expires.
  for (const [late, state] of [
    [true, 'confirmed'],
    [false, 'failed'],
  ] as const) {
    const id = await request('20');
    const { sweep } = await makeFile();
    assert.equal(await sendInVain(sweep.id), 'failed');
    await followOutgoing(ctx);
    assert.equal((await refundOf(id)).state, 'sent');
    if (late) await sendAs(await signed(sweep.id));
    await ctx.db.sql`update signing_files set file = jsonb_set(file::jsonb, '{requests,0,validBefore}', '1') where id = ${sweep.id}`;
    await eventually(
      () => refundOf(id),
      (refund) => refund.state === state,
    );
    if (!late)
      await cancelOutgoing(ctx, {
        kind: 'refund',
        ...owner(),
        mode: 'live',
        id,
        actor,
        idempotency: null,
        render: () => ({ status: 200, body: '' }),
      });
  }
  assert.equal(await held(USDC, customer), 170_000_000n);

  // A canceled file that somebody sent is noticed before the refund is in another one.
  const third = await request('10');
  const gone = await makeFile();
  const text = await signed(gone.sweep.id);
  await cancelSweep(ctx, { ...owner(), id: gone.sweep.id, actor });
  await eventually(
    () => refundOf(third),
    ({ sweepId }) => sweepId === null,
  );
  await sendAs(text);
  await assert.rejects(makeFile(), (error: any) => error.code === 'refund_file_empty' && /already paid/.test(error.message));
  await markOutgoingSent(ctx, { kind: 'refund', ...owner(), mode: 'live', id: third, actor, txid: `0x${'ab'.repeat(32)}` });
  assert.equal(await held(USDC, customer), 180_000_000n);

  // The money moves before the last refund is in a file.
  const rest = await make(USDC);
  await upload(await sign(rest.sweep.id));
  await finish(rest.sweep.id);
  assert.equal(await held(USDC, payment.address), 0n);
  await request('70');
  await assert.rejects(makeFile(), (error: any) => error.code === 'refund_file_empty' && /was moved.*mark it as sent/.test(error.message));
});

const refundOf = (id: string) => getOutgoing(app.app.ctx, { kind: 'refund', ...owner(), mode: 'live', id });
const refundReaches = (id: string, wanted: string) =>
  eventually(
    () => refundOf(id),
    ({ state }) => state === wanted,
  );
/** A refund that is approved. */
async function approved(payment: { id: string }, amount: string, address: string): Promise<string> {
  const made = await app.live.post('/v1/refunds', { payment_id: payment.id, amount, address });
  assert.equal(made.status, 201, made.text);
  await approveOutgoing(app.app.ctx, { kind: 'refund', ...owner(), mode: 'live', id: made.json.id, actor });
  return made.json.id;
}
/** A payment that was completed, with what its address received. */
async function completed(crypto: string, pay: (address: string, amount: string) => Promise<unknown>) {
  const payment = await create(crypto);
  await pay(payment.address, payment.amount);
  await node.mine(2);
  await reach(app, payment.id, ({ status }) => status === 'completed');
  return payment;
}
const payEther = (to: string, amount: string) => node.send({ to, value: parseDecimal(amount, 18)! });
async function refundFile(coin: Coin, customer: string) {
  await resetPrice();
  const { sweep, refunds } = await makeRefundFile(app.app.ctx, { ...owner(), coin, speed: 'normal', actor });
  const requests = async () => (await readSigningFileOf(app.app.ctx, { ...owner(), id: sweep.id })).requests as AccountRequest[];
  return {
    ...{ id: sweep.id, refunds, requests },
    signed: async () => signFile({ content: await contentOf(sweep.id), secret, recipients: customer }).text,
    cancel: async () => {
      await cancelSweep(app.app.ctx, { ...owner(), id: sweep.id, actor });
      for (const id of refunds)
        await eventually(
          () => refundOf(id),
          ({ sweepId }) => sweepId === null,
        );
    },
  };
}
const balanceOf = async (address: string) => BigInt(await node.rpc('eth_getBalance', address, 'latest'));
const customerAt = (number: number) => checksumAddress(`0000000000000000000000000000000000cafe${number}0`);
const cancelOne = (id: string) =>
  cancelOutgoing(app.app.ctx, {
    kind: 'refund',
    ...owner(),
    mode: 'live',
    id,
    actor,
    idempotency: null,
    render: () => ({ status: 200, body: '' }),
  });
const isEmptyWith = (reason: RegExp) => (error: any) => error.code === 'refund_file_empty' && reason.test(error.message);
/** Sends any transaction from an account, which uses its nonce. */
async function useNonce(from: string, value = 0n): Promise<void> {
  await node.rpc('anvil_impersonateAccount', from);
  await node.rpc('eth_sendTransaction', {
    from,
    to: value > 0n ? DESTINATION : from,
    value: `0x${value.toString(16)}`,
    gas: '0x5208',
    maxFeePerGas: '0x77359400',
    maxPriorityFeePerGas: '0x0',
  });
  await node.rpc('anvil_stopImpersonatingAccount', from);
  await node.mine(1);
}

test('ETH: a refund in several files is paid once and in full, also when all of the money goes back', async () => {
  const { ctx } = app.app;
  const networkFees = async () => {
    const books = await trialBalance(ctx, { ...owner(), mode: 'live', until: new Date(Date.now() + 3_600_000) });
    return books.find(({ coin, account }) => coin === 'ETH' && account === 'network_fees')?.units ?? 0n;
  };
  const feesBefore = await networkFees();
  const payment = await completed('ETH', payEther);
  const customer = customerAt(1);
  const first = await approved(payment, '0.004', customer);
  const kept = await refundFile('ETH', customer);
  const published = readSignedFile(await kept.signed()).transactions[0]!;
  await kept.cancel();
  const file = await refundFile('ETH', customer);
  const [asked] = await file.requests();
  assert.ok(asked?.kind === 'native');
  assert.deepEqual([asked.from, asked.nonce, asked.line.units], [payment.address, 0, 4n * 10n ** 15n]);

  const text = await file.signed();
  const uploads = await Promise.all([upload(text), upload(text)]);
  assert.deepEqual(uploads.map(({ isKnown }) => isKnown).toSorted(), [false, true]);
  await refundReaches(first, 'sent');
  await replaceSweep(ctx, { ...owner(), id: file.id, speed: 'fast', actor });
  const [dearer] = await file.requests();
  assert.ok(dearer?.kind === 'native');
  assert.deepEqual([dearer.nonce, dearer.line], [asked.nonce, asked.line], 'a higher fee keeps nonce and amount');
  await upload(await file.signed());
  await finish(file.id);
  await refundReaches(first, 'confirmed');
  // The copy of the canceled file, and the transaction with the lower fee.
  for (const raw of [published, readSignedFile(text).transactions[0]!])
    await assert.rejects(node.rpc('eth_sendRawTransaction', `0x${raw}`), /nonce too low/i);
  assert.equal(await balanceOf(customer), 4n * 10n ** 15n);

  // All of the money goes back: the gas address pays for the gas.
  const whole = await completed('ETH', payEther);
  const second = await approved(whole, whole.amount, customer);
  const last = await refundFile('ETH', customer);
  assert.deepEqual(
    (await last.requests()).map(({ kind, nonce }) => (kind === 'fund' ? kind : `${kind} ${nonce}`)),
    ['fund', 'native 0'],
  );
  await upload(await last.signed());
  await finish(last.id);
  await refundReaches(second, 'confirmed');
  assert.equal(await balanceOf(customer), 4n * 10n ** 15n + parseDecimal(whole.amount, 18)!);
  const { json } = await app.live.get(`/api/payment/${whole.id}`);
  assert.deepEqual([json.status, json.amount_refunded, json.transfers.length], ['completed', json.amount_received, 1]);
  assert.deepEqual(json.exceptions ?? [], [], 'what pays for gas is not money of a customer');
  // The fee of a refund is paid by what is left of its payment, or else by the gas address.
  let fees = 0n;
  for (const id of [file.id, last.id])
    for (const { txid, blockHeight } of (await getSweep(ctx, { ...owner(), id })).transactions) {
      if (blockHeight === null) continue;
      const { gasUsed, effectiveGasPrice } = await node.rpc('eth_getTransactionReceipt', txid);
      fees += BigInt(gasUsed) * BigInt(effectiveGasPrice);
    }
  assert.equal((await networkFees()) - feesBefore, fees, 'what the chain took is in the books');
});

test('ETH: a refund whose nonce was used otherwise fails with its reason, and its amount stays reserved until a member decides', async () => {
  const payment = await completed('ETH', payEther);
  const customer = customerAt(2);
  const id = await approved(payment, '0.006', customer);
  const file = await refundFile('ETH', customer);
  await useNonce(payment.address);
  await upload(await file.signed());
  const { state, failure } = await finish(file.id);
  assert.equal(state, 'failed');
  assert.match(failure ?? '', /^conflict: /);
  const failed = await refundReaches(id, 'failed');
  assert.match(failed.failure ?? '', new RegExp(`uses the nonce 0 of the account ${payment.address}\\. Check in a block explorer`));
  const again = () => app.live.post('/v1/refunds', { payment_id: payment.id, amount: '0.006', address: customer });
  assert.equal((await again()).json.error?.code, 'refund_exceeds');
  await cancelOne(id);
  const next = await approved(payment, '0.006', customer);
  const kept = await refundFile('ETH', customer);
  assert.equal((await kept.requests())[0]!.nonce, 1);
  // Its next file would have to use the same nonce, which is gone.
  await kept.cancel();
  await useNonce(payment.address);
  await assert.rejects(refundFile('ETH', customer), isEmptyWith(/sent another transaction.*mark it as sent or cancel it/));
  await cancelOne(next);
  // Nobody had to look where that money went.
  const last = await approved(payment, '0.006', customer);
  await assert.rejects(refundFile('ETH', customer), isEmptyWith(/sent another transaction since a file of a refund that is canceled now/));
  await cancelOne(last);
  assert.equal(await balanceOf(customer), 0n);
});

/** A file that returns all of a payment, for whose gas another transaction pays first. Waits until the node has that. */
async function wholeRefund(customer: string) {
  const { ctx } = app.app;
  const payment = await completed('ETH', payEther);
  const id = await approved(payment, payment.amount, customer);
  const file = await refundFile('ETH', customer);
  const text = await file.signed();
  await upload(text);
  const given = (round: number, number: number) =>
    eventually(
      async () =>
        (await getSweep(ctx, { ...owner(), id: file.id })).transactions.find((one) => one.round === round && one.number === number),
      (one) => one !== undefined && one.sentAt !== null,
    );
  await given(0, 0);
  return { ...file, id, sweep: { ...owner(), id: file.id }, text, given, units: parseDecimal(payment.amount, 18)! };
}

test('ETH: what pays for the gas of a refund is mined at an earlier price, and the refund follows at that price', async () => {
  const { ctx } = app.app;
  const customer = customerAt(5);
  const { id, sweep, text, given, signed, units } = await wholeRefund(customer);
  await replaceSweep(ctx, { ...sweep, speed: 'fast', actor });
  await upload(await signed());
  const dearer = await given(1, 0);
  await node.rpc('anvil_dropTransaction', dearer!.txid);
  await node.rpc('eth_sendRawTransaction', `0x${readSignedFile(text).transactions[0]}`);
  await node.mine(1);
  await finish(sweep.id);
  await refundReaches(id, 'confirmed');
  assert.equal(await balanceOf(customer), units);
  const mined = (await getSweep(ctx, sweep)).transactions.filter(({ blockHeight }) => blockHeight !== null);
  assert.deepEqual(
    mined.map(({ round, number }) => `${round}:${number}`),
    ['0:0', '0:1'],
  );
});

test('ETH: a higher fee for a refund that is mined already sends no more money for its gas', async () => {
  const { ctx } = app.app;
  const customer = customerAt(6);
  const { id, sweep, given, requests, signed, units } = await wholeRefund(customer);
  await node.mine(1);
  await given(0, 1);
  // While it is locked, nobody writes down that a block contains the transaction.
  await ctx.db.begin(async (tx) => {
    await tx`select 1 from signed_transactions where file_id = ${sweep.id} and number = 1 for update`;
    await node.mine(1);
    await replaceSweep(ctx, { ...sweep, speed: 'fast', actor });
  });
  assert.deepEqual(
    (await requests()).map(({ kind }) => kind),
    ['fund', 'native'],
  );
  await signed();
  await finish(sweep.id);
  await refundReaches(id, 'confirmed');
  assert.equal(await balanceOf(customer), units);
});

test('ETH: a higher fee for a refund whose deposit address was emptied meanwhile pays for gas only', async () => {
  const { ctx } = app.app;
  const customer = customerAt(7);
  const { id, sweep, given, requests, signed } = await wholeRefund(customer);
  const [, refund] = await requests();
  assert.ok(refund?.kind === 'native');
  await node.rpc('anvil_dropTransaction', (await given(0, 0))!.txid);
  const left = (await balanceOf(refund.from)) - 21_000n * 2_000_000_000n;
  await useNonce(refund.from, left);
  await replaceSweep(ctx, { ...sweep, speed: 'fast', actor });
  const [fund] = await requests();
  const { gasPrice } = await readSigningFileOf(ctx, sweep);
  assert.ok(fund?.kind === 'fund' && fund.units <= refund.gas * gasPrice!.max);
  await upload(await signed());
  assert.equal((await finish(sweep.id)).state, 'failed');
  await refundReaches(id, 'failed');
  await cancelOne(id);
  assert.equal(await balanceOf(customer), 0n);
});

test('ETH: a higher fee for a refund whose deposit is gone for a while sends no money in its place', async () => {
  const customer = customerAt(8);
  const { id, sweep, given, requests, signed, units } = await wholeRefund(customer);
  const [, refund] = await requests();
  assert.ok(refund?.kind === 'native');
  await node.mine(1);
  await node.rpc('anvil_dropTransaction', (await given(0, 1))!.txid);
  // Blocks without the deposit replaced those with it.
  const full = await balanceOf(refund.from);
  const setBalance = (wei: bigint) => node.rpc('anvil_setBalance', refund.from, `0x${wei.toString(16)}`);
  await setBalance(full - units);
  await replaceSweep(app.app.ctx, { ...sweep, speed: 'fast', actor });
  assert.deepEqual(
    (await requests()).map(({ kind }) => kind),
    ['fund', 'native'],
  );
  await upload(await signed());
  await setBalance(full + 10n ** 17n);
  await app.app.ctx.db.sql`update signed_transactions set sent_at = sent_at - interval '2 minutes' where file_id = ${sweep.id}`;
  await finish(sweep.id);
  await refundReaches(id, 'confirmed');
  assert.equal(await balanceOf(customer), units);
});

test('ETH: a refund whose block is replaced is sent again, and paid once', async () => {
  const payment = await completed('ETH', payEther);
  const customer = customerAt(3);
  const id = await approved(payment, '0.005', customer);
  const file = await refundFile('ETH', customer);
  await upload(await file.signed());
  await refundReaches(id, 'sent');
  await node.mine(1);
  const transaction = async () => (await getSweep(app.app.ctx, { ...owner(), id: file.id })).transactions[0]!;
  await eventually(transaction, ({ blockHeight }) => blockHeight !== null);
  assert.equal(await balanceOf(customer), 5n * 10n ** 15n);
  await node.rpc('anvil_reorg', 1, []);
  await node.rpc('anvil_dropTransaction', (await transaction()).txid).catch(() => null);
  await node.mine(1);
  assert.equal(await balanceOf(customer), 0n);
  await eventually(transaction, ({ blockHeight }) => blockHeight === null);
  assert.equal((await refundOf(id)).state, 'sent');
  await app.app.ctx.db.sql`update signed_transactions set sent_at = sent_at - interval '2 minutes' where file_id = ${file.id}`;
  await finish(file.id);
  await refundReaches(id, 'confirmed');
  assert.equal(await balanceOf(customer), 5n * 10n ** 15n);
});

test('USDT: a refund is sent by its address after that was paid for its gas, once, and what is left is swept', async () => {
  const payment = await completed('USDT', mint(USDT));
  const customer = customerAt(4);
  const id = await approved(payment, '10', customer);
  const kept = await refundFile(USDT, customer);
  const nonces = async ({ requests }: typeof kept) => (await requests()).flatMap((one) => (one.kind === 'token' ? [one.nonce] : []));
  const before = await nonces(kept);
  await kept.cancel();
  const file = await refundFile(USDT, customer);
  assert.deepEqual([(await file.requests()).map(({ kind }) => kind), await nonces(file)], [['fund', 'token'], before]);
  const text = await file.signed();
  await Promise.all([upload(text), upload(text)]);
  await finish(file.id);
  await refundReaches(id, 'confirmed');
  assert.deepEqual([await held(USDT, customer), await held(USDT, payment.address)], [10_000_000n, 15_000_000n]);
  const [, paying] = (await getSweep(app.app.ctx, { ...owner(), id: file.id })).transactions;
  assert.equal((await refundOf(id)).txid, paying!.txid);
  const { json } = await app.live.get(`/api/payment/${payment.id}`);
  assert.deepEqual([json.transfers.length, json.exceptions ?? []], [1, []], 'what pays for gas is not money of a customer');

  // Another transaction of the address uses the nonce.
  const lost = await approved(payment, '5', customer);
  const second = await refundFile(USDT, customer);
  const signed = await second.signed();
  await node.send({ to: payment.address, value: 10n ** 16n });
  await useNonce(payment.address);
  await upload(signed);
  await finish(second.id);
  assert.match((await refundReaches(lost, 'failed')).failure ?? '', /uses the nonce 1 of the account/);
  await cancelOne(lost);
  const rest = await make(USDT);
  await upload(await sign(rest.sweep.id));
  await finish(rest.sweep.id);
  assert.deepEqual([await held(USDT, customer), await held(USDT, payment.address)], [10_000_000n, 0n]);
});

test('USDT: the gas address pays each address for its gas, and the transfers follow', async () => {
  const before = await held(USDT, DESTINATION);
  await paid('USDT', 2, mint(USDT));
  const { sweep } = await make(USDT);
  const file = await readSigningFileOf(app.app.ctx, { ...owner(), id: sweep.id });
  assert.deepEqual(
    file.requests.map(({ kind }) => kind),
    ['fund', 'fund', 'token', 'token'],
  );
  await upload(await sign(sweep.id));
  assert.equal((await finish(sweep.id)).state, 'confirmed');
  assert.equal((await held(USDT, DESTINATION)) - before, 50_000_000n);
  assert.ok(!(await listSweepable(app.app.ctx, owner())).some(({ coin, count }) => coin === USDT && count > 0));
});

test('USDT: a sweep that waits costs more gas, before and after its addresses were paid for their gas', async () => {
  const before = await held(USDT, DESTINATION);
  await paid('USDT', 2, mint(USDT));
  const { sweep } = await make(USDT);
  const { id } = sweep;
  const replace = () => replaceSweep(app.app.ctx, { ...owner(), id, speed: 'fast', actor });
  const fileOf = () => readSigningFileOf(app.app.ctx, { ...owner(), id });
  const fundsIn = ({ requests }: SigningFile) => requests.flatMap((one) => (one.kind === 'fund' ? [one.units] : []));
  /** Waits until so many transactions of a round were given to the node, or refused by it. */
  const given = (round: number, count: number) =>
    eventually(
      async () =>
        (await getSweep(app.app.ctx, { ...owner(), id })).transactions.filter((one) => one.round === round && one.sentAt !== null),
      ({ length }) => length === count,
    );
  const first = await fileOf();
  await upload(await sign(id));
  await given(0, 2);
  await replace();
  const second = await fileOf();
  const [, token] = second.requests.toReversed();
  const more = token!.kind === 'token' ? token!.gas * (second.gasPrice!.max - first.gasPrice!.max) : 0n;
  assert.deepEqual(
    fundsIn(second),
    fundsIn(first).map((units) => units + more),
  );
  await upload(await sign(id));
  await given(1, 2);
  await node.mine(1);
  // The price rises above what the addresses were paid for.
  await node.rpc('anvil_setNextBlockBaseFeePerGas', `0x${(second.gasPrice!.max * 3n).toString(16)}`);
  await node.mine(1);
  await given(1, 4);
  await replace();
  const third = await fileOf();
  assert.deepEqual(
    third.requests.map(({ kind }) => kind),
    ['fund', 'fund', 'token', 'token', 'fund', 'fund'],
  );
  await upload(await sign(id));
  await given(2, 2);
  await node.mine(1);
  await given(2, 4);
  assert.equal((await finish(id)).state, 'confirmed');
  const { transactions } = await getSweep(app.app.ctx, { ...owner(), id });
  assert.deepEqual(
    transactions.flatMap(({ round, number, blockHeight }) => (blockHeight === null ? [] : [`${round}:${number}`])),
    ['1:0', '1:1', '2:2', '2:3', '2:4', '2:5'],
  );
  assert.equal((await held(USDT, DESTINATION)) - before, 50_000_000n);
});

test('what a member sent in ETH or a token is confirmed by its value or its transfers once it is final, and nothing else is', async () => {
  const { ctx } = app.app;
  const { sql } = ctx.db;
  const at = { ...owner(), mode: 'live', actor } as const;
  const recipient = checksumAddress('00000000000000000000000000000000000b0b01');
  const stranger = checksumAddress('00000000000000000000000000000000000b0b02');
  const pay = (to: string, value: bigint) => node.send({ to, value });
  const transfer = (to: string, units: bigint) =>
    node.send({ to: contract(USDC), data: `0x${selector('transfer(address,uint256)')}${word(to)}${word(units)}`, gas: 200_000 });
  const [sender] = await node.rpc('eth_accounts');
  await mint(USDC)(sender);
  const half = parseDecimal('0.005', 18)!;
  const rows: [name: string, currency: string, amount: string, txid: () => Promise<string>, state: string, isWrong: boolean][] = [
    ['the whole value', 'ETH', '0.01', () => pay(recipient, 2n * half), 'confirmed', false],
    ['half of the value', 'ETH', '0.01', () => pay(recipient, half), 'sent', true],
    ['to somebody else', 'ETH', '0.01', () => pay(stranger, 2n * half), 'sent', true],
    ['a call of a contract, which may have paid it', 'ETH', '0.01', () => transfer(stranger, 1n), 'sent', false],
    ['an unknown transaction', 'ETH', '0.01', async () => `0x${'ab'.repeat(32)}`, 'sent', false],
    ['the whole transfer', 'USDC', '2', () => transfer(recipient, 2_000_000n), 'confirmed', false],
    ['less of the token', 'USDC', '2', () => transfer(recipient, 1_999_999n), 'sent', true],
    ['the token to somebody else', 'USDC', '2', () => transfer(stranger, 2_000_000n), 'sent', true],
    ['more than the token has', 'USDC', '2', () => transfer(recipient, 10n ** 18n), 'sent', true],
  ];
  const made: string[] = [];
  for (const [name, currency, amount, txid] of rows) {
    const reply = await app.live.post('/v1/payouts', {
      currency,
      network: 'ethereum',
      amount,
      address: recipient,
      payout_reference: name,
    });
    assert.equal(reply.status, 201, `${name}: ${reply.text}`);
    const { id } = reply.json;
    await sql`update outgoing_payments set state = 'approved' where id = ${id}`;
    const hash = await txid();
    await node.mine(1);
    await markOutgoingSent(ctx, { kind: 'payout', ...at, id, txid: hash });
    made.push(id);
  }
  const read = async () => {
    await sql`update outgoing_payments set looked_at = null where state = 'sent'`;
    await followSentByHand(ctx);
    return Promise.all(made.map((id) => getOutgoing(ctx, { kind: 'payout', ...at, id })));
  };
  await node.mine(2);
  const found = await eventually(read, (all) =>
    all.every(({ state, failure }, i) => state === rows[i]![4] && (failure !== null) === rows[i]![5]),
  );
  assert.deepEqual(
    found.map(({ state, failure }, i) => [rows[i]![0], state, failure !== null]),
    rows.map(([name, , , , state, isWrong]) => [name, state, isWrong]),
  );
  // Nothing says whom the contract paid, so the member who entered the wrong transaction can correct it.
  const called = made[rows.findIndex(([name]) => name.startsWith('a call of a contract'))]!;
  await eventually(read, (all) => (all.find(({ id }) => id === called)!.missed ?? 0) >= 3);
  await markOutgoingSent(ctx, { kind: 'payout', ...at, id: called, txid: await pay(recipient, 2n * half) });
  await node.mine(3);
  await eventually(read, (all) => all.find(({ id }) => id === called)!.state === 'confirmed');
});

test('a signed file for accounts that is not what was asked is refused', async () => {
  await paid('USDC', 2, mint(USDC));
  const { sweep } = await make(USDC);
  const content = await contentOf(sweep.id);
  const change = (edit: (file: any) => void): string => {
    const file = JSON.parse(content);
    edit(file);
    return JSON.stringify(file);
  };
  const each = (file: any, edit: (one: any) => void) => file.requests[0].authorizations.forEach(edit);
  const stranger = '0x00000000000000000000000000000000000b11ce';
  const payTo = (to: string) => change((file) => each(file, ({ line }) => Object.assign(line, { to })));
  /** Files that a malicious server may make, which the signer signs because they contradict nothing, and the service then refuses. */
  const signable: [what: string, content: string][] = [
    [
      'another nonce of an authorization',
      change((file) =>
        each(file, (one) => {
          one.nonce = `0x${'11'.repeat(32)}`;
        }),
      ),
    ],
    [
      'another nonce of the transaction',
      change((file) => {
        file.requests[0].nonce += 1;
      }),
    ],
    [
      'a longer validity',
      change((file) => {
        file.requests[0].validBefore += 3_600;
      }),
    ],
    [
      'another domain',
      change((file) => {
        file.requests[0].domain.version = '1';
      }),
    ],
    [
      'another private network',
      change((file) => {
        file.chainId = 424_242;
      }),
    ],
  ];
  for (const [what, given] of signable)
    await assert.rejects(
      upload(signFile({ content: given, secret, destination: DESTINATION }).text),
      { code: 'signed_file_refused' },
      what,
    );
  const elsewhere = signFile({ content: payTo(stranger), secret, destination: stranger }).text;
  await assert.rejects(upload(elsewhere), { code: 'signed_file_refused' }, 'another destination');
  /** What the signer refuses, whatever is typed. */
  const refused: [what: string, content: string, reason: RegExp][] = [
    ['a look-alike destination', payTo(DESTINATION.replace('000000', '001000')), /not the address that you entered/],
    [
      'mainnet',
      change((file) => {
        file.chainId = 1;
      }),
      /another network/,
    ],
    [
      'another contract',
      change((file) => {
        file.requests[0].contract = contract(USDT);
      }),
      /another contract/,
    ],
    [
      'an address of somebody else',
      change((file) => {
        file.requests[0].authorizations[0].from = stranger;
      }),
      /does not belong to path/,
    ],
    [
      'a validity of months',
      change((file) => {
        file.requests[0].validBefore += 9_999_999;
      }),
      /longer than 8 days/,
    ],
    [
      'much gas',
      change((file) => {
        file.requests[0].gas = '99999999';
      }),
      /more gas/,
    ],
    [
      'a hidden fee',
      change((file) => {
        file.feeUnits = '1';
      }),
      /not the sum of its fees/,
    ],
    [
      'a gas price of 1 ETH',
      change((file) => {
        file.gasPrice.max = '1000000000000000000';
      }),
      /price of gas/,
    ],
    [
      'two recipients',
      change((file) => {
        file.requests[0].authorizations[0].line.to = stranger;
      }),
      /names several/,
    ],
    [
      'another total',
      change((file) => {
        file.requests[0].authorizations[0].line.units = '1';
      }),
      /not the sum of its payments/,
    ],
  ];
  for (const [what, given, reason] of refused)
    assert.throws(() => signFile({ content: given, secret, destination: DESTINATION, fee: HIGH_FEE }), reason, what);
  const text = await sign(sweep.id);
  const { transactions, ...rest } = readSignedFile(text);
  const flipped = transactions[0]!.replace(/..$/, (byte) => (byte === '00' ? '01' : '00'));
  await assert.rejects(upload(signedFileText({ ...rest, transactions: [flipped] })), { code: 'signed_file_refused' });
  for (const key of [secret, `{"seed":"${'abandon '.repeat(11)}about"}`, `{"key":"0x${'ab'.repeat(32)}"}`])
    await assert.rejects(upload(text.replace('{', `{"x":${JSON.stringify(key)},`)), { code: 'signed_file_private' });
  await upload(text);
  assert.equal((await finish(sweep.id)).state, 'confirmed');
});

test('a sweep ends once the nonce of the gas address was used elsewhere, and the money is swept again', async () => {
  for (const coin of [USDC, USDT]) {
    await paid(coin.slice(0, 4), 1, mint(coin));
    const { sweep } = await make(coin);
    const { requests } = await readSigningFileOf(app.app.ctx, { ...owner(), id: sweep.id });
    const [request] = requests;
    assert.ok(request && request.kind !== 'psbt');
    await node.rpc('anvil_impersonateAccount', request.from);
    await node.rpc('eth_sendTransaction', { from: request.from, to: request.from, value: '0x0' });
    await node.rpc('anvil_stopImpersonatingAccount', request.from);
    await node.mine(1);
    await upload(await sign(sweep.id));
    const done = await finish(sweep.id);
    assert.equal(done.state, 'failed');
    assert.match(done.failure ?? '', /^conflict: /);
    const kept = await app.app.ctx.db.sql`select input from signing_inputs where file_id = ${sweep.id} and released_at is null`;
    assert.deepEqual([...kept], [], 'nothing that it reserved was spent');
    const again = await make(coin);
    assert.equal(again.sweep.totalUnits, sweep.totalUnits);
    await upload(await sign(again.sweep.id));
    assert.equal((await finish(again.sweep.id)).state, 'confirmed');
  }
});
