/**
 * The books of a merchant: double entry per coin in base units, and in US cents at the rate of each payment. Nothing is stored: every
 * entry follows from facts (transfers, what completed payments count, decisions, refunds, payouts, sweeps), so the books cannot disagree with them.
 */
import type { Context } from '#context';
import { ALL_COINS, COIN, type Coin, chainCode, feeCoinOf, kindOf, LIGHTNING, type Mode } from '#core/coin';
import { type Fiat, fiatDecimals } from '#core/fiat';
import { invariant } from '#core/invariant';
import type { Fragment, Sql, Tx } from '#db';

/**
 * `held_for_review`: money that no completed payment counts. `gas_address`: what pays for the gas of token sweeps; Florin does not see what
 * is sent to it, so its balance is below zero by all gas that it paid. `moved_elsewhere`: deposits that a transaction
 * spent that Florin did not make; it does not know where that money went. `network_fees`: also what Lightning providers kept.
 */
export const ACCOUNTS = [
  'deposit_addresses',
  'destination_wallet',
  'gas_address',
  'moved_elsewhere',
  'held_for_review',
  'overpayments',
  'sales',
  'refunds',
  'payouts',
  'network_fees',
] as const;
export type Account = (typeof ACCOUNTS)[number];

export const ACCOUNT_NAMES: Readonly<Record<Account | 'trial_balance', string>> = {
  deposit_addresses: 'Crypto in deposit addresses',
  destination_wallet: 'Crypto in destination wallet',
  gas_address: 'Crypto in gas address',
  moved_elsewhere: 'Moved by other transactions',
  held_for_review: 'Held for review',
  overpayments: 'Overpayments',
  sales: 'Sales',
  refunds: 'Refunds',
  payouts: 'Payouts',
  network_fees: 'Network fees',
  trial_balance: 'Trial balance',
};

const ENTRY_KINDS = [
  'received',
  'sale',
  'overpayment',
  'reversed',
  'restored',
  'refund',
  'marked_refunded',
  'payout',
  'swept',
  'moved_elsewhere',
  'network_fee',
  'provider_fee',
] as const;
export type EntryKind = (typeof ENTRY_KINDS)[number];

/** One entry: `units` of `coin` move from the account `credit` to the account `debit`. */
export type BookEntry = {
  at: Date;
  kind: EntryKind;
  coin: Coin;
  debit: Account;
  credit: Account;
  units: bigint;
  cents: bigint;
  paymentId: string | null;
  /** The transfer, the refund, the payout or the sweep behind it. */
  ref: string;
  txid: string | null;
  /** Whether a completed payment counts what was received. */
  counts: boolean;
  /** Of a signing file: what it is for. */
  purpose: 'sweep' | 'refund' | 'payout' | null;
  /** `cents` in the smallest units of the display currency, at the rate of the time at which it was valued; null for US dollars. */
  displayed: bigint | null;
};

export type BooksOwner = { merchantId: string; mode: Mode };
/** The merchant's display currency and its current rate, in units for one dollar; null for US dollars. */
export type Display = { currency: Fiat; rateE8: bigint } | null;

/** The rate of a payment as it is stored: the units of its currency for one US dollar, times 10^8. */
const OWN_RATE = /^[1-9]\d{0,30}$/;

const coinTable = (sql: Sql | Tx): Fragment => sql`
  coins as (
    select * from unnest(${[...ALL_COINS]}::text[], ${ALL_COINS.map((coin) => feeCoinOf(coin))}::text[],
      ${ALL_COINS.map((coin) => chainCode(coin))}::text[], ${ALL_COINS.map((coin) => COIN[coin].dustUnits.toString())}::text[]::numeric[],
      ${ALL_COINS.map((coin) => (kindOf(coin) === 'ethereum' ? 't' : 'f'))}::text[]::bool[],
      ${ALL_COINS.map((coin) => (coin === LIGHTNING ? 'destination_wallet' : 'deposit_addresses'))}::text[])
      as c (coin, fee_coin, chain, dust, has_accounts, arrives_in)
  )`;

/**
 * `cents` in the smallest units of the display currency: at the rate of a payment that was priced in it, else at the rate that was stored
 * with the value, else at the current one. Columns: `cents`, `fiat`, `rate`, `kept_fiat`, `kept_rate`.
 */
const displayed = (sql: Sql | Tx, display: Display, cents: Fragment): Fragment =>
  display === null
    ? sql`null::numeric`
    : sql`round(${cents} * (case when fiat = ${display.currency} and rate ~ ${OWN_RATE.source} then rate::numeric
        when kept_fiat = ${display.currency} and kept_rate ~ ${OWN_RATE.source} then kept_rate::numeric
        else ${display.rateE8.toString()}::numeric end) * 10::numeric ^ ${fiatDecimals(display.currency)} / 10000000000)`;
/** Of a change to an account: differences of rounded totals add up to the last one. */
const difference = (sql: Sql | Tx, display: Display, { total, change }: { total: Fragment; change: Fragment }): Fragment =>
  sql`${displayed(sql, display, total)} - ${displayed(sql, display, sql`(${total} - ${change})`)}`;

/** Refunds and payouts whose money left. What a member entered does not count once it is known not to pay. */
const isPaidOf = (sql: Sql | Tx, one: Fragment): Fragment => sql`
  (${one}.state = 'confirmed' or (${one}.state = 'sent' and (${one}.file_id is not null or ${one}.failure is null)))`;

