/**
 * Payouts in ETH and tokens on a real EVM: deposits pay together, strangers send what was published, files are canceled, made again, raised
 * and uploaded twice, and every recipient is paid once and in full.
 */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { signFile } from '../../signer/sign.ts';
import { checksumAddress } from '../../src/addresses/evm-address.ts';
import type { Coin } from '../../src/core/coin.ts';
import { type AccountRequest, type BatchRequest, readSignedFile } from '../../src/core/signing-file.ts';
import {
  authorizedData,
  domainOf,
  readSignedTransaction as readTransaction,
  selector,
  signaturesIn,
  transferData,
  transfersOf,
  word,
} from '../../src/evm/transaction.ts';
import { approveOutgoing, cancelOutgoing, markOutgoingSent } from '../../src/outgoing/decisions.ts';
import { getOutgoing } from '../../src/outgoing/outgoing-payments.ts';
import { DEFAULT_WISH } from '../../src/signing/holdings.ts';
import { makePayoutFile, readPayoutCoins } from '../../src/signing/payout-files.ts';
import { cancelSweep, getSweep, makeSweep, replaceSweep } from '../../src/signing/signing-files.ts';
import { eventually } from '../kit/app.ts';
import { checkBooks } from '../kit/books.ts';
import { firstOf } from '../kit/long.ts';
import { account, reach } from '../kit/shop.ts';
import { recordsFor } from '../kit/signing.ts';
import { DESTINATION, startTokenShop, type TokenShop, USDC, USDT } from '../kit/token-shop.ts';

const secret = account('ETH').privateExtendedKey;
let shop: TokenShop;
before(async () => {
  shop = await startTokenShop();
});
after(() => shop?.stop());

let people = 0;
/** An address that nobody paid yet. */
const somebody = (): string => checksumAddress((0xcafe0000 + ++people).toString(16).padStart(40, '0'));
const payout = (id: string) => getOutgoing(shop.ctx, { kind: 'payout', ...shop.owner, id });
const reaches = (id: string, wanted: string) =>
  eventually(
    () => payout(id),
    ({ state }) => state === wanted,
  );
const isFree = (id: string) =>
  eventually(
    () => payout(id),
    ({ sweepId }) => sweepId === null,
  );
/** A payout that is approved. */
async function approved(coin: Coin, amount: string, address: string): Promise<string> {
  const [currency, network = 'ethereum'] = coin.split('@');
  const made = await shop.app.live.post('/v1/payouts', { currency, network, amount, address, payout_reference: `${Math.random()}` });
  assert.equal(made.status, 201, made.text);
  await approveOutgoing(shop.ctx, { kind: 'payout', ...shop.owner, id: made.json.id, actor: shop.actor });
  return made.json.id;
}
const cancelOne = (id: string) =>
  cancelOutgoing(shop.ctx, {
    kind: 'payout',
    ...shop.owner,
    id,
    actor: shop.actor,
    idempotency: null,
    render: () => ({ status: 200, body: '' }),
  });
