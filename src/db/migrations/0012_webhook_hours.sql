-- webhooks/: what is told of an endpoint without counting its deliveries; a few rows an hour, forgotten after a week.
create table attempt_hours (
  endpoint_id text collate "C" not null references endpoints on delete cascade,
  hour timestamptz not null,
  outcome text not null,
  attempts bigint not null,
  total_ms bigint not null,
  slowest_ms int not null,
  last_at timestamptz not null,
  primary key (endpoint_id, hour, outcome)
);
-- Counts are changed again and again: room for new versions on the same page.
alter table attempt_hours set (fillfactor = 70);
alter table recoveries add column cancelled_at timestamptz;
