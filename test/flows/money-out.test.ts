/** What was signed, sent, canceled, reversed or recorded by hand before never leads to a second payment, in BTC on a scripted chain. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Transaction } from '@scure/btc-signer';
import { signFile } from '../../signer/sign.ts';
import { trialBalance } from '../../src/books/books.ts';
import { ChainError, type JoinedSource } from '../../src/chains/chain-source.ts';
import { signingFileText } from '../../src/core/signing-file.ts';
import { approveOutgoing, cancelOutgoing, markOutgoingSent } from '../../src/outgoing/decisions.ts';
import { followOutgoing, followSentByHand } from '../../src/outgoing/follow-outgoing.ts';
import { lookForReturn } from '../../src/outgoing/hand-sent.ts';
import { getOutgoing } from '../../src/outgoing/outgoing-payments.ts';
import { readRefundable } from '../../src/outgoing/refunds.ts';
import { compareFiles } from '../../src/outgoing/restored.ts';
import { resolvePayment, reviewPayment } from '../../src/payments/payments.ts';
import { followSweeps } from '../../src/signing/follow-files.ts';
import { DEFAULT_WISH } from '../../src/signing/holdings.ts';
import { makePayoutFile } from '../../src/signing/payout-files.ts';
import { makeRefundFile } from '../../src/signing/refund-files.ts';
import { acceptSigned, cancelSweep, getSweep, listSweepable, makeSweep, readSigningFileOf } from '../../src/signing/signing-files.ts';
import { setDestination } from '../../src/wallets/destinations.ts';
import { EVER } from '../kit/books.ts';
import { nodeOf } from '../kit/schedules.ts';
import { account } from '../kit/shop.ts';
import { recordsOf } from '../kit/signing.ts';
import { type SteppedShop, tellStepped } from '../kit/stepped-shop.ts';

const DESTINATION = 'bc1qw508d6qejxtdg4y5r3zarvary0c5xw7kv8f3t4';
const CUSTOMER = 'bc1q34aq5drpuwy3wgl9lhup9892qp6svr8ldzyy7c';
const OTHER = 'bc1qrp33g0q5c5txsp9arysrx4k6zdkfs4nce4xj0gdcccefvpysxf3qccfmv3';
const actor = { userId: '', name: 'Test', ip: '' };
const nothing = { idempotency: null, render: () => ({ status: 200, body: Buffer.alloc(0) }) } as const;
const unread = { idempotency: null, render: () => ({ status: 200, body: '' }) } as const;

type Desk = SteppedShop & {
  owner: { merchantId: string; mode: 'live' };
  /** Payments of so many dollars that are completed. */
  receive(...dollars: number[]): Promise<string[]>;
  /** An approved refund. */
  refund(paymentId: string, amount?: string, address?: string): Promise<string>;
  /** An approved payout. */
  payout(amount: string, of?: { address?: string; payout_reference?: string }): Promise<string>;
  makeFile(): ReturnType<typeof makeRefundFile>;
  makePayouts(): ReturnType<typeof makePayoutFile>;
  /** The signed file, which is not uploaded. */
  sign(id: string): Promise<{ text: string; raws: string[] }>;
  /** Another wallet sends a signed transaction, and it is mined so deep that it is final. */
  sendElsewhere(raw: string): Promise<void>;
  /** Cancels a file that nobody uploaded, and what it pays. */
  cancelAll(sweepId: string, of: { refunds?: string[]; payouts?: string[] }): Promise<void>;
  /** What blocks of the chain paid to an address. */
  paidTo(address: string): bigint;
};

