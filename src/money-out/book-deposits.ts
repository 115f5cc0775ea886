/** The deposit addresses as a wallet of their own: what a signing file paid leaves them when it ends, and the destination gets the rest. */
import type { Fragment, Sql } from '../db/db.ts';

/**
 * The common table expression `deposit_entries`, after those of the books. An account keeps what a refund left on it, and the books move
 * the whole transfer with a later sweep, so what was paid from an account is counted over all of its files. A Bitcoin-like file spends
 * outputs of several payments as a whole, so there each file is counted alone.
 */
export const depositEntries = (sql: Sql): Fragment => sql`
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
