/** Money leaves deposit addresses: listed, made into a file, signed by the code of the signer page, sent and followed on real nodes. */
// Invariant: A refund that is signed offline is paid once and in full, also when its file is made again or its fee is raised.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { signFile } from '../../signer/sign.ts';
import { parseTransaction, txidOf } from '../../src/chains/bitcoin/raw-block.ts';
import { readSignedFile, signingFileText } from '../../src/core/signing-file.ts';
import { approveOutgoing, cancelOutgoing, markOutgoingSent } from '../../src/outgoing/decisions.ts';
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
import { firstOf } from '../kit/long.ts';
import { startBitcoind, startLitecoind, type TestNode } from '../kit/nodes.ts';
import { startScriptedNode } from '../kit/scripted-node.ts';
import { account, giveWallet, openPayment, reach } from '../kit/shop.ts';

const PAIRS = ['BTC', 'LTC', 'DOGE', 'DASH'] as const;
type Pair = (typeof PAIRS)[number];
/** What three payments of 25 USD bring. */
const RECEIVED: Readonly<Record<Pair, bigint>> = { BTC: 7_500_000n, LTC: 7_500_000n, DOGE: 15_000_000_000n, DASH: 7_500_000n };
let nodes: Record<Pair, TestNode>;
let app: TestApp;
before(async () => {
  // Litecoin is read from its node as a peer, which nothing else is asked of.
  const [BTC, LTC, DOGE, DASH] = await Promise.all([
    startBitcoind(),
    startLitecoind({ listens: true, atOnce: true }),
    startScriptedNode('DOGE', { txindex: false }),
    startScriptedNode('DASH'),
  ]);
  nodes = { BTC, LTC, DOGE, DASH };
  app = await startTestApp({
    ...{ BTC_NODE_URL: BTC.url, BTC_NETWORK: 'regtest', BTC_CONFIRMATIONS: '2' },
    ...{ LTC_PEERS: LTC.p2p!, LTC_NETWORK: 'regtest', LTC_CONFIRMATIONS: '2' },
    ...{ DOGE_NODE_URL: DOGE.url, DOGE_NETWORK: 'regtest', DOGE_CONFIRMATIONS: '2' },
    ...{ DASH_NODE_URL: DASH.url, DASH_NETWORK: 'regtest', DASH_CONFIRMATIONS: '2' },
    PRICES: 'static:BTC=1000.00,LTC=1000.00,DOGE=0.50,DASH=1000.00',
    LOG_LEVEL: 'fatal',
  });
  for (const coin of PAIRS) await giveWallet(app, coin);
  await eventually(
    async () => ((await (await fetch(`${app.url}/readyz`)).json()) as any).followers ?? {},
    (followers) => PAIRS.every((coin) => followers[coin] !== undefined),
    60_000,
  );
});
after(async () => {
  await app?.stop();
  for (const node of Object.values(nodes ?? {})) await node.destroy();
});

const actor = { userId: '', name: 'Test', ip: '' };
const owner = () => ({ merchantId: app.merchant.merchantId });
const secretOf = (coin: Pair) => account(coin).privateExtendedKey;
const make = (coin: Pair, wish = DEFAULT_WISH) => makeSweep(app.app.ctx, { ...owner(), coin, walletId: null, wish, actor });
const upload = (content: string) => acceptSigned(app.app.ctx, { ...owner(), content, actor });
const stateOf = async (id: string) => (await getSweep(app.app.ctx, { ...owner(), id })).sweep.state;
const signed = async (coin: Pair, id: string, destination: string, recipients = '') =>
  signFile({
    content: signingFileText(await readSigningFileOf(app.app.ctx, { ...owner(), id })),
    secret: secretOf(coin),
    ...{ destination, recipients },
  }).text;

