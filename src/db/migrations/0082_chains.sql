-- follow/: which sources do not say which blocks are final, so that payments that need such a block wait. Null: all of them say it.
alter table followers add column final_doubt text;

-- follow/: what addresses of payments that ended long ago held when they were last looked at, on chains that are read by ranges; one a day.
create table old_holdings (
  coin text collate "C" not null,
  key text collate "C" not null,
  balance numeric(38, 0) not null,
  recorded numeric(38, 0) not null,
  looked_at timestamptz not null default clock_timestamp(),
  primary key (coin, key)
);