async function make(coin: Coin) {
  await shop.resetPrice();
  return makePayoutFile(shop.ctx, { ...shop.owner, coin, speed: 'normal', actor: shop.actor });
}
const requestsOf = async (id: string) => (await shop.fileOf(id)).requests as AccountRequest[];
const batchIn = async (id: string): Promise<BatchRequest> => {
  const [request] = await requestsOf(id);
  assert.ok(request?.kind === 'batch');
  return request;
};
/** What addresses authorize, without when that expires. */
const authorized = async (id: string) => (await batchIn(id)).authorizations;
const signed = async (id: string, recipients: readonly string[]) => {
  const content = await shop.contentOf(id);
  return signFile({ content, secret, recipients: recordsFor(content, recipients) });
};
const cancel = async (id: string, payouts: readonly string[]) => {
  await cancelSweep(shop.ctx, { ...shop.owner, id, actor: shop.actor });
  for (const one of payouts) await isFree(one);
};
const sweep = async (coin: Coin) => {
  await shop.resetPrice();
  return makeSweep(shop.ctx, { ...shop.owner, coin, walletId: null, wish: DEFAULT_WISH, actor: shop.actor });
};
/** Moves the rest to the destination, and returns how much that was. */
async function sweepRest(coin: Coin): Promise<bigint> {
  const before = await shop.held(coin, DESTINATION);
  const { sweep: one } = await sweep(coin);
  await shop.upload(signFile({ content: await shop.contentOf(one.id), secret, destination: DESTINATION }).text);
  assert.equal((await shop.finish(one.id)).state, 'confirmed');
  return (await shop.held(coin, DESTINATION)) - before;
}
/** Somebody else sends one of the authorizations in a signed file. */
async function sendAs(id: string, text: string, at: number): Promise<void> {
  const request = await batchIn(id);
  const { data } = readTransaction(Buffer.from(readSignedFile(text).transactions[0]!, 'hex'))!;
  const signature = signaturesIn(data, request.authorizations.length)![at]!;
  const transfer = transfersOf(request)[at]!;
  await shop.node.send({
    to: domainOf(request, await shop.fileOf(id)).contract,
    data: `0x${authorizedData(transfer, signature)}`,
    gas: 200_000,
  });
  await shop.node.mine(1);
}
/** Sends any transaction from an account, which uses its nonce. */
async function useNonce(from: string): Promise<void> {
  const gas = { gas: '0x5208', maxFeePerGas: '0x77359400', maxPriorityFeePerGas: '0x0' };
  await shop.node.rpc('anvil_impersonateAccount', from);
  await shop.node.rpc('eth_sendTransaction', { from, to: from, value: '0x0', ...gas });
  await shop.node.rpc('anvil_stopImpersonatingAccount', from);
  await shop.node.mine(1);
}
const books = () => checkBooks(shop.ctx, shop.owner);

test('USDC: three deposits pay one payout together and another pays alone, in one transaction, once and exactly', async () => {
  const { ctx, owner, actor } = shop;
  await shop.paid(USDC, 4);
  const [ada, bob] = [somebody(), somebody()];
  const ids = [await approved(USDC, '60', ada), await approved(USDC, '10', bob)];
  const large = await approved(USDC, '75.5', somebody());
  const missing: any = await make(USDC).catch((error) => error);
  assert.equal(missing.code, 'sweep_gas_missing');
  await shop.node.send({ to: /address (0x[0-9a-fA-F]{40})/.exec(missing.message)![1]!, value: 10n ** 18n });
  assert.deepEqual(await readPayoutCoins(ctx, owner), [USDC]);

  const first = await make(USDC);
  assert.deepEqual([first.payouts, first.sweep.totalUnits], [ids, 70_000_000n]);
  assert.deepEqual(
    first.left.map(({ id, reason }) => [id, /not enough/.test(reason)]),
    [[large, true]],
  );
  const asked = await authorized(first.sweep.id);
  assert.deepEqual(
    asked.map(({ line }) => [line.purpose, line.units]),
    [
      ['gather', 25_000_000n],
      ['gather', 10_000_000n],
      ['payout', 60_000_000n],
      ['payout', 10_000_000n],
    ],
  );
  await cancel(first.sweep.id, ids);
  await assert.rejects(sweep(USDC), { code: 'sweep_empty' }, 'the deposits of approved payouts stay');
  await cancelOne(large);

  const { sweep: file } = await make(USDC);
  assert.deepEqual(await authorized(file.id), asked, 'the next file has the same authorizations');
  await assert.rejects(signed(file.id, [ada]), /not among the recipients/);
  const { text, review } = await signed(file.id, [ada, bob]);
  assert.deepEqual([review.together, review.inputs, review.destinations.length], [3, 4n, 2]);
  const uploads = await Promise.all([shop.upload(text), shop.upload(text)]);
  assert.deepEqual(uploads.map(({ isKnown }) => isKnown).toSorted(), [false, true]);
  await reaches(ids[0]!, 'sent');
  await replaceSweep(ctx, { ...owner, id: file.id, speed: 'fast', actor });
  assert.deepEqual(await authorized(file.id), asked, 'a higher fee keeps them');
  await shop.upload((await signed(file.id, [ada, bob])).text);
  assert.equal((await shop.finish(file.id)).failure, null);
  for (const id of ids) await reaches(id, 'confirmed');
  assert.deepEqual([await shop.held(USDC, ada), await shop.held(USDC, bob)], [60_000_000n, 10_000_000n]);
  const payer = asked.find(({ line }) => line.to === ada)!.from;
  assert.equal(await shop.held(USDC, payer), 0n, 'nothing is left on the address that pays for others');
  const { transactions } = await getSweep(ctx, { ...owner, id: file.id });
  assert.equal((await payout(ids[0]!)).txid, transactions.find(({ blockHeight }) => blockHeight !== null)!.txid);
  await assert.rejects(make(USDC), { code: 'payout_file_empty' });
  await books();
  assert.equal(await sweepRest(USDC), 30_000_000n);
  await books();
});

