/** What the payment page shows and follows, for payers, who know the id: the payment, its coins, what they cost, and what has changed. */

import { type Context, perContext } from '#context';
import { CHAIN, CHAINS, COIN, COINS, type Coin, chainCode, chainOf, feeCoinOf, LIGHTNING, pricedAs } from '#core/coin';
import { requirementOf } from '#core/confirmation';
import { worthUsdE8 } from '#core/money';
import type { PaymentFacts } from '#core/payment';
import type { Costs, CustomerView, PaymentView, ShopTerms, UnavailableReason } from '#core/payment-view';
import { Problem } from '#core/problem';
import type { Fragment, Sql, Tx } from '#db';
import { contactOf, getMerchant, isOffered, type Merchant } from '#merchants';
import { askIn, isCarried, leastPrice, lightningLimit, marketPrice, readUnreachable, type Unreachable } from '#readiness';
import { quarterAt, readRecords, testOffset, toView } from '#settling';

/** For a payment with this many transfers, the read takes longer than the rest of its page, and everyone with the id may request it. */
const HEAVY_TRANSFERS = 500;
/** Such a view is cached for this long, unless the payment changes first. */
const HEAVY_MS = 5_000;
const MOST_KEPT = 200;
type KeptView = { atMs: number; view: Promise<CustomerView> };
const keptViews = perContext(() => new Map<string, KeptView>());

/**
 * What the hosted page may show of a payment. Concurrent requests share a read, and a payment with very many transfers is cached
 * briefly, but never past a change. Errors: payment_not_found.
 */
export async function getPaymentForCustomer(ctx: Context, { paymentId }: { paymentId: string }): Promise<CustomerView> {
  const kept = keptViews(ctx);
  const known = kept.get(paymentId);
  if (known && ctx.clock.monotonicMs() - known.atMs < HEAVY_MS) {
    const view = await known.view;
    if (view.version === (await getMoment(ctx, { paymentId })).version) return view;
  }
  const entry: KeptView = { atMs: ctx.clock.monotonicMs(), view: readForCustomer(ctx, paymentId) };
  if (kept.size < MOST_KEPT) kept.set(paymentId, entry);
  const forget = () => {
    if (kept.get(paymentId) === entry) kept.delete(paymentId);
  };
  try {
    const view = await entry.view;
    if (view.transfersCount < HEAVY_TRANSFERS) forget();
    else setTimeout(forget, HEAVY_MS).unref();
    return view;
  } catch (error) {
    forget();
    throw error;
  }
}

async function readForCustomer(ctx: Context, paymentId: string): Promise<CustomerView> {
  const [record] = await readRecords(ctx, ctx.db.sql, [paymentId]);
  if (!record) throw new Problem('payment_not_found', { id: paymentId });
  const [merchant, unreachable, fees, [refund]] = await Promise.all([
    getMerchant(ctx, { merchantId: record.merchantId }),
    record.mode === 'live' ? readUnreachable(ctx, ctx.db.sql) : new Map<Coin, Unreachable>(),
    readLiveFees(ctx),
    ctx.db.sql<{ coin: Coin; address: string }[]>`select coin, address from refund_addresses where payment_id = ${paymentId}`,
  ]);
  const view = toView(record);
  return {
    ...view,
    merchant: customerMerchant(merchant, view.request.shop),
    coins: coinsFor(ctx, view, { ...merchant, unreachable, fees }),
    watched: CHAINS.filter((chain) => CHAIN[chain].kind === 'ethereum' && (record.mode === 'test' || ctx.chains.has(chain))),
    refundAddress: refund ?? null,
  };
}

const customerMerchant = ({ name, logo, settings }: Merchant, shop: ShopTerms | undefined): CustomerView['merchant'] => {
  const { accent, theme, locale, origins, autoReturn, payerCancel, kiosk } = settings;
  return {
    ...{ name, logo, contact: contactOf(settings), accent, theme, locale, payerCancel, kiosk },
    origins: [...new Set([...origins, ...(shop?.origins ?? [])])],
    autoReturn: autoReturn || shop?.autoReturn === true,
  };
};

/** What a waiting page needs to stay true: whether something changed, and the payment's own time, which its countdown follows. */
type PaymentMoment = { version: bigint; nowMs: bigint };
const moments = (sql: Sql | Tx): Fragment => sql`
  p.version, floor(extract(epoch from clock_timestamp()) * 1000)::bigint + coalesce(${testOffset(sql)}, 0)::bigint * 1000 as "nowMs"`;
