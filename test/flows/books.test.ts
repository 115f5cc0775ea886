/**
 * The books after random histories on the real database, through the verbs of the service: scenarios of the payer, decisions and refunds of
 * the merchant, time, sweeps that end in part or not at all, and a chain that takes blocks back.
 */
// Invariant: The books add up to zero and agree with payments, refunds and sweeps after any history.
import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import fc from 'fast-check';
import { bookPeriod, exportCoinTracking, exportKoinly, exportStatement, exportXero, inCurrency } from '../../src/books/book-files.ts';
import { readEntries, readStatement, trialBalance, withTrialBalance } from '../../src/books/books.ts';
import { checkDatev, datevAccountsOf, exportDatev } from '../../src/books/datev.ts';
import type { JoinedSource } from '../../src/chains/chain-source.ts';
import { BOOK_COMMANDS } from '../../src/cli/book-commands.ts';
import type { Context } from '../../src/context.ts';
import { ALL_COINS, COIN, type Coin, chainCode } from '../../src/core/coin.ts';
import { formatFiat, usdCentsToFiat } from '../../src/core/fiat.ts';
import { formatUnits } from '../../src/core/money.ts';
import { Problem } from '../../src/core/problem.ts';
import { SCENARIOS } from '../../src/core/simulated.ts';
import { createMerchant } from '../../src/merchants/merchants.ts';
import { approveOutgoing, cancelOutgoing } from '../../src/outgoing/decisions.ts';
import { listOutgoing } from '../../src/outgoing/outgoing-payments.ts';
import { requestPayout } from '../../src/outgoing/payouts.ts';
import { requestRefund } from '../../src/outgoing/refunds.ts';
import { advanceClock, cancelPayment, createPayment, resolvePayment, simulatePayment } from '../../src/payments/payments.ts';
import { lockAndSettleMany, settleDuePayments } from '../../src/settling/settle-payments.ts';
import { startSweeps } from '../../src/signing/follow-files.ts';
import { readHoldings } from '../../src/signing/holdings.ts';
import { eventually, startTestApp, type TestApp } from '../kit/app.ts';
import { checkBooks } from '../kit/books.ts';
import { isLongRun } from '../kit/long.ts';

const HISTORIES = isLongRun ? 10_000 : 12;
const EVER = new Date('2999-01-01T00:00:00Z');
const ACTOR = { userId: '', name: 'Ada', ip: '' };
const WALLET = 'wal_000000000000000000000001';
const ADDRESS = { BTC: 'test_btc_payer', ETH: 'test_eth_payer' } as const;
const TIP_HEIGHT = 100_000;
const PAID_IN = ['BTC', 'ETH', 'USDC@base'] as const satisfies readonly Coin[];

let app: TestApp;
let ctx: Context;
before(async () => {
  app = await startTestApp(
    { PRICES: 'static:BTC=97000.00,ETH=3500.00,LTC=100.00,DASH=30.00,DOGE=0.20', FIAT_RATES: 'static:EUR=0.92' },
    { roles: [] },
  );
  ctx = app.app.ctx;
  // What their networks say is final, and what the follower has read: files end there.
  for (const coin of ['ETH', 'USDC@base'] as const)
    await ctx.db.sql`
      insert into tips (chain, height, hash, finalized_height, scanned_through)
      values (${chainCode(coin)}, ${TIP_HEIGHT}, 'b900', ${TIP_HEIGHT - 100}, clock_timestamp())`;
});
after(() => app?.stop());

const done = { idempotency: null, render: () => ({ status: 200, body: '' }) };
async function collect<T>(all: AsyncIterable<T>): Promise<T[]> {
  const found: T[] = [];
  for await (const one of all) found.push(one);
  return found;
}
/** Runs a verb of the service. What it refuses changes nothing. */
async function attempt(work: () => Promise<unknown>): Promise<void> {
  try {
    await work();
  } catch (error) {
    if (!(error instanceof Problem)) throw error;
  }
}

// What can happen

type Fact =
  | { do: 'pay'; cents: bigint; scenario: string; coin: Coin }
  | { do: 'pass'; minutes: number }
  | { do: 'cancel'; pick: number }
  | { do: 'accept' | 'reject' | 'refund_sent'; pick: number; mask: number }
  | { do: 'refund'; pick: number; percent: number; rate: 'payment' | 'current'; approves: boolean }
  | { do: 'approve' | 'drop'; pick: number };
type Sweep = { coin: Coin; mask: number; ends: 'confirmed' | 'in part' | 'not at all' | 'waits' | 'canceled'; feePercent: number };
type Later = { do: 'sweep'; sweep: Sweep } | { do: 'reorganize' | 'mine again'; mask: number };

const mask = fc.nat(0xff);
const pick = fc.nat(7);
const fact: fc.Arbitrary<Fact> = fc.oneof(
  {
    weight: 5,
    arbitrary: fc.record({
      do: fc.constant('pay' as const),
      cents: fc.constantFrom(500n, 2_550n, 99_999n),
      scenario: fc.constantFrom(...SCENARIOS),
      coin: fc.constantFrom(...PAID_IN),
    }),
  },
  { weight: 4, arbitrary: fc.record({ do: fc.constant('pass' as const), minutes: fc.constantFrom(1, 20, 61, 200, 1_500) }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('cancel' as const), pick }) },
  { weight: 3, arbitrary: fc.record({ do: fc.constantFrom('accept' as const, 'reject', 'refund_sent'), pick, mask }) },
  {
    weight: 4,
    arbitrary: fc.record({
      do: fc.constant('refund' as const),
      pick,
      percent: fc.constantFrom(10, 33, 50, 100),
      rate: fc.constantFrom('payment' as const, 'current' as const),
      approves: fc.boolean(),
    }),
  },
  { weight: 2, arbitrary: fc.record({ do: fc.constantFrom('approve' as const, 'drop' as const), pick }) },
);
const later: fc.Arbitrary<Later> = fc.oneof(
  {
    weight: 2,
    arbitrary: fc.record({
      do: fc.constant('sweep' as const),
      sweep: fc.record({
        coin: fc.constantFrom(...PAID_IN),
        mask,
        ends: fc.constantFrom('confirmed' as const, 'confirmed', 'in part', 'not at all', 'waits', 'canceled'),
        feePercent: fc.constantFrom(1, 5),
      }),
    }),
  },
  { weight: 1, arbitrary: fc.record({ do: fc.constantFrom('reorganize' as const, 'mine again' as const), mask }) },
);
type History = { facts: Fact[]; later: Later[] };
const history: fc.Arbitrary<History> = fc.record({
  facts: fc.array(fact, { minLength: 4, maxLength: 20, size: 'max' }),
  later: fc.array(later, { minLength: 1, maxLength: 5, size: 'max' }),
});

// The service

