-- merchants/: from `due_at` on, an account key that takes the place of another one acts at once; without a row it waits.
create table wallet_waits_off (
  merchant_id text collate "C" primary key references merchants,
  asked_by text collate "C" not null,
  asked_by_name text not null,
  asked_at timestamptz not null default clock_timestamp(),
  due_at timestamptz not null
);
-- Only who has been an owner for as long as a change waits counts as a second one.
alter table members add column role_since timestamptz not null default clock_timestamp();
update members set role_since = joined_at;
