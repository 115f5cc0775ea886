/**
 * How many confirmations payments need that are paid at the same time: payments that one payer may have split count together, others do
 * not.
 */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { createFollower } from '../../src/follow/follow.ts';
import { createMerchant, type NewMerchant } from '../../src/merchants/merchants.ts';
import { lockAndSettle } from '../../src/settling/settle-payments.ts';
import { createAdversaryChain, createAdversarySource, type OnChain } from '../kit/adversary.ts';
import { type Client, eventually, type Reply, startTestApp, type TestApp } from '../kit/app.ts';

let app: TestApp;
before(async () => {
  app = await startTestApp();
});
after(async () => {
  await app?.stop();
});
const ok = (reply: Reply, status = 200): any => {
  assert.equal(reply.status, status, reply.text);
  return reply.json;
};

type Coin = 'BTC' | 'LTC';
const PRICE: Readonly<Record<Coin, number>> = { BTC: 97_000, LTC: 100 };
const started = { BTC: start('BTC'), LTC: start('LTC') };
function start(coin: Coin) {
  const chain = createAdversaryChain({ height: 150, now: () => new Date() });
  const source = createAdversarySource({ chain, coin, interrupt: async () => {} });
  let follower: ReturnType<typeof createFollower> | null = null;
  return {
    chain,
    /** Looks and settles what is due. */
    look: async () => {
      follower ??= createFollower(app.app.ctx, source);
      await follower.step();
      await eventually(
        async () => (await app.app.ctx.db.sql`select 1 from due_work where kind = 'settle'`).length,
        (left) => left === 0,
      );
    },
  };
}

type Owed = { id: string; key: string; units: bigint };
let addresses = 0;
/** A live payment whose customer chose the coin. The address and the chain are made up. */
async function owe(coin: Coin, usd: number, { merchantId, client }: { merchantId: string; client: Client }): Promise<Owed> {
  await started[coin].look();
  const { ctx } = app.app;
  const index = ++addresses;
  const body = { amount_usd: String(usd), return_url: 'https://shop.example/thanks' };
  const id: string = ok(await client.post('/api/payment/create/simple', body), 201).transaction_id;
  const key = `0014${index.toString(16).padStart(40, '0')}`;
  const units = BigInt(Math.ceil((usd * 1e8) / PRICE[coin]));
  await ctx.db.begin((tx) =>
    lockAndSettle(ctx, tx, [id], async () => {
      await tx`
        insert into quotes (payment_id, number, merchant_id, coin, address, rate_e8, units, from_at, until_at)
        values (${id}, 1, ${merchantId}, ${coin}, ${key}, ${String(BigInt(PRICE[coin]) * 100_000_000n)}, ${String(units)},
          clock_timestamp(), clock_timestamp() + interval '15 minutes')`;
      await tx`
        insert into deposit_addresses (family, key, address, payment_id, merchant_id, wallet_id, index, created_at)
        values (${coin}, ${key}, ${key}, ${id}, ${merchantId}, 'wal_1', ${index}, clock_timestamp())`;
    }),
  );
  return { id, key, units };
}
async function oweMany(count: number, ...of: Parameters<typeof owe>): Promise<Owed[]> {
  const all: Owed[] = [];
  for (let i = 0; i < count; i++) all.push(await owe(...of));
  return all;
}
/** One transaction that pays all of them. */
const pay = (coin: Coin, owed: readonly Owed[], kind: OnChain['kind'] = 'output'): OnChain => {
  const { chain } = started[coin];
  const txid = chain.nameOf('t');
  return { txid, kind, inputs: [`${txid}-in:0`], outputs: owed.map(({ key, units }) => ({ key, units })) };
};
const needs = async (client: Client, { id }: Owed): Promise<number> => {
  const detail = ok(await client.get(`/api/payment/${id}`));
  const page = await (await fetch(`${app.url}/pay?id=${id}`)).text();
  if (detail.status === 'processing') assert.match(page, new RegExp(`<progress max="${detail.confirmations_required}"`), id);
  return detail.confirmations_required;
};
const shop = async (): Promise<{ merchantId: string; client: Client }> => {
  const made: NewMerchant = await createMerchant(app.app.ctx, { name: 'A shop' });
  return { merchantId: made.merchantId, client: app.as(made.keys.liveSecret) };
};
/** The numbers that the API and the page show before and after the block, for payments that these transactions pay. */
async function told(
  coin: Coin,
  client: Client,
  owed: readonly Owed[],
  sent: readonly OnChain[],
): Promise<{ before: number[]; after: number[] }> {
  const { chain, look } = started[coin];
  for (const tx of sent) chain.accept(tx);
  await look();
  const before = await Promise.all(owed.map((one) => needs(client, one)));
  chain.mine(sent);
  await look();
  return { before, after: await Promise.all(owed.map((one) => needs(client, one))) };
}