async function pay({ merchantId }: { merchantId: string }, { cents, scenario, coin }: Fact & { do: 'pay' }): Promise<string> {
  let id = '';
  await createPayment(ctx, {
    merchantId,
    mode: 'test',
    createdWith: 'secret',
    draft: {
      amountUsdCents: cents,
      fixed: null,
      coin: null,
      request: { returnUrl: null, description: null, items: null, taxMinor: null, fiat: null, locale: null, asset: null },
      invoiceId: null,
      metadata: {},
      expiresInSeconds: 3_600,
      scenario: null,
    },
    idempotency: null,
    render: (view) => {
      id = view.facts.id;
      return { status: 201, body: '' };
    },
  });
  await attempt(() => simulatePayment(ctx, { merchantId, paymentId: id, scenario, coin, ...done }));
  return id;
}

async function happen(owner: { merchantId: string; mode: 'test' }, given: Fact, ids: string[]): Promise<void> {
  const paymentId = 'pick' in given ? (ids[given.pick % Math.max(1, ids.length)] ?? '') : '';
  switch (given.do) {
    case 'pay':
      ids.push(await pay(owner, given));
      break;
    case 'pass':
      await advanceClock(ctx, { merchantId: owner.merchantId, paymentId: null, seconds: given.minutes * 60, ...done });
      break;
    case 'cancel':
      await attempt(() => cancelPayment(ctx, { ...owner, paymentId, actor: ACTOR, ...done }));
      break;
    case 'accept':
    case 'reject':
    case 'refund_sent': {
      const rows = await ctx.db.sql<{ ref: string }[]>`select ref from transfers where payment_id = ${paymentId} order by ref`;
      const named = rows.filter((_, i) => (given.mask >> i) & 1).map(({ ref }) => ref);
      const transfers = named.length === 0 ? null : named;
      await attempt(() => resolvePayment(ctx, { ...owner, paymentId, actor: ACTOR, action: given.do, transfers, ...done }));
      break;
    }
    case 'refund':
      await attempt(() => refund(owner, { ...given, paymentId }));
      break;
    case 'approve':
    case 'drop': {
      const { found: refunds } = await listOutgoing(ctx, {
        kind: 'refund',
        ...owner,
        limit: 20,
        startingAfter: null,
        paymentId: null,
        state: 'requested',
      });
      const one = refunds[given.pick % Math.max(1, refunds.length)];
      if (!one) break;
      if (given.do === 'approve') await attempt(() => approveOutgoing(ctx, { kind: 'refund', ...owner, id: one.id, actor: ACTOR }));
      else await attempt(() => cancelOutgoing(ctx, { kind: 'refund', ...owner, id: one.id, actor: ACTOR, ...done }));
      break;
    }
  }
  while ((await settleDuePayments(ctx, { limit: 100 })) > 0);
}

async function refund(
  owner: { merchantId: string; mode: 'test' },
  { paymentId, percent, rate, approves }: { paymentId: string; percent: number; rate: 'payment' | 'current'; approves: boolean },
): Promise<void> {
  const [row] = await ctx.db.sql<{ coin: Coin; units: bigint }[]>`
    select coin, sum(units) as units from transfers where payment_id = ${paymentId} group by coin order by coin limit 1`;
  if (!row) return;
  let id = '';
  await requestRefund(ctx, {
    ...owner,
    paymentId,
    asked: percent === 100 ? { kind: 'all' } : { kind: 'coin', units: () => (row.units * BigInt(percent)) / 100n },
    rate,
    address: row.coin === 'BTC' ? ADDRESS.BTC : ADDRESS.ETH,
    reason: null,
    actor: ACTOR,
    idempotency: null,
    render: (made) => {
      id = made.id;
      return { status: 201, body: '' };
    },
  });
  // As if the price had fallen since the payment.
  if (rate === 'current') await ctx.db.sql`update outgoing_payments set usd_cents = usd_cents * 9 / 10 where id = ${id}`;
  if (approves) await approveOutgoing(ctx, { kind: 'refund', ...owner, id, actor: ACTOR });
}

/** As if everything had happened in live mode, to deposit addresses of one wallet: nothing is swept in test mode. */
async function goLive(merchantId: string): Promise<void> {
  const { sql } = ctx.db;
  await sql`update payments set mode = 'live', sequence = sequence + 1000000 where merchant_id = ${merchantId}`;
  await sql`update outgoing_payments set mode = 'live' where merchant_id = ${merchantId}`;
  await sql`
    insert into deposit_addresses (family, key, address, payment_id, merchant_id, wallet_id, index, created_at)
    select family, payment_id, payment_id, payment_id, ${merchantId}, ${WALLET} || ${merchantId} || family, row_number() over (), clock_timestamp()
    from (select distinct t.payment_id, f.family from transfers t
      join unnest(${ALL_COINS.map((coin) => coin as string)}::text[], ${ALL_COINS.map((coin) => COIN[coin].family as string)}::text[]) as f (coin, family)
        on f.coin = t.coin where t.merchant_id = ${merchantId}) as paid`;
}
const walletOf = (merchantId: string, coin: Coin): string => `${WALLET}${merchantId}${COIN[coin].family}`;

let sweeps = 0;
let payouts = 0;
type Input = { paymentId: string; ref: string; units: bigint };
type FileOf = {
  coin: Coin;
  purpose?: 'sweep' | 'refund' | 'payout';
  state: 'sent' | 'failed' | 'canceled';
  inputs: readonly Input[];
  /** The fee of each transaction; `after`: the one that paid for its gas. All are in a block. */
  transactions: readonly { fee: bigint; after?: number; unmoved?: string[] }[];
};
/** A signing file, as the service stores it. */
async function storeFile(
  { merchantId }: { merchantId: string },
  { coin, purpose = 'sweep', state, inputs, transactions }: FileOf,
): Promise<string> {
  const { sql } = ctx.db;
  const id = `swp_${String(++sweeps).padStart(24, '0')}`;
  const ended = state === 'sent' ? null : new Date();
  const fee = transactions.reduce((sum, one) => sum + one.fee, 0n);
  const total = inputs.reduce((sum, { units }) => sum + units, 0n);
  await sql`
    insert into wallets (id, merchant_id, family, network, chain_key, account_key, script, path)
    values (${walletOf(merchantId, coin)}, ${merchantId}, ${COIN[coin].family}, 'mainnet', ${merchantId}, 'xpub', 'p2wpkh', 'm') on conflict do nothing`;
  await sql`
    insert into signing_files (id, merchant_id, wallet_id, coin, purpose, state, file, destination, total_units, fee_units, input_count, made_by, ended_at)
    values (${id}, ${merchantId}, ${walletOf(merchantId, coin)}, ${coin}, ${purpose}, ${state}, '{}', 'mine', ${(total - fee).toString()},
      ${fee.toString()}, ${inputs.length}, 'Ada', ${ended})`;
  await sql`
    insert into signing_inputs (file_id, number, chain, input, coin, payment_id, ref, units, released_at)
    select ${id}, number, 'chain', ${id} || number, ${coin}, payment_id, ref, units::numeric, ${ended}
    from unnest(${inputs.map((_, i) => i)}::int[], ${inputs.map(({ paymentId }) => paymentId)}::text[], ${inputs.map(({ ref }) => ref)}::text[],
      ${inputs.map(({ units }) => units.toString())}::text[]) as given (number, payment_id, ref, units)`;
  if (ended) return id;
  for (const [number, one] of transactions.entries())
    await sql`
      insert into signed_transactions (file_id, round, number, txid, raw, fee_units, sent_at, block_height, block_hash, after_number, unmoved)
      values (${id}, 0, ${number}, ${`tx ${number} of ${id}`}, '\\x00', ${one.fee.toString()}, clock_timestamp(), 900, 'b900', ${one.after ?? null},
        ${one.unmoved ?? []}::text[])`;
  return id;
}

