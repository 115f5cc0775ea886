-- payments/: what the first screen of the dashboard counts, and what asks for the merchant. All of it follows from the payment's facts.
alter table payments
  -- first view of the page with scripts, or the first choice of a coin
  add column opened_at timestamptz,
  -- the first transfer that counted was seen
  add column seen_at timestamptz,
  -- what had been counted when it completed
  add column paid_usd_cents bigint,
  -- the payer left an address for a refund
  add column refund_requested_at timestamptz,
  -- what a member marked as handled: exceptions, or refund_request
  add column reviewed text[] not null default '{}',
  add column attention boolean not null default false;
alter table decisions add column txid text;

-- Partial: hardly any payment stands in these, so that creations and settlements leave them alone.
create index payments_attention on payments (merchant_id, mode, sequence) where attention;
create index payments_exceptional on payments (merchant_id, mode, sequence) where exceptions <> '{}';
create index payments_refunds on payments (merchant_id, mode, sequence) where refund_requested_at is not null;
-- What arrived in a range of time, for the books.
create index transfers_of_merchant on transfers (merchant_id, first_seen_at);

-- Totals a day (UTC). Appended in the transaction of what they count, folded by the worker: total = days + deltas.
create table payment_days (
  merchant_id text collate "C" not null,
  mode text not null,
  day date not null,
  measure text not null,
  coin text not null,
  payments bigint not null,
  usd_cents bigint not null,
  seconds bigint not null,
  primary key (merchant_id, mode, day, measure, coin)
);
create table payment_day_deltas (
  id bigint generated always as identity primary key,
  merchant_id text collate "C" not null,
  mode text not null,
  day date not null,
  measure text not null,
  coin text not null,
  payments bigint not null,
  usd_cents bigint not null,
  seconds bigint not null
);

-- merchants/: what a member arranged for themselves: saved views, columns, what was put away.
create table preferences (
  merchant_id text collate "C" not null references merchants,
  user_id text collate "C" not null references users on delete cascade,
  name text not null,
  value jsonb not null,
  primary key (merchant_id, user_id, name)
);

-- Payments of before.
update payments p set
  opened_at = (select min(from_at) from quotes q where q.payment_id = p.id),
  seen_at = (select min(first_seen_at) from transfers t where t.payment_id = p.id),
  paid_usd_cents = case when completed_at is not null then amount_usd_cents end,
  refund_requested_at = (select at from refund_addresses r where r.payment_id = p.id),
  attention = exceptions <> '{}' and status not in ('pending', 'processing')
where exists (select 1 from quotes q where q.payment_id = p.id);
insert into payment_days (merchant_id, mode, day, measure, coin, payments, usd_cents, seconds)
select p.merchant_id, p.mode, m.day, m.measure, m.coin, count(*), sum(m.usd_cents), sum(m.seconds)
from payments p, lateral (values
  ((p.created_at at time zone 'UTC')::date, 'created', '', 0, 0, true),
  ((p.created_at at time zone 'UTC')::date, 'opened', '', 0, 0, p.opened_at is not null),
  ((p.created_at at time zone 'UTC')::date, 'chosen', '', 0, 0, p.coin is not null),
  ((p.created_at at time zone 'UTC')::date, 'seen', '', 0, 0, p.seen_at is not null),
  ((p.created_at at time zone 'UTC')::date, 'paid', '', 0, 0, p.completed_at is not null),
  ((p.created_at at time zone 'UTC')::date, 'ended', coalesce(p.exceptions[1], p.status), 0, 0, p.status in ('expired', 'failed', 'cancelled')),
  ((p.completed_at at time zone 'UTC')::date, 'completed', coalesce(p.coin, ''), coalesce(p.paid_usd_cents, 0),
    greatest(0, floor(extract(epoch from p.completed_at - coalesce(p.opened_at, p.created_at))))::bigint, p.completed_at is not null)
) as m (day, measure, coin, usd_cents, seconds, counts)
where m.counts group by 1, 2, 3, 4, 5;
