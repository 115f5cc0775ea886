/**
 * Payouts on a real node: requested over the API, approved, signed offline in one transaction, sent and confirmed. Whatever is repeated,
 * lost or killed on the way, every recipient is paid once.
 */
// Invariant: A payout is paid once, also when two members approve it and upload its file at the same moment, or the service is killed after its node took the transaction.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { signFile } from '../../signer/sign.ts';
import { startApp } from '../../src/app.ts';
import { readConfig } from '../../src/config.ts';
import { signingFileText } from '../../src/core/signing-file.ts';
import { createLog } from '../../src/log.ts';
import { approveOutgoing, cancelOutgoing, markOutgoingSent } from '../../src/outgoing/decisions.ts';
import { followOutgoing, followSentByHand } from '../../src/outgoing/follow-outgoing.ts';
import { getOutgoing, type Payout } from '../../src/outgoing/outgoing-payments.ts';
import { followSweeps } from '../../src/signing/follow-files.ts';
import { DEFAULT_WISH, readHoldings, readWallets } from '../../src/signing/holdings.ts';
import { makePayoutFile } from '../../src/signing/payout-files.ts';
import { acceptSigned, cancelSweep, getSweep, makeSweep, readSigningFileOf, replaceSweep } from '../../src/signing/signing-files.ts';
import { setDestination } from '../../src/wallets/destinations.ts';
import { setWallet } from '../../src/wallets/wallets.ts';
import { eventually, startTestApp, type TestApp, testEnvironment } from '../kit/app.ts';
import { base58check } from '../kit/base58.ts';
import { startBitcoind, type TestNode } from '../kit/nodes.ts';
import { ageRoles, setUpPartner, setUpPerson } from '../kit/person.ts';
import { startProxy } from '../kit/proxy.ts';
import { startService } from '../kit/service.ts';
import { account, beginFollowing, giveWallet, openPayment, reach } from '../kit/shop.ts';
import { recordsFor } from '../kit/signing.ts';

let node: TestNode;
let app: TestApp;
before(async () => {
  node = await startBitcoind();
  app = await startTestApp({
    ...{ BTC_NODE_URL: node.url, BTC_NETWORK: 'regtest', BTC_CONFIRMATIONS: '2' },
    ...{ PRICES: 'static:BTC=1000.00', LOG_LEVEL: 'fatal' },
  });
  await giveWallet(app, 'BTC');
  await beginFollowing(app, 'BTC');
});
after(async () => {
  await app?.stop();
  await node?.destroy();
});