/** A payout that was sent, by a file or by hand. */
async function storePayout(
  merchantId: string,
  { coin, units, usdCents, file }: { coin: Coin; units: bigint; usdCents: bigint; file: string | null },
): Promise<void> {
  const id = `po_${String(++payouts).padStart(24, '0')}`;
  await ctx.db.sql`
    insert into outgoing_payments (kind, id, merchant_id, mode, coin, units, usd_cents, address, state, txid, requested_by, file_id, transaction_number, created_at, sent_at)
    values ('payout', ${id}, ${merchantId}, 'live', ${coin}, ${units.toString()}, ${usdCents.toString()}, 'recipient', 'sent', 'paid', 'Ada', ${file},
      ${file === null ? null : 0}, clock_timestamp(), clock_timestamp())`;
}

/** Follows the files of a coin until this one has ended. */
async function endFile(coin: Coin, id: string): Promise<void> {
  const following = startSweeps(ctx, chainOf(coin));
  await eventually(
    async () =>
      (await ctx.db.sql<{ ended: boolean }[]>`select ended_at is not null as ended from signing_files where id = ${id}`)[0]!.ended,
    (ended) => ended,
  );
  await following.stop();
}

/** A sweep of some of what is listed, and what the chain then says about its transaction. */
async function sweepSome({ merchantId }: { merchantId: string }, { coin, mask: chosen, ends, feePercent }: Sweep): Promise<void> {
  const { holdings } = await readHoldings(ctx, { merchantId, walletId: walletOf(merchantId, coin), coin });
  const picked = holdings.filter(({ blockHeight }, i) => blockHeight !== null && (chosen >> (i % 8)) & 1);
  if (picked.length === 0) return;
  const total = picked.reduce((sum, { units }) => sum + units, 0n);
  const state = ({ canceled: 'canceled', waits: 'sent', confirmed: 'sent', 'in part': 'sent', 'not at all': 'failed' } as const)[ends];
  const unmoved = ends === 'in part' && coin === 'USDC@base' ? [picked[0]!.address.toLowerCase()] : [];
  const transactions = [{ fee: (total * BigInt(feePercent)) / 100n, unmoved }];
  const id = await storeFile({ merchantId }, { coin, state, inputs: picked, transactions });
  if (state === 'sent' && ends !== 'waits') await endFile(coin, id);
}

/** A chain on which every transaction of a sweep is deep enough. */
const chainOf = (coin: Coin): JoinedSource =>
  ({
    coin,
    txState: async () => ({ state: 'mined', blockHash: 'b900' }),
    block: async () => ({ hash: 'b900', height: 900 }),
    blockAt: async () => ({ hash: 'b900', height: 900 }),
    tip: async () => ({ height: TIP_HEIGHT, hash: 'tip' }),
    health: async () => ({ txindex: true }),
  }) as unknown as JoinedSource;

async function happenLater(owner: { merchantId: string; mode: 'live' }, given: Later): Promise<void> {
  if (given.do === 'sweep') return sweepSome(owner, given.sweep);
  // What a sweep spends is deep below the tip, so only what it does not spend can lose its block.
  const free = await ctx.db.sql<{ payment: string; coin: string; ref: string }[]>`
    select t.payment_id as payment, t.coin, t.ref from transfers t where t.merchant_id = ${owner.merchantId}
      and (t.block_height is null) = ${given.do === 'mine again'} and t.conflict_txid is null
      and not exists (select 1 from signing_inputs i where i.payment_id = t.payment_id and i.coin = t.coin and i.ref = t.ref and i.released_at is null)
      and not exists (select 1 from outgoing_payments r where r.payment_id = t.payment_id)
    order by t.payment_id, t.ref`;
  const picked = free.filter((_, i) => (given.mask >> (i % 8)) & 1);
  const height = given.do === 'mine again' ? 1_000 : null;
  await ctx.db.sql`
    update transfers t set block_height = ${height}, block_hash = ${height && 'again'}
    from unnest(${picked.map((one) => one.payment)}::text[], ${picked.map((one) => one.coin)}::text[], ${picked.map((one) => one.ref)}::text[]) as g (payment, coin, ref)
    where t.payment_id = g.payment and t.coin = g.coin and t.ref = g.ref`;
  await ctx.db.begin((tx) =>
    lockAndSettleMany(
      ctx,
      tx,
      picked.map(({ payment }) => payment),
    ),
  );
}

async function live({ facts, later: after }: History): Promise<void> {
  const { merchantId } = await createMerchant(ctx, { name: 'Books' });
  const ids: string[] = [];
  for (const [i, given] of facts.entries()) {
    await happen({ merchantId, mode: 'test' }, given, ids);
    if (i % 5 === 4) await checkBooks(ctx, { merchantId, mode: 'test' });
  }
  await checkBooks(ctx, { merchantId, mode: 'test' });
  await goLive(merchantId);
  for (const given of after) {
    await happenLater({ merchantId, mode: 'live' }, given);
    await checkBooks(ctx, { merchantId, mode: 'live' }, { walletOf: (coin) => walletOf(merchantId, coin) });
  }
  assert.deepEqual(await trialBalance(ctx, { merchantId, mode: 'test', until: EVER }), [], 'the other mode has its own books');
}

test(`${HISTORIES} random histories: every account has what the facts say, and every coin adds up to zero`, async () => {
  await fc.assert(fc.asyncProperty(history, live), { numRuns: HISTORIES, endOnFailure: true });
});

const paidIn = (scenario: string, cents = 9_700n): Fact => ({ do: 'pay', cents, scenario, coin: 'BTC' });
const hour: Fact = { do: 'pass', minutes: 90 };
/** The balances of a history, as text; natural signs: what the merchant has, earned, owes or spent is positive. */
async function balancesAfter(facts: Fact[]): Promise<{ merchantId: string; balances: Record<string, string> }> {
  const { merchantId } = await createMerchant(ctx, { name: 'Examples' });
  const ids: string[] = [];
  for (const given of facts) await happen({ merchantId, mode: 'test' }, given, ids);
  const rows = await trialBalance(ctx, { merchantId, mode: 'test', until: EVER });
  const shown = rows.flatMap(({ coin, account, units, cents }) =>
    units === 0n ? [] : [[account, `${formatUnits(coin, units)} ${coin}, ${cents} cents`]],
  );
  return { merchantId, balances: Object.fromEntries(shown) };
}

