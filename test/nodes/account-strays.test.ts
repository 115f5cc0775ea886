/** The books of ETH and tokens after deposits left the chain and were paid again, and after somebody sent kept files. */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { checksumAddress } from '../../src/addresses/evm-address.ts';
import { trialBalance } from '../../src/books/books.ts';
import { COIN, type Coin } from '../../src/core/coin.ts';
import { parseDecimal } from '../../src/core/money.ts';
import { readSignedFile } from '../../src/core/signing-file.ts';
import { transferData } from '../../src/evm/transaction.ts';
import { approveOutgoing, cancelOutgoing } from '../../src/outgoing/decisions.ts';
import { getOutgoing } from '../../src/outgoing/outgoing-payments.ts';
import { followSweeps } from '../../src/signing/follow-files.ts';
import { DEFAULT_WISH, readHoldings, readWallets } from '../../src/signing/holdings.ts';
import { followMoved } from '../../src/signing/moved.ts';
import { makePayoutFile } from '../../src/signing/payout-files.ts';
import { makeSweep } from '../../src/signing/signing-files.ts';
import { type AccountDesk, DESTINATION, startAccountDesk } from '../kit/account-desk.ts';
import { eventually } from '../kit/app.ts';
import { checkBooks } from '../kit/books.ts';
import { firstOf, longTest } from '../kit/long.ts';
import { reach } from '../kit/shop.ts';

const USDC = 'USDC@ethereum' satisfies Coin;
type Tested = 'ETH' | typeof USDC;
let desk: AccountDesk;
before(async () => {
  desk = await startAccountDesk({ tokens: [USDC], environment: { ETH_CONFIRMATIONS: '2' } });
  await desk.paid(USDC, 1);
  await desk.payGas(USDC, () => desk.make(USDC));
  await sweepAll(USDC);
});
after(() => desk?.stop());

const actor = { userId: '', name: 'Test', ip: '' };
let people = 0;
const somebody = () => checksumAddress((0xcafe0000 + ++people).toString(16).padStart(40, '0'));
/** What an account of the books has, and the deposits that are listed, after the books were checked. */
async function readBooks(coin: Coin) {
  const owner = { ...desk.owner, mode: 'live' } as const;
  const walletId = (await readWallets(desk.ctx, owner))[0]!.id;
  await checkBooks(desk.ctx, owner, { walletOf: () => walletId });
  const balances = await trialBalance(desk.ctx, { ...owner, until: new Date(Date.now() + 3_600_000) });
  const { holdings } = await readHoldings(desk.ctx, { ...owner, walletId, coin });
  return {
    of: (account: string) => balances.find((one) => one.coin === coin && one.account === account)?.units ?? 0n,
    listed: holdings.map(({ address }) => address),
  };
}
const depositsHold = async (coin: Coin): Promise<bigint> => {
  const rows = await desk.ctx.db.sql<{ address: string }[]>`select distinct address from transfers where coin = ${coin}`;
  return (await Promise.all(rows.map(({ address }) => desk.held(coin, address)))).reduce((sum, one) => sum + one, 0n);
};
/** The books have what the chain has at the destination and on all deposit addresses, and so much was moved elsewhere. */
async function checkBooked(coin: Coin, elsewhere: bigint): Promise<void> {
  const { of } = await readBooks(coin);
  assert.deepEqual(
    { home: of('destination_wallet'), deposits: of('deposit_addresses'), elsewhere: of('moved_elsewhere') },
    { home: await desk.held(coin, DESTINATION), deposits: await depositsHold(coin), elsewhere },
  );
}
async function sweepAll(coin: Coin): Promise<void> {
  const { sweep } = await desk.make(coin);
  // The price of gas falls after the file was made, so less than the highest fee is paid.
  await desk.nodeOf(coin).rpc('anvil_setNextBlockBaseFeePerGas', '0x1');
  await desk.upload(await desk.sign(sweep.id));
  assert.equal((await desk.finish(sweep.id, coin)).state, 'confirmed');
}
const pay = (coin: Tested, address: string, units: bigint, from = 0) =>
  coin === 'ETH'
    ? desk.nodeOf(coin).send({ from: desk.nodeOf(coin).accounts[from]!, to: address, value: units })
    : desk.mint(coin, address, units);

