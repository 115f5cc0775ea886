-- webhooks/ ----------------------------------------------------------------------------------------------------
-- An endpoint that only fails rests between single probes; a success resets both.
alter table endpoints
  add column failures int not null default 0,
  add column rests_until timestamptz,
  add column disabled_reason text check (disabled_reason in ('merchant', 'failures', 'gone'));
update endpoints set disabled_reason = case state when 'gone' then 'gone' else 'failures' end where state in ('disabled', 'failing', 'gone');
update endpoints set state = 'disabled' where state = 'failing';
create index endpoints_shown on endpoints (merchant_id, mode) where state <> 'deleted';

-- A test event belongs to no payment. Of an event older than 30 days the row stays without its body: the ids of later
-- events of the payment follow from how many came before.
alter table events alter column payment_id drop not null;
alter table events alter column body drop not null;
drop index events_feed;
create index events_feed on events (merchant_id, mode, xid desc, feed desc) where body is not null;

alter table deliveries
  alter column payment_id drop not null,
  -- how many steps of the schedule were taken; attempts counts those out of turn too
  add column step int not null default 0,
  -- set while an attempt out of turn is due: when the schedule would have had it
  add column retry_at timestamptz,
  -- due by itself, but an earlier event of its payment comes first; due_at says when to look again
  add column waits boolean not null default false,
  add column recovery_id text collate "C";
update deliveries set step = attempts where attempts > 0;
-- Room on the page for the new version that a lease writes.
alter table deliveries set (fillfactor = 80);
drop index deliveries_due;
create index deliveries_lanes on deliveries (endpoint_id, due_at, id) where state = 'pending';
create index deliveries_of on deliveries (endpoint_id, state, id);
alter table attempts add column url text;
-- Sends again what an endpoint missed: a few hundred rows a step, from a cursor.
create table recoveries (
  id text collate "C" primary key,
  endpoint_id text collate "C" not null references endpoints,
  -- began by itself when the endpoint answered again
  automatic boolean not null,
  since timestamptz not null,
  last_delivery_id bigint not null,
  delivery_cursor bigint not null default 0,
  total bigint not null,
  queued bigint not null default 0,
  delivered bigint not null default 0,
  failed bigint not null default 0,
  created_at timestamptz not null default clock_timestamp(),
  stepped_at timestamptz not null default clock_timestamp(),
  queued_at timestamptz
);
create unique index recoveries_running on recoveries (endpoint_id, automatic) where queued_at is null;
create index recoveries_of on recoveries (endpoint_id);
create table attempt_counts (
  outcome text primary key,
  attempts bigint not null
);
-- What the operator should know; closed when the endpoint is enabled again or deleted.
create table endpoint_notices (
  id bigint generated always as identity primary key,
  endpoint_id text collate "C" not null references endpoints,
  merchant_id text collate "C" not null,
  mode text not null,
  reason text not null,
  at timestamptz not null default clock_timestamp(),
  closed_at timestamptz
);
create index endpoint_notices_open on endpoint_notices (endpoint_id) where closed_at is null;