/** Three completed payments, and the destination of the sweep. */
async function receive(coin: Pair): Promise<string> {
  const payments = [];
  for (let i = 0; i < 3; i++) payments.push(await openPayment(app, coin, 25));
  await nodes[coin].payMany(payments.map(({ address, amount }) => [address, amount] as const));
  await nodes[coin].mine(2);
  for (const { id } of payments) await reach(app, id, ({ status }) => status === 'completed');
  const address = await nodes[coin].newAddress();
  await setDestination(app.app.ctx, { ...owner(), coin, address, ends: address.slice(-6), actor: null });
  return address;
}

for (const coin of PAIRS)
  test(`a sweep in ${coin}: listed, made, signed offline, sent and followed to its confirmation`, async () => {
    const address = await receive(coin);
    const [listed] = await listSweepable(app.app.ctx, owner());
    assert.deepEqual([listed!.coin, listed!.count, listed!.units, listed!.remains], [coin, 3, RECEIVED[coin], []]);
    const { sweep } = await make(coin);
    assert.equal(sweep.totalUnits + sweep.feeUnits, RECEIVED[coin]);
    await assert.rejects(make(coin), { code: 'sweep_empty' });
    const text = await signed(coin, sweep.id, address);
    if (coin === 'DOGE' || coin === 'DASH') {
      // A byte of the first signature.
      const [hex] = readSignedFile(text).transactions;
      const wrong = `${hex!.slice(0, 106)}${hex!.slice(106, 108) === '00' ? '01' : '00'}${hex!.slice(108)}`;
      await assert.rejects(nodes[coin].rpc('sendrawtransaction', wrong), /script-verify-flag-failed/);
    }
    assert.equal((await upload(text)).isKnown, false);
    assert.equal((await upload(text)).isKnown, true);
    await eventually(
      () => stateOf(sweep.id),
      (state) => state === 'sent',
    );
    const { transactions: asked } = await getSweep(app.app.ctx, { ...owner(), id: sweep.id });
    await eventually(
      () => nodes[coin].rpc('getrawmempool') as Promise<string[]>,
      (mempool) => mempool.includes(asked[0]!.txid),
    );
    await nodes[coin].mine(1);
    const { transactions } = await eventually(
      () => getSweep(app.app.ctx, { ...owner(), id: sweep.id }),
      (one) => one.transactions[0]?.blockHeight != null,
    );
    assert.equal(await stateOf(sweep.id), 'sent');
    // Where locks decide, six blocks are needed without one.
    await nodes[coin].mine(coin === 'DASH' ? 5 : 1);
    await eventually(
      () => stateOf(sweep.id),
      (state) => state === 'confirmed',
    );
    const { txid, blockHeight } = transactions[0]!;
    const { tx } = await nodes[coin].rpc('getblock', await nodes[coin].rpc('getblockhash', blockHeight));
    assert.ok(tx.includes(txid));
    const { value } = await nodes[coin].rpc('gettxout', txid, 0);
    assert.equal(Math.round(value * 1e8), Number(sweep.totalUnits));
    assert.deepEqual(await listSweepable(app.app.ctx, owner()), []);
  });

for (const coin of ['BTC', 'DOGE'] as const)
  test(`a sweep in ${coin} that waits is replaced by one with a higher fee, from the same inputs`, async () => {
    const address = await receive(coin);
    const { sweep } = await make(coin);
    await assert.rejects(replaceSweep(app.app.ctx, { ...owner(), id: sweep.id, speed: 'fast', actor }), { code: 'sweep_state' });
    const first = await signed(coin, sweep.id, address);
    await upload(first);
    await eventually(
      () => stateOf(sweep.id),
      (state) => state === 'sent',
    );
    const second = await replaceSweep(app.app.ctx, { ...owner(), id: sweep.id, speed: 'fast', actor });
    assert.ok(second.feeUnits >= (sweep.feeUnits * 5n) / 4n);
    assert.equal(second.totalUnits + second.feeUnits, RECEIVED[coin]);
    // The file before it does not count any more.
    await assert.rejects(upload(first), { code: 'signed_file_refused' });
    await upload(await signed(coin, sweep.id, address));
    const { transactions } = await getSweep(app.app.ctx, { ...owner(), id: sweep.id });
    assert.deepEqual(
      transactions.map(({ round }) => round),
      [0, 1],
    );
    await eventually(
      () => nodes[coin].rpc('getrawmempool') as Promise<string[]>,
      (mempool) => mempool.includes(transactions[1]!.txid) && !mempool.includes(transactions[0]!.txid),
      // After a call that a busy node did not answer, the service waits before the next one.
      120_000,
    );
    await nodes[coin].mine(2);
    await eventually(
      () => stateOf(sweep.id),
      (state) => state === 'confirmed',
    );
  });