async function deskOf(told: SteppedShop): Promise<Desk> {
  const { ctx } = told.app.app;
  const owner = { merchantId: told.app.merchant.merchantId, mode: 'live' } as const;
  await setDestination(ctx, { ...owner, coin: 'BTC', address: DESTINATION, ends: DESTINATION.slice(-6), actor: null });
  const created = (reply: { status: number; text: string; json: any }): string => {
    assert.equal(reply.status, 201, reply.text);
    return reply.json.id;
  };
  return {
    ...told,
    owner,
    receive: async (...dollars) => {
      const ids = await told.pay(told.chain, ...dollars);
      told.chain.mine(8);
      await told.look(2);
      return ids;
    },
    refund: async (paymentId, amount, address = CUSTOMER) => {
      const id = created(await told.app.live.post('/v1/refunds', { payment_id: paymentId, address, ...(amount && { amount }) }));
      await approveOutgoing(ctx, { kind: 'refund', ...owner, id, actor });
      return id;
    },
    payout: async (amount, { address = CUSTOMER, ...of } = {}) => {
      const body = { currency: 'BTC', amount, address, ...of };
      const id = created(await told.app.live.post('/v1/payouts', body, { 'Idempotency-Key': `${Math.random()}` }));
      await approveOutgoing(ctx, { kind: 'payout', ...owner, id, actor });
      return id;
    },
    makeFile: () => makeRefundFile(ctx, { ...owner, coin: 'BTC', speed: 'normal', actor }),
    makePayouts: () => makePayoutFile(ctx, { ...owner, coin: 'BTC', speed: 'normal', actor }),
    sign: async (id) => {
      const file = await readSigningFileOf(ctx, { ...owner, id });
      const recipients = recordsOf(
        'BTC',
        file.requests.flatMap((request) => (request.kind === 'psbt' ? request.lines : [])),
      );
      const secret = account('BTC').privateExtendedKey;
      const { text } = signFile({ content: signingFileText(file), secret, destination: DESTINATION, recipients });
      return { text, raws: JSON.parse(text).transactions };
    },
    sendElsewhere: async (raw) => {
      told.chain.mempool.set(...seen(told, raw));
      told.chain.mine(8);
      await told.look(2);
    },
    cancelAll: async (sweepId, { refunds = [], payouts = [] }) => {
      await cancelSweep(ctx, { ...owner, id: sweepId, actor });
      await followOutgoing(ctx);
      await followOutgoing(ctx);
      for (const id of refunds) await cancelOutgoing(ctx, { kind: 'refund', ...owner, id, actor, ...unread });
      for (const id of payouts) await cancelOutgoing(ctx, { kind: 'payout', ...owner, id, actor, ...unread });
    },
    paidTo: (address) => {
      const script = Buffer.from(scriptOf(address)).toString('hex');
      const outputs = told.chain.blocks.flatMap(({ txs }) => txs.flatMap((tx) => tx.outputs));
      return outputs.reduce((sum, one) => (one.address === address || one.script === script ? sum + one.units : sum), 0n);
    },
  };
}
const tell = (story: (desk: Desk) => Promise<void>) =>
  tellStepped(['own'], async (told) => story(await deskOf(told)), { environment: { PRICES: 'static:BTC=1000.00' } });

const OPTIONS = { allowUnknownInputs: true, allowUnknownOutputs: true, disableScriptCheck: true } as const;
const scriptOf = (address: string): Uint8Array => {
  const tx = new Transaction(OPTIONS);
  tx.addOutputAddress(address, 1_000n);
  return tx.getOutput(0).script!;
};
/** A raw transaction as the scripted chain has it. */
function seen({ chain }: SteppedShop, hex: string): Parameters<SteppedShop['chain']['mempool']['set']> {
  const tx = Transaction.fromRaw(Buffer.from(hex, 'hex'), OPTIONS);
  const inputs = Array.from({ length: tx.inputsLength }, (_, i) => {
    const { txid, index } = tx.getInput(i);
    const from = chain.find(Buffer.from(txid!).toString('hex'))!.tx.outputs[index!]!;
    return { txid: Buffer.from(txid!).toString('hex'), vout: index!, address: from.address, units: from.units };
  });
  const outputs = Array.from({ length: tx.outputsLength }, (_, i) => {
    const { script, amount } = tx.getOutput(i);
    const hex = Buffer.from(script!).toString('hex');
    return { script: hex, units: amount!, address: hex };
  });
  const raw = Buffer.from(tx.toBytes(true, false));
  return [tx.id, { txid: tx.id, raw, coinbase: false, feeUnits: 0n, seenAt: 0, inputs, outputs }];
}
const spentBy = (raw: string): string[] => {
  const tx = Transaction.fromRaw(Buffer.from(raw, 'hex'), OPTIONS);
  return Array.from({ length: tx.inputsLength }, (_, i) => `${Buffer.from(tx.getInput(i).txid!).toString('hex')}:${tx.getInput(i).index}`);
};

test('a canceled refund whose signed file another wallet sent is not paid again, by money of others either', () =>
  tell(async (desk) => {
    const { receive, makeFile, refund, sign } = desk;
    const [mine] = await receive(25, 30);
    const first = await refund(mine!, '0.02000000');
    const one = await makeFile();
    const { raws } = await sign(one.sweep.id);
    await desk.sendElsewhere(raws[0]!);
    await desk.cancelAll(one.sweep.id, { refunds: [first] });
    const second = await refund(mine!, '0.02000000', OTHER);
    await assert.rejects(makeFile(), { code: 'refund_file_empty', message: /was canceled, and the deposit in its signed file was spent/ });
    // The merchant finds the transaction: the refund was sent, and that is all that leaves.
    const txid = Transaction.fromRaw(Buffer.from(raws[0]!, 'hex'), OPTIONS).id;
    await markOutgoingSent(desk.app.app.ctx, { kind: 'refund', ...desk.owner, id: second, txid, actor });
    assert.deepEqual([desk.paidTo(CUSTOMER), desk.paidTo(OTHER)], [2_000_000n, 0n]);
  }));