/** In whole cents, a half to the even one, as settling rounds. */
const rounded = (sql: Sql | Tx, usdE8: Fragment): Fragment =>
  sql`case when ${usdE8} % 1000000 = 500000 and div(${usdE8}, 1000000) % 2 = 0 then div(${usdE8}, 1000000) else round(${usdE8} / 1000000) end`;

/**
 * What arrived, and how much of each transfer is part of a sale: `payment_sales` says what completed payments counted when, and what of it
 * left the chain later. A transfer without changes there is held while it is in a block.
 */
const arrivals = (sql: Sql | Tx, { merchantId, mode }: BooksOwner, display: Display): Fragment => sql`
  decided as (
    select distinct on (d.payment_id, ref) d.payment_id, ref, d.kind, d.at, d.txid
    from decisions d cross join lateral unnest(d.transfers) as ref
    where d.merchant_id = ${merchantId} and d.kind <> 'cancel'
    order by d.payment_id, ref, d.number desc
  ), recorded as (
    select payment_id, coin, ref, min(at) as sold_at, sum(sale_units + over_units) as sold, sum(sale_cents + over_cents) as sold_cents,
      sum(over_units) as surplus, sum(over_cents) as surplus_cents,
      -(array_agg(held_units order by number))[1] as first_units, -(array_agg(held_cents order by number))[1] as first_cents,
      sum(sale_units + over_units + held_units) - (array_agg(held_units order by number))[1] as here_units,
      sum(sale_cents + over_cents + held_cents) - (array_agg(held_cents order by number))[1] as here_cents
    from payment_sales where merchant_id = ${merchantId} group by 1, 2, 3
  ), worths as (
    -- The transfers of a payment are together worth their sum, rounded once. Dust is not part of it.
    select payment_id, coin, ref, case when is_dust then ${rounded(sql, sql`usd`)} else ${rounded(sql, sql`up_to`)} - ${rounded(sql, sql`(up_to - usd)`)} end as cents
    from (select w.*, sum(case when is_dust then 0 else usd end) over (partition by payment_id order by first_seen_at, ref, coin) as up_to from (
      select t.payment_id, t.coin, t.ref, date_trunc('milliseconds', t.first_seen_at) as first_seen_at,
        coalesce((t.values -> -1 ->> 'usdE8')::numeric, 0) as usd, t.units < c.dust * t.output_count as is_dust
      from transfers t join coins c on c.coin = t.coin where t.merchant_id = ${merchantId}) as w) as summed
  ), known as (
    select payment_id, coin, ref, txid, units, first_seen_at, block_height is not null or lock = 'preimage' as mined, conflict_height, values from transfers where merchant_id = ${merchantId}
    union all
    -- A transfer without a transaction of its own is deleted when its block is.
    select r.payment_id, r.coin, r.ref, null, r.first_units, r.sold_at, false, null, '[]'
    from recorded r where not exists (select 1 from transfers t where t.payment_id = r.payment_id and t.coin = r.coin and t.ref = r.ref)
  ), arrived as (
    select t.payment_id, t.coin, t.ref, t.txid, t.units, t.first_seen_at as at,
      case when r.ref is null then t.mined else here_units > 0 end as mined,
      coalesce(here_cents, w.cents) as cents, first_units, coalesce(first_cents, w.cents) as first_cents,
      -- A refund that is sent before it is settled that a completed payment counts more returns a part of the sale.
      case when r.ref is not null then greatest(p.completed_at, t.first_seen_at) end as sold_at, coalesce(sold, 0) as sold, coalesce(sold_cents, 0) as sold_cents,
      coalesce(surplus, 0) as surplus, coalesce(surplus_cents, 0) as surplus_cents,
      d.kind as decision, d.at as decided_at, d.txid as decided_txid,
      case d.kind when 'accept' then 0 when 'reject' then 2 when 'refund_sent' then 2 else 1 end as rank,
      p.request -> 'fiat' ->> 'currency' as fiat, p.request -> 'fiat' ->> 'rateE8' as rate,
      t.values -> -1 -> 'display' ->> 'currency' as kept_fiat, t.values -> -1 -> 'display' ->> 'rateE8' as kept_rate
    from known t
    join payments p on p.id = t.payment_id and p.merchant_id = ${merchantId} and p.mode = ${mode}
    left join worths w on w.payment_id = t.payment_id and w.coin = t.coin and w.ref = t.ref
    left join recorded r on r.payment_id = t.payment_id and r.coin = t.coin and r.ref = t.ref
    left join decided d on d.payment_id = t.payment_id and d.ref = t.ref
    where t.conflict_height is null or r.ref is not null
  ), marked as (
    select a.*, case when decision = 'refund_sent' and mined then units - sold else 0 end as marked,
      sum(case when mined then units - sold else 0 end) over (partition by payment_id, coin)
        - coalesce((select sum(r.units) from outgoing_payments r where r.payment_id = a.payment_id and r.coin = a.coin and ${isPaidOf(sql, sql`r`)}), 0)
        as room
    from arrived a
  ), settled as (
    -- Marking money as refunded after a part of it was refunded means the rest.
    select m.*, least(marked, greatest(0, room - sum(marked) over (partition by payment_id, coin order by rank, at, ref) + marked)) as returned,
      ${displayed(sql, display, sql`cents`)} as displayed
    from marked m
  ), valued as (
    -- Parts of a transfer add up to its value: what stays on hold is the rest.
    select s.*, displayed - ${displayed(sql, display, sql`(cents - sold_cents)`)} as sold_displayed,
      ${displayed(sql, display, sql`surplus_cents`)} as surplus_displayed, ${displayed(sql, display, sql`first_cents`)} as first_displayed,
      case when sold + returned = units then cents - sold_cents else round(cents * returned / units) end as returned_cents,
      case when sold + returned = units then ${displayed(sql, display, sql`(cents - sold_cents)`)} else round(displayed * returned / units) end
        as returned_displayed
    from settled s
  ), counted as (
    select c.*, v.txid, v.fiat, v.rate, v.kept_fiat, v.kept_rate, c.sale_units + c.over_units + c.held_units as net_units,
      c.sale_cents + c.over_cents + c.held_cents as net_cents, sum(c.over_cents) over so_far as over_total,
      v.first_cents + sum(c.held_cents) over so_far as held_total,
      v.first_cents + sum(c.sale_cents + c.over_cents + c.held_cents) over so_far as total
    from payment_sales c join valued v on v.payment_id = c.payment_id and v.coin = c.coin and v.ref = c.ref
    where c.merchant_id = ${merchantId}
    window so_far as (partition by c.payment_id, c.coin, c.ref order by c.number)
  ), booked as (
    select b.*, all_displayed - over_displayed - held_displayed as sale_displayed from (
      select c.*, ${difference(sql, display, { total: sql`over_total`, change: sql`over_cents` })} as over_displayed,
        ${difference(sql, display, { total: sql`held_total`, change: sql`held_cents` })} as held_displayed,
        ${difference(sql, display, { total: sql`total`, change: sql`net_cents` })} as all_displayed
      from counted c) as b
  )`;