/** Errors: payment_not_found. */
export async function getMoment(ctx: Context, { paymentId }: { paymentId: string }): Promise<PaymentMoment> {
  const { sql } = ctx.db;
  const [row] = await sql<PaymentMoment[]>`select ${moments(sql)} from payments p where p.id = ${paymentId}`;
  if (!row) throw new Problem('payment_not_found', { id: paymentId });
  return row;
}
/** The time of each payment that exists, by its clock, in one statement. */
export async function getTimes(ctx: Context, { paymentIds }: { paymentIds: readonly string[] }): Promise<Map<string, bigint>> {
  const { sql } = ctx.db;
  const rows = await sql<(PaymentMoment & { id: string })[]>`
    select p.id, ${moments(sql)} from payments p where p.id = any(${paymentIds as string[]}::text[])`;
  return new Map(rows.map((row) => [row.id, row.nowMs]));
}

/** The payments whose version is no longer the known one, in one statement. */
export async function getNewVersions(ctx: Context, { known }: { known: ReadonlyMap<string, bigint> }): Promise<Map<string, bigint>> {
  const rows = await ctx.db.sql<{ id: string; version: bigint }[]>`
    select p.id, p.version from payments p
    join unnest(${[...known.keys()]}::text[], ${[...known.values()].map(String)}::bigint[]) as k (id, version) on k.id = p.id
    where p.version <> k.version`;
  return new Map(rows.map((row) => [row.id, row.version]));
}

/**
 * The page was viewed with scripts running, so the payment counts as opened, once. Bots and link previews run no scripts. Ignores
 * unknown ids.
 */
export async function markOpened(ctx: Context, { paymentId }: { paymentId: string }): Promise<void> {
  await ctx.db.sql`
    with opened as (
      update payments p set opened_at = date_trunc('milliseconds', clock_timestamp()) + case when p.mode = 'test' then make_interval(secs =>
        coalesce((select c.offset_seconds from test_clocks c where c.merchant_id = p.merchant_id), 0)
        + coalesce((select sum(a.seconds) from clock_advances a where a.merchant_id = p.merchant_id and a.payment_id = p.id), 0)::double precision)
        else interval '0' end
      where id = ${paymentId} and opened_at is null
      returning merchant_id, mode, created_at
    )
    insert into payment_quarter_deltas (merchant_id, mode, quarter, measure, coin, payments, usd_cents, seconds)
    select merchant_id, mode, ${quarterAt(ctx.db.sql, ctx.db.sql`created_at`)}, 'opened', '', 1, 0, 0 from opened`;
}

/** Every coin, and why the payer cannot choose it now; null when it can be chosen. */
function coinsFor(
  ctx: Context,
  view: PaymentView,
  {
    walletCoins,
    walletNetworks,
    settings,
    lightning,
    unreachable,
    fees,
  }: Merchant & { unreachable: ReadonlyMap<Coin, Unreachable>; fees: LiveFees },
): CustomerView['coins'] {
  const onChain = COINS.flatMap((coin) => {
    if (view.request.asset !== null && COIN[coin].asset !== view.request.asset) return [];
    if (view.request.shop?.coins && !view.request.shop.coins.includes(coin)) return [];
    if (view.facts.fixed && view.facts.fixed.coin !== coin) return [];
    if (view.facts.mode === 'live' && !walletCoins.includes(coin)) return [];
    // A coin that was already chosen stays, so that its amount can be renewed. A test payment may name any asset.
    const isNamed = view.facts.mode === 'test' && view.request.asset !== null;
    if (!isNamed && !isOffered(settings, coin, view.facts.mode) && view.settlement.coin !== coin && !view.facts.fixed) return [];
    // Its wallet is for another network, so no address can be issued.
    const isWrong = view.facts.mode === 'live' && walletNetworks[COIN[coin].family] !== ctx.settings.networks[COIN[coin].chain];
    return [coinState(ctx, view, { coin, unreachable, isWrong, costs: costsOf(view.facts, coin, fees) })];
  });
  const isChosen = view.settlement.coin === LIGHTNING;
  const { asset, shop } = view.request;
  if ((!lightning && !isChosen) || view.facts.fixed || shop?.coins || (asset !== null && asset !== COIN[LIGHTNING].asset)) return onChain;
  const state = coinState(ctx, view, { coin: LIGHTNING, unreachable, isWrong: lightning?.isAway ?? true, costs: null });
  // What its node or provider does not take at once is not offered.
  const { estimateUnits: units } = state;
  const fits = units === null || lightningLimit(ctx, { lightning, units, usdCents: view.facts.targetUsdCents }) === null;
  return fits || isChosen ? [...onChain, state] : onChain;
}