test('a new refund or payout spends what every kept file of canceled ones spends, so that only one of them can be mined', () =>
  tell(async (desk) => {
    const { receive, makeFile, makePayouts, refund, payout, sign } = desk;
    const [mine] = await receive(60);
    // Two deposits of one payment, each refunded in a file of its own.
    desk.chain.pay([[(await desk.detail(mine!)).payment_address, 3_000_000n]]);
    desk.chain.mine(8);
    await desk.look(2);
    const refunds = [await refund(mine!, '0.04000000'), await refund(mine!, '0.02000000')];
    const one = await makeFile();
    assert.deepEqual(one.refunds, refunds);
    const kept = (await sign(one.sweep.id)).raws;
    assert.equal(kept.length, 2);
    await desk.cancelAll(one.sweep.id, { refunds });
    const [third, fourth] = [await refund(mine!, '0.03000000', OTHER), await refund(mine!, '0.01000000', OTHER)];
    const two = await makeFile();
    assert.deepEqual([two.refunds, two.left.map(({ id }) => id)], [[third], [fourth]], 'the other one waits for the deposits');
    const [raw] = (await sign(two.sweep.id)).raws;
    for (const other of kept)
      assert.ok(
        spentBy(other).some((input) => spentBy(raw!).includes(input)),
        'both cannot be mined',
      );
    await assert.rejects(makeFile(), { code: 'refund_file_empty', message: /is in another file now/ });

    // The same for payouts: by reference to another address, and by address without a reference.
    await receive(40, 50, 70, 80);
    const salary = { address: 'bc1qcr8te4kr609gcawutmrza0j4xv80jy8z306fyu', payout_reference: 'salary' };
    const before = [await payout('0.03', salary), await payout('0.06', { address: OTHER })];
    const three = await makePayouts();
    assert.deepEqual(three.payouts, before);
    const [spent] = (await sign(three.sweep.id)).raws;
    await desk.cancelAll(three.sweep.id, { payouts: before });
    const again = [await payout('0.01', { address: OTHER, payout_reference: 'salary' }), await payout('0.02', { address: OTHER })];
    const four = await makePayouts();
    assert.deepEqual(four.payouts.toSorted(), again.toSorted());
    const paying = (await sign(four.sweep.id)).raws;
    assert.equal(paying.length, 1, 'one transaction, because only one can spend it');
    assert.ok(spentBy(spent!).some((input) => spentBy(paying[0]!).includes(input)));
    await desk.sendElsewhere(spent!);
    await desk.cancelAll(four.sweep.id, { payouts: again });
    await payout('0.02', { address: OTHER });
    await assert.rejects(makePayouts(), {
      code: 'payout_file_empty',
      message: /was canceled, and the deposit in its signed file was spent/,
    });
    assert.equal(desk.paidTo(OTHER), 6_000_000n);
    // Who never was in a canceled file is paid.
    const unrelated = await payout('0.01', { address: 'bc1q0xcqpzrky6eff2g52qdye53xkk9jxkvrh6yhyw' });
    assert.deepEqual((await makePayouts()).payouts, [unrelated]);
  }));

test('a sweep that is final ends the kept files of canceled refunds, and the next refund is paid', () =>
  tell(async (desk) => {
    const { app, owner, receive, makeFile, refund, sign } = desk;
    const { ctx } = app.app;
    const [mine] = await receive(60, 70);
    const first = await refund(mine!, '0.02000000');
    const one = await makeFile();
    await desk.cancelAll(one.sweep.id, { refunds: [first] });
    const { sweep } = await makeSweep(ctx, { ...owner, coin: 'BTC', walletId: null, wish: DEFAULT_WISH, actor });
    const { text, raws } = await sign(sweep.id);
    await receive(30);
    const second = await refund(mine!, '0.02000000', OTHER);
    await assert.rejects(makeFile(), { code: 'refund_file_empty', message: /is in another file now/ });
    await acceptSigned(ctx, { ...owner, content: text, actor });
    await desk.sendElsewhere(raws[0]!);
    await ctx.db.sql`update signing_files set state = 'confirmed' where id = ${sweep.id}`;
    assert.deepEqual((await makeFile()).refunds, [second]);
  }));

test('a refund of money that a reorganization took away is not paid, with the money of others either, and not signed', () =>
  tell(async (desk) => {
    const { app, owner, chain, look, receive, makeFile, refund, sign } = desk;
    const { ctx } = app.app;
    await receive(60);
    const [mine] = await desk.pay(chain, 25);
    chain.mine(2);
    await look(2);
    const id = await refund(mine!, '0.02000000');
    const early = await makeFile();
    const { text } = await sign(early.sweep.id);
    chain.rewind(2, { forget: true });
    chain.mine(4, { empty: true });
    await look(6);
    const [left] = await readRefundable(ctx, { ...owner, paymentId: mine! });
    assert.equal(left!.units, 0n);
    await assert.rejects(acceptSigned(ctx, { ...owner, content: text, actor }), {
      code: 'signed_file_refused',
      message: /a refund of a payment whose money is not confirmed any more/,
    });
    await cancelSweep(ctx, { ...owner, id: early.sweep.id, actor });
    await followOutgoing(ctx);
    await assert.rejects(makeFile(), {
      code: 'refund_file_empty',
      message: /is not confirmed any more, or is less than its refunds return/,
    });
    assert.equal((await getOutgoing(ctx, { kind: 'refund', ...owner, id })).state, 'approved');
  }));

