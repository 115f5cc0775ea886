-- Identifiers compare bytewise, so that locks are taken in one order in every process.
create table install (
  only_row boolean primary key default true check (only_row),
  event_key bytea not null,
  created_at timestamptz not null default clock_timestamp()
);

-- merchants/ ---------------------------------------------------------------------------------------------------
create table merchants (
  id text collate "C" primary key,
  name text not null,
  plan text not null check (plan in ('starter', 'professional', 'enterprise')),
  settings jsonb not null default '{}',
  setup_token_hash bytea,
  created_at timestamptz not null default clock_timestamp()
);
create table keys (
  id text collate "C" primary key,
  merchant_id text collate "C" not null references merchants,
  mode text not null check (mode in ('live', 'test')),
  kind text not null check (kind in ('secret', 'public')),
  hash bytea not null unique,
  hint text not null,
  origins text[] not null default '{}',
  created_at timestamptz not null default clock_timestamp(),
  revoked_at timestamptz,
  last_used_at timestamptz
);
create index keys_of_merchant on keys (merchant_id, mode);
create table wallets (
  id text collate "C" primary key,
  merchant_id text collate "C" not null references merchants,
  coin text not null,
  network text not null,
  -- compressed public key and chain code of the external chain, as hex: one identity whatever the key's spelling
  chain_key text not null,
  account_key text not null,
  script text not null,
  path text not null,
  next_index bigint not null default 0 check (next_index >= 0),
  active boolean not null default true,
  created_at timestamptz not null default clock_timestamp(),
  unique (coin, chain_key, script)
);
create unique index wallets_active on wallets (merchant_id, coin) where active;
create table live_usage (
  merchant_id text collate "C" not null,
  month date not null,
  payments bigint not null default 0,
  primary key (merchant_id, month)
);
create table clock_advances (
  id bigint generated always as identity primary key,
  merchant_id text collate "C" not null references merchants,
  payment_id text collate "C",
  seconds bigint not null check (seconds > 0),
  at timestamptz not null default clock_timestamp()
);
create index clock_advances_of on clock_advances (merchant_id, payment_id);
create table test_clocks (
  merchant_id text collate "C" primary key references merchants,
  offset_seconds bigint not null default 0
);

-- payments/ ----------------------------------------------------------------------------------------------------
create table payment_counters (
  merchant_id text collate "C" not null,
  mode text not null,
  last_sequence bigint not null,
  primary key (merchant_id, mode)
);
-- Rules as they stood when payments were created; most payments of a merchant share one row.
create table rule_sets (
  id bigint generated always as identity primary key,
  hash bytea not null unique,
  rules jsonb not null
);
create table payments (
  id text collate "C" primary key,
  merchant_id text collate "C" not null,
  mode text not null check (mode in ('live', 'test')),
  sequence bigint not null,
  status text not null check (status in ('pending', 'processing', 'completed', 'expired', 'cancelled', 'failed')),
  exceptions text[] not null default '{}',
  -- USD worth of the target, cents
  amount_usd_cents bigint not null check (amount_usd_cents > 0),
  fixed_coin text,
  fixed_units numeric(38, 0) check (fixed_units > 0),
  -- the shown coin: what lists and filters say; follows the facts
  coin text,
  rule_set bigint not null,
  created_with text not null check (created_with in ('secret', 'public')),
  -- what was asked for and is shown again: return_url, description, items, tax, fiat, locale
  request jsonb not null default '{}',
  invoice_id text,
  metadata jsonb not null default '{}',
  scenario text,
  created_at timestamptz not null,
  expires_at timestamptz not null,
  extended_until timestamptz,
  completed_at timestamptz,
  -- of the shown coin, as last settled
  received_units numeric(38, 0) not null default 0,
  -- grows with every change a payer can see
  version bigint not null default 1,
  -- how many events this payment has had
  event_count bigint not null default 1,
  -- payments by a public key count toward the month at their first counted transfer
  counted_in_month boolean not null default true,
  -- when to settle again although no fact came in, in real time; null: never
  due_at timestamptz,
  unique (merchant_id, mode, sequence)
);
create index payments_due on payments (due_at) where due_at is not null;
create index payments_by_status on payments (merchant_id, mode, status, sequence desc);
create index payments_by_coin on payments (merchant_id, mode, coin, sequence desc) where coin is not null;
create table payment_counts (
  merchant_id text collate "C" not null,
  mode text not null,
  status text not null,
  coin text not null,
  payments bigint not null,
  primary key (merchant_id, mode, status, coin)
);
create table payment_count_deltas (
  id bigint generated always as identity primary key,
  merchant_id text collate "C" not null,
  mode text not null,
  status text not null,
  coin text not null,
  payments bigint not null
);
create index payment_count_deltas_of on payment_count_deltas (merchant_id, mode);
create table quotes (
  payment_id text collate "C" not null,
  number int not null,
  merchant_id text collate "C" not null,
  coin text not null,
  address text not null,
  rate_e8 numeric(38, 0),
  units numeric(38, 0) not null check (units > 0),
  sources jsonb not null default '[]',
  from_at timestamptz not null,
  until_at timestamptz not null,
  primary key (payment_id, number)
);
create table decisions (
  payment_id text collate "C" not null,
  number int not null,
  merchant_id text collate "C" not null,
  kind text not null check (kind in ('cancel', 'accept', 'reject', 'refund_sent')),
  transfers text[] not null default '{}',
  at timestamptz not null,
  primary key (payment_id, number)
);
-- One live address per payment and coin, never given twice. `key` is the output script (hex) or the 20-byte ETH address.
create table deposit_addresses (
  coin text not null,
  key text not null,
  address text not null,
  payment_id text collate "C" not null,
  merchant_id text collate "C" not null,
  wallet_id text collate "C" not null,
  index bigint not null,
  created_at timestamptz not null,
  xid xid8 not null default pg_current_xact_id(),
  primary key (coin, key),
  unique (payment_id, coin),
  unique (wallet_id, index)
);
create index deposit_addresses_new on deposit_addresses (coin, xid);
create table transfers (
  coin text not null,
  ref text not null,
  payment_id text collate "C" not null,
  merchant_id text collate "C" not null,
  txid text,
  address text not null,
  units numeric(38, 0) not null check (units > 0),
  kind text not null,
  spends text[] not null default '{}',
  first_seen_at timestamptz not null,
  block_height bigint,
  block_hash text,
  block_time timestamptz,
  lock text,
  absent_since timestamptz,
  conflict_txid text,
  conflict_height bigint,
  conflict_seen_at timestamptz,
  unmined_since timestamptz,
  values jsonb not null default '[]',
  primary key (payment_id, coin, ref)
);
create index transfers_by_ref on transfers (coin, ref);
create index transfers_by_block on transfers (coin, block_height);
create index transfers_unconfirmed on transfers (coin) where block_height is null;
-- What a payer left on the page for a refund: write-once, unverified.
create table refund_addresses (
  payment_id text collate "C" primary key,
  merchant_id text collate "C" not null,
  coin text not null,
  address text not null,
  email text,
  at timestamptz not null default clock_timestamp()
);
-- The simulated chain of a test payment: what was started and when; all else is a function of the test clock.
create table simulations (
  payment_id text collate "C" primary key,
  merchant_id text collate "C" not null,
  coin text not null,
  scenario text not null,
  units numeric(38, 0) not null,
  started_at timestamptz not null
);

