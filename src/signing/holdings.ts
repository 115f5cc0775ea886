/** What lies on deposit addresses, from the ledger of transfers, and why a part of it stays there. */
import { isBitcoinLike, type Script, type Signer, signersOf } from '#addresses';
import type { Context } from '#context';
import {
  ALL_COINS,
  COIN,
  type Coin,
  chainCode,
  chainOf,
  coinsBeside,
  FAMILIES,
  type Family,
  familyIn,
  finalityOf,
  isToken,
  kindOf,
  nativeOf,
  testFamily,
} from '#core/coin';
import type { PaymentStatus, TransferKind } from '#core/payment';
import { confirmedUnits, isPaidOut, isReserved, REFUND_STATES } from '#core/refund';
import { isFinal } from '#core/status';
import { asBigint, asList, asObject, asText, type StoredJson } from '#core/stored-json';
import { outputsFromJson, uncountedFromJson } from '#core/stored-payment';
import type { Sql, Tx } from '#db';
import { isRefundWanted, readOwnedRecords, tipsOf } from '#settling';
import { keepTestWallet, testDeposit } from '#wallets';
import { tipsIn } from './simulated-blocks.ts';

/** Why money stays on its address. `spent`: the chain says that it is not there any more. */
export const STAY_REASONS = [
  'unconfirmed',
  'immature',
  'disputed',
  'undecided',
  'refund_requested',
  'payout_approved',
  'young',
  'small',
  'dust',
  'fee',
  'frozen',
  'refused',
  'unclear',
  'spent',
  'busy',
  'unreadable',
  'later',
] as const;
export type StayReason = (typeof STAY_REASONS)[number];

/** LTC: outputs from an extension block cannot be spent for this many blocks (LIP-3). */
const PEGOUT_MATURITY = 6;
/** Blocks after which a sent transaction counts as confirmed where locks decide, so that no count is in the table. */
const LOCKED_DEPTH = 6;
/** Transfers that are read for one list or file. */
export const MOST_TRANSFERS = 20_000;

/** A transfer that no open file spends. */
export type Holding = {
  coin: Coin;
  paymentId: string;
  ref: string;
  txid: string | null;
  address: string;
  units: bigint;
  /** What earlier files left of it. */
  leftUnits: bigint;
  kind: TransferKind;
  outputs: readonly { n: number; units: bigint }[] | 'unreadable' | null;
  blockHeight: number | null;
  blockHash: string | null;
  firstSeenAt: Date;
  index: bigint;
  /** Set when it cannot be swept now. */
  stays: StayReason | null;
};
export type SweepWallet = {
  id: string;
  family: Family;
  chainKey: string;
  accountKey: string;
  script: Script;
  path: string;
  /** In the order of its chain keys. */
  signers: readonly Signer[];
  active: boolean;
};

/** Wallets of a merchant that have issued addresses, those in use first. */
export async function readWallets(ctx: Context, { merchantId }: { merchantId: string }): Promise<SweepWallet[]> {
  const isTest = ctx.mode === 'test';
  if (isTest) await issueTestAddresses(ctx, { merchantId });
  const names = isTest ? FAMILIES.map(testFamily) : (FAMILIES as readonly string[]);
  const rows = await ctx.db.sql<Omit<SweepWallet, 'signers'>[]>`
    select id, named.family, chain_key as "chainKey", account_key as "accountKey", script, path,
      active or paused_at is not null or ${isTest} as active
    from wallets w join unnest(${[...FAMILIES]}::text[], ${[...names]}::text[]) named (family, stored) on named.stored = w.family
    where merchant_id = ${merchantId} and (next_index > 0 or ${isTest})
    order by active desc, created_at desc, id limit 100`;
  return rows.map((row) => ({ ...row, signers: signersOf(row) }));
}

const tiersOf = (ctx: Context, coin: Coin) => ctx.settings.confirmations[nativeOf(coin)] ?? chainOf(coin).confirmations;
/** Confirmations from which received money may be spent: those of the smallest payments. */
const depthToSpend = (ctx: Context, coin: Coin): number => Math.max(1, tiersOf(ctx, coin)[0]?.confirmations ?? 1);
/** Confirmations from which money that was sent counts as gone: those of the largest payments. */
const depthToEnd = (ctx: Context, coin: Coin): number =>
  Math.max(1, finalityOf(coin) === 'locks' ? LOCKED_DEPTH : 1, ...tiersOf(ctx, coin).map(({ confirmations }) => confirmations));
