/**
 * One source for money: after random histories, every number about money on Home, in reports, files, statements and payments equals the
 * books, to the cent and to the base unit, for each coin, each day and in total. Payments are paid, in part, too much, late or in a wrong
 * coin, accepted, rejected, refunded and marked, and their money leaves the chain and comes back, over days with another clock.
 */
// Invariant: Every number about money on Home, in reports and in files equals the books, per coin and day, after any history.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { type Account, type BookEntry, readEntries } from '../../src/books/books.ts';
import { unitsFor } from '../../src/core/asked-price.ts';
import { ALL_COINS, apiNamesOf, COIN, type Coin, coinText, kindOf, pricedAs } from '../../src/core/coin.ts';
import { addMs, DAY_MS, localTime } from '../../src/core/dates.ts';
import { formatUnits, formatUsd, parseDecimal } from '../../src/core/money.ts';
import { Problem } from '../../src/core/problem.ts';
import { isDust } from '../../src/core/transfer.ts';
import { changeSettings, createMerchant } from '../../src/merchants/merchants.ts';
import { approveOutgoing } from '../../src/outgoing/decisions.ts';
import { requestRefund } from '../../src/outgoing/refunds.ts';
import { advanceClock, cancelPayment, createPayment, resolvePayment } from '../../src/payments/payments.ts';
import { readRecords, testOffset } from '../../src/settling/facts.ts';
import { lockAndSettleMany, settleDuePayments } from '../../src/settling/settle-payments.ts';
import { foldTotals } from '../../src/settling/totals.ts';
import { type Client, startTestApp, type TestApp } from '../kit/app.ts';
import { checkBooks, EVER } from '../kit/books.ts';
import { isLongRun } from '../kit/long.ts';
import { type Person, setUpPerson } from '../kit/person.ts';

const HISTORIES = Number(process.env.SUMS ?? (isLongRun ? 2_000 : 500));
const STEPS = 48;
const SEED = Number(process.env.SEED ?? 1);
const ACTOR = { userId: '', name: 'Ada', ip: '' };
const PAID_IN = ['BTC', 'ETH', 'LTC', 'DASH', 'DOGE', 'USDC@base', 'USDT@ethereum', 'EURC@base'] as const satisfies readonly Coin[];
const EUR = 92_000_000n;

