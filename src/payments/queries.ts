/** Reads payments. Every finder requires the merchant and the mode, except the one for the payer, who knows the id. */

import type { ChainTransaction } from '#chains';
import { type Context, perContext } from '#context';
import { CHAIN, CHAINS, COIN, COINS, type Coin, chainCode, chainOf, feeCoinOf, LIGHTNING, type Mode, pricedAs } from '#core/coin';
import { requirementOf, standingOf } from '#core/confirmation';
import { worthUsdE8 } from '#core/money';
import type { Exception, PaymentFacts, PaymentStatus, Transfer, TransferRole, TransferStanding, Uncounted } from '#core/payment';
import type { Costs, Customer, CustomerView, PaymentView, ShopTerms, UnavailableReason } from '#core/payment-view';
import { Problem } from '#core/problem';
import { rolesOf } from '#core/settle';
import { PAYER, testIdentifier } from '#core/simulated';
import { customerOf } from '#customers';
import { createBatcher, type Fragment, type Sql, type Tx } from '#db';
import { contactOf, getMerchant, isOffered, type Merchant } from '#merchants';
import { askIn, isCarried, leastPrice, lightningLimit, marketPrice, readUnreachable, type Unreachable } from '#readiness';
import { type OwnedId, type PaymentRecord, readOwnedRecords, readRecords, readTransfers, testOffset, tipsOf, toView } from './facts.ts';
import { uncountedFromJson } from './stored.ts';

/** One payment of the merchant in the mode. Errors: payment_not_found (also for another merchant's or mode's). */
export async function getPayment(
  ctx: Context,
  { merchantId, mode, paymentId }: { merchantId: string; mode: Mode; paymentId: string },
): Promise<PaymentView> {
  return toView(await recordOf(ctx, { merchantId, mode, paymentId }));
}
/** Those of `ids` that are payments of the merchant in the mode, in their order. */
export async function getPayments(
  ctx: Context,
  { merchantId, mode, ids }: { merchantId: string; mode: Mode; ids: readonly string[] },
): Promise<PaymentView[]> {
  const wanted = ids.map((paymentId) => ({ merchantId, mode, paymentId }));
  return (await readOwnedRecords(ctx, ctx.db.sql, wanted)).flatMap((record) => (record === null ? [] : [toView(record)]));
}
/** A payment with the state and role of each transfer that it shows, in their order. */
export type OnChain = { view: PaymentView; standings: (TransferStanding & { role: TransferRole })[]; arrived: CoinSum[] };
/** One payment of the merchant like this. Errors: payment_not_found. */
export const getPaymentOnChain = async (ctx: Context, payment: { merchantId: string; mode: Mode; paymentId: string }): Promise<OnChain> =>
  onChain(await recordOf(ctx, payment));
/** The payments that exist, in the order of `ids`. Callers have checked whose they are. */
export const readOnChain = async (ctx: Context, sql: Sql | Tx, ids: readonly string[]): Promise<OnChain[]> =>
  (await readRecords(ctx, sql, ids)).map(onChain);