for (const { what, comesBack } of [
  { what: 'waits with its signed file while its own deposit has no block', comesBack: true },
  { what: 'is never sent with its signed file once its own deposit is gone, and frees what that spends', comesBack: false },
])
  test(`a refund that the deposits of others pay ${what}`, () =>
    tell(async (desk) => {
      const { app, owner, chain, servers, look, receive, makeFile, refund, sign } = desk;
      const { ctx } = app.app;
      const node = nodeOf(chain);
      servers[0]!.judge((hex) => node.take(node.read(hex)));
      const source = ctx.chains.get('bitcoin')!;
      const follow = () => followSweeps(ctx, source, null);
      const [mine] = await receive(25);
      const { payment_address: address } = await desk.detail(mine!);
      const { sweep: home } = await makeSweep(ctx, { ...owner, coin: 'BTC', walletId: null, wish: DEFAULT_WISH, actor });
      await acceptSigned(ctx, { ...owner, content: (await sign(home.id)).text, actor });
      await follow();
      await receive(60);
      const id = await refund(mine!, '0.02000000');
      const { sweep } = await makeFile();
      await acceptSigned(ctx, { ...owner, content: (await sign(sweep.id)).text, actor });
      const deposit = chain.blocks.flatMap(({ txs }) => txs).find(({ outputs }) => outputs.some((one) => one.address === address))!;
      const read = async () => (await getSweep(ctx, { ...owner, id: sweep.id })).sweep;
      chain.rewind(16);
      const moved = [...chain.mempool.values()].find(({ inputs }) => inputs.some(({ txid }) => txid === deposit.txid))!;
      for (const { txid } of [deposit, moved]) chain.mempool.delete(txid);
      chain.mine(18);
      await look(4);
      for (let looks = 0; looks < 2; looks++) await follow();
      await followOutgoing(ctx);
      const { state, failure } = await read();
      assert.deepEqual(
        [state, failure?.slice(0, 8), (await getOutgoing(ctx, { kind: 'refund', ...owner, id })).state],
        ['signed', 'it waits', 'signed'],
      );
      if (comesBack) {
        chain.mempool.set(deposit.txid, deposit);
        chain.mine(8);
        await look(4);
        await follow();
        chain.mine(8);
        await look(2);
        await follow();
      } else {
        await ctx.db.sql`update transfers set absent_since = absent_since - interval '1 day' where payment_id = ${mine!}`;
        for (let looks = 0; looks < 4 && (await read()).state !== 'failed'; looks++) {
          await follow();
          chain.mine(8);
          await look(2);
        }
      }
      await followOutgoing(ctx);
      const [end, paid] = comesBack ? ['confirmed', 2_000_000n] : ['failed', 0n];
      assert.deepEqual(
        [(await read()).state, (await getOutgoing(ctx, { kind: 'refund', ...owner, id })).state, desk.paidTo(CUSTOMER)],
        [end, end, paid],
      );
      if (comesBack) return;
      const [left] = await listSweepable(ctx, owner);
      assert.deepEqual([left!.count, left!.units], [1, 6_000_000n], 'what the file would have spent');
      await cancelOutgoing(ctx, { kind: 'refund', ...owner, id, actor, ...unread });
    }));

/** What peers alone answer: nothing about outputs, and no refusal. */
const asPeers = (chain: JoinedSource): JoinedSource => ({
  ...chain,
  health: async () => ({ ...(await chain.health()), txindex: false }),
  txState: async () => ({ state: 'unknown', blockHash: null, lock: null }),
  outlet: {
    ...chain.outlet,
    areUnspent: () => Promise.reject(new ChainError('unsupported', 'peers do not say what is unspent')),
    send: () => Promise.reject(new ChainError('unseen', 'no peer asked for it')),
  },
});