/**
 * Refunds that were sent. What is not part of a sale goes back first: held money, then overpayments. That has the value with which it
 * arrived, the oldest first, so that nothing is left of it when all of it is gone.
 */
const refunding = (sql: Sql | Tx, { merchantId, mode }: BooksOwner, display: Display): Fragment => sql`
  paid_back as (
    select r.id, r.number, r.payment_id, r.coin, r.units, r.usd_cents as cents, r.txid, r.sent_at,
      sum(r.units) over (partition by r.payment_id, r.coin order by r.sent_at, r.number) - r.units as before,
      p.request -> 'fiat' ->> 'currency' as fiat, p.request -> 'fiat' ->> 'rateE8' as rate,
      r.display_currency as kept_fiat, r.display_rate::text as kept_rate
    from outgoing_payments r join payments p on p.id = r.payment_id and p.merchant_id = r.merchant_id
    where r.merchant_id = ${merchantId} and r.mode = ${mode} and ${isPaidOf(sql, sql`r`)} and r.sent_at is not null
  ), owed as (
    select b.id,
      sum(s.units - case when s.sold_at <= b.sent_at then s.sold else 0 end - case when s.decided_at <= b.sent_at then s.returned else 0 end) as held,
      sum(case when s.sold_at <= b.sent_at then s.surplus else 0 end) as over
    from paid_back b join settled s on s.payment_id = b.payment_id and s.coin = b.coin and s.mined and s.at <= b.sent_at
    group by b.id
  ), shared as (
    select b.*, ${displayed(sql, display, sql`cents`)} as displayed, least(b.units, greatest(0, coalesce(o.held, 0) - b.before)) as from_held,
      greatest(0, least(b.before + b.units, coalesce(o.held + o.over, 0)) - greatest(b.before, coalesce(o.held, 0))) as from_over
    from paid_back b left join owed o on o.id = b.id
  ), taken as (
    select s.*, sum(from_held) over earlier - from_held as held_before, sum(from_over) over earlier - from_over as over_before
    from shared s window earlier as (partition by payment_id, coin order by sent_at, number)
  ), lots as (
    select v.payment_id, v.coin, part.*, sum(part.units) over (partition by v.payment_id, v.coin, part.account order by v.at, v.ref) - part.units as start
    from valued v cross join lateral (values
      ('held', v.units - sold - returned, v.cents - sold_cents - returned_cents, v.displayed - sold_displayed - returned_displayed),
      ('over', surplus, surplus_cents, surplus_displayed)) as part (account, units, cents, displayed)
    where v.mined and part.units > 0 and v.payment_id in (select payment_id from paid_back)
  ), drawn as (
    select t.id, l.account, sum(round(l.cents * reached / l.units) - round(l.cents * past / l.units)) as cents,
      sum(round(l.displayed * reached / l.units) - round(l.displayed * past / l.units)) as displayed
    from taken t join lots l on l.payment_id = t.payment_id and l.coin = t.coin
    cross join lateral (select case l.account when 'held' then held_before else over_before end - l.start as first,
      case l.account when 'held' then from_held else from_over end as size) span
    cross join lateral (select least(l.units, greatest(0, first)) as past, least(l.units, greatest(0, first + size)) as reached) slice
    group by 1, 2
  ), refunded as (
    select t.*, coalesce(h.cents, 0) as held_cents, coalesce(h.displayed, 0) as held_displayed, coalesce(o.cents, 0) as over_cents,
      coalesce(o.displayed, 0) as over_displayed, t.cents - round(t.cents * (from_held + from_over) / t.units) as sale_cents,
      t.displayed - round(t.displayed * (from_held + from_over) / t.units) as sale_displayed
    from taken t left join drawn h on h.id = t.id and h.account = 'held' left join drawn o on o.id = t.id and o.account = 'over'
  )`;

