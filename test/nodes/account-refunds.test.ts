/** Refunds of ETH and tokens whose signed files somebody kept: no customer is paid twice, and no deposit leaves before a refund has failed. */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { checksumAddress } from '../../src/addresses/evm-address.ts';
import type { Coin } from '../../src/core/coin.ts';
import { parseDecimal } from '../../src/core/money.ts';
import { readSignedFile } from '../../src/core/signing-file.ts';
import { MULTICALL3, readSignedTransaction } from '../../src/evm/transaction.ts';
import { followOutgoing } from '../../src/outgoing/follow-outgoing.ts';
import { type AccountDesk, startAccountDesk } from '../kit/account-desk.ts';
import { eventually } from '../kit/app.ts';
import { reach } from '../kit/shop.ts';

const USDC = 'USDC@ethereum' satisfies Coin;
let desk: AccountDesk;
before(async () => {
  desk = await startAccountDesk({ tokens: [USDC], environment: { ETH_CONFIRMATIONS: '2' } });
  await desk.paid(USDC, 1);
  await desk.payGas(USDC, () => desk.make(USDC));
  const { sweep } = await desk.make(USDC);
  await desk.upload(await desk.sign(sweep.id));
  await desk.finish(sweep.id, USDC);
});
after(() => desk?.stop());

const customerAt = (number: number) => checksumAddress(`0000000000000000000000000000000000cafe${number}0`);
/** A refund that was canceled after its file was signed, and that file. */
async function keptFile(coin: 'ETH' | typeof USDC, payment: { id: string }, amount: string, customer: string) {
  const id = await desk.approved(payment, amount, customer);
  const { sweep } = await desk.makeRefunds(coin);
  const signed = await desk.sign(sweep.id, customer);
  await desk.cancel(sweep.id);
  await eventually(
    () => desk.refundOf(id),
    ({ sweepId }) => sweepId === null,
  );
  await desk.cancelRefund(id);
  return { sweepId: sweep.id, raw: readSignedFile(signed).transactions[0]! };
}
const isEmptyWith = (reason: RegExp) => (error: any) => error.code === 'refund_file_empty' && reason.test(error.message);
/** Anybody sends the authorizations of a signed batch. */
async function sendAs(raw: string): Promise<void> {
  const { data } = readSignedTransaction(Buffer.from(raw, 'hex'))!;
  await desk.nodeOf(USDC).send({ to: MULTICALL3, data: `0x${Buffer.from(data).toString('hex')}`, gas: 400_000 });
  await desk.nodeOf(USDC).mine(1);
}
const expire = (sweepId: string) =>
  desk.ctx.db.sql`update signing_files set file = jsonb_set(file, '{requests,0,validBefore}', '1') where id = ${sweepId}`;

test('USDC: while the file of a canceled refund can be sent, the payment is refunded in no other one', async () => {
  const customer = customerAt(1);
  const [payment] = await desk.paid(USDC, 1, { amountUsd: 250 });
  const kept = await keptFile(USDC, payment!, '100', customer);
  await desk.approved(payment!, '100', customer);
  await assert.rejects(desk.makeRefunds(USDC), isEmptyWith(/can still be sent until \d{4}-\d\d-\d\d \d\d:\d\d UTC/));
  await sendAs(kept.raw);
  assert.equal(await desk.held(USDC, customer), 100_000_000n);
  await assert.rejects(desk.makeRefunds(USDC), isEmptyWith(/canceled, but somebody sent its signed file, so that money was returned/));

  const [other] = await desk.paid(USDC, 1, { amountUsd: 250 });
  const expired = await keptFile(USDC, other!, '100', customerAt(2));
  const id = await desk.approved(other!, '100', customerAt(2));
  await assert.rejects(desk.makeRefunds(USDC));
  await expire(expired.sweepId);
  const { sweep } = await desk.makeRefunds(USDC);
  await desk.upload(await desk.sign(sweep.id, customerAt(2)));
  await desk.finish(sweep.id, USDC);
  await eventually(
    () => desk.refundOf(id),
    ({ state }) => state === 'confirmed',
  );
  assert.equal(await desk.held(USDC, customerAt(2)), 100_000_000n);
});

test('ETH: the file of a canceled refund that somebody sent keeps the next one out; otherwise both use the same nonce', async () => {
  const customer = customerAt(3);
  const [payment] = await desk.paid('ETH', 1, { amountUsd: 250 });
  const kept = await keptFile('ETH', payment!, '0.04', customer);
  const node = desk.nodeOf('ETH');
  await node.rpc('eth_sendRawTransaction', `0x${kept.raw}`);
  await node.mine(1);
  assert.equal(await desk.held('ETH', customer), 4n * 10n ** 16n);
  const id = await desk.approved(payment!, '0.04', customer);
  await assert.rejects(desk.makeRefunds('ETH'), isEmptyWith(/sent another transaction since a file of a refund that is canceled now/));
  await desk.cancelRefund(id);

  const [other] = await desk.paid('ETH', 1, { amountUsd: 250 });
  const unsent = await keptFile('ETH', other!, '0.02', customerAt(4));
  for (const amount of ['0.03', '0.01']) {
    const next = await desk.approved(other!, amount, customerAt(4));
    const { sweep } = await desk.makeRefunds('ETH');
    await desk.upload(await desk.sign(sweep.id, customerAt(4)));
    await desk.finish(sweep.id, 'ETH');
    await eventually(
      () => desk.refundOf(next),
      ({ state }) => state === 'confirmed',
    );
  }
  await assert.rejects(node.rpc('eth_sendRawTransaction', `0x${unsent.raw}`), /nonce too low/i);
  assert.equal(await desk.held('ETH', customerAt(4)), 4n * 10n ** 16n);
});