/** A payment that is completed by a deposit which can leave the chain. `leave`: it does, for good. */
async function paidLoosely(coin: Tested) {
  const node = desk.nodeOf(coin);
  const { id, address, amount } = await desk.create(coin);
  const units = parseDecimal(amount, coin === 'ETH' ? 18 : 6)!;
  const payer = coin === 'ETH' ? node.accounts[1]! : node.accounts[0]!;
  const nonce = await node.rpc('eth_getTransactionCount', payer, 'latest');
  await pay(coin, address, units, 1);
  const height = (await node.mine(3)) - 2;
  await reach(desk.app, id, ({ status }) => status === 'completed');
  const leave = async () => {
    const instead = { from: payer, to: somebody(), value: '0x1', nonce, gas: '0x5208', gasPrice: '0x4a817c800' };
    await node.rpc('anvil_reorg', (await node.mine(1)) - height + 1, [[instead, 0]]);
    assert.equal(await desk.held(coin, address), 0n);
  };
  return { id, address, units, leave };
}
/** As if a minute had passed, so that it is sent again. */
const dueAgain = (sweepId: string) =>
  desk.ctx.db.sql`update signed_transactions set sent_at = sent_at - interval '61 seconds' where file_id = ${sweepId}`;
async function caughtUp(): Promise<void> {
  const { hash } = await desk.nodeOf('ETH').rpc('eth_getBlockByNumber', 'latest', false);
  await eventually(
    () => desk.ctx.db.sql<{ hash: string }[]>`select hash from tips where chain = 'ETH'`,
    ([tip]) => tip?.hash === hash,
  );
}
/** The payment is completed on the newest chain. */
async function isCompleted(id: string): Promise<void> {
  await caughtUp();
  await reach(desk.app, id, ({ status }) => status === 'completed');
}

for (const coin of firstOf(['ETH', USDC] as const)) {
  test(`${coin}: a sweep whose deposit left the chain and was paid again moves the new one`, async () => {
    // What this one leaves of its fee stays in the books.
    await desk.paid(coin, 1);
    await sweepAll(coin);
    const { id, address, units, leave } = await paidLoosely(coin);
    const { sweep } = await desk.make(coin);
    const signed = await desk.sign(sweep.id);
    await leave();
    await pay(coin, address, units);
    await desk.nodeOf(coin).mine(3);
    await isCompleted(id);
    await desk.upload(signed);
    assert.equal((await desk.finish(sweep.id, coin)).state, 'confirmed');
    assert.deepEqual((await readBooks(coin)).listed, []);
    await checkBooked(coin, 0n);
  });

  test(`${coin}: what is paid again above what was signed stays listed, and is swept`, async () => {
    const { id, address, units, leave } = await paidLoosely(coin);
    const { sweep } = await desk.make(coin);
    const signed = await desk.sign(sweep.id);
    await leave();
    await pay(coin, address, 3n * units);
    await desk.nodeOf(coin).mine(3);
    await isCompleted(id);
    await desk.upload(signed);
    assert.equal((await desk.finish(sweep.id, coin)).state, 'confirmed');
    assert.deepEqual((await readBooks(coin)).listed, [address]);
    await sweepAll(coin);
    assert.deepEqual((await readBooks(coin)).listed, []);
    await checkBooked(coin, 0n);
  });

  test(`${coin}: a refund whose deposit left the chain and was paid again returns the new one`, async () => {
    const { id, address, units, leave } = await paidLoosely(coin);
    const customer = somebody();
    const refund = await desk.approved({ id }, coin === 'ETH' ? '0.004' : '25', customer);
    const { sweep } = await desk.makeRefunds(coin);
    await desk.upload(await desk.sign(sweep.id, customer));
    await eventually(
      () => desk.transactionsOf(sweep.id),
      ([one]) => one?.sentAt != null,
    );
    await leave();
    await pay(coin, address, units);
    await desk.nodeOf(coin).mine(3);
    await isCompleted(id);
    await dueAgain(sweep.id);
    assert.equal((await desk.finish(sweep.id, coin)).state, 'confirmed');
    await eventually(
      () => desk.refundOf(refund),
      ({ state }) => state === 'confirmed',
    );
    const { listed } = await readBooks(coin);
    assert.deepEqual(listed, coin === 'ETH' ? [address] : []);
    if (listed.length > 0) await sweepAll(coin);
    await checkBooked(coin, 0n);
  });

  test(`${coin}: what the kept copy of a canceled payout file paid is moved elsewhere once a sweep moves the rest`, async () => {
    const [payment] = await desk.paid(coin, 1);
    const owner = { ...desk.owner, mode: 'live' } as const;
    const recipient = somebody();
    const amount = coin === 'ETH' ? '0.004' : '6';
    const elsewhere = (await readBooks(coin)).of('moved_elsewhere');
    const [currency, network = 'ethereum'] = coin.split('@');
    const made = await desk.app.live.post('/v1/payouts', { currency, network, amount, address: recipient, payout_reference: coin });
    assert.equal(made.status, 201, made.text);
    const { id } = made.json;
    await approveOutgoing(desk.ctx, { kind: 'payout', ...owner, id, actor });
    await desk.resetPrice(coin);
    const { sweep } = await makePayoutFile(desk.ctx, { ...desk.owner, coin, speed: 'normal', actor });
    const [raw] = readSignedFile(await desk.sign(sweep.id, `${recipient} ${amount}`)).transactions;
    await desk.cancel(sweep.id);
    await eventually(
      () => getOutgoing(desk.ctx, { kind: 'payout', ...owner, id }),
      ({ sweepId }) => sweepId === null,
    );
    await cancelOutgoing(desk.ctx, { kind: 'payout', ...owner, id, actor, idempotency: null, render: () => ({ status: 200, body: '' }) });
    const before = await desk.held(coin, payment!.address);
    await desk.nodeOf(coin).rpc('eth_sendRawTransaction', `0x${raw}`);
    await desk.nodeOf(coin).mine(1);
    const moved = before - (await desk.held(coin, payment!.address));
    assert.ok(moved >= (await desk.held(coin, recipient)) && moved < before);
    await sweepAll(coin);
    assert.deepEqual((await readBooks(coin)).listed, []);
    await checkBooked(coin, elsewhere + moved);
  });
}

