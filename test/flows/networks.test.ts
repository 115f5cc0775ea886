/**
 * The network of a payment, and coins that exist on several networks. A second EVM chain and a token of six decimals are rows of the tables
 * and nothing else.
 */
// Invariant: A token and a second EVM chain are rows of the tables and nothing else; the networks of a payment share one address.
import '../kit/more-rows.ts';
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { type ChainId, COIN } from '../../src/core/coin.ts';
import { createFollower } from '../../src/follow/follow.ts';
import { changeSettings } from '../../src/merchants/merchants.ts';
import { exportPayments, exportTransfers } from '../../src/queries/exports.ts';
import { NO_FILTER } from '../../src/queries/search.ts';
import { createAdversaryChain, createAdversarySource, type OnChain, type Payout } from '../kit/adversary.ts';
import { asIfFollowed, eventually, type Reply, startTestApp, type TestApp } from '../kit/app.ts';
import { ON_ETHEREUM, ON_SECOND, OTHER, OTHER_ON_SECOND, SECOND, TOKEN } from '../kit/more-rows.ts';
import { validatingFetch } from '../kit/openapi.ts';
import { type Receiver, startReceiver } from '../kit/receiver.ts';
import { giveWallet } from '../kit/shop.ts';

let app: TestApp;
let receiver: Receiver;
before(async () => {
  app = await startTestApp(
    {
      PRICES: `static:BTC=97000.00,ETH=3500.00,LTC=100.00,DASH=30.00,DOGE=0.20,${TOKEN}=1.00,${OTHER}=1.00`,
      ETH_NODE_URL: 'http://florin:test@127.0.0.1:1',
      LOG_LEVEL: 'fatal',
    },
    { roles: ['api', 'worker'] },
  );
  // Before the first request, because a merchant is read at most once a second.
  await giveWallet(app, 'ETH');
  const tokens = [ON_SECOND, ON_ETHEREUM, OTHER_ON_SECOND];
  await changeSettings(app.app.ctx, { merchantId: app.merchant.merchantId, settings: { tokens } });
  receiver = await startReceiver();
  ok(await app.test.post('/v1/webhook_endpoints', { url: receiver.url, events: ['*', 'payment.updated'] }), 201);
});
after(async () => {
  await receiver?.stop();
  await app?.stop();
});
const ok = (reply: Reply, status = 200): any => {
  assert.equal(reply.status, status, reply.text);
  return reply.json;
};
const refused = (reply: Reply, code: string, param: string): void => {
  assert.equal(reply.status, 400, reply.text);
  assert.deepEqual([reply.json.error.code, reply.json.error.param], [code, param]);
};
const transaction = { amount: 25.5, currency_fiat: 'USD' };
const detail = async (id: string) => ok(await app.test.get(`/api/payment/${id}`));
const completed = (id: string) =>
  eventually(
    () => detail(id),
    ({ status }) => status === 'completed',
  );
async function all(parts: AsyncIterable<string>): Promise<string[]> {
  let text = '';
  for await (const part of parts) text += part;
  return text.trim().split('\r\n');
}

test('each of the five coins has its network, and requests may name it', async () => {
  for (const [crypto, network] of [
    ['BTC', 'bitcoin'],
    ['ETH', 'ethereum'],
    ['LTC', 'litecoin'],
    ['DASH', 'dash'],
    ['DOGE', 'dogecoin'],
  ] as const) {
    const plain = ok(await app.test.post('/v1/transactions/create', { ...transaction, crypto }), 201);
    assert.deepEqual([plain.currency, plain.network], [crypto, network]);
    const named = ok(await app.test.post('/v1/transactions/create', { ...transaction, crypto, network }), 201);
    assert.deepEqual([named.currency, named.network, named.amount], [crypto, network, plain.amount]);
  }
  const legacy = ok(await app.test.post('/payments', { amount: '0.5', currency: 'LTC', network: 'litecoin' }), 201);
  assert.deepEqual([legacy.currency, legacy.network], ['LTC', 'litecoin']);
});