test('USDC: a refund whose transaction did nothing keeps its deposit until it has failed or was paid', async () => {
  for (const paidLate of [false, true]) {
    const customer = customerAt(paidLate ? 6 : 5);
    const [payment] = await desk.paid(USDC, 1, { amountUsd: 250 });
    const id = await desk.approved(payment!, '200', customer);
    const { sweep } = await desk.makeRefunds(USDC);
    const signed = await desk.sign(sweep.id, customer);
    const code = await desk.nodeOf(USDC).rpc('eth_getCode', MULTICALL3, 'latest');
    await desk.nodeOf(USDC).rpc('anvil_setCode', MULTICALL3, '0x');
    await desk.upload(signed);
    assert.equal((await desk.finish(sweep.id, USDC)).state, 'failed');
    await desk.nodeOf(USDC).rpc('anvil_setCode', MULTICALL3, code);
    await followOutgoing(desk.ctx);
    assert.equal((await desk.refundOf(id)).state, 'sent');
    const other = await desk.make(USDC).catch(({ code }) => code);
    const file = typeof other === 'string' ? [] : await desk.requestsOf(other.sweep.id);
    const senders = file.flatMap((one) => (one.kind === 'batch' ? one.authorizations.map(({ from }) => from) : []));
    assert.ok(!senders.includes(payment!.address), 'no sweep takes the deposit');
    if (typeof other !== 'string') await desk.cancel(other.sweep.id);
    if (paidLate) await sendAs(readSignedFile(signed).transactions[0]!);
    await expire(sweep.id);
    await eventually(
      () => desk.refundOf(id),
      ({ state }) => state === (paidLate ? 'confirmed' : 'failed'),
    );
    assert.equal(await desk.held(USDC, customer), paidLate ? 200_000_000n : 0n);
    if (!paidLate) await desk.cancelRefund(id);
    const rest = await desk.make(USDC);
    const [request] = await desk.requestsOf(rest.sweep.id);
    assert.ok(request?.kind === 'batch');
    const own = request.authorizations.find(({ from }) => from === payment!.address);
    assert.equal(own?.line.units, paidLate ? 50_000_000n : 250_000_000n);
    await desk.upload(await desk.sign(rest.sweep.id));
    assert.equal((await desk.finish(rest.sweep.id, USDC)).state, 'confirmed');
  }
});

test('ETH: a file ends whose deposit was replaced with its block; its refund is released, no other deposit pays it, and its nonce is used once', async () => {
  const customer = customerAt(7);
  const node = desk.nodeOf('ETH');
  const payer = node.accounts[1]!;
  const [other] = await desk.paid('ETH', 1, { amountUsd: 250 });
  const { id: paymentId, address, amount } = await desk.create('ETH', 250);
  const nonce = await node.rpc('eth_getTransactionCount', payer, 'latest');
  await node.send({ from: payer, to: address, value: parseDecimal(amount, 18)! });
  const height = (await node.mine(3)) - 2;
  await reach(desk.app, paymentId, ({ status }) => status === 'completed');
  const id = await desk.approved({ id: paymentId }, '0.04', customer);
  const { sweep } = await desk.makeRefunds('ETH');
  const signed = await desk.sign(sweep.id, customer);
  await desk.upload(signed);
  const [sent] = await eventually(
    () => desk.transactionsOf(sweep.id),
    ([one]) => one?.sentAt != null,
  );
  // The customer pays somebody else with the same money, in blocks that replace those with the deposit.
  const gas = { gas: '0x5208', gasPrice: '0x4a817c800' };
  const instead = { from: payer, to: customerAt(9), value: '0x1', nonce, ...gas };
  await node.rpc('anvil_dropTransaction', sent!.txid);
  await node.rpc('anvil_reorg', (await node.mine(1)) - height + 1, [[instead, 0]]);
  assert.equal(await desk.held('ETH', address), 0n);
  const ended = await desk.finish(sweep.id, 'ETH');
  assert.deepEqual([ended.state, ended.failure?.split(':')[0]], ['failed', 'deposit gone']);
  await eventually(
    () => desk.refundOf(id),
    ({ state }) => state === 'failed',
  );
  const kept = await desk.ctx.db.sql`select input from signing_inputs where file_id = ${sweep.id} and released_at is null`;
  assert.deepEqual([...kept], []);
  await desk.cancelRefund(id);
  const again = await desk.app.live.post('/v1/refunds', { payment_id: paymentId, amount: '0.04', address: customer });
  assert.equal(again.json.error.code, 'refund_exceeds');
  assert.deepEqual([await desk.held('ETH', customer), await desk.held('ETH', other!.address)], [0n, 10n ** 17n]);

  // The customer pays the address again. What was signed before and a new refund cannot both be executed.
  await node.send({ to: address, value: parseDecimal(amount, 18)! });
  await node.mine(3);
  await eventually(
    () => desk.app.live.get(`/api/payment/${paymentId}`),
    ({ json }) => json.status === 'completed' && json.confirmations >= 2,
  );
  const next = await desk.approved({ id: paymentId }, '0.03', customer);
  const file = await desk.makeRefunds('ETH');
  await desk.upload(await desk.sign(file.sweep.id, customer));
  await desk.finish(file.sweep.id, 'ETH');
  await eventually(
    () => desk.refundOf(next),
    ({ state }) => state === 'confirmed',
  );
  const raw = readSignedFile(signed).transactions.at(-1)!;
  await assert.rejects(node.rpc('eth_sendRawTransaction', `0x${raw}`), /nonce too low/i);
  assert.equal(await desk.held('ETH', customer), 3n * 10n ** 16n);
});