for (const coin of firstOf(['ETH', USDC] as const))
  test(`${coin}: a sweep of what a refund left takes nothing of a deposit that is not confirmed yet`, async () => {
    const elsewhere = (await readBooks(coin)).of('moved_elsewhere');
    const [payment] = await desk.paid(coin, 1);
    const { id, address } = payment!;
    const customer = somebody();
    await desk.approved({ id }, coin === 'ETH' ? '0.004' : '10', customer);
    const { sweep } = await desk.makeRefunds(coin);
    await desk.upload(await desk.sign(sweep.id, customer));
    assert.equal((await desk.finish(sweep.id, coin)).state, 'confirmed');
    const left = await desk.held(coin, address);
    const more = (left * 4n) / 5n;
    await desk.resetPrice(coin);
    await pay(coin, address, more);
    await desk.nodeOf(coin).mine(1);
    await caughtUp();
    const made = await makeSweep(desk.ctx, { ...desk.owner, coin, walletId: null, wish: DEFAULT_WISH, actor });
    await desk.upload(await desk.sign(made.sweep.id));
    assert.equal((await desk.finish(made.sweep.id, coin)).state, 'confirmed');
    const there = await desk.held(coin, address);
    assert.ok(there >= more && there < more + 10n ** 15n, `${there} of ${more} are still there`);
    await sweepAll(coin);
    await checkBooked(coin, elsewhere);
  });

for (const coin of firstOf([USDC, 'ETH'] as const))
  test(`${coin}: what two refunds took of two deposits was not moved elsewhere`, async () => {
    const elsewhere = (await readBooks(coin)).of('moved_elsewhere');
    const [payment] = await desk.paid(coin, 1);
    const { id, address } = payment!;
    const give = async (amount: string) => {
      const customer = somebody();
      await desk.approved({ id }, amount, customer);
      const { sweep } = await desk.makeRefunds(coin);
      await desk.upload(await desk.sign(sweep.id, customer));
      assert.equal((await desk.finish(sweep.id, coin)).state, 'confirmed');
    };
    await give(coin === 'ETH' ? '0.004' : '10');
    await desk.resetPrice(coin);
    await pay(coin, address, coin === 'ETH' ? 8n * 10n ** 15n : 20_000_000n);
    await desk.nodeOf(coin).mine(3);
    await isCompleted(id);
    // What is left of the first deposit is not enough for it.
    await give(coin === 'ETH' ? '0.009' : '25');
    await sweepAll(coin);
    await checkBooked(coin, elsewhere);
  });