test('a network that the currency is not on is refused', async () => {
  const create = (body: object) => app.test.post('/v1/transactions/create', { ...transaction, ...body });
  refused(await create({ crypto: 'BTC', network: 'ethereum' }), 'parameter_invalid', 'network');
  refused(await create({ crypto: TOKEN, network: 'bitcoin' }), 'parameter_invalid', 'network');
  refused(await create({ crypto: 'LTC', network: 'lightning' }), 'parameter_invalid', 'network');
  refused(await app.test.post('/payments', { amount: '5', currency: 'LTC', network: 'bitcoin' }), 'parameter_invalid', 'network');
  // A fixed amount needs to know its decimals, and they belong to the contract.
  refused(await app.test.post('/payments', { amount: '5', currency: TOKEN }), 'parameter_missing', 'network');
  refused(await app.test.get('/api/payments?currency=BTC&network=dash'), 'parameter_invalid', 'network');
  refused(await app.test.get('/api/payments?network=monero'), 'parameter_invalid', 'network');
  refused(await app.test.get(`/api/crypto/fees?currency=${TOKEN}`), 'parameter_missing', 'network');
  assert.equal(ok(await app.test.get('/api/crypto/fees?currency=BTC&network=bitcoin')).currency, 'BTC');
  // What a source knows is in its native coin.
  for (const path of ['fees?', `balance?address=0x${'ab'.repeat(20)}&`, `transaction/0x${'ab'.repeat(32)}?`])
    for (const keyed of [app.test, app.live]) {
      const reply = await keyed.get(`/api/crypto/${path}currency=${TOKEN}&network=ethereum`);
      assert.deepEqual([reply.status, reply.json.error.code], [501, 'not_supported'], reply.text);
    }
});

test('a token without a network: the customer chooses one, pays, and everything names it', async () => {
  const made = ok(await app.test.post('/v1/transactions/create', { ...transaction, crypto: TOKEN, invoice_id: 'N-1' }), 201);
  assert.deepEqual(
    [made.currency, made.network, made.amount, made.payment_address, made.quote_expires_at],
    [TOKEN, null, null, null, null],
  );
  const page = await (await fetch(`${app.url}/pay?id=${made.id}`)).text();
  for (const chain of [SECOND, 'ethereum']) assert.match(page, new RegExp(`name="network-${TOKEN}" value="${chain}"`));
  for (const other of ['BTC', 'ETH']) assert.doesNotMatch(page, new RegExp(`value="${other}"`));
  assert.match(page, /Dollar X/);
  assert.match(page, /≈ 25\.50 USDX/);
  const token = /name="token" value="([^"]+)"/.exec(page)![1]!;
  const choose = (currency: string) =>
    fetch(`${app.url}/pay/select`, {
      method: 'POST',
      headers: { 'content-type': 'application/x-www-form-urlencoded' },
      body: new URLSearchParams({ id: made.id, token, currency, scenario: 'success' }).toString(),
    });
  await choose('BTC');
  assert.equal((await detail(made.id)).currency, TOKEN, 'another asset is not accepted');
  assert.equal((await detail(made.id)).network, null);
  assert.ok((await choose(ON_SECOND)).ok);
  const done = await completed(made.id);
  assert.deepEqual([done.currency, done.network, done.amount, done.amount_received], [TOKEN, SECOND, '25.500000', '25.500000']);
  assert.equal(done.payment_address, 'test_usdx_second_success');
  assert.deepEqual(
    done.transfers.map((t: any) => [t.currency, t.network, t.amount]),
    [[TOKEN, SECOND, '25.500000']],
  );
  const listed = async (query: string) => ok(await app.test.get(`/api/payments?${query}`)).data.map((one: any) => one.id);
  assert.deepEqual(await listed(`currency=${TOKEN}`), [made.id]);
  assert.deepEqual(await listed(`currency=${TOKEN}&network=${SECOND}`), [made.id]);
  assert.deepEqual(await listed(`network=${SECOND}&invoice_id=N-1`), [made.id]);
  assert.deepEqual(await listed(`currency=${TOKEN}&network=ethereum`), []);
  const event = await eventually(
    async () => receiver.received.find((one) => one.event.type === 'payment.completed' && one.event.data.id === made.id),
    (found) => found !== undefined,
  );
  assert.deepEqual([event!.event.data.currency, event!.event.data.network], [TOKEN, SECOND]);
  const of = { merchantId: app.merchant.merchantId, mode: 'test' as const };
  const [header, ...rows] = await all(exportPayments(app.app.ctx, { ...of, filter: NO_FILTER, columns: null }));
  assert.match(
    header!,
    /,network,verified_by,amount_refunded,amount_fiat,currency_fiat,counted_usd,customer_email,customer_name,customer_reference$/,
  );
  assert.match(
    rows.find((row) => row.includes(made.id))!,
    new RegExp(`,${TOKEN},25\\.500000,.*,${SECOND},[a-z_]*,0\\.000000,,,25\\.50,,,$`),
  );
  const transfers = await all(exportTransfers(app.app.ctx, { ...of, from: new Date(0), until: new Date('9999-01-01') }));
  assert.match(transfers.find((row) => row.includes(made.id))!, new RegExp(`,${TOKEN},${SECOND},25\\.500000,`));
});