test('USDC: what a stranger gathers before the file is sent is paid out in full', async () => {
  await shop.paid(USDC, 3);
  const ada = somebody();
  const id = await approved(USDC, '60', ada);
  const kept = await make(USDC);
  await sendAs(kept.sweep.id, (await signed(kept.sweep.id, [ada])).text, 0);
  await cancel(kept.sweep.id, [id]);
  const { sweep: file } = await make(USDC);
  await shop.upload((await signed(file.id, [ada])).text);
  assert.equal((await shop.finish(file.id)).state, 'confirmed');
  await reaches(id, 'confirmed');
  assert.equal(await shop.held(USDC, ada), 60_000_000n);
  await books();
  assert.equal(await sweepRest(USDC), 15_000_000n);
});

test('USDC: a stranger who pays a recipient first makes the transaction fail: one is paid once, the other by the next file', async () => {
  const { ctx, owner } = shop;
  await shop.paid(USDC, 3);
  const [ada, bob] = [somebody(), somebody()];
  const [paid, other] = [await approved(USDC, '15', ada), await approved(USDC, '40', bob)];
  const { sweep: file } = await make(USDC);
  const asked = await authorized(file.id);
  const { text } = await signed(file.id, [ada, bob]);
  await shop.upload(text);
  await reaches(other, 'sent');
  const [transaction] = (await getSweep(ctx, { ...owner, id: file.id })).transactions;
  await shop.node.rpc('anvil_dropTransaction', transaction!.txid);
  const at = (purpose: string, to: string) =>
    asked.findIndex(({ line }) => line.purpose === purpose && (purpose === 'gather' || line.to === to));
  await sendAs(file.id, text, at('payout', ada));
  // And moves what would pay the other one together.
  await sendAs(file.id, text, at('gather', bob));
  await ctx.db.sql`update signed_transactions set sent_at = sent_at - interval '2 minutes' where file_id = ${file.id}`;
  assert.equal((await shop.finish(file.id)).state, 'confirmed');
  assert.equal((await shop.node.rpc('eth_getTransactionReceipt', transaction!.txid)).status, '0x0');
  await reaches(paid, 'confirmed');
  assert.deepEqual([await shop.held(USDC, ada), await shop.held(USDC, bob)], [15_000_000n, 0n]);
  await isFree(other);
  const waiting = await payout(other);
  assert.equal(waiting.state, 'sent', 'anybody can still send it');
  assert.match(waiting.failure ?? '', /Make the next signing file/);
  await assert.rejects(cancelOne(other), { code: 'payout_state' });
  const byHand = { ...owner, id: other, actor: shop.actor, txid: `0x${'ab'.repeat(32)}` };
  await assert.rejects(markOutgoingSent(ctx, { kind: 'payout', ...byHand }), { code: 'payout_state' });
  assert.deepEqual(await readPayoutCoins(ctx, owner), [USDC]);

  const canceled = await make(USDC);
  await cancel(canceled.sweep.id, [other]);
  const { sweep: next, payouts } = await make(USDC);
  assert.deepEqual(payouts, [other]);
  assert.deepEqual(
    await authorized(next.id),
    asked.filter(({ line }) => line.purpose === 'gather' || line.to === bob),
    'the same authorizations',
  );
  await shop.upload((await signed(next.id, [bob])).text);
  assert.equal((await shop.finish(next.id)).state, 'confirmed');
  assert.equal((await reaches(other, 'confirmed')).failure, null);
  assert.deepEqual([await shop.held(USDC, ada), await shop.held(USDC, bob)], [15_000_000n, 40_000_000n]);
  await books();
  assert.equal(await sweepRest(USDC), 20_000_000n);
});