/** The same numbers for the same seed. */
function randomOf(seed: number) {
  let state = seed >>> 0;
  const next = (below: number): number => {
    state = (state + 0x6d2b79f5) >>> 0;
    let t = Math.imul(state ^ (state >>> 15), state | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return ((t ^ (t >>> 14)) >>> 0) % below;
  };
  return { next, pick: <T>(list: readonly T[]): T => list[next(list.length)]! };
}
const random = randomOf(SEED);

// What happens to a payment, step by step

type Chain =
  | { do: 'pay'; percent: number; mined: boolean; wrong: boolean }
  | { do: 'mine' | 'reverse' | 'back' | 'replace'; only: number | null };
type Act = { do: 'accept' | 'reject' | 'refund_sent' | 'refund' | 'cancel' };
type Happening = Chain | Act;
type Life = { at: number; coin: (typeof PAID_IN)[number]; cents: bigint; inEuros: boolean; then: Map<number, Happening> };

const full = { do: 'pay', percent: 100, mined: true, wrong: false } as const;
const of = <D extends Chain['do'] | Act['do']>(name: D, only: number | null = null) => ({ do: name, only }) as unknown as Happening;
/** Beginnings that every history should meet; what follows is random. */
const STORIES: readonly (readonly Happening[])[] = [
  [],
  [full],
  [full, of('reverse')],
  [full, of('reverse'), of('back')],
  [full, of('reverse'), of('back'), of('reverse')],
  [full, of('reverse'), of('replace')],
  [{ ...full, percent: 150 }],
  [{ ...full, percent: 150 }, of('reverse'), of('back')],
  [full, { ...full, percent: 40 }, of('reverse', 1)],
  [full, { ...full, percent: 40 }, of('reverse', 0)],
  [{ ...full, percent: 33 }, { ...full, percent: 33 }, { ...full, percent: 34 }, of('reverse', 2), of('back')],
  [{ ...full, mined: false }, of('mine')],
  [{ ...full, mined: false }, of('replace')],
  [{ ...full, percent: 50 }],
  [{ ...full, percent: 50 }, of('accept'), of('reverse')],
  [full, of('refund')],
  [{ ...full, percent: 150 }, of('refund'), of('reverse')],
  [of('cancel'), full, of('accept')],
  [of('cancel'), full, of('refund_sent')],
  [{ ...full, wrong: true }, of('accept')],
  [{ ...full, wrong: true }, of('reject')],
];
const more = (): Happening =>
  random.pick<() => Happening>([
    () => ({ do: 'pay', percent: random.pick([1, 20, 33, 50, 100, 103, 150]), mined: random.next(3) > 0, wrong: random.next(12) === 0 }),
    () => of(random.pick(['mine', 'reverse', 'back', 'back', 'replace']), random.pick([null, 0, 1])),
    () => of(random.pick(['accept', 'accept', 'reject', 'refund_sent', 'refund', 'cancel'])),
  ])();
function live(): Life {
  const at = random.next(STEPS - 12);
  const then = new Map<number, Happening>();
  let step = at;
  const list = [...random.pick(STORIES), ...Array.from({ length: random.next(4) }, more)];
  // A longer pause ends the window, so what follows is late.
  for (const one of list) {
    step += random.pick([1, 1, 1, 2, 5]);
    if (step < STEPS) then.set(step, one);
  }
  return { at, coin: random.pick(PAID_IN), cents: BigInt(2_000 + random.next(60_000)), inEuros: random.next(2) === 0, then };
}

// The service

let app: TestApp;
before(async () => {
  app = await startTestApp(
    // No scenario is played: the test itself is the chain, and one block of it is enough.
    {
      ...Object.fromEntries(['BTC', 'ETH', 'LTC', 'DASH', 'DOGE', 'BASE'].map((chain) => [`${chain}_CONFIRMATIONS`, '1'])),
      LOG_LEVEL: 'silent',
      PRICES: 'static:BTC=97013.37,ETH=3511.03,LTC=101.11,DASH=30.07,DOGE=0.2003',
      FIAT_RATES: 'static:EUR=0.92',
    },
    { roles: ['api'] },
  );
});
after(() => app?.stop());

const done = { idempotency: null, render: () => ({ status: 200, body: '' }) };
type Shop = { merchantId: string; mode: 'test'; person: Person; api: Client; zone: string; inEuros: boolean; lives: Life[]; ids: string[] };

async function open(lives: Life[], { zone, displayCurrency }: { zone: string; displayCurrency: 'USD' | 'EUR' }): Promise<Shop> {
  const { ctx } = app.app;
  const merchant = await createMerchant(ctx, { name: 'Sums' });
  const person = await setUpPerson(app, merchant, `owner${lives.length}${displayCurrency}@shop.example`);
  await changeSettings(ctx, { merchantId: merchant.merchantId, settings: { timeZone: zone, displayCurrency, windowSeconds: 6 * 3600 } });
  // Two days before the clocks change there.
  const offset = (ms: number) => Date.parse(`${localTime(zone)(new Date(ms)).day}T${localTime(zone)(new Date(ms)).time}Z`) - ms;
  const now = Math.floor(Date.now() / 1000) * 1000;
  const change = Array.from({ length: 360 }, (_, i) => now + (i + 4) * DAY_MS).find((at) => offset(at) !== offset(at + DAY_MS)) ?? now;
  const seconds = Math.round((change - 2 * DAY_MS - now) / 1000);
  await ctx.db.sql`insert into test_clocks (merchant_id, offset_seconds) values (${merchant.merchantId}, ${Math.max(0, seconds)})
    on conflict (merchant_id) do update set offset_seconds = excluded.offset_seconds`;
  const api = app.as(merchant.keys.testSecret);
  return { merchantId: merchant.merchantId, mode: 'test', person, api, zone, inEuros: displayCurrency === 'EUR', lives, ids: [] };
}

async function attempt(work: () => Promise<unknown>): Promise<void> {
  try {
    await work();
  } catch (error) {
    if (!(error instanceof Problem)) throw error;
  }
}
async function inParts<T>(list: readonly T[], size: number, work: (part: readonly T[]) => Promise<unknown>): Promise<void> {
  for (let i = 0; i < list.length; i += size) await work(list.slice(i, i + size));
}

const CUSTOMERS = ['C-0', 'C-1', 'C-2'];
/** Which customer the payment at this place is for; one of four names nobody. */
const customerOf = (place: number): number => place % (CUSTOMERS.length + 1);

async function create({ merchantId }: Shop, { cents, inEuros }: Life, place: number): Promise<string> {
  let id = '';
  const euros = (cents * EUR) / 100_000_000n;
  const reference = CUSTOMERS[customerOf(place)];
  const fiat = { amount: formatUsd(euros), currency: 'EUR' as const, rateE8: EUR, source: 'static', at: new Date().toISOString() };
  await createPayment(app.app.ctx, {
    ...{ merchantId, mode: 'test', createdWith: 'secret', idempotency: null },
    draft: {
      ...{ amountUsdCents: cents, fixed: null, coin: null, invoiceId: null, metadata: {}, expiresInSeconds: null, scenario: null },
      customer: reference === undefined ? null : { email: null, name: null, reference },
      request: { returnUrl: null, description: null, items: null, taxMinor: null, fiat: inEuros ? fiat : null, locale: null, asset: null },
    },
    render: (view) => {
      id = view.facts.id;
      return { status: 201, body: '' };
    },
  });
  return id;
}

/** Customers choose their coins: as many choices in one statement as the service makes one by one. */
async function choose(chosen: readonly { id: string; coin: Coin; cents: bigint }[]): Promise<void> {
  const { ctx } = app.app;
  const rows = chosen.map(({ id, coin, cents }) => {
    const rate = ctx.prices.forTest(pricedAs(coin)).priceE8;
    return { id, coin, rate: String(rate), units: String(unitsFor(coin, cents, rate)) };
  });
  await ctx.db.begin((tx) =>
    lockAndSettleMany(
      ctx,
      tx,
      rows.map(({ id }) => id),
      async () => {
        await tx`
          insert into quotes (payment_id, number, merchant_id, coin, address, rate_e8, units, from_at, until_at)
          select p.id, 1, p.merchant_id, g.coin, 'test', g.rate::numeric, g.units::numeric, p.created_at, p.created_at + interval '15 minutes'
          from jsonb_to_recordset(${tx.json(rows as never)}) as g (id text, coin text, rate text, units text) join payments p on p.id = g.id`;
      },
    ),
  );
}

/** What the chain does to payments, recorded as a follower records it. */
async function record(happened: readonly { id: string; step: number; coin: Coin; what: Chain }[]): Promise<void> {
  const { ctx } = app.app;
  await inParts(happened, 100, (part) =>
    ctx.db.begin((tx) =>
      lockAndSettleMany(
        ctx,
        tx,
        part.map(({ id }) => id),
        async () => {
          const rows = part.map(({ id, step, coin, what }) => {
            const wrong = what.do === 'pay' && what.wrong;
            const paid = wrong ? (coin === 'ETH' ? 'USDC@ethereum' : 'USDT@ethereum') : coin;
            return {
              id,
              step,
              coin: paid,
              wrong_units: String(7n * 10n ** BigInt(COIN[paid].decimals)),
              percent: 0,
              is_mined: false,
              only: null,
              ...what,
              place: 'only' in what ? what.only : null,
              what: what.do,
              is_wrong: wrong,
            };
          });
          const given = tx`jsonb_to_recordset(${tx.json(rows.map((row) => ({ ...row, is_mined: 'mined' in row && row.mined })) as never)})
            as g (id text, step int, coin text, wrong_units text, percent int, is_mined boolean, place int, what text, is_wrong boolean)
            join payments p on p.id = g.id
            cross join lateral (select date_trunc('milliseconds', clock_timestamp()) + make_interval(secs => ${testOffset(tx)}) as now) as clock`;
          await tx`
            insert into transfers (coin, ref, payment_id, merchant_id, txid, address, units, kind, first_seen_at, block_height, block_hash, block_time)
            select g.coin, p.id || lpad(step::text, 3, '0') || ':0', p.id, p.merchant_id, p.id || step, 'test', greatest(u.units, 1), 'output', now,
              case when is_mined then 0 end, case when is_mined then 'b' end, case when is_mined then now end
            from ${given} cross join lateral (select case when is_wrong then wrong_units::numeric
              else ceil((select q.units from quotes q where q.payment_id = p.id order by number desc limit 1) * percent / 100) end as units) as u
            where what = 'pay'`;
          const nth = tx`(g.place is null or t.ref = (select ref from transfers o where o.payment_id = p.id order by ref offset g.place limit 1))`;
          await tx`
            update transfers t set block_height = 0, block_hash = 'b', block_time = first_seen_at from ${given}
            where t.payment_id = p.id and what in ('mine', 'back') and t.block_height is null and t.conflict_txid is null and ${nth}`;
          await tx`
            update transfers t set block_height = null, block_hash = null, block_time = null, unmined_since = now from ${given}
            where t.payment_id = p.id and what = 'reverse' and t.block_height is not null and ${nth}`;
          await tx`
            update transfers t set conflict_txid = 'other', conflict_height = 1, conflict_seen_at = now from ${given}
            where t.payment_id = p.id and what = 'replace' and t.block_height is null and ${nth}`;
        },
      ),
    ),
  );
}

async function decide(shop: Shop, paymentId: string, action: Act['do']): Promise<void> {
  const { ctx } = app.app;
  const given = { merchantId: shop.merchantId, mode: shop.mode, paymentId, actor: ACTOR };
  if (action === 'cancel') return attempt(() => cancelPayment(ctx, { ...given, ...done }));
  if (action !== 'refund') return attempt(() => resolvePayment(ctx, { ...given, action, transfers: null, ...done }));
  const [row] = await ctx.db.sql<{ coin: Coin; units: bigint }[]>`
    select coin, sum(units) as units from transfers where payment_id = ${paymentId} group by coin order by coin limit 1`;
  if (!row) return;
  const half = row.units / 2n + 1n;
  await attempt(() =>
    requestRefund(ctx, {
      ...{ ...given, asked: { kind: 'coin', units: () => half }, rate: 'payment', reason: null, idempotency: null },
      address: kindOf(row.coin) === 'ethereum' ? 'test_eth_payer' : `test_${row.coin.toLowerCase()}_payer`,
      render: ({ id }) => {
        void id;
        return { status: 201, body: '' };
      },
    }),
  );
  const [refund] = await ctx.db.sql<
    { id: string }[]
  >`select id from outgoing_payments where payment_id = ${paymentId} and state = 'requested' limit 1`;
  if (refund)
    await attempt(() =>
      approveOutgoing(ctx, { kind: 'refund', merchantId: shop.merchantId, mode: shop.mode, id: refund.id, actor: ACTOR }),
    );
}

async function step(shop: Shop, number: number): Promise<void> {
  const { ctx } = app.app;
  await advanceClock(ctx, { merchantId: shop.merchantId, paymentId: null, seconds: 60 * (7 + random.next(400)), ...done });
  while ((await settleDuePayments(ctx, { limit: 500 })) > 0);
  const born = [...shop.lives.entries()].filter(([, life]) => life.at === number);
  await inParts(born, 100, (part) => Promise.all(part.map(async ([i, life]) => (shop.ids[i] = await create(shop, life, i)))));
  await choose(born.map(([i, { coin, cents }]) => ({ id: shop.ids[i]!, coin, cents })));
  const due = [...shop.lives.entries()].flatMap(([i, life]) => {
    const what = life.then.get(number);
    return what === undefined || life.at >= number ? [] : [{ id: shop.ids[i]!, step: number, coin: life.coin as Coin, what }];
  });
  const isAct = (what: Happening): what is Act => ['accept', 'reject', 'refund_sent', 'refund', 'cancel'].includes(what.do);
  await record(due.flatMap(({ what, ...one }) => (isAct(what) ? [] : [{ ...one, what }])));
  await inParts(due, 20, (part) => Promise.all(part.map(({ id, what }) => isAct(what) && decide(shop, id, what.do))));
  if (number % 7 === 3) await foldTotals(ctx, { limit: 200 });
}

// The books, summed

/** `displayed`: in the smallest unit of the display currency. */
type Money = { cents: bigint; units: bigint; displayed: bigint };
class Sums {
  readonly #sums = new Map<string, Money>();
  add(key: string, { cents, units, displayed }: Money, sign: 1n | -1n): void {
    const sum = this.get(key);
    this.#sums.set(key, {
      ...{ cents: sum.cents + sign * cents, units: sum.units + sign * units },
      displayed: sum.displayed + sign * displayed,
    });
  }
  get = (key: string): Money => this.#sums.get(key) ?? { cents: 0n, units: 0n, displayed: 0n };
  displayed = (accepts: (key: string) => boolean = () => true): bigint =>
    [...this.#sums].reduce((total, [key, { displayed }]) => (accepts(key) ? total + displayed : total), 0n);
  /** Of all keys that a test accepts. */
  cents = (accepts: (key: string) => boolean = () => true): bigint =>
    [...this.#sums].reduce((total, [key, { cents }]) => (accepts(key) ? total + cents : total), 0n);
  shown = (accepts: (key: string) => boolean): Record<string, Money> =>
    Object.fromEntries([...this.#sums].filter(([key, { cents, units }]) => accepts(key) && (cents !== 0n || units !== 0n)).sort());
}
type Name = 'volume' | 'reversed' | 'ofPayments' | 'reversedOfPayments' | 'here' | 'ofTransfers' | 'flows' | 'accounts' | 'arrived';
type Booked = Record<Name, Sums> & {
  kinds: Set<BookEntry['kind']>;
};
const SOLD: readonly BookEntry['kind'][] = ['sale', 'overpayment', 'reversed', 'restored'];
/** What the chain did to deposits, without what the merchant sent. */
const CHAIN_KINDS: readonly BookEntry['kind'][] = ['received', 'reversed', 'restored'];

async function readBooked({ merchantId, mode, zone, inEuros }: Shop): Promise<Booked> {
  const booked: Booked = {
    kinds: new Set(),
    ...{
      volume: new Sums(),
      reversed: new Sums(),
      ofPayments: new Sums(),
      reversedOfPayments: new Sums(),
      here: new Sums(),
      ofTransfers: new Sums(),
      flows: new Sums(),
      accounts: new Sums(),
      arrived: new Sums(),
    },
  };
  const local = localTime(zone);
  const display = inEuros ? ({ currency: 'EUR', rateE8: EUR } as const) : null;
  for await (const page of readEntries(app.app.ctx, { merchantId, mode, from: new Date(0), until: EVER, display }))
    for (const found of page) {
      assert.equal(found.displayed === null, !inEuros, `${found.kind} from ${found.credit} to ${found.debit}`);
      const entry = { ...found, displayed: found.displayed ?? found.cents };
      booked.kinds.add(entry.kind);
      for (const [account, sign] of [[entry.debit, -1n] as const, [entry.credit, 1n] as const]) {
        const key = `${local(entry.at).day} ${entry.coin}`;
        if (SOLD.includes(entry.kind) && (account === 'sales' || account === 'overpayments')) {
          booked.volume.add(key, entry, sign);
          booked.ofPayments.add(entry.paymentId!, entry, sign);
          if (entry.kind === 'reversed' || entry.kind === 'restored') {
            booked.reversed.add(key, entry, sign === 1n ? -1n : 1n);
            booked.reversedOfPayments.add(entry.paymentId!, entry, sign === 1n ? -1n : 1n);
          }
        }
        const other = sign === 1n ? -1n : 1n;
        booked.accounts.add(`${account} ${entry.coin}`, entry, other);
        if (account === 'deposit_addresses') {
          if (CHAIN_KINDS.includes(entry.kind)) booked.arrived.add(entry.coin, entry, other);
          booked.here.add(`${entry.paymentId} ${entry.coin}`, entry, other);
          booked.ofTransfers.add(entry.ref, entry, other);
        }
        if (account === 'deposit_addresses' || account === 'destination_wallet') booked.flows.add(entry.coin, entry, other);
      }
    }
  return booked;
}

// Everything that shows money

const rowsOf = (text: string): Record<string, string>[] => {
  const [head, ...lines] = text
    .trim()
    .split('\r\n')
    .map((line) => line.split(','));
  return lines.map((line) => Object.fromEntries(head!.map((name, i) => [name, line[i]!])));
};
const ok = async (shop: Shop, path: string) => {
  const reply = await shop.person.get(`/test${path}`);
  assert.equal(reply.status, 200, `${path}: ${reply.text.slice(0, 300)}`);
  return reply;
};
const inCoin =
  (coin: Coin) =>
  (key: string): boolean =>
    key.endsWith(` ${coin}`);
const onDay =
  (day: string) =>
  (key: string): boolean =>
    key.startsWith(day);

async function checkHome(shop: Shop, booked: Booked, { from, until, middle }: Record<'from' | 'until' | 'middle', string>): Promise<void> {
  const home = (await ok(shop, `/home?from=${from}&until=${until}`)).json;
  const usd = (sums: Sums, accepts?: (key: string) => boolean) => formatUsd(sums.cents(accepts));
  assert.deepEqual([home.now.volume_usd, home.now.reversed_usd], [usd(booked.volume), usd(booked.reversed)], 'the tile');
  for (const { day, volume_usd, reversed_usd, coins } of home.days) {
    assert.deepEqual(
      [volume_usd, reversed_usd],
      [usd(booked.volume, onDay(day)), usd(booked.reversed, onDay(day))],
      `the day table, ${day}`,
    );
    const shown = new Map<string, string>(coins.map((one: any) => [one.currency, one.volume_usd]));
    for (const coin of ALL_COINS)
      assert.equal(shown.get(coin) ?? '0.00', formatUsd(booked.volume.get(`${day} ${coin}`).cents), `the chart, ${day} ${coin}`);
  }
  for (const days of RANGES)
    for (const last of [until, middle]) {
      const [first, before] = [plusDays(last, 1 - days), plusDays(last, 1 - 2 * days)];
      const reply = (await ok(shop, `/home?from=${first}&until=${last}`)).json;
      const within = (start: string, end: string) => (key: string) => key.slice(0, 10) >= start && key.slice(0, 10) <= end;
      for (const [totals, accepts] of [
        [reply.now, within(first, last)],
        [reply.before, within(before, plusDays(first, -1))],
      ])
        assert.deepEqual(
          [totals.volume_usd, totals.reversed_usd],
          [usd(booked.volume, accepts), usd(booked.reversed, accepts)],
          `${days} days until ${last}`,
        );
    }
}
/** Those that Home offers, and the longest one. */
const RANGES = [1, 7, 30, 90, 366];
const plusDays = (day: string, n: number) =>
  addMs(new Date(day), n * DAY_MS)
    .toISOString()
    .slice(0, 10);

async function checkDailyTotals(shop: Shop, booked: Booked, { from, until }: { from: string; until: string }): Promise<void> {
  const rows = rowsOf((await ok(shop, `/reports/file?kind=days&from=${from}&until=${until}`)).text);
  const lines = new Map(rows.map((row) => [`${row.day} ${row.currency}`, row]));
  for (const { day } of rows) {
    const all = lines.get(`${day} ALL`)!;
    assert.deepEqual(
      [all.volume_usd, all.reversed_usd, all.time_zone],
      [formatUsd(booked.volume.cents(onDay(day!))), formatUsd(booked.reversed.cents(onDay(day!))), shop.zone],
      day,
    );
  }
  for (const coin of ALL_COINS)
    for (const key of Object.keys(booked.volume.shown(inCoin(coin)))) {
      const line = lines.get(`${key.slice(0, 10)} ${coinText(coin)}`);
      assert.deepEqual(
        [line?.volume_usd, line?.reversed_usd],
        [formatUsd(booked.volume.get(key).cents), formatUsd(booked.reversed.get(key).cents)],
        key,
      );
    }
}

async function checkPayments(shop: Shop, booked: Booked, { from, until }: { from: string; until: string }): Promise<void> {
  const fees = rowsOf((await ok(shop, `/reports/file?kind=fees&from=${from}&until=${until}`)).text);
  for (const row of fees) {
    const [sold, left] = [booked.ofPayments.get(row.payment_id!).cents, booked.reversedOfPayments.get(row.payment_id!).cents];
    assert.deepEqual([row.counted_usd, row.reversed_usd], [formatUsd(sold), formatUsd(left)], `fees and differences, ${row.payment_id}`);
  }
  const total = (rows: Record<string, string>[], name: string) =>
    rows.reduce((sum, row) => sum + (parseDecimal(row[name] || '0', 2) ?? 0n), 0n);
  assert.deepEqual([total(fees, 'counted_usd'), total(fees, 'reversed_usd')], [booked.volume.cents(), booked.reversed.cents()]);
  const files = rowsOf((await ok(shop, `/reports/file?kind=payments&from=${from}&until=${until}`)).text);
  assert.equal(total(files, 'counted_usd'), booked.volume.cents(), 'the payments file');
  assert.equal(files.length, shop.lives.length);
}

/** All pages of a list. */
async function readPages(read: (query: string) => Promise<{ data: any[]; has_more: boolean }>): Promise<Map<string, any>> {
  const shown = new Map<string, any>();
  for (let after = ''; ; ) {
    const page = await read(`limit=100${after}`);
    for (const one of page.data) shown.set(one.id, one);
    if (!page.has_more) return shown;
    after = `&starting_after=${page.data.at(-1).id}`;
  }
}

/** Lists show what is on the chain: also what is held, no dust, and no more than what is left after reversals. */
async function checkLists(shop: Shop, booked: Booked): Promise<void> {
  const { ctx } = app.app;
  const ofDashboard = (filter: string) => readPages(async (query) => (await ok(shop, `/payments?${query}${filter}`)).json);
  const shown = await readPages(async (query) => (await shop.api.get(`/v1/payments?${query}`)).json);
  const listed = await ofDashboard('');
  assert.deepEqual([shown.size, listed.size], [shop.lives.length, shop.lives.length]);
  const [units, cents] = [new Map<string, bigint>(), new Map<string, bigint>()];
  await inParts(shop.ids, 250, async (part) => {
    for (const one of await readRecords(ctx, ctx.db.sql, part)) {
      const { id } = one.facts;
      const coin = one.last.coin!;
      // Dust that left the chain is out of the books, though `amount_dust` still names it: it is announced, like money that left.
      const dust = one.transfers.filter(isDust).map(({ ref }) => booked.ofTransfers.get(ref));
      units.set(
        id,
        dust.reduce((rest, { units }) => rest - units, booked.here.get(`${id} ${coin}`).units),
      );
      cents.set(
        id,
        dust.reduce(
          (rest, one) => rest - one.cents,
          booked.here.cents((key) => key.startsWith(id)),
        ),
      );
      const received = [formatUnits(coin, units.get(id)!), formatUsd(cents.get(id)!)];
      for (const [where, list] of Object.entries({ 'the API': shown, 'the dashboard': listed }))
        assert.deepEqual(
          [list.get(id).amount_received ?? formatUnits(coin, 0n), list.get(id).amount_received_usd],
          received,
          `${where}, ${id}`,
        );
    }
  });
  const sum = (ids: Iterable<string>) => [...ids].reduce((total, id) => total + cents.get(id)!, 0n);
  const named = (await shop.api.get('/v1/customers')).json.data;
  const ofPayment = (i: number) => booked.ofPayments.get(shop.ids[i]!).cents;
  let [nobody, all] = [0n, 0n];
  for (const i of shop.ids.keys()) if (CUSTOMERS[customerOf(i)] === undefined) nobody += ofPayment(i);
  for (const [nth, reference] of CUSTOMERS.entries()) {
    const { id } = named.find((one: any) => one.reference === reference);
    const own = await ofDashboard(`&customer=${id}`);
    const expected = shop.ids.filter((_, i) => customerOf(i) === nth);
    assert.deepEqual([...own.keys()].sort(), expected.toSorted(), 'the payments of a customer');
    const total = [...own.values()].reduce((total, one) => total + signed(one.amount_received_usd, 2), 0n);
    assert.equal(total, sum(expected), 'what a customer paid');
    const counted = [...shop.ids.keys()].reduce((cents, i) => (customerOf(i) === nth ? cents + ofPayment(i) : cents), 0n);
    const shown = [(await shop.api.get(`/v1/customers/${id}`)).json, (await ok(shop, `/customers?search=${reference}`)).json.data[0]];
    assert.deepEqual(
      shown.map((one) => one.paid_usd),
      [formatUsd(counted), formatUsd(counted)],
      'the total of a customer',
    );
    all += counted;
  }
  assert.equal(all + nobody, booked.volume.cents(), 'customers add up to Home');
}

async function checkFiles(shop: Shop, booked: Booked, { from, until, middle }: Record<'from' | 'until' | 'middle', string>): Promise<void> {
  const statement = async (first: string, last: string): Promise<any[]> =>
    (await ok(shop, `/books/statement?from=${first}&until=${last}`)).json.lines;
  const inUnits = (coin: Coin, line: any, name: string) =>
    line === undefined ? 0n : parseDecimal(line[name].replace('-', ''), COIN[coin].decimals)! * (line[name].startsWith('-') ? -1n : 1n);
  const [all, part] = [await statement(from, until), await statement(middle, until)];
  for (const coin of PAID_IN) {
    const lineOf = (lines: any[], account: string) => lines.find((line) => line.account === account && line.currency === coinText(coin));
    const movements = (lines: any[]) =>
      ['sales', 'overpayments'].reduce(
        (sum, account) => sum + inUnits(coin, lineOf(lines, account), 'settled') + inUnits(coin, lineOf(lines, account), 'reversed'),
        0n,
      );
    const sum = (accepts: (key: string) => boolean) =>
      Object.values(booked.volume.shown(accepts)).reduce((units, one) => units + one.units, 0n);
    assert.equal(movements(all), sum(inCoin(coin)), `the statement, ${coin}`);
    assert.equal(
      movements(part),
      sum((key) => inCoin(coin)(key) && key >= middle),
      `the statement of a part of the days, ${coin}`,
    );
  }
  const koinly = rowsOf((await ok(shop, `/books/file?format=koinly&from=${from}&until=${until}`)).text);
  for (const coin of PAID_IN) {
    const asset = COIN[coin].asset;
    const mine = ALL_COINS.filter((one) => COIN[one].asset === asset);
    const sign = (row: Record<string, string>) => (row['Received Currency'] === asset ? 1n : row['Sent Currency'] === asset ? -1n : 0n);
    const cents = koinly.reduce((sum, row) => sum + sign(row) * (parseDecimal(row['Net Worth Amount'] || '0', 2) ?? 0n), 0n);
    const units = koinly.reduce((sum, row) => {
      const amount = row['Received Currency'] === asset ? row['Received Amount'] : row['Sent Amount'];
      return sum + (sign(row) === 0n ? 0n : sign(row) * parseDecimal(amount!, COIN[coin].decimals)!);
    }, 0n);
    const flowed = (of: (money: Money) => bigint) => mine.reduce((sum, one) => sum + of(booked.flows.get(one)), 0n);
    assert.deepEqual([units, cents], [flowed(({ units }) => units), flowed(({ cents }) => cents)], `Koinly, ${asset}`);
  }
}

const CREDIT_SIDE: readonly Account[] = ['held_for_review', 'overpayments', 'sales'];
/** Units or cents as text, also negative ones. */
const signed = (text: string, decimals: number): bigint =>
  (text.startsWith('-') ? -1n : 1n) * parseDecimal(text.replace('-', '') || '0', decimals)!;

/** What each account has in each coin, on the Reports screen and in its file; and that everything adds up to nothing. */
async function checkStatement(shop: Shop, booked: Booked, { from, until }: { from: string; until: string }): Promise<void> {
  const { lines } = (await ok(shop, `/books/statement?from=${from}&until=${until}`)).json;
  const file = rowsOf((await ok(shop, `/books/file?format=statement&from=${from}&until=${until}`)).text);
  assert.equal(file.length, lines.length);
  const expected = booked.accounts.shown(() => true);
  const seen = new Set<string>();
  for (const [i, line] of lines.entries()) {
    const coin = ALL_COINS.find((one) => coinText(one) === line.currency && apiNamesOf(one).network === line.network)!;
    const [unitsOf, centsOf] = [(text: string) => signed(text, COIN[coin].decimals), (text: string) => signed(text, 2)];
    const row = file[i]!;
    assert.deepEqual([row.network, row.closing, row.closing_usd], [line.network, line.closing, line.closing_usd], `the file, line ${i}`);
    const moves = Object.keys(row).slice(3, Object.keys(row).indexOf('opening_usd'));
    for (const name of moves) assert.equal(row[name], line[name], `the file, line ${i}, ${name}`);
    const sum = moves.slice(0, -1).reduce((units, name) => units + unitsOf(line[name]), 0n);
    assert.equal(sum, unitsOf(line.closing), `${line.account} ${coin} adds up`);
    const key = `${line.account} ${coin}`;
    seen.add(key);
    const sign = CREDIT_SIDE.includes(line.account) ? -1n : 1n;
    const { units, cents } = booked.accounts.get(key);
    assert.deepEqual([unitsOf(line.closing), centsOf(line.closing_usd)], [sign * units, sign * cents], key);
  }
  for (const key of Object.keys(expected)) assert.ok(seen.has(key), `${key} is on the statement`);
}

/** The files that accountants and tax services import. */
async function checkAccountants(shop: Shop, booked: Booked, { from, until }: { from: string; until: string }): Promise<void> {
  const file = async (format: string) => rowsOf((await ok(shop, `/books/file?format=${format}&from=${from}&until=${until}`)).text);
  const tracked = await file('cointracking');
  const taxed = rowsOf((await ok(shop, `/reports/file?kind=tax&from=${from}&until=${until}`)).text);
  for (const coin of ALL_COINS) {
    const { asset, decimals } = COIN[coin];
    const { network } = apiNamesOf(coin);
    const moved = tracked
      .filter((row) => row['Trade-Group'] === network)
      .reduce((sum, row) => {
        const side = (name: 'Buy' | 'Sell') => (row[`${name} Currency`] === asset ? signed(row[`${name} Amount`]!, decimals) : 0n);
        return sum + side('Buy') - side('Sell');
      }, 0n);
    assert.equal(moved, booked.flows.get(coin).units, `CoinTracking, ${coin}`);
    const there = taxed.filter((row) => row.state === 'confirmed' && row.network === network && row.currency === apiNamesOf(coin).currency);
    assert.equal(
      there.reduce((sum, row) => sum + signed(row.amount!, decimals), 0n),
      booked.arrived.get(coin).units,
      `the transfers for taxes, ${coin}`,
    );
  }
  const bank = await file('xero');
  assert.equal(
    bank.reduce((sum, row) => sum + signed(row['*Amount']!, 2), 0n),
    booked.flows.displayed(),
    'Xero',
  );
  if (!shop.inEuros) return;
  const datev = (
    await ok(shop, `/books/datev?chart=SKR03&consultant=1001&client=1&fiscal_year=${from.slice(0, 7)}-01&from=${from}&until=${until}`)
  ).text;
  const postings = datev.trim().split('\r\n').slice(2);
  assert.ok(postings.length > 0);
  const accounts = new Map<string, bigint>();
  for (const posting of postings) {
    const [amount, side, currency, , , , debit, credit] = posting.split(';');
    assert.deepEqual([side, currency], ['"S"', '"EUR"']);
    const cents = signed(amount!.replace(',', '.'), 2);
    accounts.set(debit!, (accounts.get(debit!) ?? 0n) + cents);
    accounts.set(credit!, (accounts.get(credit!) ?? 0n) - cents);
  }
  for (const [account, number] of Object.entries(SKR03))
    assert.equal(
      accounts.get(number) ?? 0n,
      booked.accounts.displayed((key) => key.startsWith(`${account} `)),
      `DATEV, ${account}`,
    );
}
/** Crypto in deposit addresses, held for review, overpayments, sales and refunds in the German chart of accounts. */
const SKR03 = { deposit_addresses: '1360', held_for_review: '1710', overpayments: '1700', sales: '8200', refunds: '8700' } as const;

async function checkAll(shop: Shop): Promise<Booked> {
  const booked = await readBooked(shop);
  const days = Object.keys(booked.volume.shown(() => true)).map((key) => key.slice(0, 10));
  const range = { from: plusDays(days[0]!, -12), until: plusDays(days.at(-1)!, 2), middle: days[Math.floor(days.length / 2)]! };
  await checkBooks(app.app.ctx, shop);
  await checkHome(shop, booked, range);
  await checkDailyTotals(shop, booked, range);
  await checkPayments(shop, booked, range);
  await checkLists(shop, booked);
  await checkFiles(shop, booked, range);
  await checkStatement(shop, booked, range);
  await checkAccountants(shop, booked, range);
  return booked;
}

test(`Home, reports, files for accountants and payments equal the books after ${HISTORIES} random histories (SEED=${SEED})`, async () => {
  const lives = Array.from({ length: HISTORIES }, live);
  const half = HISTORIES >> 1;
  const shops = [
    await open(lives.slice(0, half), { zone: 'Europe/Berlin', displayCurrency: 'EUR' }),
    await open(lives.slice(half), { zone: 'Australia/Lord_Howe', displayCurrency: 'USD' }),
  ];
  for (const shop of shops) {
    for (let number = 0; number < STEPS / 2; number++) await step(shop, number);
    const early = await readBooked(shop);
    const [clock] = await app.app.ctx.db.sql<{ now: Date }[]>`
      select clock_timestamp() + make_interval(secs => offset_seconds) as now from test_clocks where merchant_id = ${shop.merchantId}`;
    const today = localTime(shop.zone)(clock!.now).day;
    for (let number = STEPS / 2; number < STEPS; number++) await step(shop, number);
    const booked = await checkAll(shop);
    const closed = (key: string) => key < today;
    assert.deepEqual(booked.volume.shown(closed), early.volume.shown(closed), 'days that are over do not change');
    assert.ok(booked.volume.cents() > 0n && booked.reversed.cents() > 0n && Object.keys(early.volume.shown(closed)).length > 0);
    assert.deepEqual([...booked.kinds].sort(), ['marked_refunded', 'overpayment', 'received', 'refund', 'restored', 'reversed', 'sale']);
    // The days of another time zone are other sums of the same changes.
    await changeSettings(app.app.ctx, { merchantId: shop.merchantId, settings: { timeZone: 'Asia/Kathmandu' } });
    await checkAll({ ...shop, zone: 'Asia/Kathmandu' });
  }
});
