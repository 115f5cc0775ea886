/** Reads everything that decides a payment, for many payments in one statement, and builds views from it. */

import { type Context, perContext } from '#context';
import { CHAIN, CHAINS, COIN, type Coin, chainCode, type Family, LIGHTNING, type Mode } from '#core/coin';
import { companyCents, fewestOf, requirementOf } from '#core/confirmation';
import { addMs } from '#core/dates';
import { e8ToCents } from '#core/money';
import {
  type Decision,
  type Exception,
  ON_HOLD,
  type PaymentFacts,
  type PaymentStatus,
  type Quote,
  type Rules,
  type Settlement,
  type Tip,
  type Tips,
  type Transfer,
  type Uncounted,
} from '#core/payment';
import { type Customer, type PaymentRequest, type PaymentView, SHOWN_TRANSFERS } from '#core/payment-view';
import { hasApproved, type RefundState, type RefundSum, returnedUnits } from '#core/refund';
import { settle } from '#core/settle';
import { type Observation, type Play, SCENARIOS, type Scenario, scenarioFromText, scenariosOf, simulate } from '#core/simulated';
import { asTextMap } from '#core/stored-json';
import { playsFromJson, requestFromJson, rulesFromJson, uncountedFromJson } from '#core/stored-payment';
import { customerOf } from '#customers';
import { type Fragment, OID, type Sql, type Tx } from '#db';
import { testDeposit } from '#wallets';
import { MAX_INLINE, orderOfSight, readManyTransfers, type StoredTransfer, toTransfer, transferJson } from './many-transfers.ts';
import { NO_POSITIONS, type Positions, positionsOf, type StoredPosition, toPositions } from './sales.ts';

export type Marks = {
  openedAt: Date | null;
  seenAt: Date | null;
  paidUsdCents: bigint | null;
  refundRequestedAt: Date | null;
  reviewed: readonly string[];
};

/** Everything stored about one payment at one instant. */
export type PaymentRecord = {
  merchantId: string;
  mode: Mode;
  sequence: bigint;
  version: bigint;
  eventCount: bigint;
  countedInMonth: boolean;
  /** The derivation index of each family's deposit address below its wallet's account key. */
  paths: Readonly<Partial<Record<Family, string>>>;
  /** As written by the last settlement; changes are detected against these. */
  last: { seenUnits: bigint; announced: string; expiresAt: Date; coin: Coin | null; held: ReadonlyMap<Coin, bigint> | null };
  /** What it counts of its transfers, as last written; null for a completed payment with so many that they are read when needed. */
  sales: Positions | null;
  /** What the dashboard counts and shows for review, as last written. */
  marks: Marks;
  facts: PaymentFacts;
  transfers: Transfer[];
  /** Tips of the live chains; a test payment has its own simulated chain instead. */
  tips: Tips;
  /** What the payer of a test payment did, in order. */
  plays: readonly Play[];
  request: PaymentRequest;
  invoiceId: string | null;
  metadata: Record<string, string>;
  customer: Customer | null;
  /** Its refunds that were not canceled. */
  refunds: readonly RefundSum[];
  createdWith: 'secret' | 'public';
  /** The payment that took its place. */
  replacedBy: string | null;
  scenario: { coin: Coin; name: string } | null;
  /** The database clock, plus the test offsets of merchant and payment. */
  realNow: Date;
  now: Date;
  offsetMs: number;
};