/**
 * The newest block in which money that was sent counts as gone, by the rule of the largest payments: so deep, and where the network says
 * what is final, final too. Below zero: none.
 */
export async function readEndHeight(ctx: Context, coin: Coin, tip: { height: number }): Promise<number> {
  const deep = tip.height - depthToEnd(ctx, coin) + 1;
  const last = tiersOf(ctx, coin).at(-1);
  // The operator may have replaced this by a number of confirmations.
  if (last?.rule !== 'finalized') return deep;
  const [row] = await ctx.db.sql<{ final: number | null }[]>`
    select finalized_height::int as final from ${tipsIn(ctx, ctx.db.sql, coin)} where chain = ${chainCode(coin)}`;
  return Math.min(deep, (row?.final ?? -1) - last.confirmations);
}

/** The states of refunds whose money has not left yet. */
const OPEN_REFUNDS = REFUND_STATES.filter((state) => isReserved(state) && !isPaidOut(state));
/**
 * Whether money of the payment `p` may still be refunded: a refund is open, or the customer left an address and nobody has decided yet. A
 * stranger can leave one too, so it keeps nothing once the payment is completed and owes nothing, was handled, or had a refund that ended.
 */
export const hasOpenRefund = (sql: Sql | Tx) => sql`
  (exists (select 1 from outgoing_payments r where r.payment_id = p.id and r.state = any(${OPEN_REFUNDS as string[]}::text[]))
    or (${isRefundWanted(sql)} and not exists (select 1 from outgoing_payments r where r.payment_id = p.id and r.state <> 'requested')))`;

type Row = Omit<Holding, 'outputs' | 'stays' | 'blockHeight'> & {
  outputs: unknown;
  blockHeight: bigint | null;
  disputedSince: Date | null;
  status: PaymentStatus;
  needsDecision: boolean;
  refundRequested: boolean;
  uncounted: unknown;
  now: Date;
  /** Every transaction of an approved payout spends it. */
  isReserved: boolean;
};

function reasonOf(ctx: Context, row: Row, tipHeight: number | null): StayReason | null {
  const { coin, kind } = row;
  if (row.blockHeight === null || tipHeight === null) return 'unconfirmed';
  const depth = tipHeight - Number(row.blockHeight) + 1;
  if (depth < depthToSpend(ctx, coin)) return 'unconfirmed';
  const maturity = kind === 'coinbase' ? chainOf(coin).coinbaseMaturity : kind === 'pegout' ? PEGOUT_MATURITY : 0;
  if (depth < maturity) return 'immature';
  if (row.disputedSince) return 'disputed';
  if (row.isReserved) return 'payout_approved';
  if (row.refundRequested) return 'refund_requested';
  if (!isFinal(row.status)) return 'undecided';
  // Money that does not count can be moved too once the merchant decided about it: to keep it, or to send it back.
  const states = uncountedFromJson(row.uncounted).flatMap((part) => (part.coin === coin && part.state !== 'announced' ? [part.state] : []));
  const isHeld = states.includes('held') && row.needsDecision;
  return isHeld || (row.status !== 'completed' && states.length === 0) ? 'undecided' : null;
}

/**
 * Which transfers every file of an approved payout spends, so that nothing else may: the output or the account whose nonce it uses, or the
 * deposits that authorize it, also while it waits for its next file after the first one failed.
 */
async function readReserved({ mode, db: { sql } }: Context, { merchantId, coin }: { merchantId: string; coin: Coin }) {
  const rows = await sql<{ coin: Coin; anchor: string; parts: unknown }[]>`
    select coin, anchor, parts from outgoing_payments
    where kind = 'payout' and merchant_id = ${merchantId} and coin = any(${coinsBeside(coin)}::text[]) and mode = ${mode}
      and state in ('approved', 'signed', 'sent') and anchor is not null
      and (state = 'approved' or (parts is not null and (file_id is not null or published_until is not null)))`;
  const anchors = new Set(rows.map(({ anchor }) => anchor));
  const accounts = new Set(rows.flatMap(({ anchor }) => accountOfAnchor(anchor)?.toLowerCase() ?? []));
  const transfers = new Set(
    rows.flatMap((row) =>
      row.coin === coin
        ? (partsFromJson(row.parts) ?? []).flatMap((part) => part.transfers.map(({ paymentId, ref }) => `${paymentId} ${ref}`))
        : [],
    ),
  );
  return (
    { paymentId, ref, txid, address }: Pick<Holding, 'paymentId' | 'ref' | 'txid' | 'address'>,
    outputs: Holding['outputs'],
  ): boolean =>
    anchors.has(ref) ||
    accounts.has(address.toLowerCase()) ||
    transfers.has(`${paymentId} ${ref}`) ||
    (Array.isArray(outputs) && outputs.some(({ n }) => anchors.has(`${txid}:${n}`)));
}