/** Payouts that were sent. */
const payingOut = (sql: Sql | Tx, { merchantId, mode }: BooksOwner, display: Display): Fragment => sql`
  paid_out as (
    select p.*, ${displayed(sql, display, sql`cents`)} as displayed
    from (select id, merchant_id, mode, coin, units, usd_cents, usd_cents as cents, state, file_id, failure, txid, sent_at,
        null::text as fiat, null::text as rate, display_currency as kept_fiat, display_rate::text as kept_rate
      from outgoing_payments where kind = 'payout') p
    where merchant_id = ${merchantId} and mode = ${mode} and ${isPaidOf(sql, sql`p`)}
  )`;

/** Refunds that shops requested for no payment, which members sent from their own wallets. */
const refundingShops = (sql: Sql | Tx, { merchantId, mode }: BooksOwner, display: Display): Fragment => sql`
  shop_paid as (
    select r.*, ${displayed(sql, display, sql`cents`)} as displayed
    from (select *, coalesce(usd_cents, 0) as cents, null::text as fiat, null::text as rate, null::text as kept_fiat, null::text as kept_rate
      from shop_refunds) r
    where merchant_id = ${merchantId} and mode = ${mode} and sent_at is not null and units is not null
  )`;

/**
 * Sweeps that ended, with what they moved at its worth when it arrived, and the fees of their mined transactions. What they moved is
 * worth the same in the display currency as the transfers were, so that nothing is left on the deposit addresses.
 */
const sweeping = (sql: Sql | Tx, { merchantId, mode }: BooksOwner): Fragment => sql`
  ended as (
    select s.id, s.number, s.coin, s.purpose, s.ended_at, c.fee_coin, c.has_accounts from signing_files s join coins c on c.coin = s.coin
    where s.merchant_id = ${merchantId} and s.mode = ${mode} and s.state in ('confirmed', 'failed') and s.ended_at is not null
  ), moves as (
    select e.id, i.payment_id, i.coin, i.ref, i.lost_at is not null as lost, sum(i.units) as units
    from ended e join signing_inputs i on i.file_id = e.id
    where i.released_at is null and i.payment_id is not null group by 1, 2, 3, 4, 5
  ), moved_of as (
    select m.id, m.payment_id, sum(m.units) as units, sum(round(s.cents * m.units / s.units)) as cents,
      sum(round(s.displayed * m.units / s.units)) as displayed
    from moves m join settled s on s.payment_id = m.payment_id and s.coin = m.coin and s.ref = m.ref and s.mined
    where not m.lost group by 1, 2
  ), lost as (
    select m.id, m.coin, sum(m.units) as units, sum(round(s.cents * m.units / s.units)) as cents,
      sum(round(s.displayed * m.units / s.units)) as displayed
    from moves m join settled s on s.payment_id = m.payment_id and s.coin = m.coin and s.ref = m.ref and s.mined
    where m.lost group by 1, 2
  ), stray as (
    select d.coin, d.payment_id, d.ref, max(d.moved_at) as at, sum(d.units) as units, sum(round(s.cents * d.units / s.units)) as cents,
      sum(round(s.displayed * d.units / s.units)) as displayed
    from moved_deposits d join settled s on s.payment_id = d.payment_id and s.coin = d.coin and s.ref = d.ref and s.mined
    where d.merchant_id = ${merchantId} and d.moved_at is not null group by 1, 2, 3
  ), stray_taken as (
    -- What files had taken of a deposit before is booked from the destination wallet, so that part came there.
    select d.coin, d.payment_id, d.ref, d.at, f.id, f.purpose, i.taken_units as units, round(d.cents * i.taken_units / d.units) as cents,
      round(d.displayed * i.taken_units / d.units) as displayed
    from stray d join signing_inputs i on i.payment_id = d.payment_id and i.coin = d.coin and i.ref = d.ref and i.taken_units > 0
    join signing_files f on f.id = i.file_id
  ), stray_left as (
    select d.coin, d.payment_id, d.ref, d.at, d.units - coalesce(sum(t.units), 0) as units, d.cents - coalesce(sum(t.cents), 0) as cents,
      d.displayed - coalesce(sum(t.displayed), 0) as displayed
    from stray d left join stray_taken t on t.payment_id = d.payment_id and t.coin = d.coin and t.ref = d.ref
    group by d.coin, d.payment_id, d.ref, d.at, d.units, d.cents, d.displayed
  ), moved as (
    select id, sum(units) as units, sum(cents) as cents, sum(displayed) as displayed from moved_of group by 1
  ), paid as (
    -- What mined transactions of files paid to others.
    select e.id as file_id, 'refund' as kind, r.id, r.payment_id, r.units, t.txid, coalesce(t.paid_units, t.fee_units) as fee_units,
      t.fee_units as most, t.after_number is not null as is_funded
    from ended e join outgoing_payments r on r.file_id = e.id and r.kind = 'refund'
    join signed_transactions t on t.file_id = e.id and t.number = r.transaction_number and t.block_height is not null
    where cardinality(t.unmoved) = 0 or not exists (select 1 from deposit_addresses a
      where a.payment_id = r.payment_id and lower(a.address) = any(t.unmoved))
    union all
    -- What several deposits pay together left each of them.
    select e.id, 'payout', p.id, coalesce(part.payment_id, a.payment_id), coalesce(part.units, p.units), t.txid,
      coalesce(t.paid_units, t.fee_units), t.fee_units, t.after_number is not null
    from ended e join outgoing_payments p on p.file_id = e.id and p.kind = 'payout'
    join signed_transactions t on t.file_id = e.id and t.number = p.transaction_number and t.block_height is not null
    left join deposit_addresses a on p.anchor like 'nonce:%' and a.address = split_part(p.anchor, ':', 2) and a.wallet_id = p.wallet_id
    left join lateral (select one -> 'transfers' -> 0 ->> 'paymentId' as payment_id, (one ->> 'units')::numeric as units
      from jsonb_array_elements(p.parts -> 'parts') as one) part on true
    where cardinality(t.unmoved) = 0 or not lower(coalesce(p.parts -> 'parts' -> 0 ->> 'address', a.address)) = any(t.unmoved)
  ), fees as (
    -- What arrived is known for accounts, and what their money was planned to pay at most.
    select e.id, sum(coalesce(t.paid_units, t.fee_units)) as units, sum(case when e.coin = e.fee_coin then t.fee_units else 0 end) as most,
      case when bool_and(t.arrived_units is not null) then sum(t.arrived_units) end as arrived
    from ended e join signed_transactions t on t.file_id = e.id
    where t.block_height is not null and (e.coin <> e.fee_coin or cardinality(t.unmoved) = 0) group by 1
  ), own_fees as (
    -- What an account refunds or pays out is paid in full, so its fee comes from the rest of the money, or from the gas address.
    select e.id, p.id as refund_id, p.payment_id, p.units, coalesce(r.usd_cents, o.usd_cents) as cents, coalesce(b.displayed, o.displayed) as displayed,
      case when is_funded then least(p.fee_units, greatest(0, coalesce(m.units, 0) - p.units)) else p.fee_units end as own
    from ended e join paid p on p.file_id = e.id left join outgoing_payments r on r.id = p.id and r.kind = 'refund' left join paid_out o on o.id = p.id
    left join refunded b on b.id = p.id left join moved_of m on m.id = e.id and m.payment_id = p.payment_id
    where e.coin = e.fee_coin and e.has_accounts
  ), given_back as (
    select id, sum(units) as units, sum(cents) as cents, sum(displayed) as displayed, sum(own) as own from own_fees group by id
  )`;