type Row = Marks & {
  id: string;
  merchantId: string;
  mode: Mode;
  sequence: bigint;
  status: PaymentStatus;
  exceptions: Exception[];
  amountUsdCents: bigint;
  fixedCoin: Coin | null;
  fixedUnits: bigint | null;
  ruleSet: bigint;
  createdWith: 'secret' | 'public';
  replacedBy: string | null;
  request: unknown;
  invoiceId: string | null;
  metadata: unknown;
  customer: Customer | null;
  scenario: string | null;
  createdAt: Date;
  extendedUntil: Date | null;
  rateLockUntil: Date | null;
  completedAt: Date | null;
  receivedUnits: bigint;
  expiresAt: Date;
  uncounted: unknown;
  shownCoin: Coin | null;
  version: bigint;
  eventCount: bigint;
  countedInMonth: boolean;
  paths: Partial<Record<Family, string>> | null;
  quotes: { coin: Coin; address: string; rateE8: string | null; units: string; from: string; until: string }[] | null;
  decisions: { kind: Decision['kind']; at: string; transfers: string[]; byPayer: boolean }[] | null;
  /** Empty for a payment with more than MAX_INLINE transfers. */
  transfers: StoredTransfer[] | null;
  hasMany: boolean;
  sales: StoredPosition[] | null;
  simulation: unknown;
  offsetSeconds: bigint | null;
  refunds: { coin: Coin; state: RefundState; units: string }[] | null;
  realNow: Date;
};
/** By how many seconds the clock of the payment `p` was advanced; null in live mode. */
export const testOffset = (sql: Sql | Tx): Fragment => sql`
  case when p.mode = 'test' then coalesce((select c.offset_seconds from test_clocks c where c.merchant_id = p.merchant_id), 0)
    + coalesce((select sum(a.seconds)::bigint from clock_advances a where a.merchant_id = p.merchant_id and a.payment_id = p.id), 0) end`;
/** Stored rules by id; they never change, so they are read once per process. */
const ruleCacheOf = perContext(() => new Map<bigint, Rules>());
async function readRules(ctx: Context, sql: Sql | Tx, ids: readonly bigint[]): Promise<Map<bigint, Rules>> {
  const cache = ruleCacheOf(ctx);
  const missing = [...new Set(ids)].filter((id) => !cache.has(id));
  if (missing.length > 0) {
    const rows = await sql<
      { id: bigint; rules: unknown }[]
    >`select id, rules from rule_sets where id = any(${sql.array(missing, OID.int8)}::bigint[])`;
    if (cache.size > 10_000) cache.clear();
    for (const row of rows) cache.set(row.id, rulesFromJson(row.rules));
  }
  return cache;
}

/**
 * Everything about the payments, in one statement that also reads the clock: after an earlier statement locked the rows,
 * both are fresh. Order follows `ids`; unknown ids are omitted.
 */
export async function readRecords(ctx: Context, sql: Sql | Tx, ids: readonly string[]): Promise<PaymentRecord[]> {
  const records = new Map(
    (await readRows(ctx, sql, sql`(select * from payments where id = any(${ids as string[]}::text[])) as p`, ids.length)).map((r) => [
      r.facts.id,
      r,
    ]),
  );
  return ids.flatMap((id) => records.get(id) ?? []);
}

export type OwnedId = { merchantId: string; mode: Mode; paymentId: string };

/** Payments of several owners in one statement, each visible only to its owner; null where the owner has no payment with that id. */
export async function readOwnedRecords(ctx: Context, sql: Sql, wanted: readonly OwnedId[]): Promise<(PaymentRecord | null)[]> {
  const name = ({ merchantId, mode, paymentId }: OwnedId) => `${merchantId} ${mode} ${paymentId}`;
  const unique = [...new Map(wanted.map((one) => [name(one), one])).values()];
  const from = sql`
    unnest(${unique.map((w) => w.paymentId)}::text[], ${unique.map((w) => w.merchantId)}::text[], ${unique.map((w) => w.mode)}::text[])
      as wanted (id, merchant_id, mode)
    join payments p on p.id = wanted.id and p.merchant_id = wanted.merchant_id and p.mode = wanted.mode`;
  const records = new Map((await readRows(ctx, sql, from, unique.length)).map((r) => [name({ ...r, paymentId: r.facts.id }), r]));
  return wanted.map((one) => records.get(name(one)) ?? null);
}

/**
 * A page of the transfers of a payment in the order of first sight, after the one with the ref `startingAfter`. Null: the owner has
 * no such payment, or the payment no such transfer.
 */