/** What files took of the transfer `t` of an account, of which a part is left. */
export const takenOf = (sql: Sql | Tx) => sql`
  (select coalesce(sum(p.taken_units), 0) from signing_inputs p
    where p.payment_id = t.payment_id and p.coin = t.coin and p.ref = t.ref and p.taken_units is not null)`;

/** `dust`: transfers below the least that an output may hold. Anybody can send thousands of them, so they are only counted. */
type Holdings = { holdings: Holding[]; dust: Remainder; now: Date; tipHeight: number | null };
/**
 * Transfers on the addresses of a wallet that no open file spends and no other wallet moved, oldest first, and when they were read. `skip`: so many older ones were
 * read before.
 */
export async function readHoldings(
  ctx: Context,
  { merchantId, walletId, coin, skip = 0 }: { merchantId: string; walletId: string; coin: Coin; skip?: number },
): Promise<Holdings> {
  const { sql } = ctx.db;
  const free = sql`
    from transfers t
    join payments p on p.id = t.payment_id and p.merchant_id = t.merchant_id and p.mode = ${ctx.mode}
    join deposit_addresses a on a.payment_id = t.payment_id and a.family = ${familyIn(ctx.mode, coin)} and a.wallet_id = ${walletId}
    where t.merchant_id = ${merchantId} and t.coin = ${coin} and t.conflict_height is null
      and not exists (select 1 from signing_inputs i
        where i.payment_id = t.payment_id and i.coin = t.coin and i.ref = t.ref and i.released_at is null)
      and not exists (select 1 from moved_deposits m
        where m.payment_id = t.payment_id and m.coin = t.coin and m.ref = t.ref and m.moved_at is not null)`;
  // What a customer sent as dust counts when it is refunded.
  const isDust = sql`t.units < ${isBitcoinLike(COIN[coin].family) ? COIN[coin].dustUnits : 0n} and not ${hasOpenRefund(sql)}`;
  // The address of a test transfer is the name of its scenario.
  const address = ctx.mode === 'test' ? sql`a.address` : sql`t.address`;
  const [isReservedFor, [tip], rows, [dust]] = await Promise.all([
    readReserved(ctx, { merchantId, coin }),
    sql<{ height: bigint; now: Date }[]>`
      select (select height from ${tipsIn(ctx, sql, coin)} where chain = ${chainCode(coin)}) as height, clock_timestamp() as now`,
    sql<Omit<Row, 'isReserved'>[]>`
      select t.coin, t.payment_id as "paymentId", t.ref, t.txid, ${address} as address, t.units, t.units - ${takenOf(sql)} as "leftUnits", t.kind, t.outputs, t.block_height as "blockHeight",
        t.block_hash as "blockHash", t.first_seen_at as "firstSeenAt", t.disputed_since as "disputedSince", a.index,
        p.status, p.attention as "needsDecision", ${hasOpenRefund(sql)} as "refundRequested", p.uncounted, clock_timestamp() as now
      ${free} and not (${isDust}) order by t.first_seen_at, t.payment_id, t.ref limit ${MOST_TRANSFERS} offset ${skip}`,
    sql<{ count: number; units: bigint }[]>`select count(*)::int as count, coalesce(sum(t.units), 0) as units ${free} and ${isDust}`,
  ]);
  const tipHeight = tip!.height === null ? null : Number(tip!.height);
  const holdings = rows.map(({ outputs, blockHeight, ...row }): Holding => {
    const parts = isToken(coin) ? null : outputsFromJson(outputs);
    return {
      ...row,
      outputs: parts,
      blockHeight: blockHeight === null ? null : Number(blockHeight),
      stays: reasonOf(ctx, { ...row, outputs, blockHeight, isReserved: isReservedFor(row, parts) }, tipHeight),
    };
  });
  return { holdings, dust: { reason: 'dust', ...dust! }, now: tip!.now, tipHeight };
}

export const SWEEP_SPEEDS = ['slow', 'normal', 'fast'] as const;
/** What the merchant asks for besides the coin. */
export type SweepWish = {
  /** Only money that was first seen at least so long ago. */
  minAgeHours: number;
  /** Only addresses with at least this much. */
  minUnits: bigint;
  /** An address stays if its share of the fee would be above this part of its money, in percent. */
  maxFeePercent: number;
  speed: (typeof SWEEP_SPEEDS)[number];
};
export const DEFAULT_WISH: SweepWish = { minAgeHours: 0, minUnits: 0n, maxFeePercent: 10, speed: 'normal' };