const endWithoutDeposit = ({ isReplaced, hasNode = true }: { isReplaced: boolean; hasNode?: boolean }): Promise<void> =>
  tell(async (desk) => {
    const { app, owner, chain, servers, look, receive, makePayouts, payout, sign } = desk;
    const { ctx } = app.app;
    const node = nodeOf(chain);
    servers[0]!.judge((hex) => node.take(node.read(hex)));
    const [kept] = await receive(30);
    const [lost] = await desk.pay(chain, 25);
    const { payment_address: address } = await desk.detail(lost!);
    chain.mine(2);
    await look(2);
    const deposit = chain.blocks.flatMap(({ txs }) => txs).find(({ outputs }) => outputs.some((one) => one.address === address))!;
    const id = await payout('0.045');
    const { sweep } = await makePayouts();
    const { text } = await sign(sweep.id);
    await acceptSigned(ctx, { ...owner, content: text, actor });
    // Peers took it before the deposit was gone, so they do not ask for it again.
    if (!hasNode) await followSweeps(ctx, ctx.chains.get('bitcoin')!, null);
    chain.mempool.clear();
    chain.rewind(2, { forget: !isReplaced });
    if (isReplaced) chain.pay([[OTHER, 2_400_000n]], { replaces: deposit.txid });
    chain.mine(8);
    await look(4);
    if (!isReplaced) await ctx.db.sql`update transfers set absent_since = absent_since - interval '1 day' where payment_id = ${lost!}`;
    const source = hasNode ? ctx.chains.get('bitcoin')! : asPeers(ctx.chains.get('bitcoin')!);
    const read = async () => (await getSweep(ctx, { ...owner, id: sweep.id })).sweep.state;
    for (let looks = 0; looks < 4 && (await read()) !== 'failed'; looks++) {
      await ctx.db.sql`update signed_transactions set sent_at = sent_at - interval '61 seconds'`;
      await followSweeps(ctx, source, null);
      chain.mine(8);
      await look(2);
    }
    const { sweep: ended } = await getSweep(ctx, { ...owner, id: sweep.id });
    assert.deepEqual([ended.state, ended.failure?.split(':')[0]], ['failed', 'deposit gone']);
    await followOutgoing(ctx);
    assert.equal((await getOutgoing(ctx, { kind: 'payout', ...owner, id })).state, 'failed');
    const [left] = await listSweepable(ctx, owner);
    assert.deepEqual([left!.count, left!.units, (await desk.detail(kept!)).status], [1, 3_000_000n, 'completed']);
  });

test('a file whose deposit the customer sent elsewhere ends, and what else it spends is free again', () =>
  endWithoutDeposit({ isReplaced: true }));

test('with peers alone, a file whose deposit the customer sent elsewhere ends too', () =>
  endWithoutDeposit({ isReplaced: true, hasNode: false }));

test('a file whose deposit lost its block and was not seen for a day ends, and what else it spends is free again', () =>
  endWithoutDeposit({ isReplaced: false }));

test('a refund waits for the deposit of its payment, and is not paid with those of others while that is disputed or was moved elsewhere', () =>
  tell(async (desk) => {
    const { app, owner, receive, makeFile, refund, sign } = desk;
    const { ctx } = app.app;
    const [mine, other] = await receive(25, 60);
    const id = await refund(mine!, '0.02');
    const dispute = (since: Date | null) =>
      ctx.db.sql`update transfers set disputed_since = ${since} where payment_id = ${mine!} and merchant_id = ${owner.merchantId}`;
    await dispute(new Date());
    await assert.rejects(makeFile(), { code: 'refund_file_empty', message: /is not free or not confirmed at the moment/ });
    await dispute(null);
    // Somebody sends what was signed, and the database goes back to the time before the file.
    const { sweep } = await makeFile();
    const [raw] = (await sign(sweep.id)).raws;
    await desk.sendElsewhere(raw!);
    await cancelSweep(ctx, { ...owner, id: sweep.id, actor });
    await followOutgoing(ctx);
    await ctx.db.sql`update outgoing_payments set anchor = null where id = ${id}`;
    await assert.rejects(makeFile(), { code: 'refund_file_empty', message: /Florin does not know spent a deposit of its payment/ });
    // What is left of the payment returns as much as it holds.
    const own = await refund(other!, '0.01', OTHER);
    assert.deepEqual((await makeFile()).refunds, [own]);
    assert.equal(desk.paidTo(CUSTOMER), 2_000_000n);
  }));

test('who got a canceled refund is not paid again with a payout, and not with a refund after a canceled payout', () =>
  tell(async (desk) => {
    const { receive, makeFile, makePayouts, refund, payout, sign } = desk;
    const [mine, other] = await receive(25, 60);
    const first = await refund(mine!, '0.02');
    const one = await makeFile();
    const [kept] = (await sign(one.sweep.id)).raws;
    await desk.cancelAll(one.sweep.id, { refunds: [first] });
    const second = await payout('0.02');
    const two = await makePayouts();
    const [raw] = (await sign(two.sweep.id)).raws;
    assert.ok(
      spentBy(kept!).some((input) => spentBy(raw!).includes(input)),
      'both cannot be mined',
    );
    await desk.sendElsewhere(kept!);
    await desk.cancelAll(two.sweep.id, { payouts: [second] });
    await payout('0.02');
    const spent = /was canceled, and the deposit in its signed file was spent/;
    await assert.rejects(makePayouts(), { code: 'payout_file_empty', message: spent });
    await refund(other!, '0.01');
    await assert.rejects(makeFile(), { code: 'refund_file_empty', message: spent });
    assert.equal(desk.paidTo(CUSTOMER), 2_000_000n);
  }));