test('examples by hand: a sale, an overpayment, money that is held, and refunds', async () => {
  const sale = await balancesAfter([paidIn('success'), hour]);
  assert.deepEqual(sale.balances, {
    deposit_addresses: '0.00100000 BTC, 9700 cents',
    sales: '-0.00100000 BTC, -9700 cents',
  });
  const refunded = await balancesAfter([paidIn('success'), hour, { do: 'refund', pick: 0, percent: 50, rate: 'payment', approves: true }]);
  assert.deepEqual(refunded.balances, {
    deposit_addresses: '0.00100000 BTC, 9700 cents',
    destination_wallet: '-0.00050000 BTC, -4850 cents',
    refunds: '0.00050000 BTC, 4850 cents',
    sales: '-0.00100000 BTC, -9700 cents',
  });
  const short = await balancesAfter([paidIn('underpaid'), { do: 'pass', minutes: 1_500 }]);
  const [units, cents] = [short.balances.deposit_addresses!, short.balances.held_for_review!];
  assert.equal(cents, `-${units.replace(', ', ', -')}`, 'all of it waits');
  assert.deepEqual(Object.keys(short.balances).sort(), ['deposit_addresses', 'held_for_review']);
});

test('held money and overpayments are returned at the value with which they came, also when the price changed', async () => {
  const fallen = { do: 'refund', pick: 0, percent: 100, rate: 'current', approves: true } as const;
  const short = await balancesAfter([paidIn('underpaid'), { do: 'pass', minutes: 1_500 }, fallen]);
  assert.deepEqual(Object.keys(short.balances).sort(), ['deposit_addresses', 'destination_wallet']);
  const [came, went] = [short.balances.deposit_addresses!, short.balances.destination_wallet!];
  assert.equal(went, `-${came.replace(', ', ', -')}`);
  const rows = await trialBalance(ctx, { merchantId: short.merchantId, mode: 'test', until: EVER });
  assert.equal(rows.find(({ account }) => account === 'held_for_review')!.cents, 0n, 'nothing is left on the account');

  const over = await balancesAfter([paidIn('overpaid'), hour, fallen]);
  const left = await trialBalance(ctx, { merchantId: over.merchantId, mode: 'test', until: EVER });
  const overpaid = left.find(({ account }) => account === 'overpayments')!;
  assert.deepEqual([overpaid.units, overpaid.cents], [0n, 0n]);
  // Of a sale, what the refund was worth when it was sent.
  assert.equal(over.balances.sales, '-0.00100000 BTC, -9700 cents');
  assert.equal(over.balances.refunds, '0.00100000 BTC, 8730 cents');
});

test('a day is all that clocks there call by its date, also where midnight comes twice or never', async () => {
  for (const [timeZone, day, start, end] of [
    ['America/Havana', '2026-11-01', '2026-11-01T04:00', '2026-11-02T05:00'],
    ['Atlantic/Azores', '2026-10-25', '2026-10-25T00:00', '2026-10-26T01:00'],
    ['America/Havana', '2026-03-08', '2026-03-08T05:00', '2026-03-09T04:00'],
    ['America/Santiago', '2026-09-06', '2026-09-06T04:00', '2026-09-07T03:00'],
    ['Asia/Beirut', '2026-10-24', '2026-10-23T21:00', '2026-10-24T22:00'],
    ['Pacific/Apia', '2011-12-31', '2011-12-30T10:00', '2011-12-31T10:00'],
  ] as const) {
    const period = await bookPeriod(ctx, { from: day, until: day, timeZone });
    assert.deepEqual(
      [period.start, period.end].map((at) => at.toISOString().slice(0, 16)),
      [start, end],
      `${timeZone} ${day}`,
    );
  }
});

test('a period: what it opened with, what changed it, and what it closed with; entries are in order', async () => {
  const { merchantId } = await balancesAfter([paidIn('success'), hour, paidIn('success', 4_850n), hour]);
  const owner = { merchantId, mode: 'test' as const };
  const entries = (await collect(readEntries(ctx, { ...owner, from: new Date(0), until: EVER, display: null }))).flat();
  assert.deepEqual(
    entries.map(({ kind, debit, credit, cents }) => [kind, debit, credit, cents]),
    [
      ['received', 'deposit_addresses', 'held_for_review', 9_700n],
      ['sale', 'held_for_review', 'sales', 9_700n],
      ['received', 'deposit_addresses', 'held_for_review', 4_850n],
      ['sale', 'held_for_review', 'sales', 4_850n],
    ],
  );
  const [line] = await readStatement(ctx, { ...owner, from: entries[2]!.at, until: EVER });
  assert.deepEqual(
    [line!.account, line!.opening.units, line!.received.units, line!.closing.units, line!.closing.cents],
    ['deposit_addresses', 100_000n, 50_000n, 150_000n, 14_550n],
  );
  assert.deepEqual(await readStatement(ctx, { ...owner, from: new Date(0), until: entries[0]!.at }), [], 'nothing had happened before');
});

// Files

const dayFromNow = (days: number): string => new Date(Date.now() + days * 86_400_000).toISOString().slice(0, 10);
/** A sale of 97 USD, half of which is refunded, swept with a fee of 1%; in live mode. */
async function exported(
  facts: Fact[] = [paidIn('success'), hour, { do: 'refund', pick: 0, percent: 50, rate: 'payment', approves: true }],
) {
  const { merchantId } = await balancesAfter(facts);
  await goLive(merchantId);
  await sweepSome({ merchantId }, { coin: 'BTC', mask: 0xff, ends: 'confirmed', feePercent: 1 });
  return wishOf(merchantId);
}
async function wishOf(merchantId: string) {
  const period = await bookPeriod(ctx, { from: dayFromNow(-1), until: dayFromNow(2), timeZone: 'UTC' });
  return { merchantId, mode: 'live' as const, period, display: null };
}
/** What differs from run to run is replaced by what it is. */
const golden = (text: string): string[] =>
  text
    .replace(/\b(pay|ref|po)_[0-9A-Za-z]{24}/g, '$1_')
    .replace(/\bswp_\d{24}/g, 'swp_')
    .replace(/(?<![0-9a-f])[0-9a-f]{64}\b/g, 'TXID')
    .replace(/\b\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\b/g, 'TIME')
    .replace(/\b\d\d\/\d\d\/\d{4}\b/g, 'DAY')
    .split('\r\n');
const whole = async (file: AsyncIterable<string | Uint8Array>): Promise<Buffer> =>
  Buffer.concat((await collect(file)).map((part) => Buffer.from(part as string)));