export async function readTransfers(
  sql: Sql,
  { merchantId, mode, paymentId, startingAfter, limit }: OwnedId & { startingAfter: string | null; limit: number },
): Promise<{ transfers: Transfer[]; hasMore: boolean } | { unknown: 'payment' | 'cursor' }> {
  const [row] = await sql<{ known: boolean; transfers: StoredTransfer[] | null }[]>`
    select ${startingAfter === null ? sql`true` : sql`exists (select 1 from transfers where payment_id = p.id and ref = ${startingAfter})`} as known,
      (select json_agg(${transferJson(sql)} order by ${orderOfSight(sql)}) from (
        select * from transfers where payment_id = p.id
          ${
            startingAfter === null
              ? sql``
              : sql`and (${orderOfSight(sql)}) > (select ${orderOfSight(sql)} from transfers
                  where payment_id = p.id and ref = ${startingAfter} order by first_seen_at desc, coin desc limit 1)`
          }
        order by ${orderOfSight(sql)} limit ${limit + 1}) as t) as transfers
    from payments p where p.id = ${paymentId} and p.merchant_id = ${merchantId} and p.mode = ${mode}`;
  if (!row) return { unknown: 'payment' };
  if (!row.known) return { unknown: 'cursor' };
  const transfers = (row.transfers ?? []).map((t) => toTransfer(t));
  return { transfers: transfers.slice(0, limit), hasMore: transfers.length > limit };
}

/** `from` must alias the payments as `p`. */
async function readRows(ctx: Context, sql: Sql | Tx, from: Fragment, count: number): Promise<PaymentRecord[]> {
  if (count === 0) return [];
  const rows = await sql<Row[]>`
    select p.id, p.merchant_id as "merchantId", p.mode, p.sequence, p.status, p.exceptions,
      p.amount_usd_cents as "amountUsdCents", p.fixed_coin as "fixedCoin", p.fixed_units as "fixedUnits",
      p.rule_set as "ruleSet", p.created_with as "createdWith", p.replaced_by as "replacedBy", p.request, p.invoice_id as "invoiceId", p.metadata, ${customerOf(sql)} as customer,
      p.scenario, p.created_at as "createdAt", p.extended_until as "extendedUntil", p.rate_lock_until as "rateLockUntil", p.completed_at as "completedAt",
      p.received_units as "receivedUnits", p.expires_at as "expiresAt", p.coin as "shownCoin", p.uncounted, p.version, p.event_count as "eventCount", p.counted_in_month as "countedInMonth",
      p.opened_at as "openedAt", p.seen_at as "seenAt", p.paid_usd_cents as "paidUsdCents", p.refund_requested_at as "refundRequestedAt", p.reviewed,
      (select json_agg(json_build_object('coin', q.coin, 'address', q.address, 'rateE8', q.rate_e8::text, 'units', q.units::text,
        'from', q.from_at, 'until', q.until_at) order by q.number) from quotes q where q.payment_id = p.id) as quotes,
      (select json_object_agg(a.family, ltrim(w.path || '/' || a.index, '/')) from deposit_addresses a join wallets w on w.id = a.wallet_id
        where a.payment_id = p.id) as paths,
      (select json_agg(json_build_object('kind', d.kind, 'at', d.at, 'transfers', d.transfers, 'byPayer', d.by_payer) order by d.number)
        from decisions d where d.payment_id = p.id) as decisions,
      held.count > ${MAX_INLINE} as "hasMany",
      case when held.count between 1 and ${MAX_INLINE} then (
        select json_agg(${transferJson(sql)} order by ${orderOfSight(sql)}) from transfers t where t.payment_id = p.id) end as transfers,
      case when p.status = 'completed' and held.count <= ${MAX_INLINE} then ${positionsOf(sql)} end as sales,
      (select jsonb_build_array(jsonb_build_object('coin', s.coin, 'scenario', s.scenario, 'units', s.units::text, 'startedAt', s.started_at))
        || s.more from simulations s where s.payment_id = p.id) as simulation,
      ${testOffset(sql)} as "offsetSeconds",
      (select json_agg(json_build_object('coin', r.coin, 'state', r.state, 'units', r.units::text)) from (
        select coin, state, sum(units) as units from outgoing_payments where payment_id = p.id and state <> 'canceled' group by 1, 2) as r) as refunds,
      clock_timestamp() as "realNow"
    from ${from} cross join lateral (
      select count(*) from (select 1 from transfers where payment_id = p.id limit ${MAX_INLINE + 1}) as few) as held`;
  const rules = await readRules(
    ctx,
    sql,
    rows.map((row) => row.ruleSet),
  );
  const transfers = new Map<string, Transfer[]>();
  const liveCoins = new Set<Coin>();
  for (const { id, mode, quotes, transfers: stored, hasMany } of rows) {
    const all = hasMany ? await readManyTransfers(ctx, sql, id) : (stored ?? []).map((row) => toTransfer(row));
    transfers.set(id, all);
    if (mode === 'live') for (const list of [quotes ?? [], all]) for (const { coin } of list) liveCoins.add(coin);
  }
  const tips = liveCoins.size === 0 ? {} : await readTips(sql, [...liveCoins]);
  const lightning = liveCoins.has(LIGHTNING) ? await readLightningTips(sql, rows) : new Map<string, Tip>();
  return rows.map((row) => {
    const own = lightning.get(row.id);
    return toRecord(row, rules.get(row.ruleSet)!, transfers.get(row.id)!, own ? { ...tips, [LIGHTNING]: own } : tips);
  });
}