test('after the database went back, what was approved is not paid until members approve it again', () =>
  tell(async (desk) => {
    const { app, owner, receive, makeFile, makePayouts, refund, payout, sign } = desk;
    const { ctx } = app.app;
    const { sql } = ctx.db;
    const [mine] = await receive(25, 30, 40);
    await compareFiles(ctx);
    const asked = { refund: await refund(mine!, '0.01'), payout: await payout('0.02') };
    const made = await makePayouts();
    await desk.sendElsewhere((await sign(made.sweep.id)).raws[0]!);
    // As an older copy of the database is: it knows the approvals, and no file.
    await sql`update outgoing_payments set file_id = null, transaction_number = null, anchor = null`;
    await sql`delete from signing_inputs`;
    await sql`delete from signing_files`;
    // The service compares every two seconds too, and may be first. Before that no file is made, and after that nothing is approved.
    await assert.rejects(makePayouts(), { code: /^(sweep_busy|payout_file_empty)$/ });
    await assert.rejects(makeFile(), { code: /^(sweep_busy|refund_file_empty)$/ });
    await compareFiles(ctx);
    assert.equal(await compareFiles(ctx), 0, 'once');
    await assert.rejects(makePayouts(), { code: 'payout_file_empty' });
    await assert.rejects(makeFile(), { code: 'refund_file_empty' });
    const taken = await sql<{ object: string }[]>`select object from audit_log where action like '%.approval_ended' order by id`;
    assert.deepEqual(taken.map(({ object }) => object).toSorted(), [asked.refund, asked.payout].toSorted());
    await approveOutgoing(ctx, { kind: 'refund', ...owner, id: asked.refund, actor });
    assert.deepEqual((await makeFile()).refunds, [asked.refund]);
    assert.equal(desk.paidTo(CUSTOMER), 2_000_000n);
  }));

test('nothing of a payment is returned while it is processing, because it could complete with what goes back', () =>
  tell(async (desk) => {
    const { app, owner, chain, look, makeFile } = desk;
    const { ctx } = app.app;
    const created = await app.live.post('/v1/transactions/create', { crypto: 'BTC', amount: 25, currency_fiat: 'USD' });
    const { transaction_id: id, payment_address: address } = created.json;
    chain.pay([[address, 2_000_000n]]);
    chain.mine(8);
    await look(2);
    const early = (await app.live.post('/v1/refunds', { payment_id: id, amount: '0.02', address: CUSTOMER })).json.id;
    chain.pay([[address, 500_000n]]);
    await look(2);
    assert.equal((await desk.detail(id)).status, 'processing');
    await assert.rejects(approveOutgoing(ctx, { kind: 'refund', ...owner, id: early, actor }), {
      code: 'refund_payment_pending',
      message: /is processing/,
    });
    // One that another version approved waits.
    await ctx.db.sql`update outgoing_payments set state = 'approved', approved_at = now() where id = ${early}`;
    await assert.rejects(makeFile(), { code: 'refund_file_empty', message: /its payment is not final/ });
    chain.mine(8);
    await look(2);
    assert.equal((await desk.detail(id)).status, 'completed');
    assert.deepEqual((await makeFile()).refunds, [early]);
  }));

test('money is not marked as sent back while a refund of it is approved, so it is returned once', () =>
  tell(async (desk) => {
    const { app, chain, look, receive, refund } = desk;
    await receive(60);
    const created = await app.live.post('/v1/transactions/create', { crypto: 'BTC', amount: 25, currency_fiat: 'USD' });
    const { transaction_id: id, payment_address: address } = created.json;
    chain.pay([[address, 1_500_000n]]);
    chain.mine(8);
    await look(2);
    assert.equal((await app.live.post(`/v1/payments/${id}/cancel`)).status, 200);
    const first = await refund(id);
    const mark = () => app.live.post(`/v1/payments/${id}/resolve`, { action: 'refund_sent' });
    const refused = await mark();
    assert.deepEqual([refused.status, refused.json.error.code], [409, 'refund_open']);
    await cancelOutgoing(app.app.ctx, { kind: 'refund', ...desk.owner, id: first, actor, ...unread });
    assert.equal((await mark()).status, 200);
    // What another version let through is not paid either.
    await app.app.ctx.db.sql`update outgoing_payments set state = 'approved' where id = ${first}`;
    await assert.rejects(desk.makeFile(), { code: 'refund_file_empty' });
  }));