for (const [what, ends] of firstOf([
  ['is confirmed if a stranger sent it', 'confirmed'],
  ['fails, and is canceled', 'canceled'],
  ['fails, and is sent by hand, which no file does again', 'by hand'],
] as const))
  test(`USDC: a payout whose transaction failed waits for its next file until it expires: then it ${what}`, async () => {
    const { ctx, owner, actor, node } = shop;
    await shop.paid(USDC, 1);
    const ada = somebody();
    const id = await approved(USDC, '5', ada);
    const { sweep: file } = await make(USDC);
    const { text } = await signed(file.id, [ada]);
    const { from } = await batchIn(file.id);
    await shop.upload(text);
    await reaches(id, 'sent');
    // Another transaction of the gas address takes its nonce.
    await node.rpc('anvil_dropTransaction', (await getSweep(ctx, { ...owner, id: file.id })).transactions[0]!.txid);
    await useNonce(from);
    await ctx.db.sql`update signed_transactions set sent_at = sent_at - interval '2 minutes' where file_id = ${file.id}`;
    assert.equal((await shop.finish(file.id)).state, 'failed');
    await isFree(id);
    assert.equal((await payout(id)).state, 'sent');
    await assert.rejects(sweep(USDC), { code: 'sweep_empty' }, 'its deposit stays for it');
    if (ends === 'confirmed') await sendAs(file.id, text, 0);
    await ctx.db.sql`update outgoing_payments set published_until = 1 where id = ${id}`;
    const ended = await reaches(id, ends === 'confirmed' ? 'confirmed' : 'failed');
    if (ends !== 'confirmed') assert.match(ended.failure ?? '', /expired before anybody sent it\. Nothing was paid/);
    if (ends === 'canceled') await cancelOne(id);
    if (ends === 'by hand') await markOutgoingSent(ctx, { kind: 'payout', ...owner, id, actor, txid: `0x${'ab'.repeat(32)}` });
    await assert.rejects(make(USDC), { code: 'payout_file_empty' });
    assert.equal(await shop.held(USDC, ada), ends === 'confirmed' ? 5_000_000n : 0n);
    await books();
    assert.equal(await sweepRest(USDC), ends === 'confirmed' ? 20_000_000n : 25_000_000n);
  });