test('nodes of DASH replace nothing: the first transaction stays, and the sweep ends with it', async () => {
  const address = await receive('DASH');
  const { sweep } = await make('DASH');
  await upload(await signed('DASH', sweep.id, address));
  await eventually(
    () => stateOf(sweep.id),
    (state) => state === 'sent',
  );
  await replaceSweep(app.app.ctx, { ...owner(), id: sweep.id, speed: 'fast', actor });
  await upload(await signed('DASH', sweep.id, address));
  const show = () => getSweep(app.app.ctx, { ...owner(), id: sweep.id });
  const { transactions } = await eventually(show, (one) => one.transactions[1]?.refusal != null);
  assert.match(transactions[1]!.refusal!, /txn-mempool-conflict/);
  assert.deepEqual(await nodes.DASH.rpc('getrawmempool'), [transactions[0]!.txid]);
  await nodes.DASH.mine(6);
  const { sweep: done } = await eventually(show, ({ sweep: { state } }) => state === 'confirmed');
  assert.equal(done.failure, null);
});

for (const coin of firstOf(['BTC', 'LTC'] as const))
  test(`a refund in ${coin}: in a signing file, sent with a higher fee, paid once and in full, and reported`, async () => {
    const { ctx } = app.app;
    const { sql } = ctx.db;
    const destination = await receive(coin);
    const [{ id: paymentId } = { id: '' }] = await sql<{ id: string }[]>`
      select p.id from payments p join transfers t on t.payment_id = p.id and t.coin = ${coin}
      where not exists (select 1 from signing_inputs i where i.payment_id = p.id) order by p.sequence limit 1`;
    const customer = await nodes[coin].newAddress();
    // Everything, so that another deposit pays for the fee.
    const { json: made } = await app.live.post('/v1/refunds', { payment_id: paymentId, address: customer });
    const refund = () => getOutgoing(ctx, { kind: 'refund', ...owner(), mode: 'live', id: made.id });
    const makeFile = () => makeRefundFile(ctx, { ...owner(), coin, speed: 'normal', actor });
    await assert.rejects(makeFile(), { code: 'refund_file_empty' });
    const change = { ...owner(), mode: 'live', id: made.id, actor } as const;
    await approveOutgoing(ctx, { kind: 'refund', ...change });
    // The file that was canceled spends the same output as the next one, so only one of them can be mined.
    const first = await makeFile();
    await assert.rejects(makeFile(), { code: 'refund_file_empty' });
    await assert.rejects(markOutgoingSent(ctx, { kind: 'refund', ...change, txid: 'ab'.repeat(32) }), { code: 'refund_in_file' });
    const canceling = { ...change, idempotency: null, render: () => ({ status: 200, body: '' }) };
    await assert.rejects(cancelOutgoing(ctx, { kind: 'refund', ...canceling }), { code: 'refund_in_file' });
    const anchors = () =>
      sql`select input from signing_inputs where file_id in (select id from signing_files where purpose = 'refund') and payment_id = ${paymentId}`;
    await cancelSweep(ctx, { ...owner(), id: first.sweep.id, actor });
    await eventually(refund, ({ sweepId }) => sweepId === null);
    const { sweep } = await makeFile();
    assert.equal(sweep.inputCount, 2);
    const spent = await anchors();
    assert.deepEqual([spent.length, new Set(spent.map(({ input }) => input)).size], [2, 1]);
    const sweeping = await make(coin);
    assert.equal(sweeping.sweep.inputCount, 1, 'a sweep leaves what refunds spend');
    await cancelSweep(ctx, { ...owner(), id: sweeping.sweep.id, actor });

    await upload(await signed(coin, sweep.id, destination, customer));
    await eventually(refund, ({ state }) => state === 'sent');
    const replaced = await replaceSweep(ctx, { ...owner(), id: sweep.id, speed: 'fast', actor });
    assert.ok(replaced.feeUnits > sweep.feeUnits);
    await upload(await signed(coin, sweep.id, destination, customer));
    const { transactions } = await getSweep(ctx, { ...owner(), id: sweep.id });
    await eventually(
      () => nodes[coin].rpc('getrawmempool') as Promise<string[]>,
      (mempool) => mempool.includes(transactions[1]!.txid) && !mempool.includes(transactions[0]!.txid),
    );
    await nodes[coin].mine(2);
    const done = await eventually(refund, ({ state }) => state === 'confirmed');
    assert.equal(done.txid, transactions[1]!.txid);
    assert.equal(Math.round((await nodes[coin].rpc('getreceivedbyaddress', customer)) * 1e8), 2_500_000, 'once, and in full');
    assert.equal((await app.live.get(`/api/payment/${paymentId}`)).json.amount_refunded, '0.02500000');
    const { data } = (await app.live.get(`/v1/events?payment_id=${paymentId}&limit=100`)).json;
    assert.deepEqual(
      data.map(({ type }: any) => type).filter((type: string) => type.startsWith('refund.')),
      ['refund.confirmed', 'refund.sent', 'refund.approved', 'refund.requested'],
    );
    await assert.rejects(makeFile(), { code: 'refund_file_empty' });
    // What is left is swept, so that the next test starts without money.
    const last = await make(coin);
    await upload(await signed(coin, last.sweep.id, destination));
    await eventually(
      async () => {
        await nodes[coin].mine(1);
        return stateOf(last.sweep.id);
      },
      (state) => state === 'confirmed',
    );
  });