/**
 * By address: what of it may be swept by age and amount. An account is emptied as a whole, so one reason keeps all of it. What is not
 * confirmed yet keeps nothing else: strangers can send small amounts all the time.
 */
export function selectHoldings(
  holdings: readonly Holding[],
  { wish, now, wholeAddress }: { wish: SweepWish; now: Date; wholeAddress: boolean },
): Holding[] {
  const sums = new Map<string, bigint>();
  const reasons = new Map<string, StayReason>();
  for (const { address, leftUnits, stays } of holdings) {
    if (stays === null) sums.set(address, (sums.get(address) ?? 0n) + leftUnits);
    else if (wholeAddress && stays !== 'unconfirmed') reasons.set(address, stays);
  }
  const ageMs = wish.minAgeHours * 3_600_000;
  return holdings.map((holding) => {
    const { address, stays, firstSeenAt } = holding;
    if (stays !== null) return holding;
    const kept = reasons.get(address);
    if (kept) return { ...holding, stays: kept };
    if (now.getTime() - firstSeenAt.getTime() < ageMs) return { ...holding, stays: 'young' };
    return (sums.get(address) ?? 0n) < wish.minUnits ? { ...holding, stays: 'small' } : holding;
  });
}

/** What stays, by reason. */
export type Remainder = { reason: StayReason; count: number; units: bigint };
export function remainderOf(holdings: readonly Pick<Holding, 'stays' | 'units'>[], dust: Remainder): Remainder[] {
  const found = new Map<StayReason, Remainder>(dust.count === 0 ? [] : [['dust', dust]]);
  for (const { stays, units } of holdings) {
    if (stays === null) continue;
    const one = found.get(stays) ?? { reason: stays, count: 0, units: 0n };
    found.set(stays, { ...one, count: one.count + 1, units: one.units + units });
  }
  return STAY_REASONS.flatMap((reason) => found.get(reason) ?? []);
}

/**
 * Why refunds that were approved cannot be paid now, by their IDs: what was true then may have changed. `open`: more money could complete the
 * payment, and count what is returned. `gone`: less of its money is confirmed than its refunds return, and nobody else's pays for it.
 */
export async function readUnpayable(
  ctx: Context,
  sql: Sql | Tx,
  { merchantId, coin, asked }: { merchantId: string; coin: Coin; asked: readonly { id: string; paymentId: string }[] },
): Promise<ReadonlyMap<string, 'open' | 'gone'>> {
  if (asked.length === 0) return new Map();
  const paymentIds = asked.map(({ paymentId }) => paymentId);
  const records = await readOwnedRecords(
    ctx,
    sql as Sql,
    paymentIds.map((paymentId) => ({ merchantId, mode: ctx.mode, paymentId })),
  );
  const rows = await sql<{ paymentId: string; units: string }[]>`
    select payment_id as "paymentId", sum(units)::text as units from outgoing_payments
    where payment_id = any(${paymentIds}::text[]) and coin = ${coin} and state <> 'canceled' group by payment_id`;
  const reserved = new Map(rows.map(({ paymentId, units }) => [paymentId, BigInt(units)]));
  return new Map(
    asked.flatMap(({ id, paymentId }, i): (readonly [string, 'open' | 'gone'])[] => {
      const record = records[i];
      if (!record || !isFinal(record.facts.status)) return [[id, 'open']];
      return confirmedUnits(record.facts, record.transfers, tipsOf(record), coin) < (reserved.get(paymentId) ?? 0n) ? [[id, 'gone']] : [];
    }),
  );
}

/**
 * The refunds in a signing file that nobody was paid yet, whose payments are locked, so that what they return is still there when it is
 * used. `number`: only those that one of its transactions pays.
 */
export async function lockRefundsIn(
  tx: Tx,
  { merchantId, sweepId, number = null }: { merchantId: string; sweepId: string; number?: number | null },
): Promise<{ id: string; paymentId: string }[]> {
  const refunds = await tx<{ id: string; paymentId: string }[]>`
    select id, payment_id as "paymentId" from outgoing_payments
    where kind = 'refund' and file_id = ${sweepId} and merchant_id = ${merchantId} and state in ('approved', 'signed')
      ${number === null ? tx`` : tx`and transaction_number = ${number}`}`;
  if (refunds.length > 0)
    await tx`
      select 1 from payments where id = any(${refunds.map(({ paymentId }) => paymentId)}::text[]) and merchant_id = ${merchantId}
      order by id for share`;
  return [...refunds];
}