test('files about a token name its network, and its gas is another coin', async () => {
  const { merchantId } = await balancesAfter([{ do: 'pay', cents: 9_700n, scenario: 'success', coin: 'USDC@base' }, hour]);
  await goLive(merchantId);
  await sweepSome({ merchantId }, { coin: 'USDC@base', mask: 0xff, ends: 'confirmed', feePercent: 1 });
  const wish = { ...(await wishOf(merchantId)), scope: 'all' as const };
  const lines = async (file: AsyncIterable<string>) => golden((await whole(file)).toString()).slice(1, -1);
  assert.deepEqual(await lines(exportKoinly(ctx, wish)), ['TIME UTC,,,97,USDC,,,97.00,USD,other income,Payment pay_ on Base,0xTXID']);
  assert.deepEqual(await lines(exportKoinly(ctx, { ...wish, scope: 'deposits' })), [
    'TIME UTC,,,97,USDC,,,97.00,USD,other income,Payment pay_ on Base,0xTXID',
    'TIME UTC,97,USDC,,,,,97.00,USD,,Sweep swp_ on Base,tx 0 of swp_',
  ]);
  assert.deepEqual(await lines(exportCoinTracking(ctx, { ...wish, scope: 'deposits' })), [
    'Income,97,USDC,,,,,Florin,base,Payment pay_ on Base,TIME,0xTXID',
    'Withdrawal,,,97,USDC,,,Florin,base,Sweep swp_ on Base,TIME,tx 0 of swp_',
  ]);
  assert.deepEqual(await lines(exportXero(ctx, { ...wish, scope: 'deposits' })), [
    'DAY,97.00,Customer,Payment pay_ on Base: 97 USDC,0xTXID',
    'DAY,-97.00,Destination wallet,Sweep swp_ on Base: 97 USDC,tx 0 of swp_',
  ]);
});

test('the check of the books finds a fact that is broken', async () => {
  const { merchantId } = await balancesAfter([paidIn('success'), hour, paidIn('success'), hour]);
  await goLive(merchantId);
  await sweepSome({ merchantId }, { coin: 'BTC', mask: 1, ends: 'confirmed', feePercent: 1 });
  const check = () => checkBooks(ctx, { merchantId, mode: 'live' }, { walletOf: (coin) => walletOf(merchantId, coin) });
  await check();
  const { sql } = ctx.db;
  const broken = async (breakIt: (by: number) => Promise<{ count: number }>) => {
    assert.ok((await breakIt(-1)).count > 0);
    await assert.rejects(check, assert.AssertionError);
    await breakIt(1);
    await check();
  };
  await broken((by) => sql`update payment_sales set sale_units = sale_units + ${by} where merchant_id = ${merchantId}`);
  await broken(
    (by) => sql`
      update signing_inputs set units = units + ${by}
      where payment_id is not null and file_id in (select id from signing_files where merchant_id = ${merchantId})`,
  );
});

test('Koinly, CoinTracking, Xero and the statement: every column of a fixed history', async () => {
  const wish = await exported();
  const koinly = golden((await whole(exportKoinly(ctx, { ...wish, scope: 'all' }))).toString());
  assert.deepEqual(
    koinly.toSorted(),
    [
      '',
      'Date,Sent Amount,Sent Currency,Received Amount,Received Currency,Fee Amount,Fee Currency,Net Worth Amount,Net Worth Currency,Label,Description,TxHash',
      'TIME UTC,,,0.001,BTC,,,97.00,USD,other income,Payment pay_,TXID',
      'TIME UTC,0.00001,BTC,,,,,0.97,USD,cost,Network fee of sweep swp_,tx 0 of swp_',
      'TIME UTC,0.0005,BTC,,,,,48.50,USD,cost,Refund ref_ of pay_,TXID',
    ].toSorted(),
  );
  const deposits = golden((await whole(exportKoinly(ctx, { ...wish, scope: 'deposits' }))).toString());
  assert.ok(deposits.includes('TIME UTC,0.00099,BTC,,,,,96.03,USD,,Sweep swp_,tx 0 of swp_'), deposits.join('\n'));
  assert.ok(!deposits.some((line) => line.includes('Refund')), 'refunds leave from another wallet');

  const tracked = golden((await whole(exportCoinTracking(ctx, { ...wish, scope: 'all' }))).toString());
  assert.deepEqual(
    tracked.toSorted(),
    [
      '',
      'Type,Buy Amount,Buy Currency,Sell Amount,Sell Currency,Fee,Fee Currency,Exchange,Trade-Group,Comment,Date,Tx-ID',
      'Income,0.001,BTC,,,,,Florin,bitcoin,Payment pay_,TIME,TXID',
      'Other Fee,,,0.00001,BTC,,,Florin,bitcoin,Network fee of sweep swp_,TIME,tx 0 of swp_',
      'Spend,,,0.0005,BTC,,,Florin,bitcoin,Refund ref_ of pay_,TIME,TXID',
    ].toSorted(),
  );

  const bank = golden((await whole(exportXero(ctx, { ...wish, scope: 'all' }))).toString());
  assert.deepEqual(
    bank.toSorted(),
    [
      '',
      '*Date,*Amount,Payee,Description,Reference',
      'DAY,-0.97,Network fee,Network fee of sweep swp_: 0.00001 BTC,tx 0 of swp_',
      'DAY,-48.50,Customer,Refund ref_ of pay_: 0.0005 BTC,TXID',
      'DAY,97.00,Customer,Payment pay_: 0.001 BTC,TXID',
    ].toSorted(),
  );

  const [header, ...none] = (await whole(exportXero(ctx, { ...wish, display: { currency: 'EUR', rateE8: 100n }, scope: 'all' })))
    .toString()
    .split('\r\n');
  assert.deepEqual([header, none], ['*Date,*Amount,Payee,Description,Reference', ['']], 'a bank line has an amount');

  const rate = { currency: 'EUR' as const, rateE8: 90_000_000n };
  assert.deepEqual((await whole(exportStatement(ctx, { ...wish, display: rate }))).toString().split('\r\n'), [
    'currency,network,account,opening,received,settled,refunded,paid_out,swept,fees,reversed,closing,opening_usd,closing_usd,display_currency,display_rate,closing_display,mode',
    'BTC,bitcoin,Crypto in deposit addresses,0.00000000,0.00100000,0.00000000,0.00000000,0.00000000,-0.00099000,-0.00001000,0.00000000,0.00000000,0.00,0.00,EUR,0.90000000,0.00,live',
    'BTC,bitcoin,Crypto in destination wallet,0.00000000,0.00000000,0.00000000,-0.00050000,0.00000000,0.00099000,0.00000000,0.00000000,0.00049000,0.00,47.53,EUR,0.90000000,42.78,live',
    'BTC,bitcoin,Held for review,0.00000000,0.00100000,-0.00100000,0.00000000,0.00000000,0.00000000,0.00000000,0.00000000,0.00000000,0.00,0.00,EUR,0.90000000,0.00,live',
    'BTC,bitcoin,Sales,0.00000000,0.00000000,0.00100000,0.00000000,0.00000000,0.00000000,0.00000000,0.00000000,0.00100000,0.00,97.00,EUR,0.90000000,87.30,live',
    'BTC,bitcoin,Refunds,0.00000000,0.00000000,0.00000000,0.00050000,0.00000000,0.00000000,0.00000000,0.00000000,0.00050000,0.00,48.50,EUR,0.90000000,43.65,live',
    'BTC,bitcoin,Network fees,0.00000000,0.00000000,0.00000000,0.00000000,0.00000000,0.00000000,0.00001000,0.00000000,0.00001000,0.00,0.97,EUR,0.90000000,0.87,live',
    'BTC,bitcoin,Trial balance,0.00000000,0.00000000,0.00000000,0.00000000,0.00000000,0.00000000,0.00000000,0.00000000,0.00000000,0.00,0.00,EUR,0.90000000,0.00,live',
    '',
  ]);
});