test('money of a payment with an open refund stays, also when the refund is requested while the file is made', async () => {
  await receive('BTC');
  const { ctx } = app.app;
  const { sql } = ctx.db;
  const ready = async () => (await listSweepable(ctx, owner())).find(({ coin }) => coin === 'BTC')!;
  const payments = await sql<{ id: string }[]>`
    select distinct p.id from payments p join transfers t on t.payment_id = p.id and t.coin = 'BTC'
    where not exists (select 1 from signing_inputs i where i.payment_id = p.id) order by p.id`;
  assert.equal(payments.length, 3);
  const [first, second] = payments.map(({ id }) => id);
  const made = await app.live.post('/v1/refunds', { payment_id: first });
  assert.equal(made.status, 201, made.text);
  assert.deepEqual((await ready()).remains, [{ reason: 'refund_requested', count: 1, units: 2_500_000n }]);
  // Another refund is being written, so its payment is locked while the file is made.
  const [written, commit] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  const writing = ctx.db.begin(async (tx) => {
    await tx`select 1 from payments where id = ${second!} for update`;
    await tx`
      insert into outgoing_payments (kind, id, merchant_id, mode, payment_id, coin, units, usd_cents, rate, state, requested_by, created_at)
      select kind, 'ref_race', merchant_id, mode, ${second!}, coin, units, usd_cents, rate, state, requested_by, created_at
      from outgoing_payments where id = ${made.json.id}`;
    written.resolve();
    await commit.promise;
  });
  await written.promise;
  const sweeping = make('BTC');
  await eventually(
    () => sql`select 1 from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock' and query like '%for share%'`,
    (waiting) => waiting.length === 1,
  );
  commit.resolve();
  await writing;
  const { sweep, remains } = await sweeping;
  assert.deepEqual([sweep.inputCount, remains], [1, [{ reason: 'refund_requested', count: 2, units: 5_000_000n }]]);
  await cancelSweep(ctx, { ...owner(), id: sweep.id, actor });
  await sql`update outgoing_payments set state = 'canceled' where payment_id in (${first!}, ${second!})`;
  assert.deepEqual([(await ready()).count, (await ready()).remains], [3, []]);
});