/** Lightning has no blocks. Each payment is read as far as all of its open invoices were looked at. */
async function readLightningTips(sql: Sql | Tx, payments: readonly { id: string }[]): Promise<Map<string, Tip>> {
  const rows = await sql<{ id: string; scannedThrough: Date }[]>`
    select payment_id as id, min(case when state = 'open' then coalesce(looked_at, created_at) else clock_timestamp() end) as "scannedThrough"
    from lightning_invoices where payment_id = any(${payments.map(({ id }) => id)}::text[]) group by 1`;
  return new Map(rows.map(({ id, scannedThrough }) => [id, { ...QUIET, scannedThrough }]));
}

/** Chains whose blocks nobody proves, so that somebody must vouch for them. */
const BY_RANGES = CHAINS.filter((chain) => CHAIN[chain].ranges).map((chain) => CHAIN[chain].code);

async function readTips(sql: Sql | Tx, coins: Coin[]): Promise<Tips> {
  const rows = await sql<
    {
      code: string;
      height: bigint;
      hash: string;
      safeHeight: bigint | null;
      finalizedHeight: bigint | null;
      chainlockHeight: bigint | null;
      provenHeights: number[] | null;
      scannedThrough: Date;
      holdReason: string | null;
      unwound: boolean;
      isFinalUnknown: boolean;
      guardReasons: string[] | null;
      isBinding: boolean;
      tokenHolds: Record<string, string> | null;
      agreedHash: string | null;
      agreedHeight: bigint | null;
      heldAboveUsdCents: bigint | null;
      heldAboveReason: string | null;
      lockUsdCents: bigint | null;
    }[]
  >`
    select t.chain as code, t.height, t.hash, t.safe_height as "safeHeight", t.finalized_height as "finalizedHeight",
      t.chainlock_height as "chainlockHeight", t.proven_heights as "provenHeights", t.hold_reason as "holdReason", t.unwound, f.final_doubt is not null as "isFinalUnknown",
      -- While older blocks are still being read, it is unknown what arrived in time.
      case when t.read_back_to is null then t.scanned_through else 'epoch' end as "scannedThrough",
      g.reasons as "guardReasons", g.chain is not null and t.chain = any(${BY_RANGES}::text[]) as "isBinding",
      (select jsonb_object_agg(c.coin, c.hold) from token_contracts c where c.hold is not null and c.coin = any(${coins}::text[])) as "tokenHolds", g.agreed_hash as "agreedHash", agreed.height as "agreedHeight",
      g.held_above_usd_cents as "heldAboveUsdCents", g.held_above_reason as "heldAboveReason", g.lock_usd_cents as "lockUsdCents"
    from tips t left join chain_guard g on g.chain = t.chain and g.binding left join followers f on f.chain = t.chain
    -- An agreement counts only while its block is part of the chain that was read.
    left join blocks agreed on agreed.chain = g.chain and agreed.height = g.agreed_height and agreed.hash = g.agreed_hash
    where t.chain = any(${[...new Set(coins.map(chainCode))]}::text[])`;
  const number = (value: bigint | null) => (value === null ? null : Number(value));
  const tips = new Map(
    rows.map((row): [string, Tip] => [
      row.code,
      {
        height: Number(row.height),
        hash: row.hash,
        safeHeight: number(row.safeHeight),
        finalizedHeight: number(row.finalizedHeight),
        chainlockHeight: number(row.chainlockHeight),
        ...(row.isBinding && { needsVerifier: true }),
        ...(row.provenHeights && { provenHeights: row.provenHeights }),
        scannedThrough: row.scannedThrough,
        ...(row.unwound && { unwound: true }),
        ...(row.isFinalUnknown && { isFinalUnknown: true }),
        holdReason: row.holdReason ?? row.guardReasons?.[0] ?? null,
        ...(row.agreedHash !== null && {
          agreement: {
            height: number(row.agreedHeight) ?? -1,
            above: row.heldAboveUsdCents === null ? null : { usdCents: row.heldAboveUsdCents, reason: row.heldAboveReason! },
            lockUsdCents: row.lockUsdCents,
          },
        }),
      },
    ]),
  );
  // Coins on one chain share its tip.
  return Object.fromEntries(
    coins.flatMap((coin): [Coin, Tip][] => {
      const tip = tips.get(chainCode(coin));
      const hold = rows[0]?.tokenHolds?.[coin];
      return tip ? [[coin, hold === undefined ? tip : { ...tip, holdReason: tip.holdReason ?? hold }]] : [];
    }),
  );
}