function coinState(
  ctx: Context,
  view: PaymentView,
  { coin, unreachable, isWrong, costs }: { coin: Coin; unreachable: ReadonlyMap<Coin, Unreachable>; isWrong: boolean; costs: Costs | null },
): CustomerView['coins'][number] {
  const refused = (unavailable: UnavailableReason) => ({ coin, unavailable, least: null, estimateUnits: null, sample: false, costs });
  if (view.facts.fixed) return { coin, unavailable: null, least: null, estimateUnits: view.facts.fixed.units, sample: false, costs };
  const pricing = view.facts.rules;
  const quotable = marketPrice(ctx, { mode: view.facts.mode, coin, source: pricing.priceSource });
  if (!('price' in quotable)) return refused('price');
  // A coin that already has its address can be paid, and gets a new rate.
  if (view.facts.mode === 'live' && (isWrong || unreachable.has(coin)) && !view.facts.quotes.some((q) => q.coin === coin))
    return refused('network');
  const { fiat } = view.request;
  const { units, rateE8 } = askIn(coin, { targetUsdCents: view.facts.targetUsdCents, fiat, pricing }, quotable.price.priceE8);
  if (!isCarried(coin, units)) return { ...refused('small'), least: leastPrice(coin, rateE8, fiat) };
  return { coin, unavailable: null, least: null, estimateUnits: units, sample: quotable.price.sample, costs };
}

// What paying on a network costs, for the payer who chooses one: its fee and the time until the payment is confirmed.

/** An older fee says nothing about now. Followers ask every ten minutes. */
const FRESH_SECONDS = 3_600;
/** How long this process keeps what it read. */
const KEPT_MS = 30_000;
const CENT_E8 = 1_000_000n;

/** Fees in US cents, of the coins whose fee is known now. */
type LiveFees = ReadonlyMap<Coin, number>;

type Row = { code: string; gasPrice: string; dataFee: string };
const rowsKept = perContext(() => ({ atMs: Number.NEGATIVE_INFINITY, rows: null as Promise<Row[]> | null }));

/** What the followers last asked the sources for. A page view never asks them, and seldom the database. */
export async function readLiveFees(ctx: Context): Promise<LiveFees> {
  const kept = rowsKept(ctx);
  const nowMs = ctx.clock.monotonicMs();
  if (kept.rows === null || nowMs - kept.atMs >= KEPT_MS) {
    const rows = readRows(ctx);
    Object.assign(kept, { atMs: nowMs, rows });
    rows.catch(() => {
      if (kept.rows === rows) kept.rows = null;
    });
  }
  const rows = await kept.rows!;
  return new Map(
    COINS.flatMap((coin): [Coin, number][] => {
      const row = rows.find(({ code }) => code === chainCode(coin));
      const asset = pricedAs(feeCoinOf(coin));
      const price = row && ctx.prices.look(asset);
      return row && price ? [[coin, feeCents(coin, row, price.priceE8)]] : [];
    }),
  );
}

const readRows = async (ctx: Context): Promise<Row[]> =>
  ctx.db.sql<Row[]>`
    select chain as code, gas_price::text as "gasPrice", data_fee::text as "dataFee" from tips
    where fee_at > clock_timestamp() - ${FRESH_SECONDS} * interval '1 second'`;

/** Rounded up to whole cents. */
function feeCents(coin: Coin, { gasPrice, dataFee }: Row, priceE8: bigint): number {
  const wei = BigInt(gasPrice) * BigInt(COIN[coin].typicalSize) + BigInt(dataFee);
  return Number((worthUsdE8(feeCoinOf(coin), wei, priceE8) + CENT_E8 - 1n) / CENT_E8);
}

/** The fee now, else the usual one, in US cents; null for chains that are not an alternative to another. */
export const feeCentsOf = (coin: Coin, fees: LiveFees): number | null => {
  const { usualFeeCents = null } = chainOf(coin);
  return usualFeeCents === null ? null : (fees.get(coin) ?? usualFeeCents);
};

/** Null for chains that are not an alternative to another. The time is that of the confirmations that this amount needs. */
export function costsOf(facts: PaymentFacts, coin: Coin, fees: LiveFees): Costs | null {
  const { safeSeconds, finalSeconds, blockSeconds } = chainOf(coin);
  const feeUsdCents = feeCentsOf(coin, fees);
  if (feeUsdCents === null) return null;
  const { rule, confirmations } = requirementOf(facts, coin, { receivedCents: 0n, company: 0n, kinds: 'token' });
  const deep = confirmations * blockSeconds;
  const seconds = { safe: Math.max(deep, safeSeconds ?? 0), finalized: Math.max(deep, finalSeconds ?? 0) }[rule as string] ?? deep;
  return { feeUsdCents, seconds: Math.ceil(seconds) };
}