test('USDC: what cannot be paid is left with its reason', async () => {
  const { ctx, owner, node, contract } = shop;
  const leftOf = async () => {
    const left = await make(USDC).then(
      async ({ sweep: { id }, payouts, left }) => {
        await cancel(id, payouts);
        return left.map(({ reason }) => reason).join();
      },
      ({ message }) => message as string,
    );
    return left;
  };
  const freeze = async (address: string, on: bigint) => {
    await node.send({ to: contract(USDC), data: `0x${selector('freeze(address,bool)')}${word(address)}${word(on)}`, gas: 100_000 });
    await node.mine(1);
  };
  const [first, second] = await shop.paid(USDC, 2);
  const ada = somebody();
  await freeze(ada, 1n);
  const id = await approved(USDC, '40', ada);
  assert.match(await leftOf(), /the issuer of the token froze its address/);
  await freeze(ada, 0n);
  await freeze(first!, 1n);
  assert.match(await leftOf(), /not enough/, 'a frozen deposit pays nothing');
  await freeze(first!, 0n);
  assert.equal(await leftOf(), '');
  await freeze(second!, 1n);
  assert.match(await leftOf(), /froze its address, or a deposit address/);
  await freeze(second!, 0n);
  const dispute = (since: Date | null) => ctx.db.sql`update transfers set disputed_since = ${since} where address = ${first!}`;
  await dispute(new Date());
  assert.match(await leftOf(), /not confirmed at the moment/);
  await dispute(null);
  const [paying] = await ctx.db.sql<{ id: string }[]>`select payment_id as id from deposit_addresses where address = ${first!}`;
  const refund = await shop.app.live.post('/v1/refunds', { payment_id: paying!.id, amount: '1', address: ada });
  assert.equal(refund.status, 201, refund.text);
  assert.equal(await leftOf(), '', 'a refund that is requested later does not take the deposits of a payout');
  assert.equal((await shop.app.live.post(`/v1/refunds/${refund.json.id}/cancel`, {})).status, 200);
  // Another wallet moves a deposit.
  await node.rpc('anvil_setBalance', second!, '0xde0b6b3a7640000');
  await node.rpc('anvil_impersonateAccount', second!);
  await node.rpc('eth_sendTransaction', { from: second!, to: contract(USDC), data: `0x${transferData(ada, 20_000_000n)}`, gas: '0x186a0' });
  await node.rpc('anvil_stopImpersonatingAccount', second!);
  await node.mine(1);
  assert.match(await leftOf(), /not all there any more; cancel it, and request it again once that file can never be sent/);
  await cancelOne(id);
  const again = await approved(USDC, '30', ada);
  assert.match(await leftOf(), /a payout to its recipient was canceled, but its signed file can still be sent until/);
  await ctx.db.sql`
    update signing_files set file = jsonb_set(file, '{requests,0,validBefore}', '1')
    where purpose = 'payout' and state = 'canceled' and file #> '{requests,0,validBefore}' is not null`;
  const { sweep: file } = await make(USDC);
  await shop.upload((await signed(file.id, [ada])).text);
  await shop.finish(file.id);
  await reaches(again, 'confirmed');
  assert.equal(await shop.held(USDC, ada), 50_000_000n);
  assert.deepEqual(await readPayoutCoins(ctx, owner), []);
});

test('ETH: each payout is sent by an address that holds enough, once, whatever is canceled and made again', async () => {
  const { ctx, owner, actor } = shop;
  const addresses = await shop.paid('ETH', 2);
  const [ada, bob] = [somebody(), somebody()];
  const ids = [await approved('ETH', '0.004', ada), await approved('ETH', '0.01', bob)];
  const large = await approved('ETH', '0.011', somebody());
  const kept = await make('ETH');
  assert.deepEqual(kept.payouts, ids);
  assert.match(kept.left[0]!.reason, /no deposit address holds enough/);
  await cancelOne(large);
  const sent = async (id: string) =>
    (await requestsOf(id))
      .flatMap((one) => (one.kind === 'native' ? [{ from: one.from, nonce: one.nonce, line: one.line }] : []))
      .toSorted((a, b) => (a.line.to < b.line.to ? -1 : 1));
  const before = await sent(kept.sweep.id);
  assert.deepEqual(new Set(before.map(({ from }) => from)), new Set(addresses), 'one payout from each address');
  const copy = readSignedFile((await signed(kept.sweep.id, [ada, bob])).text).transactions;
  await cancel(kept.sweep.id, ids);
  await assert.rejects(sweep('ETH'), { code: 'sweep_empty' });
  const { sweep: file } = await make('ETH');
  assert.deepEqual(await sent(file.id), before, 'the same nonces');
  // The address that pays all it holds is paid for its gas.
  assert.deepEqual(
    (await requestsOf(file.id)).map(({ kind }) => kind),
    ['fund', 'native', 'native'],
  );
  const { text } = await signed(file.id, [ada, bob]);
  await Promise.all([shop.upload(text), shop.upload(text)]);
  await reaches(ids[0]!, 'sent');
  await replaceSweep(ctx, { ...owner, id: file.id, speed: 'fast', actor });
  assert.deepEqual(await sent(file.id), before, 'a higher fee keeps them');
  await shop.upload((await signed(file.id, [ada, bob])).text);
  // What pays for gas is replaced before it is mined.
  await eventually(
    async () => (await getSweep(ctx, { ...owner, id: file.id })).transactions.filter((one) => one.round === 1 && one.sentAt !== null),
    ({ length }) => length === 2,
  );
  assert.equal((await shop.finish(file.id)).failure, null);
  for (const id of ids) await reaches(id, 'confirmed');
  for (const raw of copy.slice(1)) await assert.rejects(shop.node.rpc('eth_sendRawTransaction', `0x${raw}`), /nonce too low/i);
  assert.deepEqual([await shop.held('ETH', ada), await shop.held('ETH', bob)], [4n * 10n ** 15n, 10n ** 16n]);
  await books();
  await sweepRest('ETH');
  await books();
});