function onChain(record: PaymentRecord): OnChain {
  const view = toView(record);
  const tips = tipsOf(record);
  const roles = rolesOf(record.facts, record.transfers, tips);
  const standings = view.transfers.map((t) => ({
    ...standingOf(record.facts, t, view.settlement.seenUsdE8, tips),
    role: roles.get(t)!,
  }));
  return { view, standings, arrived: sumArrived(roles) };
}
type CoinSum = { coin: Coin; units: bigint; usdE8: bigint | null };
/** What is on the chain and is large enough to count, by coin. */
function sumArrived(roles: ReadonlyMap<Transfer, TransferRole>): CoinSum[] {
  const sums = new Map<Coin, CoinSum>();
  for (const [{ coin, units, values }, role] of roles) {
    if (role === 'small' || role === 'contested' || role === 'gone') continue;
    const sum = sums.get(coin) ?? { coin, units: 0n, usdE8: 0n };
    const usdE8 = values.at(-1)?.usdE8 ?? null;
    sums.set(coin, { coin, units: sum.units + units, usdE8: sum.usdE8 === null || usdE8 === null ? null : sum.usdE8 + usdE8 });
  }
  return [...sums.values()];
}
/** A page of all transfers of a payment, in the order of first sight. Errors: payment_not_found, cursor_invalid. */
export async function listTransfers(
  ctx: Context,
  page: OwnedId & { limit: number; startingAfter: string | null },
): Promise<{ transfers: Transfer[]; hasMore: boolean }> {
  const found = await readTransfers(ctx.db.sql, page);
  if (!('unknown' in found)) return found;
  if (found.unknown === 'cursor') throw new Problem('cursor_invalid', {}, { param: 'starting_after' });
  throw new Problem('payment_not_found', { id: page.paymentId });
}
async function recordOf(ctx: Context, payment: OwnedId): Promise<PaymentRecord> {
  const record = await readerOf(ctx)(payment);
  if (!record) throw new Problem('payment_not_found', { id: payment.paymentId });
  return record;
}
/** Concurrent reads share a statement. */
const readerOf = perContext((ctx) =>
  createBatcher({
    maxItems: 64,
    maxWaiting: 10_000,
    run: async (wanted: OwnedId[]) =>
      (await readOwnedRecords(ctx, ctx.db.sql, wanted)).map((value) => ({ status: 'fulfilled' as const, value })),
  }),
);

/** A transaction of a test payment's simulated chain, in the form a node reports it. Errors: transaction_not_found. */
export async function getSimulatedTransaction(
  ctx: Context,
  { merchantId, coin, txid }: { merchantId: string; coin: Coin; txid: string },
): Promise<ChainTransaction> {
  const rows = await ctx.db.sql<{ id: string }[]>`
    select p.id from transfers t join payments p on p.id = t.payment_id
    where t.coin = ${coin} and t.ref in (${`${txid}:0`}, ${`${txid}:tx`}) and p.merchant_id = ${merchantId} and p.mode = 'test'`;
  const [record] = await readRecords(
    ctx,
    ctx.db.sql,
    rows.map((row) => row.id),
  );
  const transfer = record?.transfers.find((t) => t.coin === coin && t.txid === txid);
  if (!record || !transfer) throw new Problem('transaction_not_found', { coin, id: txid }, { param: 'txid' });
  const { block, units, address } = transfer;
  return {
    txid,
    status: transfer.conflict ? 'replaced' : block ? 'confirmed' : 'pending',
    confirmations: block ? (tipsOf(record)[coin]?.height ?? block.height) - block.height + 1 : 0,
    blockHeight: block?.height ?? null,
    blockHash: block?.hash ?? null,
    timestamp: block?.time ?? null,
    amountUnits: units,
    feeUnits: 0n,
    inputs: [{ address: testIdentifier(coin, PAYER), units }],
    outputs: [{ address, units }],
  };
}

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

export type PaymentListItem = {
  id: string;
  mode: Mode;
  status: PaymentStatus;
  exceptions: Exception[];
  amountUsdCents: bigint;
  coin: Coin | null;
  createdAt: Date;
  completedAt: Date | null;
  invoiceId: string | null;
  description: string | null;
  uncounted: Uncounted[];
  customer: Customer | null;
};

/** Matches the payments in some coins. One is compared as such, so that an index by coin yields them in order. */
export const inCoins = (sql: Sql | Tx, coins: readonly Coin[], column: Fragment = sql`coin`): Fragment =>
  coins.length === 1 ? sql`${column} = ${coins[0]!}` : sql`${column} = any(${coins as Coin[]}::text[])`;

/**
 * A page of payments, newest first by sequence; `startingAfter` and `endingBefore` are payment ids. The total is the exact count
 * for the filter, in constant time: stored counts plus the deltas not yet folded, in the page's own snapshot.
 * Errors: cursor_invalid.
 */