test('what a create returns without a network is what the API document says', async () => {
  const violations: string[] = [];
  const document = await (await fetch(`${app.url}/openapi.json`)).json();
  const call = validatingFetch(document, violations);
  for (const network of [undefined, SECOND]) {
    const reply = await call(`${app.url}/v1/transactions/create`, {
      method: 'POST',
      headers: { authorization: `Bearer ${app.merchant.keys.testSecret}`, 'content-type': 'application/json' },
      body: JSON.stringify({ ...transaction, crypto: TOKEN, network }),
    });
    assert.equal(reply.status, 201);
  }
  assert.deepEqual(violations, []);
});

test('a token on a named network has its amount at once, also as a fixed amount', async () => {
  const made = ok(await app.test.post('/v1/transactions/create', { ...transaction, crypto: TOKEN, network: 'ethereum' }), 201);
  assert.deepEqual([made.network, made.amount, made.payment_address], ['ethereum', '25.500000', 'test_usdx_ethereum_success']);
  const fixed = ok(await app.test.post('/payments', { amount: '7.123456', currency: TOKEN, network: SECOND }), 201);
  assert.deepEqual([fixed.currency, fixed.network, fixed.amount], [TOKEN, SECOND, '7.123456']);
  refused(await app.test.post('/payments', { amount: '7.1234567', currency: TOKEN, network: SECOND }), 'amount_precision', 'amount');
  const named = { ...transaction, crypto: TOKEN, payment_address: 'test_usdx_second_failed' };
  const identified = ok(await app.test.post('/v1/transactions/create', named), 201);
  assert.deepEqual([identified.network, identified.payment_address], [SECOND, 'test_usdx_second_failed']);
});

test('paid on another network: recorded there, reported at once, and completed by one decision while the payment is open', async () => {
  const made = ok(await app.test.post('/v1/transactions/create', { ...transaction, crypto: TOKEN, network: 'ethereum' }), 201);
  ok(await app.test.post(`/v1/test/payments/${made.id}/simulate`, { scenario: 'wrong_network' }));
  const held = await eventually(
    () => detail(made.id),
    ({ exceptions, transfers }) => exceptions.includes('wrong_network') && transfers[0]?.block_height !== null,
  );
  assert.deepEqual(
    [held.status, held.exception, held.amount_received, held.amount_held_usd],
    ['pending', 'wrong_network', '0.000000', '25.50'],
  );
  assert.deepEqual(
    held.transfers.map((t: any) => [t.currency, t.network, t.amount]),
    [[TOKEN, SECOND, '25.500000']],
  );
  const updated = await eventually(
    async () => receiver.received.find((one) => one.event.type === 'payment.updated' && one.event.data.id === made.id),
    (found) => found !== undefined,
  );
  assert.deepEqual(updated!.event.data.exceptions, ['wrong_network']);
  const page = await (await fetch(`${app.url}/pay?id=${made.id}`)).text();
  assert.match(page, /data-state="wrong_network"/);
  assert.ok(page.includes(`25.500000 ${TOKEN} on Second`), page);
  // Nothing else can be decided before the end: a rejection would refuse what is still to come.
  const refusal = await app.test.post(`/v1/payments/${made.id}/resolve`, { action: 'reject' });
  assert.deepEqual([refusal.status, refusal.json.error.code], [409, 'payment_status_conflict']);
  ok(await app.test.post(`/v1/payments/${made.id}/resolve`, { action: 'accept' }));
  const done = await completed(made.id);
  assert.deepEqual([done.currency, done.network, done.amount_received, done.exceptions], [TOKEN, SECOND, '25.500000', []]);
});