test('ETH: a payout whose gas payment was lost is paid by no other deposit while its signed transaction can still be sent', async () => {
  const ada = somebody();
  const [small] = await shop.paid('ETH', 1);
  const body = { amount: 50, currency_fiat: 'USD', crypto: 'ETH', network: 'ethereum' };
  const { transaction_id: large, payment_address: address } = (await shop.app.live.post('/v1/transactions/create', body)).json;
  await shop.node.send({ to: address, value: 2n * 10n ** 16n });
  await shop.node.mine(2);
  await reach(shop.app, large, ({ status }) => status === 'completed');
  const lost = await approved('ETH', '0.02', ada);
  const { sweep: file } = await make('ETH');
  const [fund, paying] = await requestsOf(file.id);
  assert.deepEqual([fund!.kind, paying!.kind, paying!.from], ['fund', 'native', address]);
  const { text } = await signed(file.id, [ada]);
  await useNonce(fund!.from);
  await shop.upload(text);
  assert.equal((await shop.finish(file.id)).state, 'failed');
  await reaches(lost, 'failed');
  await cancelOne(lost);
  const next = await approved('ETH', '0.005', ada);
  const { sweep: second } = await make('ETH');
  const requests = await requestsOf(second.id);
  assert.deepEqual(
    requests.map(({ from, nonce }) => [from, nonce]),
    [[address, paying!.nonce]],
    `the same nonce, and not that of ${small}`,
  );
  await shop.upload((await signed(second.id, [ada])).text);
  await shop.finish(second.id);
  await reaches(next, 'confirmed');
  await assert.rejects(shop.node.rpc('eth_sendRawTransaction', `0x${readSignedFile(text).transactions[1]}`), /nonce too low/i);
  assert.equal(await shop.held('ETH', ada), 5n * 10n ** 15n);
  await books();
});

test('USDT: a payout is sent by its address after that was paid for its gas, and names the nonce if it is lost', async () => {
  await shop.paid('USDT@ethereum', 1);
  const ada = somebody();
  const id = await approved(USDT, '10', ada);
  const kept = await make(USDT);
  const token = async (id: string) =>
    (await requestsOf(id)).flatMap((one) => (one.kind === 'token' ? [[one.from, one.nonce, one.line]] : []));
  const before = await token(kept.sweep.id);
  await cancel(kept.sweep.id, [id]);
  await assert.rejects(sweep(USDT), { code: 'sweep_empty' });
  const { sweep: file } = await make(USDT);
  assert.deepEqual([(await requestsOf(file.id)).map(({ kind }) => kind), await token(file.id)], [['fund', 'token'], before]);
  await shop.upload((await signed(file.id, [ada])).text);
  assert.equal((await shop.finish(file.id)).state, 'confirmed');
  await reaches(id, 'confirmed');
  assert.equal(await shop.held(USDT, ada), 10_000_000n);
  await books();

  const lost = await approved(USDT, '5', ada);
  const { sweep: second } = await make(USDT);
  const [from] = (await token(second.id))[0] as [string, number, unknown];
  const { text } = await signed(second.id, [ada]);
  await shop.node.send({ to: from, value: 10n ** 16n });
  await useNonce(from);
  await shop.upload(text);
  await shop.finish(second.id);
  assert.match(
    (await reaches(lost, 'failed')).failure ?? '',
    new RegExp(`uses the nonce 1 of the account ${from}\\. Check in a block explorer`),
  );
  await cancelOne(lost);
  assert.equal(await sweepRest(USDT), 15_000_000n);
  assert.equal(await shop.held(USDT, ada), 10_000_000n);
});