/** What of each of these files moved to the destination, paid for fees, stayed on accounts, or had left them before. */
const parting = (sql: Sql | Tx): Fragment => sql`
  had as (
    -- What was on an account for a file: the transfers that the books move with it, without what earlier files took of them, and what it
    -- took of those of which a part was left. A sweep does that where its deposit left the chain, and its customer paid more afterwards.
    select id, payment_id, sum(units) as units from (
      select id, payment_id, units from moved_of
      union all
      select m.id, m.payment_id, -i.taken_units from moves m
      join signing_inputs i on i.payment_id = m.payment_id and i.coin = m.coin and i.ref = m.ref and i.taken_units is not null
      union all
      select e.id, i.payment_id, i.taken_units from ended e join signing_inputs i on i.file_id = e.id and i.taken_units is not null) as parts
    group by 1, 2
  ), missed as (
    -- What was on an account, and neither left it with a file nor stayed there for its fee: others moved it before.
    select e.id, greatest(0, sum(h.units) - max(f.arrived) - max(f.most)) as units
    from ended e join had h on h.id = e.id join fees f on f.id = e.id
    where e.has_accounts and e.purpose = 'sweep' and f.arrived is not null group by 1
    union all
    select id, sum(greatest(0, units)) from (
      select e.id, h.units - sum(p.units + case when e.coin = e.fee_coin then p.most else 0 end) as units
      from ended e join paid p on p.file_id = e.id join had h on h.id = e.id and h.payment_id = p.payment_id
      where e.has_accounts group by e.id, h.payment_id, h.units) as outs group by 1
  ), costs as (
    select e.*, coalesce(m.units, 0) as units, coalesce(m.cents, 0) as cents, m.displayed, coalesce(f.units, 0) as fees, b.id is not null as is_refund,
      b.units as refunded, b.cents as refunded_cents, b.displayed as refunded_displayed,
      least(coalesce(f.units, 0), b.own) as own, coalesce(f.most, 0) as most, f.arrived is not null as is_known, coalesce(x.units, 0) as missing
    from ended e left join moved m on m.id = e.id left join fees f on f.id = e.id left join given_back b on b.id = e.id
    left join missed x on x.id = e.id
  ), priced as (
    select c.*,
      case when coin = fee_coin and not is_refund then least(fees, units) else 0 end as fee,
      case when coin <> fee_coin then fees when is_refund then fees - own else 0 end as gas,
      -- What a refund takes is booked from the destination wallet, and so is its fee: a sweep adds what arrived.
      case when is_refund then own when has_accounts and coin = fee_coin then greatest(0, fees - units) else 0 end as refund_fee,
      (select t.txid from signed_transactions t where t.file_id = c.id and t.block_height is not null order by t.number, t.round limit 1) as txid
    from costs c
  ), kept as (
    -- More stays on an account than the fee, because that was planned at its highest.
    select p.*, case when coin = fee_coin and not is_refund and is_known then greatest(0, least(most - fees, units - fee)) else 0 end as stays
    from priced p
  ), parted as (
    select k.*, least(missing, units - fee - stays) as elsewhere from kept k
  ), swept as (
    select p.*, units - fee - stays - elsewhere as net, coalesce(round(cents * fee / nullif(units, 0)), 0) as fee_cents,
      coalesce(round(displayed * fee / nullif(units, 0)), 0) as fee_displayed,
      coalesce(round(cents * (fee + elsewhere) / nullif(units, 0)), 0) as gone_cents,
      coalesce(round(displayed * (fee + elsewhere) / nullif(units, 0)), 0) as gone_displayed,
      coalesce(round(cents * (units - stays) / nullif(units, 0)), 0) as all_cents,
      coalesce(round(displayed * (units - stays) / nullif(units, 0)), 0) as all_displayed
    from parted p
  )`;