test('ETH: a sweep whose deposit left the chain and was paid again with too little for its gas fails, and a new one moves it', async () => {
  const { id, address, units, leave } = await paidLoosely('ETH');
  const { sweep } = await desk.make('ETH');
  const signed = await desk.sign(sweep.id);
  await leave();
  await pay('ETH', address, units - 1n);
  await desk.nodeOf('ETH').mine(3);
  await isCompleted(id);
  await desk.upload(signed);
  const ended = await desk.finish(sweep.id, 'ETH');
  assert.deepEqual([ended.state, ended.failure?.split(':')[0]], ['failed', 'deposit gone']);
  assert.deepEqual((await readBooks('ETH')).listed, [address]);
  await sweepAll('ETH');
  assert.deepEqual((await readBooks('ETH')).listed, []);
});

/** Somebody who knows the key of an account sends money of it. */
async function moveElsewhere(coin: Tested, address: string, units: bigint): Promise<void> {
  const node = desk.nodeOf(coin);
  await node.rpc('anvil_impersonateAccount', address);
  await node.rpc('anvil_setNextBlockBaseFeePerGas', '0x0');
  const data = `0x${transferData(somebody(), units)}`;
  const call = coin === 'ETH' ? { to: somebody(), value: `0x${units.toString(16)}` } : { to: COIN[coin].contract, data };
  await node.rpc('eth_sendTransaction', { from: address, ...call, gas: '0x186a0', gasPrice: '0x0' });
  await node.mine(1);
  await node.rpc('anvil_stopImpersonatingAccount', address);
}
/** The follower looks until the deposit is not listed any more. */
const isMovedFrom = (coin: Tested, address: string) =>
  eventually(
    async () => {
      await desk.resetPrice(coin);
      await lookAgain();
      return (await readBooks(coin)).listed;
    },
    (listed) => !listed.includes(address),
  );
async function lookAgain(): Promise<void> {
  await desk.ctx.db.sql`update moved_deposits set looked_at = looked_at - interval '6 hours'`;
  await followMoved(desk.ctx, desk.ctx.chains.get('ethereum')!);
}

for (const coin of firstOf([USDC, 'ETH'] as const)) {
  test(`${coin}: another wallet moves what a refund left, which alone was moved elsewhere, also after the account is paid again`, async () => {
    const elsewhere = (await readBooks(coin)).of('moved_elsewhere');
    const [payment] = await desk.paid(coin, 1);
    const { id, address } = payment!;
    const customer = somebody();
    await desk.approved({ id }, coin === 'ETH' ? '0.004' : '10', customer);
    const { sweep } = await desk.makeRefunds(coin);
    await desk.upload(await desk.sign(sweep.id, customer));
    assert.equal((await desk.finish(sweep.id, coin)).state, 'confirmed');
    const left = await desk.held(coin, address);
    await moveElsewhere(coin, address, left);
    await assert.rejects(desk.make(coin), (error: any) => error.code === 'sweep_empty');
    await isMovedFrom(coin, address);
    await checkBooked(coin, elsewhere + left);

    await pay(coin, address, 4n * left);
    await desk.nodeOf(coin).mine(3);
    await isCompleted(id);
    for (let i = 0; i < 3; i++) await lookAgain();
    assert.deepEqual((await readBooks(coin)).listed, [address]);
    await sweepAll(coin);
    await checkBooked(coin, elsewhere + left);
  });

  test(`${coin}: what the kept copy of a canceled refund file paid, and what another wallet moved after it, is moved elsewhere`, async () => {
    const elsewhere = (await readBooks(coin)).of('moved_elsewhere');
    const [payment] = await desk.paid(coin, 1);
    const { id, address } = payment!;
    const all = await desk.held(coin, address);
    const customer = somebody();
    const refund = await desk.approved({ id }, coin === 'ETH' ? '0.004' : '10', customer);
    const { sweep } = await desk.makeRefunds(coin);
    const [raw] = readSignedFile(await desk.sign(sweep.id, customer)).transactions;
    await desk.cancel(sweep.id);
    await eventually(
      () => desk.refundOf(refund),
      ({ sweepId }) => sweepId === null,
    );
    await desk.cancelRefund(refund);
    await desk.nodeOf(coin).rpc('eth_sendRawTransaction', `0x${raw}`);
    await desk.nodeOf(coin).mine(1);
    const left = await desk.held(coin, address);
    assert.ok(left > 0n && left < all);
    await moveElsewhere(coin, address, left);
    await isMovedFrom(coin, address);
    await checkBooked(coin, elsewhere + all);
  });
}