/** What waits for the merchant, by coin, also what is only announced. */
export function heldOf(uncounted: readonly Uncounted[]): ReadonlyMap<Coin, bigint> {
  const held = new Map<Coin, bigint>();
  for (const { coin, state, units, waits } of uncounted) if (state === 'held' || waits) held.set(coin, (held.get(coin) ?? 0n) + units);
  return held;
}
/** What counts toward a payment as far as its row shows: what it received, and what of its coin is only announced. */
const seenOf = ({ receivedUnits, shownCoin }: Pick<Row, 'receivedUnits' | 'shownCoin'>, uncounted: readonly Uncounted[]): bigint =>
  uncounted.reduce(
    (sum, { coin, state, units, waits }) => (state === 'announced' && !waits && coin === shownCoin ? sum + units : sum),
    receivedUnits,
  );
/** What is only announced, as one text to compare. */
export const announcedOf = (uncounted: readonly Uncounted[]): string =>
  uncounted.flatMap(({ coin, state, units, waits }) => (state === 'announced' ? [`${coin} ${units} ${waits === true}`] : [])).join();
/** Null when the payment was last settled by a version that did not record it. */
const lastHeld = ({ uncounted, exceptions }: Pick<Row, 'uncounted' | 'exceptions'>): PaymentRecord['last']['held'] =>
  uncounted === null && exceptions.some((name) => ON_HOLD.some((one) => one === name)) ? null : heldOf(uncountedFromJson(uncounted));