/** All entries, as the common table expression `entries`. */
const entriesCte = (sql: Sql | Tx, owner: BooksOwner, display: Display = null): Fragment => sql`
  with ${coinTable(sql)}, ${arrivals(sql, owner, display)}, ${refunding(sql, owner, display)},
  ${payingOut(sql, owner, display)}, ${refundingShops(sql, owner, display)}, ${sweeping(sql, owner)}, ${parting(sql)}, entries as (
    select at, 'received' as kind, coin, arrives_in as debit, 'held_for_review' as credit, coalesce(first_units, units) as units,
      first_cents as cents, payment_id, ref, txid, first_units is not null as counts, null as purpose, first_displayed as displayed
    from valued join coins using (coin) where mined or first_units is not null
    union all
    select at, case when net_units < 0 then 'reversed' when net_units > 0 then 'restored' when account = 'sales' then 'sale' else 'overpayment' end,
      coin, case when part.units > 0 then other else account end, case when part.units > 0 then account else other end, abs(part.units),
      abs(part.cents), payment_id, ref, txid, true, null, abs(part.displayed)
    from booked b cross join lateral (values
      ('sales', case when net_units = 0 and held_units = 0 then 0 else sale_units end, sale_cents, sale_displayed),
      ('overpayments', over_units, over_cents, over_displayed),
      ('held_for_review', case when net_units = 0 then 0 else held_units end, held_cents, held_displayed)
    ) as part (account, units, cents, displayed)
    cross join lateral (select case when net_units <> 0 then 'deposit_addresses' when held_units <> 0 then 'held_for_review' else 'sales' end as other) o
    where part.units <> 0
    union all
    select sent_at, 'refund', coin, 'refunds', 'destination_wallet', units, cents, null, id, txid, false, null, displayed from shop_paid
    union all
    select decided_at, 'marked_refunded', coin, 'held_for_review', 'destination_wallet', returned, returned_cents, payment_id, ref,
      decided_txid, false, null, returned_displayed
    from valued where returned > 0
    union all
    select r.sent_at, 'refund', r.coin, part.account, 'destination_wallet', part.units, part.cents, r.payment_id, r.id, r.txid, false,
      null, part.displayed
    from refunded r cross join lateral (values ('held_for_review', from_held, held_cents, held_displayed),
      ('overpayments', from_over, over_cents, over_displayed),
      ('refunds', r.units - from_held - from_over, sale_cents, sale_displayed)) as part (account, units, cents, displayed)
    where part.units > 0
    union all
    select sent_at, 'payout', coin, 'payouts', 'destination_wallet', units, usd_cents, null, id, txid, false, null, displayed
    from paid_out
    union all
    select ended_at, 'swept', coin, 'destination_wallet', 'deposit_addresses', net, all_cents - gone_cents, null, id, txid, false, purpose,
      all_displayed - gone_displayed
    from swept where net > 0
    union all
    select ended_at, 'moved_elsewhere', coin, 'moved_elsewhere', 'deposit_addresses', elsewhere, gone_cents - fee_cents, null, id, null, false,
      purpose, gone_displayed - fee_displayed
    from swept where elsewhere > 0
    union all
    select e.ended_at, 'moved_elsewhere', l.coin, 'moved_elsewhere', 'deposit_addresses', l.units, l.cents, null, e.id, null, false, e.purpose,
      l.displayed
    from lost l join ended e on e.id = l.id
    union all
    select at, 'moved_elsewhere', coin, 'moved_elsewhere', 'deposit_addresses', units, cents, payment_id, ref, null, false, null, displayed
    from stray_left where units > 0
    union all
    select at, 'swept', coin, 'destination_wallet', 'deposit_addresses', units, cents, null, id, null, false, purpose, displayed
    from stray_taken
    union all
    select ended_at, 'network_fee', coin, 'network_fees', 'deposit_addresses', fee, fee_cents, null, id, txid, false, purpose, fee_displayed
    from swept where fee > 0
    union all
    select ended_at, 'network_fee', fee_coin, 'network_fees', 'gas_address', gas, 0, null, id, txid, false, purpose, 0
    from swept where gas > 0
    union all
    select ended_at, 'network_fee', coin, 'network_fees', 'destination_wallet', refund_fee,
      coalesce(round(refunded_cents * refund_fee / refunded), 0), null, id, txid, false, purpose,
      coalesce(round(refunded_displayed * refund_fee / refunded), 0)
    from swept where refund_fee > 0
    union all
    -- What a Lightning node or provider kept of what was paid over it.
    select v.at, 'provider_fee', v.coin, 'network_fees', 'destination_wallet', i.fee_msat, round(v.cents * i.fee_msat / v.units), v.payment_id, v.ref,
      v.txid, false, null, round(v.displayed * i.fee_msat / v.units)
    from valued v join lightning_invoices i on i.payment_hash = v.txid and i.payment_id = v.payment_id
    where v.coin = ${LIGHTNING} and v.mined and i.fee_msat > 0
  )`;