test('another token on the right network: the exception says so, and the requested one still completes the payment', async () => {
  const made = ok(await app.test.post('/v1/transactions/create', { ...transaction, crypto: 'ETH' }), 201);
  ok(await app.test.post(`/v1/test/payments/${made.id}/simulate`, { scenario: 'wrong_token' }));
  const held = await eventually(
    () => detail(made.id),
    ({ exceptions }) => exceptions.length > 0,
  );
  assert.deepEqual([held.status, held.exceptions], ['pending', ['wrong_token']]);
  const shown = await (await fetch(`${app.url}/pay?id=${made.id}`)).text();
  const [formToken] = /(?<=name="token" value=")[^"]+/.exec(shown)!;
  const body = new URLSearchParams({ id: made.id, token: formToken!, scenario: 'success' }).toString();
  const headers = { 'content-type': 'application/x-www-form-urlencoded' };
  await eventually(
    async () => {
      await fetch(`${app.url}/pay/simulate`, { method: 'POST', headers, body });
      return detail(made.id);
    },
    ({ status, exceptions }) => status === 'completed' && exceptions.join() === 'wrong_token',
  );
  // Bitcoin shares its addresses with nothing.
  const reply = await app.test.post('/v1/transactions/create', { ...transaction, crypto: 'BTC', payment_address: 'test_btc_wrong_token' });
  assert.deepEqual([reply.status, reply.json.error.param], [400, 'payment_address']);
});

/** A follower of the second chain, whose source shows two tokens. */
const chain = createAdversaryChain({ height: 20, now: () => new Date() });
const source = createAdversarySource({ chain, coin: ON_SECOND, interrupt: async () => {} });
let follower: ReturnType<typeof createFollower> | null = null;
async function look(): Promise<void> {
  const { ctx } = app.app;
  follower ??= createFollower(ctx, source);
  await follower.step();
  await eventually(
    async () => (await ctx.db.sql`select 1 from due_work where kind = 'settle'`).length,
    (left) => left === 0,
  );
}
const keyOf = async (paymentId: string): Promise<string> =>
  (await app.app.ctx.db.sql<{ key: string }[]>`select key from deposit_addresses where payment_id = ${paymentId}`)[0]!.key;
const token = (...outputs: Payout[]): OnChain => ({ txid: chain.nameOf('5'), kind: 'token', inputs: [chain.nameOf('7')], outputs });

test('live, on the second chain: one address for both networks, detected by its follower, completed by its confirmations', async () => {
  const { ctx } = app.app;
  (ctx.chains as Map<ChainId, unknown>).set(SECOND, { ...source, follows: true, sources: [] });
  await asIfFollowed(app, 'ETH');
  await look();
  const create = async (network: string) =>
    ok(await app.live.post('/v1/transactions/create', { ...transaction, crypto: TOKEN, network }), 201);
  const made = await create(SECOND);
  assert.match(made.payment_address, /^0x[0-9a-fA-F]{40}$/);
  assert.deepEqual([made.network, made.amount], [SECOND, '25.500000']);
  // The family has one wallet and one counter: the next payment on the other chain gets the next address.
  const other = await create('ethereum');
  const given = await ctx.db.sql<{ family: string; key: string; index: bigint }[]>`
    select family, key, index from deposit_addresses where payment_id in (${made.id}, ${other.id}) order by index`;
  assert.deepEqual(
    given.map(({ family, index }) => [family, index]),
    [
      ['ETH', 0n],
      ['ETH', 1n],
    ],
  );
  const page = await (await fetch(`${app.url}/pay?id=${made.id}`)).text();
  // The wallet calls the contract on that chain; the code shows the address, which wallets cannot misread.
  const { contract } = COIN[ON_SECOND];
  assert.ok(page.includes(`ethereum:${contract}@4242/transfer?address=${made.payment_address}&amp;uint256=25500000`));
  assert.match(page, /id="qr-a" checked/);
  const formToken = /name="token" value="([^"]+)"/.exec(page)![1]!;
  const body = new URLSearchParams({ id: made.id, token: formToken, currency: ON_ETHEREUM }).toString();
  const headers = { 'content-type': 'application/x-www-form-urlencoded' };
  assert.ok((await fetch(`${app.url}/pay/select`, { method: 'POST', headers, body })).ok);
  const live = async () => ok(await app.live.get(`/api/payment/${made.id}`));
  const moved = await live();
  assert.deepEqual([moved.network, moved.payment_address], ['ethereum', made.payment_address]);
  assert.ok(
    (
      await fetch(`${app.url}/pay/select`, {
        method: 'POST',
        headers,
        body: body.replace(encodeURIComponent(ON_ETHEREUM), encodeURIComponent(ON_SECOND)),
      })
    ).ok,
  );
  const paid = token({ key: given[0]!.key, units: 25_500_000n });
  chain.accept(paid);
  await look();
  assert.deepEqual([(await live()).status, (await live()).amount_announced], ['processing', '25.500000']);
  chain.mine([paid]);
  for (let i = 1; i < 11; i++) chain.mine();
  await look();
  const almost = await live();
  assert.deepEqual([almost.status, almost.confirmations, almost.confirmations_required], ['processing', 11, 12]);
  chain.mine();
  await look();
  const done = await live();
  assert.deepEqual([done.status, done.currency, done.network], ['completed', TOKEN, SECOND]);
  const tips = await ctx.db.sql<{ code: string }[]>`select chain as code from tips order by chain`;
  assert.deepEqual(
    tips.map(({ code }) => code),
    ['ETH', SECOND],
  );
  assert.deepEqual(
    ok(await app.live.get(`/api/payments?network=${SECOND}`)).data.map((one: any) => one.id),
    [made.id],
  );
});