test('ETH: a deposit that another wallet moved leaves the books, also if its fee left something', async () => {
  const node = desk.nodeOf('ETH');
  const elsewhere = (await readBooks('ETH')).of('moved_elsewhere');
  const [payment] = await desk.paid('ETH', 1);
  const { address } = payment!;
  const units = await desk.held('ETH', address);
  const gas = { gas: '0x5208', maxFeePerGas: '0x77359400', maxPriorityFeePerGas: '0x0' };
  await node.rpc('anvil_impersonateAccount', address);
  await node.rpc('eth_sendTransaction', {
    from: address,
    to: somebody(),
    value: `0x${(units - 21_000n * 2n * 10n ** 9n).toString(16)}`,
    ...gas,
  });
  await node.rpc('anvil_stopImpersonatingAccount', address);
  await node.mine(1);
  assert.ok((await desk.held('ETH', address)) > 0n);
  await assert.rejects(desk.make('ETH'), (error: any) => error.code === 'sweep_empty');
  await isMovedFrom('ETH', address);
  assert.equal((await readBooks('ETH')).of('moved_elsewhere'), elsewhere + units);
});

const refusalOf = async (sweepId: string): Promise<string> =>
  (await desk.ctx.db.sql<{ refusal: string | null }[]>`select refusal from signed_transactions where file_id = ${sweepId}`)[0]?.refusal ??
  '';
/** A refund of ETH, signed and refused because the network takes more than its file pays, so that no node has it. */
async function refusedForFee(payment: { id: string }, amount: string) {
  const customer = somebody();
  const refund = await desk.approved(payment, amount, customer);
  const { sweep } = await desk.makeRefunds('ETH');
  const signed = await desk.sign(sweep.id, customer);
  await desk.nodeOf('ETH').rpc('anvil_setNextBlockBaseFeePerGas', '0x174876e800');
  await desk.nodeOf('ETH').mine(1);
  await desk.upload(signed);
  await eventually(
    () => refusalOf(sweep.id),
    (text) => /network fee rose/.test(text),
  );
  return { id: sweep.id, customer, refund };
}

test('ETH: a refund waits that was refused once, while another deposit of its payment left the chain, and fails once that is gone', async () => {
  const node = desk.nodeOf('ETH');
  const [payment] = await desk.paid('ETH', 1);
  const { id, address } = payment!;
  const second = await node.rpc('eth_getTransactionCount', node.accounts[1]!, 'latest');
  await pay('ETH', address, 10n ** 16n, 1);
  const height = (await node.mine(3)) - 2;
  await caughtUp();
  const other = await desk.app.live.post('/v1/refunds', { payment_id: id, amount: '0.008', address: somebody() });
  assert.equal(other.status, 201, other.text);
  const { id: sweepId, customer, refund } = await refusedForFee(payment!, '0.009');
  const instead = { from: node.accounts[1]!, to: somebody(), value: '0x1', nonce: second, gas: '0x5208', gasPrice: '0x4a817c800' };
  await node.rpc('anvil_setNextBlockBaseFeePerGas', '0x3b9aca00');
  await node.rpc('anvil_reorg', (await node.mine(1)) - height + 1, [[instead, 0]]);
  await desk.resetPrice('ETH');
  await caughtUp();
  assert.equal(await desk.held('ETH', address), 10n ** 16n, 'it could be paid');
  await dueAgain(sweepId);
  await eventually(
    () => refusalOf(sweepId),
    (text) => /what the payment of its refund received is not confirmed any more/.test(text),
  );
  const ended = await desk.finish(sweepId, 'ETH');
  assert.deepEqual([ended.state, ended.failure?.split(':')[0]], ['failed', 'deposit gone']);
  await eventually(
    () => desk.refundOf(refund),
    ({ state }) => state === 'failed',
  );
  assert.deepEqual([await desk.held('ETH', customer), await desk.held('ETH', address)], [0n, 10n ** 16n]);
  assert.deepEqual((await readBooks('ETH')).listed, [address]);
});