// Invariant: A customer sees how many confirmations are required, before the transfer is mined and after.
test('a small payment in the block of a large one needs only its own confirmations, and says so from the start', async () => {
  const own = await shop();
  const [small, large] = [await owe('BTC', 25, own), await owe('BTC', 20_000, own)];
  const { before, after } = await told('BTC', own.client, [small, large], [pay('BTC', [large]), pay('BTC', [small])]);
  assert.deepEqual(before, [1, 6]);
  assert.deepEqual(after, before);
  assert.equal(ok(await own.client.get(`/api/payment/${small.id}`)).status, 'completed');
  assert.equal(ok(await own.client.get(`/api/payment/${large.id}`)).status, 'processing');
});

test('six small payments by six payers in one block need only their own confirmations', async () => {
  const own = await shop();
  const owed = await oweMany(6, 'LTC', 25, own);
  const { before, after } = await told(
    'LTC',
    own.client,
    owed,
    owed.map((one) => pay('LTC', [one])),
  );
  assert.deepEqual(before, [6, 6, 6, 6, 6, 6]);
  assert.deepEqual(after, before);
});

test('one transaction that pays many small payments counts as one amount, no matter which merchants they belong to', async () => {
  const [one, other] = [await shop(), await shop()];
  const owed = [...(await oweMany(11, 'BTC', 99, one)), await owe('BTC', 20, other)];
  const all = pay('BTC', owed);
  const { before, after } = await told('BTC', one.client, owed.slice(0, 11), [all]);
  assert.deepEqual(
    before,
    Array.from({ length: 11 }, () => 3),
  );
  assert.deepEqual(after, before);
  assert.equal(await needs(other.client, owed.at(-1)!), 3);
});

// Invariant: Splitting an amount over many payments does not lower the required confirmations.
test('of many small payments to a merchant at the same time, those beyond four times the limit of their tier need the next tier', async () => {
  const own = await shop();
  const elsewhere = await shop();
  const owed = await oweMany(10, 'BTC', 90, own);
  const beside = await owe('BTC', 90, elsewhere);
  const { chain, look } = started.BTC;
  const sent = owed.map((one) => pay('BTC', [one]));
  // One after the other, like a payer who checks what each of them needs.
  const numbers: number[] = [];
  for (const [i, tx] of sent.entries()) {
    chain.accept(tx);
    await look();
    numbers.push(await needs(own.client, owed[i]!));
  }
  // 4 x 90 USD beside a payment are 360 USD, and a quarter of that is 90; 5 x 90 come to 112.
  assert.deepEqual(numbers, [1, 1, 1, 1, 1, 2, 2, 2, 2, 2]);
  const stranger = pay('BTC', [beside]);
  chain.accept(stranger);
  await look();
  assert.equal(await needs(elsewhere.client, beside), 1, 'what waits for one merchant is nothing to another');
  chain.mine([...sent, stranger]);
  await look();
  assert.deepEqual(await Promise.all(owed.map((one) => needs(own.client, one))), numbers, 'no number is raised afterwards');
  assert.deepEqual(await Promise.all(owed.map(async ({ id }) => ok(await own.client.get(`/api/payment/${id}`)).status)), [
    ...Array.from({ length: 5 }, () => 'completed'),
    ...Array.from({ length: 5 }, () => 'processing'),
  ]);
});

test('small payments that are double-spent in the mempool still count, because a block may still contain them', async () => {
  const own = await shop();
  const owed = await oweMany(6, 'BTC', 90, own);
  const { chain, look } = started.BTC;
  const sent = owed.map((one) => pay('BTC', [one]));
  for (const tx of sent.slice(0, 5)) chain.accept(tx);
  await look();
  for (const tx of sent.slice(0, 5)) chain.accept({ ...tx, txid: chain.nameOf('r'), outputs: [{ key: 'elsewhere', units: 1_000n }] });
  await look();
  assert.equal(ok(await own.client.get(`/api/payment/${owed[0]!.id}`)).exception, 'replaced');
  chain.accept(sent[5]!);
  await look();
  assert.equal(await needs(own.client, owed[5]!), 2);
});

test('many small payments that are first seen in their block also count together', async () => {
  const own = await shop();
  const owed = await oweMany(10, 'BTC', 90, own);
  const { chain, look } = started.BTC;
  chain.mine(owed.map((one) => pay('BTC', [one])));
  await look();
  const numbers = await Promise.all(owed.map((one) => needs(own.client, one)));
  assert.deepEqual(numbers.sort(), [1, 1, 1, 1, 1, 2, 2, 2, 2, 2]);
});

test('the peg-outs of a Litecoin block are in one transaction and belong to many payers', async () => {
  const own = await shop();
  const owed = await oweMany(11, 'LTC', 950, own);
  const { chain, look } = started.LTC;
  chain.mine(owed.map((one) => pay('LTC', [one], 'pegout')));
  await look();
  assert.deepEqual(
    await Promise.all(owed.map((one) => needs(own.client, one))),
    Array.from({ length: 11 }, () => 24),
  );
});