/** A balance; debits count up. */
type Balance = { coin: Coin; account: Account; units: bigint; cents: bigint };

/** The balance of every account at an instant, without those that were never used. Over all accounts of a coin they add up to zero. */
export async function trialBalance(ctx: Context, { until, ...owner }: BooksOwner & { until: Date }): Promise<Balance[]> {
  const { sql } = ctx.db;
  const balances = await sql<Balance[]>`
    ${entriesCte(sql, owner)}
    select coin, account, sum(side.units) as units, sum(side.cents) as cents
    from entries e cross join lateral (values (debit, e.units, e.cents), (credit, -e.units, -e.cents)) as side (account, units, cents)
    where at < ${until} group by coin, account order by coin, account`;
  return [...balances];
}

export const MOVEMENTS = ['received', 'settled', 'refunded', 'paid_out', 'swept', 'fees', 'reversed'] as const;
type Movement = (typeof MOVEMENTS)[number];
const MOVEMENT: Readonly<Record<EntryKind, Movement>> = {
  received: 'received',
  sale: 'settled',
  overpayment: 'settled',
  reversed: 'reversed',
  restored: 'reversed',
  refund: 'refunded',
  marked_refunded: 'refunded',
  payout: 'paid_out',
  swept: 'swept',
  moved_elsewhere: 'swept',
  network_fee: 'fees',
  provider_fee: 'fees',
};

type Amount = { units: bigint; cents: bigint };
/** An account of a coin over a period; debits count up. */
type StatementLine = { coin: Coin; account: Account; opening: Amount; closing: Amount } & Record<Movement, Amount>;
/** A line of a statement that people read: an account, or the sum of all accounts of a coin. */
export type ShownLine = Omit<StatementLine, 'account'> & { account: Account | 'trial_balance' };

/** The accounts of each coin, and after them their sum, debits minus credits. Throws unless every sum is zero. */
export function withTrialBalance(lines: readonly StatementLine[]): ShownLine[] {
  return [...Map.groupBy(lines, ({ coin }) => coin)].flatMap(([coin, accounts]): ShownLine[] => {
    const sum = (of: 'opening' | 'closing' | Movement): Amount => {
      const units = accounts.reduce((total, line) => total + line[of].units, 0n);
      const cents = accounts.reduce((total, line) => total + line[of].cents, 0n);
      invariant(units === 0n && cents === 0n, 'the accounts of a coin add up to zero');
      return { units, cents };
    };
    const movements = Object.fromEntries(MOVEMENTS.map((movement) => [movement, sum(movement)])) as Record<Movement, Amount>;
    return [...accounts, { coin, account: 'trial_balance', opening: sum('opening'), ...movements, closing: sum('closing') }];
  });
}

/** Every account from `from` until before `until`: its balance before, what changed it, and its balance after. */
export async function readStatement(
  ctx: Context,
  { from, until, ...owner }: BooksOwner & { from: Date; until: Date },
): Promise<StatementLine[]> {
  const { sql } = ctx.db;
  // Bounded: one row for each coin, account and kind of entry.
  const sums = await sql<(Balance & { kind: EntryKind | null })[]>`
    ${entriesCte(sql, owner)}
    select coin, account, case when at >= ${from} then kind end as kind, sum(side.units) as units, sum(side.cents) as cents
    from entries e cross join lateral (values (debit, e.units, e.cents), (credit, -e.units, -e.cents)) as side (account, units, cents)
    where at < ${until} group by 1, 2, 3`;
  const lines = new Map<string, StatementLine>();
  const nothing = (): Amount => ({ units: 0n, cents: 0n });
  for (const { coin, account, kind, units, cents } of sums) {
    const key = `${coin} ${account}`;
    const line = lines.get(key) ?? {
      ...{ coin, account, opening: nothing(), received: nothing(), settled: nothing(), refunded: nothing() },
      ...{ paid_out: nothing(), swept: nothing(), fees: nothing(), reversed: nothing(), closing: nothing() },
    };
    for (const sum of [kind === null ? line.opening : line[MOVEMENT[kind]], line.closing]) {
      sum.units += units;
      sum.cents += cents;
    }
    lines.set(key, line);
  }
  const place = ({ coin, account }: StatementLine) => ALL_COINS.indexOf(coin) * ACCOUNTS.length + ACCOUNTS.indexOf(account);
  return [...lines.values()].sort((a, b) => place(a) - place(b));
}

/** `all`: everything that Florin knows is one wallet, and sweeps stay inside. `deposits`: the deposit addresses alone. */
export const SCOPES = ['all', 'deposits'] as const;
export type Scope = (typeof SCOPES)[number];

/** Entries read at a time. */
const PAGE = 1_000;

/**
 * The entries from `from` until before `until`, oldest first, in pages. They hold a connection until the last page is read: read fast.
 * With `deposits`, those of the deposit addresses alone: what signing files pay leaves them, instead of the destination wallet.
 */
export async function* readEntries(
  ctx: Context,
  { from, until, display, wallets = 'all', ...owner }: BooksOwner & { from: Date; until: Date; display: Display; wallets?: Scope },
): AsyncGenerator<BookEntry[]> {
  const { sql } = ctx.db;
  const pages = sql<BookEntry[]>`
    ${entriesCte(sql, owner, display)} ${wallets === 'deposits' ? depositEntries(sql) : sql``}
    select at, kind, coin, debit, credit, units, cents, payment_id as "paymentId", ref, txid, counts,
      purpose, ${display === null ? sql`null::numeric as displayed` : sql`displayed`} from ${sql(wallets === 'deposits' ? 'deposit_entries' : 'entries')}
    where at >= ${from} and at < ${until}
    order by at, payment_id nulls last, ref, array_position(${[...ENTRY_KINDS]}::text[], kind), coin, debit`;
  // A cursor: pages by key would find all entries again for each of them.
  for await (const page of pages.cursor(PAGE)) yield page;
}