/** Until the follower sees that the deposit was replaced by another transaction. */
async function isReplaced(id: string): Promise<void> {
  const find = () => desk.ctx.db.sql`select 1 from transfers where payment_id = ${id} and conflict_height is not null`;
  while ((await find()).length === 0) {
    await desk.nodeOf('ETH').mine(1);
    await caughtUp();
  }
}
type Row = { refusal: string | null; conflictHash: string | null; isSent: boolean };
const rowOf = async (sweepId: string): Promise<Row> =>
  (
    await desk.ctx.db.sql<Row[]>`
      select refusal, conflict_hash as "conflictHash", sent_at is not null and refusal is null as "isSent"
      from signed_transactions where file_id = ${sweepId}`
  )[0]!;
/** A process that is about to end a transaction, while its deposit is paid again and another process sends it. */
async function sentMeanwhile({ sweepId, id, address, units }: { sweepId: string; id: string; address: string; units: bigint }) {
  // It asks for the tip at the start of its round, and before it ends the transaction.
  const chain = desk.ctx.chains.get('ethereum')!;
  const [reached, paid] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  let asked = 0;
  const tip = async () => {
    if (++asked === 2) {
      reached.resolve();
      await paid.promise;
    }
    return chain.tip();
  };
  const slow = followSweeps(desk.ctx, Object.create(chain, { tip: { value: tip } }), null);
  await reached.promise;
  // The first process does not look at the transaction while another one has it.
  await desk.ctx.db.sql.begin(async (tx) => {
    await tx`select 1 from signed_transactions where file_id = ${sweepId} for update`;
    // The round that it may be in ends.
    await sleep(1_000);
    await pay('ETH', address, units);
    await desk.nodeOf('ETH').mine(3);
    await isCompleted(id);
  });
  await dueAgain(sweepId);
  await eventually(
    () => rowOf(sweepId),
    ({ isSent }) => isSent,
  );
  paid.resolve();
  await slow;
  assert.equal((await desk.finish(sweepId, 'ETH')).state, 'confirmed');
}

longTest(
  'ETH: a refund that waits is paid, not failed, when its deposit is paid again while a slow process sees that the first one is gone',
  async () => {
    const { id, address, units, leave } = await paidLoosely('ETH');
    const { id: sweepId, customer, refund } = await refusedForFee({ id }, '0.004');
    await desk.nodeOf('ETH').rpc('anvil_setNextBlockBaseFeePerGas', '0x3b9aca00');
    await leave();
    await desk.resetPrice('ETH');
    await caughtUp();
    await isReplaced(id);
    await dueAgain(sweepId);
    await eventually(
      () => rowOf(sweepId),
      ({ refusal, conflictHash }) => conflictHash !== null && /what the payment of its refund received/.test(refusal ?? ''),
    );
    await sentMeanwhile({ sweepId, id, address, units });
    await eventually(
      () => desk.refundOf(refund),
      ({ state }) => state === 'confirmed',
    );
    assert.equal(await desk.held('ETH', customer), 4n * 10n ** 15n);
  },
);

longTest('ETH: a sweep whose deposit is paid again while a slow process sees that it is gone is sent, not failed', async () => {
  await sweepAll('ETH');
  const { id, address, units, leave } = await paidLoosely('ETH');
  const { sweep } = await desk.make('ETH');
  const signed = await desk.sign(sweep.id);
  await leave();
  await desk.resetPrice('ETH');
  await caughtUp();
  await isReplaced(id);
  await desk.upload(signed);
  await eventually(
    () => rowOf(sweep.id),
    ({ conflictHash }) => conflictHash !== null,
  );
  await sentMeanwhile({ sweepId: sweep.id, id, address, units });
});