const actor = { userId: '', name: 'Test', ip: '' };
const owner = () => ({ merchantId: app.merchant.merchantId, mode: 'live' }) as const;
const makeFile = () => makePayoutFile(app.app.ctx, { ...owner(), coin: 'BTC', speed: 'normal', actor });
const payout = (id: string) => getOutgoing(app.app.ctx, { kind: 'payout', ...owner(), id });
const stateOf = async (id: string) => (await payout(id)).state;
const sign = async (id: string, destination: string, recipients: readonly string[]) => {
  const content = signingFileText(await readSigningFileOf(app.app.ctx, { ...owner(), id }));
  return signFile({ content, secret: account('BTC').privateExtendedKey, destination, recipients: recordsFor(content, recipients) }).text;
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
  const clicks = await Promise.allSettled([1, 2].map(() => approveOutgoing(ctx, { kind: 'payout', ...owner(), id: ids[0]!, actor })));
  assert.deepEqual(clicks.map(({ status }) => status).toSorted(), ['fulfilled', 'rejected']);
  await approveOutgoing(ctx, { kind: 'payout', ...owner(), id: ids[1]!, actor });

  // Two members make the file at the same moment: one of them gets it.
  const files = await Promise.allSettled([makeFile(), makeFile()]);
  const [lost] = files.flatMap((one) => (one.status === 'rejected' ? [one.reason.code] : []));
  assert.ok(lost === 'payout_file_empty' || lost === 'sweep_busy', lost);
  const [canceled] = files.flatMap((one) => (one.status === 'fulfilled' ? [one.value] : []));
  assert.deepEqual(canceled!.payouts.toSorted(), ids.toSorted());
  const inFile = { code: 'payout_in_file' };
  await assert.rejects(markOutgoingSent(ctx, { kind: 'payout', ...owner(), id: ids[0]!, txid: 'ab'.repeat(32), actor }), inFile);
  const canceling = { ...owner(), id: ids[0]!, actor, idempotency: null, render: () => ({ status: 200, body: '' }) };
  await assert.rejects(cancelOutgoing(ctx, { kind: 'payout', ...canceling }), inFile);
  const everybody = [ada, bob];
  // Somebody kept a signed copy of a file that was canceled: the next file spends the same output, so only one of them can be mined.
  const kept = JSON.parse(await sign(canceled!.sweep.id, destination, everybody)) as { transactions: string[] };
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
    select anchor, exists (select 1 from signing_inputs i where i.file_id = ${sweep.id} and i.input = p.anchor) as spent from outgoing_payments p`;
  assert.deepEqual([new Set(anchors.map(({ anchor }) => anchor)).size, anchors.every(({ spent }) => spent)], [1, true]);
  const [asked] = (await readSigningFileOf(ctx, { ...owner(), id: sweep.id })).requests;
  assert.ok(asked?.kind === 'psbt');
  assert.deepEqual(asked.lines.map(({ purpose, to, units, reference }) => [purpose, to, units, reference]).slice(0, 2), [
    ['payout', ada, 2_000_000n, 'ada-1'],
    ['payout', bob, 3_000_000n, ids[1]],
  ]);
  await assert.rejects(sign(sweep.id, destination, [ada]), /not among the recipients/, 'the signer knows every recipient');
  const text = await sign(sweep.id, destination, everybody);
  // An upload that is repeated, and a killed process that repeats its round.
  assert.deepEqual([(await upload(text)).isKnown, (await upload(text)).isKnown], [false, true]);
  await eventually(
    () => Promise.all(ids.map(stateOf)),
    (states) => states.every((state) => state === 'sent'),
  );
  await replaceSweep(ctx, { ...owner(), id: sweep.id, speed: 'fast', actor });
  await upload(await sign(sweep.id, destination, everybody));
  const { transactions } = await getSweep(ctx, { ...owner(), id: sweep.id });
  await eventually(
    () => node.rpc('getrawmempool') as Promise<string[]>,
    (mempool) => mempool.includes(transactions[1]!.txid) && !mempool.includes(transactions[0]!.txid),
  );
  await node.mine(1);
  // Broadcast again, the replaced one too, and the copy of the canceled file.
  for (const { raw } of await ctx.db.sql<{ raw: Uint8Array }[]>`select raw from signed_transactions where file_id = ${sweep.id}`)
    await assert.rejects(node.rpc('sendrawtransaction', Buffer.from(raw).toString('hex')));
  await assert.rejects(node.rpc('sendrawtransaction', kept.transactions[0]));
  await node.mine(1);
  await eventually(
    () => Promise.all(ids.map(stateOf)),
    (states) => states.every((state) => state === 'confirmed'),
  );
  await followOutgoing(ctx);
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
  for (const id of ids) await assert.rejects(approveOutgoing(ctx, { kind: 'payout', ...owner(), id, actor }), { code: 'payout_state' });
});

/** A deposit that can pay for payouts, and the destination of what is left. */
async function deposit(): Promise<string> {
  const { id, address, amount } = await openPayment(app, 'BTC', 25);
  await node.pay(address, amount);
  await node.mine(2);
  await reach(app, id, ({ status }) => status === 'completed');
  const destination = await node.newAddress();
  await setDestination(app.app.ctx, { ...owner(), coin: 'BTC', address: destination, ends: destination.slice(-6), actor: null });
  return destination;
}

test('two members approve at the same moment, and both upload the same signed file at once: the recipient is paid once', async () => {
  const people = [await setUpPerson(app), await setUpPartner(app)];
  await ageRoles(app);
  assert.equal((await people[0]!.post('/live/settings/business', { refund_limit_usd: 1 })).status, 200);
  const destination = await deposit();
  const recipient = await node.newAddress();
  const { id } = (await app.live.post('/v1/payouts', { currency: 'BTC', amount: '0.01', address: recipient, payout_reference: recipient }))
    .json;
  const everyone = (path: string, body?: object) => Promise.all(people.map((person) => person.post(`/live/${path}`, body)));
  const approvals = await everyone(`payouts/${id}/approve`);
  assert.deepEqual(approvals.map(({ json }) => json.payout.status).toSorted(), ['approved', 'requested'], 'both are needed');
  const files = await everyone('payout-files', { currency: 'BTC' });
  assert.deepEqual(files.map(({ status }) => status).toSorted(), [200, 409], 'one of them makes the file');
  const made = files.find(({ status }) => status === 200)!.json;
  assert.deepEqual([made.paid, made.left], [1, []]);
  const content = await sign(made.file, destination, [recipient]);
  const uploads = await everyone('sweeps/signed', { content });
  assert.deepEqual(
    uploads.map(({ status, json }) => [status, json.is_known]).toSorted(),
    [
      [200, false],
      [200, true],
    ],
    'the second upload changes nothing',
  );
  const { transactions } = await getSweep(app.app.ctx, { ...owner(), id: made.file });
  assert.equal(transactions.length, 1);
  await eventually(
    () => stateOf(id),
    (state) => state === 'sent',
  );
  await node.mine(2);
  await eventually(
    () => stateOf(id),
    (state) => state === 'confirmed',
  );
  assert.deepEqual([await received(recipient), (await payout(id)).txid], [1_000_000, transactions[0]!.txid]);
});

test('what one process looks at, another one leaves alone, and waits for nothing', async () => {
  const { ctx } = app.app;
  const destination = await deposit();
  const recipient = await node.newAddress();
  const { id } = (await app.live.post('/v1/payouts', { currency: 'BTC', amount: '0.01', address: recipient, payout_reference: recipient }))
    .json;
  await approveOutgoing(ctx, { kind: 'payout', ...owner(), id, actor });
  const { sweep } = await makeFile();
  await upload(await sign(sweep.id, destination, [recipient]));
  const looks = () => ctx.db.sql`select looked_at from signed_transactions where file_id = ${sweep.id}`;
  await ctx.db.begin(async (tx) => {
    await tx`select 1 from signed_transactions where file_id = ${sweep.id} for update`;
    const before = await looks();
    await followSweeps(ctx, ctx.chains.get('bitcoin')!, null);
    assert.deepEqual(await looks(), before);
  });
  await eventually(
    async () => {
      await node.mine(1);
      return stateOf(id);
    },
    (state) => state === 'confirmed',
  );
});

test('a payout that a member sent is confirmed once its transaction is final and pays it; a wrong transaction can be corrected', async () => {
  const { ctx } = app.app;
  const { sql } = ctx.db;
  const [recipient, stranger] = [await node.newAddress(), await node.newAddress()];
  const request = async (amount: string) => {
    const { id } = (
      await app.live.post('/v1/payouts', { currency: 'BTC', amount, address: recipient, payout_reference: `${Math.random()}` })
    ).json;
    await sql`update outgoing_payments set state = 'approved' where id = ${id}`;
    return id as string;
  };
  const send = (id: string, txid: string) => markOutgoingSent(ctx, { kind: 'payout', ...owner(), id, txid, actor });
  /** Looks now, not in a minute. */
  const look = async (id: string) => {
    await sql`update outgoing_payments set looked_at = null where id = ${id}`;
    await followSentByHand(ctx);
    return payout(id);
  };
  const lookUntil = (id: string, reached: (one: Payout) => boolean) => eventually(() => look(id), reached);
  const id = await request('0.01');
  const wrong = await node.pay(stranger, '0.01');
  await send(id, wrong);
  await node.mine(1);
  assert.equal((await look(id)).failure, null, 'one block is not enough');
  await assert.rejects(send(id, 'ab'.repeat(32)), { code: 'payout_state' });
  await node.mine(1);
  const told = await lookUntil(id, ({ failure }) => failure !== null);
  assert.deepEqual([told.state, /does not pay 0\.01000000 BTC to the address/.test(told.failure ?? '')], ['sent', true]);

  const right = await node.pay(recipient, '0.01');
  assert.equal((await send(id, right)).failure, null);
  await assert.rejects(send(id, 'ab'.repeat(32)), { code: 'payout_state' }, 'only once it is known to be wrong');
  await node.mine(1);
  // Its block falls off the chain before it is deep enough, and another one confirms it.
  await node.rpc('invalidateblock', await node.rpc('getbestblockhash'));
  assert.equal((await look(id)).state, 'sent');
  await node.mine(2);
  const done = await lookUntil(id, ({ state }) => state === 'confirmed');
  assert.deepEqual([done.txid, done.failure, done.endedAt !== null], [right, null, true]);
  const { data } = (await app.live.get('/v1/events?limit=100')).json;
  assert.deepEqual(
    data.filter((event: any) => event.data.id === id).map(({ type, data: { transaction_hash: txid } }: any) => [type, txid]),
    [
      ['payout.confirmed', right],
      ['payout.sent', right],
      ['payout.sent', wrong],
      ['payout.requested', null],
    ],
  );

  // The same transaction does not pay another payout to the same address.
  const again = await request('0.01');
  await send(again, right);
  assert.match((await lookUntil(again, ({ failure }) => failure !== null)).failure!, /does not pay/);
  // Nor does a transaction pay two that are looked for at the same moment.
  const pair = [await request('0.01'), await request('0.01')];
  const single = await node.pay(recipient, '0.01');
  await node.mine(3);
  for (const one of pair) await send(one, single);
  await eventually(
    async () => {
      await sql`update outgoing_payments set looked_at = null where id = any(${pair}::text[])`;
      await followSentByHand(ctx);
      return Promise.all(pair.map(payout));
    },
    (both) => both.every((one) => one.state === 'confirmed' || one.failure !== null),
  );
  assert.deepEqual((await Promise.all(pair.map(stateOf))).toSorted(), ['confirmed', 'sent']);
  // A transaction that no source knows says nothing.
  const unknown = await request('0.01');
  await send(unknown, 'cd'.repeat(32));
  const left = await look(unknown);
  assert.deepEqual([left.state, left.failure], ['sent', null]);
});

test('a service that is killed after its node took the transaction, before it records that, pays once', async () => {
  const proxy = await startProxy(node.url);
  const environment = { BTC_NODE_URL: proxy.url, BTC_NETWORK: 'regtest', BTC_CONFIRMATIONS: '2', PRICES: 'static:BTC=1000.00' };
  const service = await startService({ environment });
  // Beside the process that is killed, one that only answers.
  const config = readConfig(testEnvironment(service.database.url, service.database.folder, { ...environment, LOG_LEVEL: 'fatal' }));
  const beside = await startApp(config, { log: createLog('fatal'), roles: ['api'], starts: () => null });
  const { ctx } = beside;
  const mine = { merchantId: service.merchantId, mode: 'live' } as const;
  try {
    const [destination, recipient] = [await node.newAddress(), await node.newAddress()];
    const accountKey = base58check.respell(account('BTC', 8).publicExtendedKey, 0x043587cf);
    await setWallet(ctx, { ...mine, coin: 'BTC', accountKey, script: 'p2wpkh' });
    await setDestination(ctx, { ...mine, coin: 'BTC', address: destination, ends: destination.slice(-6), actor: null });
    await service.looked('BTC');
    const paid = (await service.live.post('/v1/transactions/create', { crypto: 'BTC', amount: 25, currency_fiat: 'USD' })).json;
    await node.pay(paid.payment_address, paid.amount);
    await node.mine(2);
    await eventually(
      () => service.live.get(`/api/payment/${paid.transaction_id}`),
      ({ json }) => json.status === 'completed',
    );
    const { id } = (
      await service.live.post('/v1/payouts', { currency: 'BTC', amount: '0.01', address: recipient, payout_reference: recipient })
    ).json;
    await approveOutgoing(ctx, { kind: 'payout', ...mine, id, actor });
    const { sweep } = await makePayoutFile(ctx, { ...mine, coin: 'BTC', speed: 'normal', actor });
    const content = signingFileText(await readSigningFileOf(ctx, { ...mine, id: sweep.id }));
    const secret = account('BTC', 8).privateExtendedKey;
    const isTaken = proxy.afterNext('sendrawtransaction', () => service.end('SIGKILL'));
    await acceptSigned(ctx, { ...mine, content: signFile({ content, secret, destination, recipients: `${recipient} 0.01` }).text, actor });
    await isTaken;
    const mempool = (await node.rpc('getrawmempool')) as string[];
    const [known] = (await getSweep(ctx, { ...mine, id: sweep.id })).transactions;
    assert.deepEqual([mempool, known!.sentAt], [[known!.txid], null], 'the node has it, and nobody wrote that down');
    assert.notEqual((await getOutgoing(ctx, { kind: 'payout', ...mine, id })).state, 'sent');
    await service.start();
    const reached = (state: string) =>
      eventually(
        () => getOutgoing(ctx, { kind: 'payout', ...mine, id }),
        (payout) => payout.state === state,
      );
    await reached('sent');
    assert.deepEqual(await node.rpc('getrawmempool'), mempool, 'no other transaction');
    await node.mine(2);
    assert.deepEqual([(await reached('confirmed')).txid, await received(recipient)], [mempool[0], 1_000_000]);
  } finally {
    await beside.stop();
    await service.destroy();
    await proxy.stop();
  }
});