test('a refund address that a stranger leaves keeps no money of a sale back, and a decision frees what is kept', () =>
  tell(async (desk) => {
    const { app, owner, chain, look, detail, receive } = desk;
    const { ctx } = app.app;
    await receive();
    const open = async (dollars: number) => {
      const { json } = await app.live.post('/api/payment/create/simple', { amount_usd: dollars, return_url: 'https://shop.example/' });
      const page = await (await fetch(`${app.url}/pay?id=${json.transaction_id ?? json.id}`)).text();
      const id = (json.transaction_id ?? json.id) as string;
      const token = /name="token" value="([^"]+)"/.exec(page)![1]!;
      const post = (path: string, fields: Record<string, string>) =>
        fetch(`${app.url}${path}`, {
          method: 'POST',
          redirect: 'manual',
          body: new URLSearchParams({ id, token, currency: 'BTC', ...fields }),
        });
      await post('/pay/select', {});
      const pay = async (amount: bigint) => {
        chain.pay([[(await detail(id)).payment_address, amount]]);
        chain.mine(8);
        await look(2);
      };
      return { id, pay, leave: () => post('/pay/refund-address', { address: CUSTOMER }) };
    };
    const kept = async () => (await listSweepable(ctx, owner))[0]?.remains.map(({ reason, units }) => `${units} ${reason}`) ?? [];
    const sale = await open(25);
    await sale.pay(2_500_000n);
    assert.equal((await sale.leave()).status, 409);
    assert.deepEqual(await kept(), [], 'a completed payment that owes nothing takes no address');
    // Left before the payment was complete.
    const early = await open(30);
    assert.equal((await early.leave()).status, 303);
    await early.pay(3_000_000n);
    assert.deepEqual(await kept(), []);
    const over = await open(40);
    await over.pay(5_000_000n);
    assert.equal((await over.leave()).status, 303);
    assert.deepEqual(await kept(), ['5000000 refund_requested']);
    const refund = await desk.refund(over.id, '0.01');
    await cancelOutgoing(ctx, { kind: 'refund', ...owner, id: refund, actor, ...unread });
    assert.deepEqual(await kept(), [], 'the merchant decided');
    const handled = await open(50);
    await handled.pay(6_000_000n);
    await handled.leave();
    assert.deepEqual(await kept(), ['6000000 refund_requested']);
    await reviewPayment(ctx, { ...owner, paymentId: handled.id, actor, render: unread.render });
    assert.deepEqual(await kept(), []);
  }));

test('a transaction that a member entered pays one refund, is corrected when nothing finds it, and counts for nothing until it pays', () =>
  tell(async (desk) => {
    const { app, owner, chain, look, receive, refund } = desk;
    const { ctx } = app.app;
    const [one, two, three] = await receive(25, 30, 35);
    // In capital letters, as QR codes have them: one address in one spelling.
    const refunds = [await refund(one!, '0.01'), await refund(two!, '0.01', CUSTOMER.toUpperCase())];
    const read = (id: string) => getOutgoing(ctx, { kind: 'refund', ...owner, id });
    assert.equal((await read(refunds[1]!)).address, CUSTOMER);
    const txid = chain.pay([[CUSTOMER, 1_000_000n]]);
    chain.mine(8);
    await look(2);
    const follow = async (times: number) => {
      for (let i = 0; i < times; i++) {
        await followSentByHand(ctx);
        await ctx.db.sql`update outgoing_payments set looked_at = null`;
      }
    };
    for (const id of refunds) await markOutgoingSent(ctx, { kind: 'refund', ...owner, id, txid, actor });
    await follow(2);
    const states = await Promise.all(refunds.map(read));
    assert.deepEqual(
      states.map(({ state, failure }) => [state, failure?.slice(-28) ?? null]),
      [
        ['confirmed', null],
        ['sent', ' Enter the right transaction.'.trim()],
      ],
    );
    const notices = async () =>
      (await ctx.db.sql<{ count: number }[]>`select count(*)::int as count from notices where kind = 'money_out_failed'`)[0]!.count;
    assert.equal(await notices(), 1, 'the merchant is notified');
    // A refund of a shop that fits no payment was recorded with a transaction that pays the same customer.
    const taken = chain.pay([[CUSTOMER, 1_000_000n]]);
    await ctx.db.sql`
      insert into shop_keys (id, merchant_id, mode, dialect, platform, name, hash, hint, permissions)
      values ('shp_1', ${owner.merchantId}, 'live', 'greenfield', 'other', 'Shop', '\\x01', 'x', '{}')`;
    await ctx.db.sql`
      insert into shop_refunds (id, merchant_id, mode, shop_key_id, name, amount, currency, coin, address, claimed_at, sent_at, units, txid)
      values ('ref_1', ${owner.merchantId}, 'live', 'shp_1', 'Order 7', '10', 'USD', 'BTC', ${CUSTOMER}, now(), now(), 1000000, ${taken})`;
    const claimed = await refund(two!, '0.005');
    await markOutgoingSent(ctx, { kind: 'refund', ...owner, id: claimed, txid: taken, actor });
    chain.mine(8);
    await look(2);
    await follow(2);
    assert.deepEqual([(await read(claimed)).state, /does not pay/.test((await read(claimed)).failure ?? '')], ['sent', true]);
    // A typing error: nobody knows that transaction.
    const right = chain.pay([[OTHER, 1_000_000n]]);
    const wrong = `${right.slice(0, -1)}${right.endsWith('0') ? '1' : '0'}`;
    const mistyped = await refund(three!, '0.01', OTHER);
    await markOutgoingSent(ctx, { kind: 'refund', ...owner, id: mistyped, txid: wrong, actor });
    await assert.rejects(markOutgoingSent(ctx, { kind: 'refund', ...owner, id: mistyped, txid: right, actor }), { code: 'refund_state' });
    await follow(3);
    await markOutgoingSent(ctx, { kind: 'refund', ...owner, id: mistyped, txid: right, actor });
    const [logged] = await ctx.db.sql<{ before: { txid: string } }[]>`
      select before from audit_log where object = ${mistyped} and action = 'refund.sent' and before is not null`;
    assert.equal(logged?.before.txid, wrong);
    // It waits: it was found, so it is not a typing error.
    await follow(4);
    await assert.rejects(markOutgoingSent(ctx, { kind: 'refund', ...owner, id: mistyped, txid: wrong, actor }), { code: 'refund_state' });
    chain.mine(8);
    await look(2);
    await follow(1);
    assert.equal((await read(mistyped)).state, 'confirmed');
    // What is known not to pay is not in the books.
    const books = await trialBalance(ctx, { ...owner, until: EVER });
    const paid = books
      .filter(({ coin, account: name }) => coin === 'BTC' && name === 'refunds')
      .reduce((sum, line) => sum + line.units, 0n);
    assert.equal(paid, 3_000_000n, 'of two refunds, and of the one of the shop');
  }));