function toRecord(row: Row, rules: Rules, transfers: Transfer[], tips: Tips): PaymentRecord {
  const uncounted = uncountedFromJson(row.uncounted);
  const quotes: Quote[] = (row.quotes ?? []).map((q) => ({
    coin: q.coin,
    address: q.address,
    rateE8: q.rateE8 === null ? null : BigInt(q.rateE8),
    units: BigInt(q.units),
    from: new Date(q.from),
    until: new Date(q.until),
  }));
  const refunds = (row.refunds ?? []).map((sum) => ({ ...sum, units: BigInt(sum.units) }));
  const offsetMs = Number(row.offsetSeconds ?? 0n) * 1000;
  return {
    merchantId: row.merchantId,
    mode: row.mode,
    sequence: row.sequence,
    version: row.version,
    eventCount: row.eventCount,
    countedInMonth: row.countedInMonth,
    paths: row.paths ?? {},
    last: {
      seenUnits: seenOf(row, uncounted),
      announced: announcedOf(uncounted),
      expiresAt: row.expiresAt,
      coin: row.shownCoin,
      held: lastHeld(row),
    },
    sales: row.status !== 'completed' ? NO_POSITIONS : row.sales && toPositions(row.sales),
    marks: {
      openedAt: row.openedAt,
      seenAt: row.seenAt,
      paidUsdCents: row.paidUsdCents,
      refundRequestedAt: row.refundRequestedAt,
      reviewed: row.reviewed,
    },
    facts: {
      id: row.id,
      mode: row.mode,
      createdAt: row.createdAt,
      targetUsdCents: row.amountUsdCents,
      fixed: row.fixedCoin ? { coin: row.fixedCoin, units: row.fixedUnits! } : null,
      rules,
      extendedUntil: row.extendedUntil,
      rateLockUntil: row.rateLockUntil,
      quotes,
      decisions: (row.decisions ?? []).map((d) => ({ ...d, at: new Date(d.at) })),
      status: row.status,
      exceptions: row.exceptions,
      completedAt: row.completedAt,
      ...(hasApproved(refunds) && { hasRefund: true }),
    },
    transfers,
    tips: row.mode === 'live' ? tips : {},
    plays: playsFromJson(row.simulation),
    request: requestFromJson(row.request),
    invoiceId: row.invoiceId,
    metadata: asTextMap(row.metadata),
    customer: row.customer,
    refunds,
    createdWith: row.createdWith,
    replacedBy: row.replacedBy,
    scenario: scenarioFromText(row.scenario),
    realNow: row.realNow,
    now: addMs(row.realNow, offsetMs),
    offsetMs,
  };
}

/** A chain without blocks. */
const QUIET = { height: 0, hash: '', safeHeight: null, finalizedHeight: null, chainlockHeight: null, holdReason: null };
/** The tips a record is settled with: those of the followed chains, or of the payment's own simulated chain at its `now`. */
export function tipsOf(record: PaymentRecord): Tips {
  if (record.mode === 'live') return record.tips;
  const quiet: Tip = { ...QUIET, scannedThrough: record.now };
  const tips: Partial<Record<Coin, Tip>> = Object.fromEntries(record.facts.quotes.map((q) => [q.coin, quiet]));
  const seen = observe(record);
  if (seen) for (const { coin } of [...record.plays, ...seen.transfers]) tips[coin] = { ...quiet, ...seen.tip, scannedThrough: record.now };
  return tips;
}

/** What the simulated chain of a test payment shows at its `now`; null when no scenario has started. */
export function observe(record: PaymentRecord): Observation | null {
  if (record.plays.length === 0) return null;
  const windowEndsAt = settle(record.facts, record.transfers, {}, record.now).expiresAt;
  const stakes = {
    receivedCents: e8ToCents(record.transfers.reduce((total, { values }) => total + (values.at(-1)?.usdE8 ?? 0n), 0n)),
    company: record.transfers.reduce((most, t) => (companyCents(t) > most ? companyCents(t) : most), 0n),
  };
  return simulate(record.plays, {
    needed: (coin) => fewestOf(requirementOf(record.facts, coin, { ...stakes, kinds: 'output' })),
    scriptOf: (coin) => testDeposit({ merchantId: record.merchantId, paymentId: record.facts.id, coin }).key,
    paymentId: record.facts.id,
    targetUsdCents: record.facts.targetUsdCents,
    windowEndsAt,
    completedAt: record.facts.completedAt,
    now: record.now,
  });
}