export async function listPayments(
  ctx: Context,
  {
    merchantId,
    mode,
    limit,
    startingAfter,
    endingBefore,
    status,
    coins,
  }: {
    merchantId: string;
    mode: Mode;
    limit: number;
    startingAfter: string | null;
    endingBefore: string | null;
    status: PaymentStatus | null;
    /** Null for all. */
    coins: readonly Coin[] | null;
  },
): Promise<{ items: PaymentListItem[]; hasMore: boolean; totalCount: bigint }> {
  const { sql } = ctx.db;
  const cursor = startingAfter ?? endingBefore;
  const backwards = endingBefore !== null;
  const filter = sql`${status ? sql`and status = ${status}` : sql``} ${coins ? sql`and ${inCoins(sql, coins)}` : sql``}`;
  const [row] = await sql<
    {
      known: boolean;
      total: bigint;
      items:
        | (Omit<PaymentListItem, 'amountUsdCents' | 'createdAt' | 'completedAt' | 'uncounted'> & {
            amountUsdCents: string;
            uncounted: unknown;
            createdAt: string;
            completedAt: string | null;
          })[]
        | null;
    }[]
  >`
    select
      ${cursor === null ? sql`true` : sql`exists (select 1 from payments where id = ${cursor} and merchant_id = ${merchantId} and mode = ${mode})`} as known,
      (select coalesce(sum(payments), 0)::bigint from (
        select payments from payment_counts where merchant_id = ${merchantId} and mode = ${mode} ${filter}
        union all
        select payments from payment_count_deltas where merchant_id = ${merchantId} and mode = ${mode} ${filter}) as c) as total,
      (select json_agg(json_build_object('id', id, 'mode', mode, 'status', status, 'exceptions', exceptions,
          'amountUsdCents', amount_usd_cents::text, 'coin', coin, 'createdAt', created_at, 'completedAt', completed_at,
          'invoiceId', invoice_id, 'description', request->>'description', 'uncounted', uncounted, 'customer', ${customerOf(sql)})
          order by sequence desc)
        from (select * from payments where merchant_id = ${merchantId} and mode = ${mode} ${filter}
          ${
            cursor === null
              ? sql``
              : sql`and sequence ${backwards ? sql`>` : sql`<`} (select sequence from payments where id = ${cursor}
            and merchant_id = ${merchantId} and mode = ${mode})`
          }
          order by sequence ${backwards ? sql`asc` : sql`desc`} limit ${limit + 1}) as p) as items`;
  if (!row!.known) throw new Problem('cursor_invalid', {}, { param: backwards ? 'ending_before' : 'starting_after' });
  const items = (row!.items ?? []).map((item) => ({
    ...item,
    amountUsdCents: BigInt(item.amountUsdCents),
    createdAt: new Date(item.createdAt),
    completedAt: item.completedAt ? new Date(item.completedAt) : null,
    uncounted: uncountedFromJson(item.uncounted),
  }));
  const hasMore = items.length > limit;
  // One extra row shows that there are more; it is at the far end.
  const page = hasMore ? (backwards ? items.slice(1) : items.slice(0, limit)) : items;
  return { items: page, hasMore, totalCount: row!.total };
}

/** Folds count deltas into the stored counts, a bounded number at a time. Returns how many. */
export async function foldCounts(ctx: Context, { limit }: { limit: number }): Promise<number> {
  const [row] = await ctx.db.sql<{ n: number }[]>`
    with taken as (
      delete from payment_count_deltas where id in (
        select id from payment_count_deltas order by id limit ${limit} for update skip locked)
      returning merchant_id, mode, status, coin, payments
    ), sums as (
      select merchant_id, mode, status, coin, sum(payments)::bigint as payments from taken group by 1, 2, 3, 4
    ), folded as (
      insert into payment_counts as c (merchant_id, mode, status, coin, payments)
      select * from sums order by 1, 2, 3, 4
      on conflict (merchant_id, mode, status, coin) do update set payments = c.payments + excluded.payments
    )
    select count(*)::int as n from taken`;
  return row!.n;
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