test('what members say a transaction returned counts beside the refunds and payouts that it pays, whichever is entered first', () =>
  tell(async (desk) => {
    const { app, owner, chain, look, receive, refund, payout } = desk;
    const { ctx } = app.app;
    const [one, two] = await receive(60, 30);
    const hold = async () => {
      const { json } = await app.live.post('/v1/transactions/create', { crypto: 'BTC', amount: 25, currency_fiat: 'USD' });
      chain.pay([[json.payment_address, 1_500_000n]]);
      chain.mine(8);
      await look(2);
      assert.equal((await app.live.post(`/v1/payments/${json.transaction_id}/cancel`)).status, 200);
      return json.transaction_id as string;
    };
    const say = async (paymentId: string, txid: string) => {
      const allows = await lookForReturn(ctx, { ...owner, paymentId, txid });
      return resolvePayment(ctx, { ...owner, paymentId, actor, ...nothing, action: 'refund_sent', transfers: null, txid, allows });
    };
    const mark = (id: string, txid: string) => markOutgoingSent(ctx, { kind: 'refund', ...owner, id, txid, actor });
    const sent = async (outputs: Parameters<typeof chain.pay>[0]) => {
      const txid = chain.pay(outputs);
      chain.mine(8);
      await look(2);
      return txid;
    };
    const follow = async () => {
      await followSentByHand(ctx);
      await followSentByHand(ctx);
      await ctx.db.sql`update outgoing_payments set looked_at = null`;
      await ctx.db.sql`update outgoing_payments set looked_at = null`;
    };
    const states = async (refunds: string[], payouts: string[] = []) => [
      ...(await Promise.all(refunds.map(async (id) => getOutgoing(ctx, { kind: 'refund', ...owner, id })))),
      ...(await Promise.all(payouts.map(async (id) => getOutgoing(ctx, { kind: 'payout', ...owner, id })))),
    ];
    const unpaid = ({ state, failure }: { state: string; failure: string | null }) =>
      state === 'sent' && /does not pay/.test(failure ?? '');

    const first = await sent([[OTHER, 1_500_000n]]);
    await say(await hold(), first.toUpperCase());
    const [later, paid] = [await refund(one!, '0.01', OTHER), await payout('0.01', { address: OTHER })];
    await mark(later, first);
    await markOutgoingSent(ctx, { kind: 'payout', ...owner, id: paid, txid: first, actor });
    await follow();
    assert.ok((await states([later], [paid])).every(unpaid), 'all of it went back to another customer');

    const second = await sent([[CUSTOMER, 1_000_000n]]);
    const early = await refund(two!, '0.01');
    await mark(early, second);
    const held = await hold();
    await assert.rejects(say(held, second), { code: 'parameter_invalid', param: 'txid' });
    await follow();
    assert.deepEqual(
      (await states([early])).map(({ state }) => state),
      ['confirmed'],
    );
    await assert.rejects(say(held, second), { code: 'parameter_invalid', param: 'txid' });

    // One transaction that pays both.
    const both = await sent([
      [CUSTOMER, 1_000_000n],
      [OTHER, 1_500_000n],
    ]);
    const beside = await refund(two!, '0.01');
    await mark(beside, both);
    await say(held, both);
    await follow();
    assert.deepEqual(
      (await states([beside])).map(({ state }) => state),
      ['confirmed'],
    );
    await assert.rejects(say(await hold(), both), { code: 'parameter_invalid', param: 'txid' });
  }));