// The deposit addresses as a wallet of their own: what a signing file paid leaves them when it ends, and the destination gets the rest.

/**
 * The common table expression `deposit_entries`, after those of the books. An account keeps what a refund left on it, and the books move
 * the whole transfer with a later sweep, so what was paid from an account is counted over all of its files. A Bitcoin-like file spends
 * outputs of several payments as a whole, so there each file is counted alone.
 */
const depositEntries = (sql: Sql): Fragment => sql`
  , worth_of as (
    select payment_id, coin, sum(units) as units, sum(cents) as cents, sum(displayed) as displayed from settled where mined group by 1, 2
  ), sent_off as (
    select e.id as file_id, e.number, e.ended_at, e.coin, e.purpose, e.has_accounts, p.kind, p.id, p.payment_id, p.units, p.txid,
      -- Money of other payments may have paid for it.
      round(case when e.has_accounts and w.units is not null then w.cents * p.units / w.units else m.cents * p.units / m.units end) as cents,
      round(case when e.has_accounts and w.units is not null then w.displayed * p.units / w.units else m.displayed * p.units / m.units end)
        as displayed
    from paid p join ended e on e.id = p.file_id left join moved m on m.id = e.id
    left join worth_of w on w.payment_id = p.payment_id and w.coin = e.coin
  ), own_costs as (
    select o.id as file_id, o.refund_id, o.payment_id, o.own as units, round(w.cents * o.own / w.units) as cents,
      round(w.displayed * o.own / w.units) as displayed
    from own_fees o join ended e on e.id = o.id join worth_of w on w.payment_id = o.payment_id and w.coin = e.coin where o.own > 0
  ), changes as (
    select id as file_id, case when e.has_accounts then payment_id end as payment_id, m.units, m.cents, m.displayed
    from moved_of m join ended e using (id)
    union all
    select file_id, case when has_accounts then payment_id end, -units, -cents, -displayed from sent_off
    union all
    select file_id, payment_id, -units, -cents, -displayed from own_costs
  ), sums as (
    select e.id as file_id, e.number, e.ended_at, e.coin, c.payment_id, sum(c.units) as units, sum(c.cents) as cents, sum(c.displayed) as displayed
    from changes c join ended e on e.id = c.file_id group by 1, 2, 3, 4, 5
    union all
    -- Other wallets moved what was left, so that nothing is left to move for the files of later deposits.
    select null, null, at, coin, payment_id, units, cents, displayed from stray_taken
  ), running as (
    select *, sum(units) over so_far as total, sum(cents) over so_far as total_cents, sum(displayed) over so_far as total_displayed
    from sums where payment_id is not null
    window so_far as (partition by payment_id, coin order by ended_at, number)
  ), rests as (
    select file_id, greatest(0, total) - greatest(0, total - units) as units,
      greatest(0, total_cents) - greatest(0, total_cents - cents) as cents,
      greatest(0, total_displayed) - greatest(0, total_displayed - displayed) as displayed
    from running
    union all
    select file_id, units, cents, displayed from sums where payment_id is null
  ), left_over as (
    select s.id, s.coin, s.ended_at, s.purpose, s.txid, sum(r.units) - s.units + s.net as units,
      sum(r.cents) - coalesce(round(s.cents * (s.units - s.net) / nullif(s.units, 0)), 0) as cents,
      sum(r.displayed) - coalesce(round(s.displayed * (s.units - s.net) / nullif(s.units, 0)), 0) as displayed
    from swept s join rests r on r.file_id = s.id group by s.id, s.coin, s.ended_at, s.purpose, s.txid, s.net, s.units, s.cents, s.displayed
  ), deposit_entries as (
    select * from entries where kind <> 'swept' and (debit = 'deposit_addresses' or credit = 'deposit_addresses')
    union all
    select o.ended_at, o.kind, o.coin, part.account, 'deposit_addresses', part.units, part.cents, o.payment_id, o.id, o.txid, false, null,
      part.displayed
    from sent_off o left join refunded r on r.id = o.id
    cross join lateral (select coalesce(r.from_held, 0) as held) h
    cross join lateral (values
      ('held_for_review', held, round(o.cents * held / o.units), round(o.displayed * held / o.units)),
      (case o.kind when 'payout' then 'payouts' else 'refunds' end, o.units - held, o.cents - round(o.cents * held / o.units),
        o.displayed - round(o.displayed * held / o.units))) as part (account, units, cents, displayed)
    where part.units > 0
    union all
    select e.ended_at, 'network_fee', e.coin, 'network_fees', 'deposit_addresses', c.units, c.cents, c.payment_id, c.refund_id, p.txid, false,
      e.purpose, c.displayed
    from own_costs c join ended e on e.id = c.file_id join paid p on p.file_id = c.file_id and p.id = c.refund_id
    union all
    select ended_at, 'swept', coin, 'destination_wallet', 'deposit_addresses', units, greatest(0, cents), null, id, txid, false, purpose,
      greatest(0, displayed)
    from left_over where units > 0
  )`;