// The deposits that pay a payout by authorization, fixed by its first file and stored with the payout: the same authorizations in every
// file can be executed once only. Read field by field, as other versions wrote them. Pure.

/** The address of an anchor that fixes the nonce of an account; null: the anchor is something else. */
export function accountOfAnchor(anchor: string): string | null {
  const [kind, address] = anchor.split(':');
  return kind === 'nonce' && address !== undefined ? address : null;
}

/** The nonce of an anchor that fixes the nonce of an account. */
export const nonceIn = (anchor: string): number => Number(anchor.slice(anchor.lastIndexOf(':') + 1));

/** Incremented when the meaning of a field changes. A new field needs no new version, because it has a default. */
const VERSION = 1;

/** What an address authorizes, and what that takes of each of its transfers. */
type PayoutPart = {
  address: string;
  units: bigint;
  transfers: readonly { paymentId: string; ref: string; units: bigint }[];
};
/** The address that pays the recipient comes first. The others authorize transfers to it. */
export type PayoutParts = readonly PayoutPart[];

export const partsToJson = (parts: PayoutParts): StoredJson => ({
  v: VERSION,
  parts: parts.map(({ address, units, transfers }) => ({
    ...{ address, units: String(units) },
    transfers: transfers.map(({ paymentId, ref, units }) => ({ paymentId, ref, units: String(units) })),
  })),
});

/** Null: the payout has none. Empty: they cannot be read, so no file pays it. */
export function partsFromJson(value: unknown): PayoutParts | null {
  if (value === null || value === undefined) return null;
  const parts = asList(asObject(value).parts).map(partOf);
  return parts.every((part) => part !== null) ? parts : [];
}
function partOf(value: unknown): PayoutPart | null {
  const part = asObject(value);
  const [address, units] = [asText(part.address), asBigint(part.units)];
  const transfers = asList(part.transfers).map((one) => {
    const { paymentId, ref, units } = asObject(one);
    return { paymentId: asText(paymentId) ?? '', ref: asText(ref) ?? '', units: asBigint(units) ?? 0n };
  });
  return address === null || units === null ? null : { address, units, transfers };
}

// The addresses of test payments, from which rehearsals of signing files spend.

/** Test payments that get their addresses at once. */
const MOST_TEST_ADDRESSES = 5_000;

/** Gives test payments of a merchant that received something their addresses, of which a signing file spends. */
async function issueTestAddresses({ db }: Pick<Context, 'db'>, { merchantId }: { merchantId: string }): Promise<void> {
  const coins = ALL_COINS.filter((coin) => kindOf(coin) !== 'lightning');
  const families = coins.map((coin) => testFamily(COIN[coin].family));
  const paid = await db.sql<{ paymentId: string; coin: Coin }[]>`
    select distinct on (t.payment_id, member.family) t.payment_id as "paymentId", t.coin
    from transfers t join payments p on p.id = t.payment_id and p.mode = 'test'
    join unnest(${coins}::text[], ${families}::text[]) member (coin, family) on member.coin = t.coin
    where t.merchant_id = ${merchantId} and not exists (
      select 1 from deposit_addresses a where a.payment_id = t.payment_id and a.family = member.family)
    limit ${MOST_TEST_ADDRESSES}`;
  if (paid.length === 0) return;
  await db.begin(async (tx) => {
    for (const [family, some] of Map.groupBy(paid, ({ coin }) => testFamily(COIN[coin].family))) {
      const walletId = await keepTestWallet(tx, { merchantId, coin: some[0]!.coin });
      const given = some.map((one) => ({ ...one, ...testDeposit({ merchantId, ...one }) }));
      // Two payments with one index are so rare that the second waits for no address.
      await tx`
        insert into deposit_addresses (family, key, address, payment_id, merchant_id, wallet_id, index, created_at)
        select ${family}, key, address, payment, ${merchantId}, ${walletId}, index, clock_timestamp()
        from unnest(${given.map(({ key }) => key)}::text[], ${given.map(({ address }) => address)}::text[],
          ${given.map(({ paymentId }) => paymentId)}::text[], ${given.map(({ index }) => index.toString())}::bigint[])
          as given (key, address, payment, index) on conflict do nothing`;
    }
  });
}
