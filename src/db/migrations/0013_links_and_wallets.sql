-- payments/: a page that makes a payment for whoever comes: of a fixed amount or one the payer names, once or again and again.
create table payment_links (
  number bigint generated always as identity unique,
  id text collate "C" primary key,
  merchant_id text collate "C" not null references merchants,
  mode text not null check (mode in ('live', 'test')),
  name text not null,
  -- null: the payer names it
  amount_usd_cents bigint check (amount_usd_cents > 0),
  reusable boolean not null,
  return_url text,
  state text not null default 'active' check (state in ('active', 'archived')),
  -- the newest payment; a link for one payment leads to it while it can still be paid, and for ever once it was
  payment_id text collate "C",
  payments bigint not null default 0,
  created_at timestamptz not null default clock_timestamp()
);
create index payment_links_of on payment_links (merchant_id, mode, number desc);

-- payments/: how far the data of payers was erased, by the sequence of payments; those that ended later wait in due_work.
create table erasures (
  merchant_id text collate "C" not null,
  mode text not null,
  through_sequence bigint not null default 0,
  primary key (merchant_id, mode)
);

-- merchants/: an account key that takes the place of another one waits here for its time, or for a second owner.
create table wallet_changes (
  merchant_id text collate "C" not null references merchants,
  coin text not null,
  account_key text not null,
  script text not null,
  asked_by text collate "C" not null,
  asked_by_name text not null,
  asked_at timestamptz not null default clock_timestamp(),
  due_at timestamptz not null,
  primary key (merchant_id, coin)
);
create index wallet_changes_due on wallet_changes (due_at);
-- A wallet that gives no addresses until it is resumed; what was given stays watched.
alter table wallets add column paused_at timestamptz;