test('a sweep ends once another transaction spent one of its inputs, and the rest is swept again', async () => {
  const address = await receive('BTC');
  const { sql } = app.app.ctx.db;
  const listed = (await listSweepable(app.app.ctx, owner())).find(({ coin }) => coin === 'BTC')!;
  assert.ok(listed.count >= 3);
  // A file for one of the payments is signed and then canceled here, but its transaction is sent elsewhere.
  const payments = await sql<{ id: string }[]>`
    select distinct p.id from payments p join transfers t on t.payment_id = p.id and t.coin = 'BTC'
    where not exists (select 1 from signing_inputs i where i.payment_id = p.id and i.released_at is null) order by p.id`;
  await sql`update transfers set first_seen_at = first_seen_at - interval '2 days' where payment_id = ${payments[0]!.id}`;
  const small = (await make('BTC', { ...DEFAULT_WISH, minAgeHours: 24 })).sweep;
  assert.equal(small.inputCount, 1);
  const elsewhere = readSignedFile(await signed('BTC', small.id, address)).transactions[0]!;
  await cancelSweep(app.app.ctx, { ...owner(), id: small.id, actor });
  const { sweep } = await make('BTC');
  assert.equal(sweep.inputCount, listed.count);
  await nodes.BTC.rpc('sendrawtransaction', elsewhere);
  await nodes.BTC.mine(1);
  await upload(await signed('BTC', sweep.id, address));
  const conflictAt = (is: (height: number | null) => boolean) =>
    eventually(
      async () =>
        (
          await sql<{ height: number | null }[]>`
        select conflict_height::int as height from signed_transactions where file_id = ${sweep.id}`
        )[0]!.height,
      is,
    );
  await conflictAt((height) => height !== null);
  assert.equal(await stateOf(sweep.id), 'signed', 'one block is not enough');
  // The block falls off the chain, so nothing is spent, and is mined again: the count begins again.
  await nodes.BTC.rpc('invalidateblock', await nodes.BTC.rpc('getbestblockhash'));
  await conflictAt((height) => height === null);
  await nodes.BTC.mine(1);
  await conflictAt((height) => height !== null);
  assert.equal(await stateOf(sweep.id), 'signed', 'the block before does not count');
  await nodes.BTC.mine(1);
  await eventually(
    () => stateOf(sweep.id),
    (state) => state === 'failed',
  );
  const { sweep: failed } = await getSweep(app.app.ctx, { ...owner(), id: sweep.id });
  assert.match(failed.failure ?? '', /^conflict: .* 1 of 1 transactions$/);
  const kept = await sql<{ id: string }[]>`
    select payment_id as id from signing_inputs where file_id = ${sweep.id} and released_at is null`;
  assert.deepEqual(
    kept.map(({ id }) => id),
    [payments[0]!.id],
    'what was spent stays spent',
  );
  const rest = await make('BTC');
  assert.deepEqual([rest.sweep.inputCount, rest.remains], [listed.count - 1, []]);
  await upload(await signed('BTC', rest.sweep.id, address));
  await eventually(
    () => stateOf(rest.sweep.id),
    (state) => state === 'sent',
  );
  await nodes.BTC.mine(2);
  await eventually(
    () => stateOf(rest.sweep.id),
    (state) => state === 'confirmed',
  );
});