const inputsOf = async (merchantId: string, coin: Coin): Promise<Input[]> => {
  const { holdings } = await readHoldings(ctx, { merchantId, walletId: walletOf(merchantId, coin), coin });
  return holdings.map(({ paymentId, ref, units }) => ({ paymentId, ref, units }));
};
/** The newest refunds of a merchant are paid by transactions of a file, in order. */
async function payWith(merchantId: string, id: string, numbers: readonly number[]): Promise<void> {
  const refunds = await ctx.db.sql<{ id: string }[]>`
    select id from outgoing_payments where kind = 'refund' and merchant_id = ${merchantId} and file_id is null order by number limit ${numbers.length}`;
  for (const [i, refund] of refunds.entries())
    await ctx.db.sql`update outgoing_payments set file_id = ${id}, transaction_number = ${numbers[i]!} where id = ${refund.id}`;
}
const koinlyOf = async (wish: Awaited<ReturnType<typeof wishOf>>, scope: 'all' | 'deposits'): Promise<string[]> =>
  golden((await whole(exportKoinly(ctx, { ...wish, scope }))).toString()).slice(1, -1);
const refundOf = (percent: number, pick = 0): Fact => ({ do: 'refund', pick, percent, rate: 'payment', approves: true });

test('the deposit addresses alone: a refund that a file pays leaves them, and the destination gets the rest', async () => {
  const { merchantId } = await balancesAfter([paidIn('success'), hour, refundOf(50)]);
  await goLive(merchantId);
  const inputs = await inputsOf(merchantId, 'BTC');
  const id = await storeFile({ merchantId }, { coin: 'BTC', purpose: 'refund', state: 'sent', inputs, transactions: [{ fee: 1_000n }] });
  await payWith(merchantId, id, [0]);
  await endFile('BTC', id);
  const wish = await wishOf(merchantId);
  assert.deepEqual((await koinlyOf(wish, 'deposits')).toSorted(), [
    'TIME UTC,,,0.001,BTC,,,97.00,USD,other income,Payment pay_,TXID',
    'TIME UTC,0.00001,BTC,,,,,0.97,USD,cost,Network fee of refund swp_,tx 0 of swp_',
    'TIME UTC,0.00049,BTC,,,,,47.53,USD,,Change of refund file swp_,tx 0 of swp_',
    'TIME UTC,0.0005,BTC,,,,,48.50,USD,cost,Refund ref_ of pay_,tx 0 of swp_',
  ]);
  assert.deepEqual((await koinlyOf(wish, 'all')).toSorted(), [
    'TIME UTC,,,0.001,BTC,,,97.00,USD,other income,Payment pay_,TXID',
    'TIME UTC,0.00001,BTC,,,,,0.97,USD,cost,Network fee of refund swp_,tx 0 of swp_',
    'TIME UTC,0.0005,BTC,,,,,48.50,USD,cost,Refund ref_ of pay_,TXID',
  ]);
  const period = { ...wish.period, until: wish.period.from };
  const datev = {
    chart: 'SKR03' as const,
    consultant: 29_098,
    client: 55_003,
    fiscalYear: `${period.from.slice(0, 4)}-01-01`,
    accounts: {},
  };
  const euros = { ...wish, period, display: { currency: 'EUR' as const, rateE8: 90_000_000n } };
  const texts = (await whole(exportDatev(ctx, euros, datev)))
    .toString('latin1')
    .split('\r\n')
    .slice(2, -1)
    .map((line) => line.split(';')[13]);
  assert.ok(texts.includes('"Refund file 0.00099 BTC"') && texts.includes('"Network fee of refund 0.00001 BTC"'), texts.join());
});

test('the deposit addresses alone: payouts that a file pays leave them', async () => {
  const { merchantId } = await balancesAfter([paidIn('success'), hour]);
  await goLive(merchantId);
  const inputs = await inputsOf(merchantId, 'BTC');
  const id = await storeFile({ merchantId }, { coin: 'BTC', purpose: 'payout', state: 'sent', inputs, transactions: [{ fee: 1_000n }] });
  await storePayout(merchantId, { coin: 'BTC', units: 30_000n, usdCents: 2_910n, file: id });
  await endFile('BTC', id);
  const wish = await wishOf(merchantId);
  assert.deepEqual((await koinlyOf(wish, 'deposits')).toSorted(), [
    'TIME UTC,,,0.001,BTC,,,97.00,USD,other income,Payment pay_,TXID',
    'TIME UTC,0.00001,BTC,,,,,0.97,USD,cost,Network fee of payout swp_,tx 0 of swp_',
    'TIME UTC,0.0003,BTC,,,,,29.10,USD,cost,Payout po_,tx 0 of swp_',
    'TIME UTC,0.00069,BTC,,,,,66.93,USD,,Change of payout file swp_,tx 0 of swp_',
  ]);
  await checkBooks(ctx, { merchantId, mode: 'live' }, { walletOf: (coin) => walletOf(merchantId, coin) });
});

test('the deposit addresses alone: what a refund leaves on an account is moved by a later sweep, without what was refunded', async () => {
  const eth = (cents: bigint): Fact => ({ do: 'pay', cents, scenario: 'success', coin: 'ETH' });
  const { merchantId } = await balancesAfter([eth(35_000n), eth(35_000n), hour, refundOf(50), refundOf(100, 1)]);
  await goLive(merchantId);
  const fee = 10n ** 15n;
  const units = 10n ** 17n;
  const inputs = await inputsOf(merchantId, 'ETH');
  assert.deepEqual(
    inputs.map((one) => one.units),
    [units, units],
  );
  // The first account keeps money and pays its own fee; the gas address pays for the second one.
  const file = await storeFile(
    { merchantId },
    {
      ...{ coin: 'ETH', purpose: 'refund', state: 'sent' },
      inputs: [{ ...inputs[0]!, units: units / 2n + fee }, inputs[1]!],
      transactions: [{ fee }, { fee }, { fee, after: 0 }],
    },
  );
  await payWith(merchantId, file, [1, 2]);
  await endFile('ETH', file);
  const owner = { merchantId, mode: 'live' as const };
  const gas = async () => (await trialBalance(ctx, { ...owner, until: EVER })).find(({ account }) => account === 'gas_address')?.units;
  assert.equal(await gas(), -2n * fee, 'the gas address pays for itself and for the second refund');
  const wish = await wishOf(merchantId);
  const before = [
    'TIME UTC,,,0.1,ETH,,,350.00,USD,other income,Payment pay_,0xTXID',
    'TIME UTC,,,0.1,ETH,,,350.00,USD,other income,Payment pay_,0xTXID',
    'TIME UTC,0.001,ETH,,,,,3.50,USD,cost,Network fee of refund ref_,tx 1 of swp_',
    'TIME UTC,0.05,ETH,,,,,175.00,USD,cost,Refund ref_ of pay_,tx 1 of swp_',
    'TIME UTC,0.1,ETH,,,,,350.00,USD,cost,Refund ref_ of pay_,tx 2 of swp_',
  ];
  assert.deepEqual((await koinlyOf(wish, 'deposits')).toSorted(), before);
  const rest = await inputsOf(merchantId, 'ETH');
  assert.deepEqual(
    rest.map(({ ref }) => ref),
    [inputs[0]!.ref],
  );
  const sweep = await storeFile({ merchantId }, { coin: 'ETH', state: 'sent', inputs: rest, transactions: [{ fee }] });
  await endFile('ETH', sweep);
  assert.deepEqual(
    (await koinlyOf(wish, 'deposits')).toSorted(),
    [
      ...before,
      'TIME UTC,0.001,ETH,,,,,3.50,USD,cost,Network fee of sweep swp_,tx 0 of swp_',
      'TIME UTC,0.048,ETH,,,,,168.00,USD,,Sweep swp_,tx 0 of swp_',
    ].toSorted(),
  );
  await checkBooks(ctx, owner, { walletOf: (coin) => walletOf(merchantId, coin) });
});