/** What can follow the first scenario: each adds a transfer, or ends the window. */
const FURTHER: readonly Scenario[] = [
  'success',
  'slow',
  'held',
  'underpaid',
  'overpaid',
  'late',
  'expired',
  'wrong_network',
  'wrong_token',
];

/** What the payer of a test payment can do next. Empty while something is still happening, and for live payments. */
export function nextScenarios(record: PaymentRecord, { status, exceptions, expiresAt }: Settlement): readonly Scenario[] {
  if (record.mode === 'live' || observe(record)?.wakeAt) return [];
  const coin = record.facts.quotes.at(-1)?.coin;
  const offered = (names: readonly Scenario[]) => (coin ? names.filter((name) => scenariosOf(coin).includes(name)) : names);
  switch (status) {
    case 'pending':
      if (record.now >= expiresAt) return [];
      return offered(record.plays.length === 0 ? SCENARIOS : FURTHER);
    case 'expired':
    case 'failed':
      return record.facts.quotes.length === 0 || exceptions.includes('late') ? [] : ['late'];
    case 'cancelled':
      return record.facts.quotes.length === 0 || exceptions.includes('paid_after_cancel') ? [] : ['success'];
    case 'processing':
    case 'completed':
      return [];
  }
}

/** The transfers of the largest worth, up to this many, in their original order; on a tie the earlier one wins. */
function largest(transfers: readonly Transfer[], count: number): readonly Transfer[] {
  if (transfers.length <= count) return transfers;
  const kept: { worthE8: bigint; at: number }[] = [];
  for (const [at, t] of transfers.entries()) {
    const worthE8 = t.values.at(-1)?.usdE8 ?? 0n;
    if (kept.length === count && worthE8 <= kept.at(-1)!.worthE8) continue;
    kept.splice(kept.findLastIndex((k) => k.worthE8 >= worthE8) + 1, 0, { worthE8, at });
    if (kept.length > count) kept.pop();
  }
  return kept
    .map((k) => k.at)
    .sort((a, b) => a - b)
    .map((at) => transfers[at]!);
}

/**
 * The view of a record. Without a `settlement` just computed, amounts and confirmations are derived here, but the status is
 * the stored one: a read never runs ahead of the events.
 */
export function toView(record: PaymentRecord, settlement?: Settlement): PaymentView {
  settlement ??= {
    ...settle(record.facts, record.transfers, tipsOf(record), record.now),
    status: record.facts.status,
    exceptions: record.facts.exceptions,
    exception: record.facts.exceptions[0] ?? null,
    completedAt: record.facts.completedAt,
    expiresAt: record.last.expiresAt,
  };
  const coin = settlement.coin;
  const quotes = record.facts.quotes.filter((q) => q.coin === coin);
  return {
    merchantId: record.merchantId,
    sequence: record.sequence,
    version: record.version,
    facts: record.facts,
    settlement,
    transfers: largest(record.transfers, SHOWN_TRANSFERS),
    transfersCount: record.transfers.length,
    quote: quotes.at(-1) ?? null,
    derivationPath: (coin && record.paths[COIN[coin].family]) ?? null,
    request: record.request,
    invoiceId: record.invoiceId,
    metadata: record.metadata,
    customer: record.customer,
    refundedUnits: (coin && returnedUnits(record.refunds)[coin]) ?? 0n,
    createdWith: record.createdWith,
    replacedBy: record.replacedBy,
    scenario: record.scenario,
    nextScenarios: nextScenarios(record, settlement),
    eventCount: record.eventCount,
    now: record.now,
  };
}