test('a refund whose output was spent elsewhere fails, names that output, and keeps its amount reserved', async () => {
  const { ctx } = app.app;
  const destination = await receive('BTC');
  const [{ id: paymentId } = { id: '' }] = await ctx.db.sql<{ id: string }[]>`
    select p.id from payments p join transfers t on t.payment_id = p.id and t.coin = 'BTC' order by p.sequence desc limit 1`;
  const customer = await nodes.BTC.newAddress();
  const { json: made } = await app.live.post('/v1/refunds', { payment_id: paymentId, amount: '0.01000000', address: customer });
  const refund = () => getOutgoing(ctx, { kind: 'refund', ...owner(), mode: 'live', id: made.id });
  const makeFile = async () => (await makeRefundFile(ctx, { ...owner(), coin: 'BTC', speed: 'normal', actor })).sweep;
  await approveOutgoing(ctx, { kind: 'refund', ...owner(), mode: 'live', id: made.id, actor });
  // A file is signed and then canceled here, but its transaction is sent elsewhere. It pays the customer.
  const first = await makeFile();
  const elsewhere = readSignedFile(await signed('BTC', first.id, destination, customer)).transactions[0]!;
  await cancelSweep(ctx, { ...owner(), id: first.id, actor });
  await eventually(refund, ({ sweepId }) => sweepId === null);
  const address = await nodes.BTC.newAddress();
  await setDestination(ctx, { ...owner(), coin: 'BTC', address, ends: address.slice(-6), actor: null });
  const second = await makeFile();
  await nodes.BTC.rpc('sendrawtransaction', elsewhere);
  await nodes.BTC.mine(1);
  await upload(await signed('BTC', second.id, address, customer));
  const failed = await eventually(
    async () => {
      await nodes.BTC.mine(1);
      return refund();
    },
    ({ state }) => state === 'failed',
  );
  const [{ anchor }] = (await ctx.db.sql`select anchor from outgoing_payments where id = ${made.id}`) as unknown as [{ anchor: string }];
  assert.match(failed.failure ?? '', new RegExp(`spends the output ${anchor}\\. Check in a block explorer`));
  const { data } = (await app.live.get(`/v1/events?payment_id=${paymentId}&limit=100`)).json;
  assert.equal(data.filter(({ type }: any) => type === 'refund.failed').length, 1);
  const notices = await ctx.db.sql`select mode, detail from notices where kind = 'money_out_failed'`;
  assert.deepEqual([...notices], [{ mode: 'live', detail: { what: 'refund', reason: 'failed', amount: '0.01000000 BTC', v: 1 } }]);
  assert.equal((await app.live.get(`/api/payment/${paymentId}`)).json.amount_refunded, '0.00000000');
  // The customer was paid, so the money cannot be refunded again. A member records the transaction.
  assert.equal((await app.live.post('/v1/refunds', { payment_id: paymentId })).json.amount, '0.01500000');
  const txid = txidOf(parseTransaction(Buffer.from(elsewhere, 'hex'), 'BTC'));
  await markOutgoingSent(ctx, { kind: 'refund', ...owner(), mode: 'live', id: made.id, txid, actor });
  assert.equal((await app.live.get(`/api/payment/${paymentId}`)).json.amount_refunded, '0.01000000');
  const done = await eventually(refund, ({ state }) => state !== 'sent');
  assert.deepEqual([done.state, done.txid], ['confirmed', txid], 'the transaction is final and pays the customer');
});

test('a file with a private key is refused, and nothing of it is stored', async () => {
  const secret = secretOf('BTC');
  const phrase = 'legal winner thank year wave sausage worth useful legal winner thank yellow';
  for (const content of [secret, phrase, `{"format":"florin-signed-file","seed":"${phrase}"}`, `{"x":["${secret}"]}`])
    await assert.rejects(upload(content), { code: 'signed_file_private' });
  const { sql } = app.app.ctx.db;
  const tables = await sql<{ name: string }[]>`select tablename as name from pg_tables where schemaname = current_schema()`;
  assert.ok(tables.length > 50);
  for (const { name } of tables) {
    const found = await sql`
      select 1 from ${sql(name)} as t where t::text like ${`%${secret.slice(10, 60)}%`} or t::text like ${'%sausage%'} limit 1`;
    assert.equal(found.length, 0, name);
  }
});