test('ETH: the gas address pays for a refund whose deposit is too small for a higher fee', async () => {
  const [payment] = await desk.paid('ETH', 1);
  const { id, customer, refund } = await refusedForFee(payment!, '0.0098');
  await desk.nodeOf('ETH').rpc('anvil_setNextBlockBaseFeePerGas', '0x12a05f200');
  await desk.nodeOf('ETH').mine(1);
  await desk.replace(id);
  assert.deepEqual(
    (await desk.requestsOf(id)).map(({ kind }) => kind),
    ['native', 'fund'],
  );
  // The gas address pays for nothing else until this ends.
  await desk.paid(USDC, 1);
  await assert.rejects(desk.make(USDC), (error: any) => error.code === 'sweep_busy');
  await desk.upload(await desk.sign(id, customer));
  assert.equal((await desk.finish(id, 'ETH')).state, 'confirmed');
  await eventually(
    () => desk.refundOf(refund),
    ({ state }) => state === 'confirmed',
  );
  assert.equal(await desk.held('ETH', customer), 98n * 10n ** 14n);
  await sweepAll(USDC);
  await readBooks('ETH');
});

longTest('ETH: the gas address pays for a refund whose deposit came back with its amount, but without its fee', async () => {
  const node = desk.nodeOf('ETH');
  const { id, address, leave } = await paidLoosely('ETH');
  const customer = somebody();
  const refund = await desk.approved({ id }, '0.0099', customer);
  const { sweep } = await desk.makeRefunds('ETH');
  const signed = await desk.sign(sweep.id, customer);
  await leave();
  await pay('ETH', address, 99n * 10n ** 14n + 1n);
  await node.mine(3);
  await caughtUp();
  await desk.upload(signed);
  await eventually(
    () => refusalOf(sweep.id),
    (text) => /if it holds the amount/.test(text),
  );
  await desk.resetPrice('ETH');
  await desk.replace(sweep.id);
  await desk.upload(await desk.sign(sweep.id, customer));
  assert.equal((await desk.finish(sweep.id, 'ETH')).state, 'confirmed');
  await eventually(
    () => desk.refundOf(refund),
    ({ state }) => state === 'confirmed',
  );
  assert.equal(await desk.held('ETH', customer), 99n * 10n ** 14n);
  await readBooks('ETH');
});

test('ETH: a refund keeps its deposit and its nonce while the payment for its gas fails, and another payment for gas follows', async () => {
  const node = desk.nodeOf('ETH');
  const [payment] = await desk.paid('ETH', 1);
  const { id, customer } = await refusedForFee(payment!, '0.0098');
  const lowerPrice = async () => {
    await node.rpc('anvil_setNextBlockBaseFeePerGas', '0x12a05f200');
    await node.mine(1);
  };
  await lowerPrice();
  await desk.replace(id);
  const signed = await desk.sign(id, customer);
  const keeps = () => desk.ctx.db.sql`
    select input from signing_inputs where file_id = ${id} and released_at is null and input not like 'gas:%' order by number`;
  const kept = await keeps();
  const { from } = (await desk.requestsOf(id)).find(({ kind }) => kind === 'fund')!;
  await node.rpc('anvil_impersonateAccount', from);
  await node.rpc('eth_sendTransaction', { from, to: somebody(), value: '0x1' });
  await node.rpc('anvil_stopImpersonatingAccount', from);
  await node.mine(1);
  await desk.upload(signed);
  const failed = () => desk.ctx.db.sql`select 1 from signed_transactions where file_id = ${id} and number = 1 and failed_at is not null`;
  await eventually(
    async () => {
      await node.mine(1);
      return failed();
    },
    ({ length }) => length > 0,
  );
  assert.deepEqual([...(await keeps())], [...kept]);
  await lowerPrice();
  await desk.replace(id);
  await desk.upload(await desk.sign(id, customer));
  assert.equal((await desk.finish(id, 'ETH')).state, 'confirmed');
  assert.equal(await desk.held('ETH', customer), 98n * 10n ** 14n);
  await readBooks('ETH');
});