-- payments/follow: what is known of each chain
create table chains (
  coin text primary key,
  genesis text not null
);
create table blocks (
  coin text not null,
  height bigint not null,
  hash text not null,
  parent text not null,
  time timestamptz not null,
  scanned_at timestamptz not null default clock_timestamp(),
  -- USD this install counts in the block, cents
  usd_cents bigint not null default 0,
  primary key (coin, height)
);
create table tips (
  coin text primary key,
  height bigint not null,
  hash text not null,
  safe_height bigint,
  finalized_height bigint,
  chainlock_height bigint,
  scanned_through timestamptz not null,
  hold_reason text,
  updated_at timestamptz not null default clock_timestamp()
);

-- webhooks/ ----------------------------------------------------------------------------------------------------
create table events (
  id text collate "C" primary key,
  merchant_id text collate "C" not null,
  mode text not null,
  payment_id text collate "C" not null,
  type text not null,
  -- place among the payment's events, from 1
  sequence bigint not null,
  body bytea not null,
  created_at timestamptz not null,
  xid xid8 not null default pg_current_xact_id(),
  feed bigint generated always as identity,
  unique (payment_id, sequence)
);
create index events_feed on events (merchant_id, mode, xid desc, feed desc);
create table endpoints (
  id text collate "C" primary key,
  merchant_id text collate "C" not null references merchants,
  mode text not null check (mode in ('live', 'test')),
  url text not null,
  events text[] not null,
  description text,
  state text not null default 'enabled' check (state in ('enabled', 'disabled', 'failing', 'gone', 'deleted')),
  -- sealed with SECRET_KEY
  secret bytea not null,
  previous_secret bytea,
  previous_until timestamptz,
  failing_since timestamptz,
  created_at timestamptz not null default clock_timestamp()
);
create index endpoints_of on endpoints (merchant_id, mode) where state = 'enabled';
create table deliveries (
  id bigint generated always as identity primary key,
  event_id text collate "C" not null references events,
  endpoint_id text collate "C" not null references endpoints,
  merchant_id text collate "C" not null,
  mode text not null,
  payment_id text collate "C" not null,
  sequence bigint not null,
  state text not null default 'pending' check (state in ('pending', 'delivered', 'failed')),
  attempts int not null default 0,
  -- null: nothing more is due
  due_at timestamptz,
  leased_until timestamptz,
  created_at timestamptz not null default clock_timestamp(),
  delivered_at timestamptz,
  unique (event_id, endpoint_id)
);
create index deliveries_due on deliveries (due_at) where state = 'pending';
create index deliveries_order on deliveries (endpoint_id, payment_id, sequence) where state = 'pending';
create table attempts (
  delivery_id bigint not null references deliveries,
  number int not null,
  at timestamptz not null default clock_timestamp(),
  duration_ms int not null,
  status int,
  failure text,
  request_headers jsonb not null,
  reply bytea,
  primary key (delivery_id, number)
);

-- db/ ----------------------------------------------------------------------------------------------------------
-- Durable due work. A worker leases a row; an unfinished lease ends by itself. One row per kind and key.
create table due_work (
  kind text not null,
  key text collate "C" not null,
  merchant_id text collate "C" not null,
  due_at timestamptz not null,
  leased_until timestamptz,
  attempts int not null default 0,
  primary key (kind, key)
);
create index due_work_due on due_work (kind, due_at);
create table idempotency (
  -- key kind, merchant, mode, canonical route and key, hashed
  claim bytea primary key,
  fingerprint bytea not null,
  status int not null,
  sealed boolean not null default false,
  body bytea not null,
  created_at timestamptz not null default clock_timestamp()
);
create index idempotency_age on idempotency (created_at);

-- prices/ ------------------------------------------------------------------------------------------------------
create table price_history (
  coin text not null,
  at timestamptz not null,
  price_e8 numeric(38, 0) not null,
  sources jsonb not null,
  primary key (coin, at)
);