test('held money that goes back is not a cost, because it was never income', async () => {
  const { merchantId } = await balancesAfter([paidIn('underpaid'), { do: 'pass', minutes: 1_500 }, refundOf(100)]);
  const period = await bookPeriod(ctx, { from: dayFromNow(-1), until: dayFromNow(3), timeZone: 'UTC' });
  const wish = { merchantId, mode: 'test' as const, period, display: null, scope: 'all' as const };
  const rows = (file: string) =>
    file
      .split('\r\n')
      .slice(1, -1)
      .map((line) => line.split(','));
  const koinly = rows((await whole(exportKoinly(ctx, wish))).toString());
  assert.deepEqual(
    koinly.map((row) => row[9]),
    ['', ''],
    'two transfers without a label',
  );
  const tracked = rows((await whole(exportCoinTracking(ctx, wish))).toString());
  assert.deepEqual(
    tracked.map((row) => row[0]),
    ['Deposit', 'Withdrawal'],
  );
  // An overpaid payment that is refunded in part was income.
  const sold = await balancesAfter([paidIn('overpaid'), hour, refundOf(100)]);
  const spent = rows((await whole(exportCoinTracking(ctx, { ...wish, merchantId: sold.merchantId }))).toString());
  assert.deepEqual(
    spent.map((row) => row[0]),
    ['Income', 'Spend'],
  );
});

test('sweeps in files have the rates of the payments that they move, so deposit addresses reach zero', async () => {
  const { merchantId, ...rest } = await exported([paidIn('success'), paidIn('success'), paidIn('success'), hour]);
  // Two of the three payments were priced in euros, at two rates; the third in US dollars.
  await ctx.db.sql`
    with priced as (
      select id, row_number() over (order by id) as number from payments where merchant_id = ${merchantId}
    ) update payments p set request = p.request || jsonb_build_object('fiat', jsonb_build_object(
        'currency', 'EUR', 'amount', '100', 'rateE8', (80000000 + 7777777 * priced.number)::text))
    from priced where p.id = priced.id and priced.number < 3`;
  const wish = { ...rest, merchantId, display: { currency: 'EUR' as const, rateE8: 90_000_003n } };
  const entries = (await collect(readEntries(ctx, { ...wish, from: wish.period.start, until: wish.period.end }))).flat();
  const cents = (entry: (typeof entries)[number]) => BigInt(inCurrency(wish.display, entry).replace('.', ''));
  let balance = 0n;
  for (const entry of entries) {
    if (entry.debit === 'deposit_addresses') balance += cents(entry);
    if (entry.credit === 'deposit_addresses') balance -= cents(entry);
  }
  assert.equal(entries.filter(({ kind }) => kind === 'received').length, 3);
  assert.equal(balance, 0n);
  const [swept, fee] = (['swept', 'network_fee'] as const).map((kind) => entries.find((entry) => entry.kind === kind)!);
  const received = entries.filter(({ kind }) => kind === 'received').map(cents);
  assert.deepEqual(received.toSorted(), [8_514n, 8_730n, 9_269n]);
  assert.equal(
    cents(swept!) + cents(fee!),
    received.reduce((sum, one) => sum + one, 0n),
  );
});

test('files in the display currency have the rates of the time at which the money was valued', async () => {
  const { merchantId } = await createMerchant(ctx, { name: 'Rates' });
  await ctx.db.sql`update merchants set settings = settings || '{"displayCurrency": "EUR"}'::jsonb where id = ${merchantId}`;
  const owner = { merchantId, mode: 'test' as const };
  const ids: string[] = [];
  for (const given of [
    paidIn('success'),
    hour,
    paidIn('underpaid'),
    { do: 'pass', minutes: 1_500 } as const,
    refundOf(50),
    refundOf(100, 1),
  ])
    await happen(owner, given, ids);
  let payout = '';
  const asked = { kind: 'usd', cents: 1_000n } as const;
  await requestPayout(ctx, {
    ...{ ...owner, actor: ACTOR, idempotency: null },
    asked: { coin: 'BTC', asked, address: ADDRESS.BTC, reference: null, description: null },
    render: ({ id }) => {
      payout = id;
      return { status: 201, body: '' };
    },
  });
  await approveOutgoing(ctx, { kind: 'payout', ...owner, id: payout, actor: ACTOR });
  const fileAt = async (rateE8: bigint) => {
    const period = await bookPeriod(ctx, { from: dayFromNow(-1), until: dayFromNow(3), timeZone: 'UTC' });
    return (await whole(exportXero(ctx, { ...owner, period, display: { currency: 'EUR', rateE8 }, scope: 'all' }))).toString();
  };
  const { rateE8 } = ctx.fiat.forTest('EUR');
  const file = await fileAt(rateE8);
  assert.equal(file.split('\r\n').length, 7, file);
  assert.ok(file.includes(`-${formatFiat('EUR', usdCentsToFiat('EUR', 1_000n, rateE8))},`), file);
  assert.equal(await fileAt(rateE8 / 2n), file, 'the rate of the day of the export changes nothing');
  // What was valued before rates were stored has the rate of the day.
  await ctx.db
    .sql`update transfers set values = (select jsonb_agg(v - 'display') from jsonb_array_elements(values) v) where merchant_id = ${merchantId}`;
  await ctx.db.sql`update outgoing_payments set display_currency = null, display_rate = null where merchant_id = ${merchantId}`;
  assert.equal(await fileAt(rateE8), file);
  assert.notEqual(await fileAt(rateE8 / 2n), file);
});

