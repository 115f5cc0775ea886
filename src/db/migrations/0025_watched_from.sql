-- From which block on every block was read, and how far below it blocks are still to be read for addresses that were given before.
alter table tips
  -- the last look at the chain, certain or not
  add column looked_at timestamptz not null default clock_timestamp(),
  -- the lowest block that was read, the hash of the one below it, and since when the addresses given are watched without a gap
  add column watched_from bigint,
  add column watched_parent text,
  add column watched_since timestamptz,
  -- blocks down to this height are still to be read; null: none
  add column read_back_to bigint,
  -- an operator let the follower begin again below a reorganization that is deeper than the coin allows
  add column begin_again boolean not null default false;
-- A block names its time up to two hours early or late.
update tips t set watched_from = b.height + 1, watched_parent = b.hash, watched_since = b.time + interval '2 hours'
from (select distinct on (coin) coin, height, hash, time from blocks order by coin, height) as b where b.coin = t.coin;
update tips t set read_back_to = 0
where exists (select 1 from deposit_addresses d where d.coin = t.coin and d.created_at < t.watched_since);

-- payments/: what keeps a follower from its work, written by it; the row is there once it has tried.
create table followers (
  coin text primary key,
  tried_at timestamptz not null default clock_timestamp(),
  -- rounds that failed one after the other, since when, why, and at which block, where it was one
  failures int not null default 0,
  failing_since timestamptz,
  failure text,
  failing_height bigint,
  failing_hash text,
  -- how often it failed at that block, and when members were told
  block_failures int not null default 0,
  told_at timestamptz,
  -- why what the source shows is not certain: nothing expires meanwhile
  behind_since timestamptz,
  behind_code text,
  behind_reason text,
  -- why blocks below the first one cannot be read
  read_back_failure text
);

-- payments/: holds that an operator lifted.
create table chain_releases (
  id bigint generated always as identity primary key,
  coin text not null,
  reason text not null,
  lifted text[] not null,
  at timestamptz not null default clock_timestamp()
);
create index chain_releases_of on chain_releases (coin, id desc);