test('a chain with several coins: each transfer is recorded in its own, and one that was not asked for never counts', async () => {
  const create = async (crypto: string) =>
    ok(await app.live.post('/v1/transactions/create', { ...transaction, crypto, network: SECOND }), 201);
  const [asked, other] = [await create(TOKEN), await create(OTHER)];
  assert.equal(other.amount, '25.50000000');
  const [key, otherKey] = [await keyOf(asked.id), await keyOf(other.id)];
  const told = async (id: string) => {
    const { status, amount_received, amount_held_usd, exceptions, transfers } = ok(await app.live.get(`/api/payment/${id}`));
    const shown = transfers.map(
      (t: any) => `${t.amount} ${t.currency} on ${t.network}, ${t.block_height === null ? 'taken back' : 'mined'}`,
    );
    return { status, amount_received, amount_held_usd, exceptions, transfers: shown.sort() };
  };
  const mine = async (first: OnChain[], blocks: number) => {
    for (let i = 0; i < blocks; i++) chain.mine(i === 0 ? first : []);
    await look();
  };
  const whole = 10n ** 18n;
  // One transaction pays both payments; the first of them twice its price, but in a coin that it did not ask for.
  const both = token(
    { key, units: 51n * whole, coin: OTHER_ON_SECOND },
    { key: otherKey, units: (255n * whole) / 10n, coin: OTHER_ON_SECOND },
  );
  await mine([both, token({ key: otherKey, units: 1_000_000n })], 12);
  assert.deepEqual(await told(asked.id), {
    ...{ status: 'pending', amount_received: '0.000000', amount_held_usd: '51.00', exceptions: ['wrong_token'] },
    transfers: [`51.00000000 ${OTHER} on ${SECOND}, mined`],
  });
  assert.deepEqual(await told(other.id), {
    ...{ status: 'completed', amount_received: '25.50000000', amount_held_usd: '1.00', exceptions: ['wrong_token'] },
    transfers: [`1.000000 ${TOKEN} on ${SECOND}, mined`, `25.50000000 ${OTHER} on ${SECOND}, mined`],
  });
  // A reorganization takes back all coins of the chain. On the other branch the same transaction pays less, and only one payment.
  chain.undo(12);
  await mine([{ ...both, outputs: [{ key, units: whole, coin: OTHER_ON_SECOND }] }], 13);
  const reduced = await told(asked.id);
  assert.deepEqual([reduced.amount_held_usd, reduced.transfers], ['1.00', [`1.00000000 ${OTHER} on ${SECOND}, mined`]]);
  const lost = await told(other.id);
  assert.deepEqual([lost.status, lost.exceptions], ['completed', ['reorged', 'wrong_token']]);
  assert.deepEqual(lost.transfers, [`1.000000 ${TOKEN} on ${SECOND}, taken back`, `25.50000000 ${OTHER} on ${SECOND}, taken back`]);
  // The coin that was asked for still completes the payment.
  await mine([token({ key, units: 25_500_000n })], 12);
  const paid = await told(asked.id);
  assert.deepEqual([paid.status, paid.amount_received, paid.transfers.length], ['completed', '25.500000', 2]);
});