test('DATEV: a header, 125 columns in Windows-1252, and one posting for each entry that a parser adds up to zero', async () => {
  const wish = { ...(await exported()), display: { currency: 'EUR' as const, rateE8: 90_000_000n } };
  const fiscalYear = `${wish.period.from.slice(0, 4)}-01-01`;
  // On the last days of a year the period would span two fiscal years.
  wish.period = { ...wish.period, until: wish.period.from };
  const datev = { chart: 'SKR04' as const, consultant: 29_098, client: 55_003, fiscalYear, accounts: datevAccountsOf('sales=4400') };
  const bytes = await whole(exportDatev(ctx, wish, datev));
  assert.ok(!bytes.includes(Buffer.from('ü')), 'not UTF-8');
  const lines = bytes.toString('latin1').split('\r\n');
  const compact = wish.period.from.replaceAll('-', '');
  assert.match(
    lines[0]!,
    new RegExp(
      `^"EXTF";700;21;"Buchungsstapel";13;\\d{17};;"RE";"Florin";"";29098;55003;${fiscalYear.replaceAll('-', '')};4;${compact};${compact};"Florin ${wish.period.from}";"";1;0;0;"EUR";;"";;;"04";;;"";"Florin"$`,
    ),
  );
  const heads = lines[1]!.split(';');
  assert.deepEqual(
    [heads.length, heads[7], heads[113], heads[124]],
    [125, 'Gegenkonto (ohne BU-Schlüssel)', 'Festschreibung', 'Abw. Skontokonto'],
  );
  const rows = lines.slice(2, -1).map((line) => line.split(';'));
  assert.ok(rows.every((row) => row.length === 125));
  const shown = rows.map((row) => [row[0], row[1], row[2], row[6], row[7], row[13]]);
  assert.deepEqual(
    shown.toSorted(),
    [
      ['87,30', '"S"', '"EUR"', '1460', '3250', '"Received 0.001 BTC"'],
      ['87,30', '"S"', '"EUR"', '3250', '4400', '"Sale 0.001 BTC"'],
      ['43,65', '"S"', '"EUR"', '4700', '1510', '"Refund 0.0005 BTC"'],
      ['86,43', '"S"', '"EUR"', '1510', '1460', '"Sweep 0.00099 BTC"'],
      ['0,87', '"S"', '"EUR"', '6855', '1460', '"Network fee 0.00001 BTC"'],
    ].toSorted(),
  );
  for (const row of rows) assert.match(row[9]!, /^\d{4}$/);
  assert.ok(rows.some((row) => /^"pay_[0-9A-Za-z]{24}"$/.test(row[10]!)));

  for (const [change, param] of [
    [{ consultant: 1 }, 'consultant'],
    [{ client: 0 }, 'client'],
    [{ fiscalYear: '2001-01-01' }, 'fiscal_year'],
    [{ accounts: { sales: '84000' } }, 'accounts'],
  ] as const)
    assert.throws(() => checkDatev(wish, { ...datev, ...change }), { code: 'parameter_invalid', param });
  for (const display of [null, { currency: 'CHF' as const, rateE8: 90_000_000n }])
    assert.throws(() => checkDatev({ ...wish, display }, datev), { code: 'parameter_invalid', param: 'currency' });
  assert.throws(() => datevAccountsOf('sales=8400;refunds'), { code: 'parameter_invalid' });
  await assert.rejects(bookPeriod(ctx, { from: '2026-02-30', until: '2026-03-01', timeZone: 'UTC' }), { param: 'from' });
  await assert.rejects(bookPeriod(ctx, { from: '2026-01-01', until: '2027-01-02', timeZone: 'UTC' }), { param: 'until' });
  await assert.rejects(bookPeriod(ctx, { from: '2026-01-01', until: '2026-01-01', timeZone: 'Nowhere' }), { param: 'time_zone' });
  const berlin = await bookPeriod(ctx, { from: '2026-03-29', until: '2026-03-29', timeZone: 'Europe/Berlin' });
  assert.deepEqual([berlin.start, berlin.end], [new Date('2026-03-28T23:00:00Z'), new Date('2026-03-29T22:00:00Z')], 'a day of 23 hours');
});

test('a statement whose accounts do not add up to zero is never shown', async () => {
  const { merchantId, period } = await exported();
  const lines = await readStatement(ctx, { merchantId, mode: 'live', from: period.start, until: period.end });
  assert.equal(withTrialBalance(lines).length, lines.length + 1);
  for (const step of ['opening', 'refunded', 'closing'] as const)
    for (const amount of ['units', 'cents'] as const) {
      const changed = lines.map((line, i) => (i === 0 ? { ...line, [step]: { ...line[step], [amount]: line[step][amount] + 1n } } : line));
      assert.throws(() => withTrialBalance(changed), /add up to zero/, `${step} ${amount}`);
    }
});

test('commands show the statement and write every format', async () => {
  const { merchantId, period } = await exported();
  const flags = { merchant: merchantId, from: period.from, to: period.until, 'time-zone': 'Europe/Berlin' };
  const run = async (name: string, more: Record<string, string>): Promise<any> => {
    const command = BOOK_COMMANDS[name];
    assert.ok(command && 'run' in command);
    return command.run(ctx, { ...flags, ...more });
  };
  const { statement } = await run('books statement', {});
  assert.deepEqual(
    statement.map((line: any) => [line.currency, line.account, line.closing, line.closing_usd]),
    [
      ['BTC', 'Crypto in deposit addresses', '0.00000000', '0.00'],
      ['BTC', 'Crypto in destination wallet', '0.00049000', '47.53'],
      ['BTC', 'Held for review', '0.00000000', '0.00'],
      ['BTC', 'Sales', '0.00100000', '97.00'],
      ['BTC', 'Refunds', '0.00050000', '48.50'],
      ['BTC', 'Network fees', '0.00001000', '0.97'],
      ['BTC', 'Trial balance', '0.00000000', '0.00'],
    ],
  );
  assert.deepEqual(
    Object.values(statement.at(-1)).filter((value) => !/^-?0\.0+$/.test(String(value))),
    ['BTC', 'Trial balance'],
  );
  const batch = { consultant: '29098', client: '55003', 'fiscal-year': `${period.from.slice(0, 7)}-01` };
  for (const format of ['statement', 'koinly', 'cointracking', 'xero', 'datev']) {
    const out = join(app.config.dataFolder, `books-${format}.csv`);
    await run('books export', { format, out, ...batch, ...(format === 'datev' && { currency: 'EUR' }) });
    assert.ok((await readFile(out, 'latin1')).split('\r\n').length > 2, format);
  }
  const datev = await readFile(join(app.config.dataFolder, 'books-datev.csv'), 'latin1');
  // Static rates set 0.92 EUR for a dollar.
  assert.match(datev, /\r\n89,24;"S";"EUR";;;;1360;1710;/);
  assert.ok(!datev.includes('USD'));
  await assert.rejects(run('books export', { format: 'datev', out: 'x', ...batch }), {
    code: 'parameter_invalid',
    param: 'currency',
  });
  await assert.rejects(run('books export', { format: 'xero', out: 'x', currency: 'JPY' }), { code: 'price_unavailable' });
  await assert.rejects(run('books export', { format: 'excel', out: 'x' }), { name: 'UsageError' });
});
