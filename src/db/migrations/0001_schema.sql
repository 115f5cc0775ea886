-- The whole schema of the first release. Later changes are migrations of their own, after this one.
-- Identifiers compare bytewise, so that locks are taken in one order in every process.

-- Rows of the audit log are never changed.
create function refuse_change() returns trigger language plpgsql as $$
begin
  raise exception 'rows of % are never changed', tg_table_name;
end $$;

-- Enqueued work wakes the workers of its kind, on a channel of its own. The notification is sent at the commit, so the work is there.

-- Work with a due time: at once, or `soon`, so that the time is read. What is due later is found before that by those who look regularly.
create function wake_when_due() returns trigger language plpgsql as $$
declare
  kind text := tg_argv[0];
begin
  if kind is null then kind := new.kind; end if;
  perform pg_notify(kind, case when new.due_at > clock_timestamp() then 'soon' else '' end);
  return null;
end
$$;

-- Work that is done when it is there.
create function wake() returns trigger language plpgsql as $$
begin
  perform pg_notify(tg_argv[0], '');
  return null;
end
$$;

-- Terms of three characters, or of four after three hexadecimal digits, so that few payments share those of a number, an address
-- or an ID. Each is marked with its owner and its segment of 65,536 payments: an owner's segments are searched one by one, the newest
-- first, and no search reads what belongs to others. The last terms of a line are shorter: a query that is too short finds the terms that
-- begin with it.
create or replace function payment_text_grams(owner int, segment bigint, body text) returns tsvector
language sql immutable parallel safe strict cost 1000 as $$
  select array_to_tsvector(array_agg(to_hex(owner) || '.' || to_hex(segment) || '.'
    || substr(line, i, case when translate(substr(line, i, 3), '0123456789abcdef', '') = '' then 4 else 3 end)))
  from string_to_table(body, E'\n') as line, generate_series(1, length(line)) as i
$$;

create table install (
  only_row boolean primary key default true check (only_row),
  event_key bytea not null,
  created_at timestamptz not null default clock_timestamp(),
  -- When the last backup was written.
  backed_up_at timestamptz,
  -- When operators were last notified that it is old.
  backup_alerted_at timestamptz,
  -- A value sealed with the key of the install's secrets, so that every start and every backup notices another key. Null until the first
  -- start with a key that opens what is sealed.
  key_check bytea
);

create table merchants (
  id text collate "C" primary key,
  name text not null,
  plan text not null check (plan in ('starter', 'professional', 'enterprise')),
  settings jsonb not null default '{}',
  setup_token_hash bytea,
  created_at timestamptz not null default clock_timestamp(),
  -- Who is asked to join, what a merchant asks of its members, who runs the install.
  second_factor_required boolean not null default false,
  setup_expires_at timestamptz not null default clock_timestamp() + interval '7 days'
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
  last_used_at timestamptz,
  -- What people call a key, who made it, when it ends, and where it was used last.
  name text not null default '',
  -- The name of the member, as it was then; null: the operator
  created_by text,
  expires_at timestamptz,
  -- The key that was made to take its place; no reference, so that a backup may restore rows in any order
  replaced_by text collate "C",
  last_used_ip text,
  last_used_path text,
  -- What a secret key may do, and from where: addresses and networks; none: from anywhere.
  read_only boolean not null default false,
  allowed_ips text[] not null default '{}',
  -- The user who made it. Null: the operator, an API key without a maker, or nobody knows.
  made_by text collate "C",
  -- What a secret key may do. Null: everything.
  permissions text[],
  check ((kind = 'secret') or (permissions is null))
);
create index keys_of_merchant on keys (merchant_id, mode);
create index keys_of on keys (merchant_id, mode, created_at desc, id desc);
create index keys_made_by on keys (merchant_id, made_by) where (made_by is not null) and (revoked_at is null);

create table wallets (
  id text collate "C" primary key,
  merchant_id text collate "C" not null references merchants,
  family text not null,
  network text not null,
  -- Compressed public key and chain code of the external chain, as hex: one identity whatever the key's spelling. Of several keys that
  -- sign together: sortedmulti(2,key,key,key)
  chain_key text not null,
  account_key text not null,
  script text not null,
  path text not null,
  next_index bigint not null default 0 check (next_index >= 0),
  active boolean not null default true,
  created_at timestamptz not null default clock_timestamp(),
  -- The transaction that changed the wallet last: followers read again only what might have changed since their last look.
  xid xid8 not null default pg_current_xact_id(),
  -- How many addresses payments by public keys took from a wallet in the hour that began at public_hour.
  public_hour timestamptz,
  public_addresses int not null default 0,
  -- A wallet that gives no addresses until it is resumed; what was given stays watched.
  paused_at timestamptz,
  -- The database server on which the wallet issued its last address: after a failover or a restore, another one continues.
  issued_on text,
  unique (family, chain_key, script)
);
-- Who makes Lightning invoices for a merchant: a node or a provider. The sealed access can only receive. One is in use; an earlier one is
-- still asked about the invoices that it made.
create table lightning_backends (
  id text collate "C" primary key,
  merchant_id text collate "C" not null references merchants,
  kind text not null check (kind in ('address', 'lnd', 'cln', 'phoenixd', 'lnbits', 'nwc')),
  name text not null,
  access bytea not null,
  -- The key of the merchant's own node; null: a provider, which may use any
  payee text,
  least_msat numeric(38, 0) not null,
  most_msat numeric(38, 0) not null,
  active boolean not null default true,
  -- One that a member asked for and that is not used before this time, or before a second owner confirms it
  due_at timestamptz,
  asked_by text collate "C",
  asked_by_name text,
  created_at timestamptz not null default clock_timestamp(),
  -- When it is checked again, and when a test payment arrived
  check_at timestamptz not null default clock_timestamp() + interval '1 day',
  tested_at timestamptz,
  -- Why the last request failed, and until when it is not offered
  failure text,
  away_until timestamptz
);
create unique index lightning_backends_active on lightning_backends (merchant_id) where active;
create unique index lightning_backends_waiting on lightning_backends (merchant_id) where due_at is not null;
create trigger wake after insert or update of due_at, check_at on lightning_backends
  for each row execute function wake('lightning_upkeep');

-- The servers that are asked about invoices: how long after a look the next one may be, and when that is.
create table lightning_hosts (
  host text primary key,
  pace_ms int not null check (pace_ms > 0),
  free_at timestamptz not null default clock_timestamp()
);

-- The invoices that customers were shown, each until it is settled or can no longer be paid.
create table lightning_invoices (
  payment_hash text primary key,
  payment_id text collate "C" not null,
  merchant_id text collate "C" not null,
  backend_id text collate "C" not null,
  bolt11 text not null,
  host text not null references lightning_hosts,
  handle text not null,
  msat numeric(38, 0) not null check (msat > 0),
  created_at timestamptz not null default clock_timestamp(),
  -- Until when a customer is probably looking at it, and may
  watched_until timestamptz not null default clock_timestamp() + interval '2 minutes',
  shown_until timestamptz not null,
  expires_at timestamptz not null,
  state text not null default 'open' check (state in ('open', 'settled', 'ended')),
  preimage text,
  settled_at timestamptz,
  -- What the back end kept of what was paid
  fee_msat numeric(38, 0) not null default 0 check (fee_msat >= 0),
  -- When the back end last said that it is not paid, and when it is asked next
  looked_at timestamptz,
  due_at timestamptz not null default clock_timestamp(),
  failures int not null default 0,
  failure text
);
create index lightning_invoices_due on lightning_invoices (host, due_at) where state = 'open';
create trigger wake after insert or update of due_at on lightning_invoices
  for each row when (new.due_at < clock_timestamp() + interval '10 seconds') execute function wake_when_due('lightning');
create index lightning_invoices_of on lightning_invoices (payment_id);

create unique index wallets_active on wallets (merchant_id, family) where active;
create trigger wake after insert on wallets
  for each row execute function wake('wallets');

create table live_usage (
  merchant_id text collate "C" not null,
  month date not null,
  payments bigint not null default 0,
  primary key (merchant_id, month)
);

create table clock_advances (
  id bigint primary key generated always as identity,
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

create table payment_counters (
  merchant_id text collate "C" not null,
  mode text not null,
  last_sequence bigint not null,
  primary key (merchant_id, mode)
);

-- Rules as they stood when payments were created; most payments of a merchant share one row.
create table rule_sets (
  id bigint primary key generated always as identity,
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
  -- The shown coin: what lists and filters say; follows the facts
  coin text,
  rule_set bigint not null,
  created_with text not null check (created_with in ('secret', 'public')),
  -- What was asked for and is shown again: return_url, description, items, tax, fiat, locale
  request jsonb not null default '{}',
  invoice_id text,
  metadata jsonb not null default '{}',
  scenario text,
  created_at timestamptz not null,
  expires_at timestamptz not null,
  extended_until timestamptz,
  completed_at timestamptz,
  -- Of the shown coin, as last settled
  received_units numeric(38, 0) not null default 0,
  -- Grows with every change a payer can see
  version bigint not null default 1,
  -- How many events this payment has had
  event_count bigint not null default 1,
  -- Payments by a public key count toward the month at their first counted transfer
  counted_in_month boolean not null default true,
  -- When to settle again although no fact came in, in real time; null: never
  due_at timestamptz,
  -- What the first screen of the dashboard counts, and what asks for the merchant. All of it follows from the payment's facts.
  -- First view of the page with scripts, or the first choice of a coin
  opened_at timestamptz,
  -- The first transfer that counted was seen
  seen_at timestamptz,
  -- What counts since it completed, in US cents
  paid_usd_cents bigint,
  -- The payer left an address for a refund
  refund_requested_at timestamptz,
  -- What a member marked as handled: exceptions, or refund_request
  reviewed text[] not null default '{}',
  attention boolean not null default false,
  -- When a member archived the payment; null: the lists show it.
  archived_at timestamptz,
  -- The key that a program made the payment with.
  key_id text collate "C",
  -- Until when a partial payment keeps its rate, which is less than until when the rest may come.
  rate_lock_until timestamptz,
  -- What arrived in US cents, null until it was settled; and what arrived without counting, by coin and state, null where there is
  -- nothing.
  received_usd_cents bigint,
  uncounted jsonb,
  -- What refunds have returned, in units by coin.
  refunded jsonb not null default '{}',
  -- The payment that took the place of one. That one names it in its request.
  replaced_by text collate "C",
  -- Who it is for, in customers; null: nobody was named, or the data is erased.
  customer_id text collate "C",
  unique (merchant_id, mode, sequence)
);
create index payments_due on payments (due_at) where due_at is not null;
create index payments_by_coin on payments (merchant_id, mode, coin, sequence) where coin is not null;
create index payments_by_status on payments (merchant_id, mode, status, sequence);
create index payments_by_invoice on payments (merchant_id, mode, invoice_id, sequence desc) where invoice_id is not null;
create index payments_by_description on payments (merchant_id, mode, md5((request ->> 'description')), sequence desc)
  where (request ->> 'description') is not null;
-- Partial indexes with few rows, so creating and settling most payments does not write to them.
create index payments_attention on payments (merchant_id, mode, sequence) where attention;
create index payments_exceptional on payments (merchant_id, mode, sequence) where exceptions <> '{}';
create index payments_refunds on payments (merchant_id, mode, sequence) where refund_requested_at is not null;
create index payments_archived on payments (merchant_id, mode, sequence) where archived_at is not null;
-- Completed payments whose money is not confirmed any more: each block may change that.
create index payments_reversed on payments (id) where (status = 'completed') and ('reorged' = any (exceptions));
create index payments_by_customer on payments (merchant_id, mode, customer_id, sequence) where customer_id is not null;
create index payments_by_amount on payments (merchant_id, mode, amount_usd_cents, sequence);

-- Who payments are for. The ID follows from the merchant, the mode and the reference, or else the email address.
create table customers (
  number bigint generated always as identity,
  id text collate "C" primary key,
  merchant_id text collate "C" not null,
  mode text not null check (mode in ('live', 'test')),
  email text,
  name text,
  reference text,
  created_at timestamptz not null default clock_timestamp(),
  check (email is not null or reference is not null)
);
create index customers_of on customers (merchant_id, mode, number);
create index customers_by_email on customers (merchant_id, mode, lower(normalize(email)), number) where email is not null;
create index customers_by_reference on customers (merchant_id, mode, reference, number) where reference is not null;
-- Whether anyone waits for a network, which is then read more often.
create index payments_open_in_coin on payments (coin) where (status in ('pending', 'processing')) and (mode = 'live') and (coin is not null);
create trigger wake after insert or update of due_at on payments
  for each row when (new.due_at < clock_timestamp() + interval '10 seconds') execute function wake_when_due('payments');

create table payment_counts (
  merchant_id text collate "C" not null,
  mode text not null,
  status text not null,
  coin text not null,
  payments bigint not null,
  primary key (merchant_id, mode, status, coin)
);

create table payment_count_deltas (
  id bigint primary key generated always as identity,
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
  txid text,
  -- Who cancelled: a payer cannot overrule the merchant.
  by_payer boolean not null default false,
  primary key (payment_id, number)
);
-- Which payments a transaction is said to have returned.
create index decisions_by_txid on decisions (lower(txid)) where kind = 'refund_sent' and txid is not null;

-- One live address per payment and coin, never given twice. `key` is the output script (hex) or the 20-byte ETH address.
create table deposit_addresses (
  family text not null,
  key text not null,
  address text not null,
  payment_id text collate "C" not null,
  merchant_id text collate "C" not null,
  wallet_id text collate "C" not null,
  index bigint not null,
  created_at timestamptz not null,
  xid xid8 not null default pg_current_xact_id(),
  primary key (family, key),
  unique (payment_id, family),
  unique (wallet_id, index)
);
create index deposit_addresses_new on deposit_addresses (family, xid);
create index deposit_addresses_by_address on deposit_addresses (address);
-- Addresses given out lately, for sources that are asked for one address after the other.
create index deposit_addresses_recent on deposit_addresses (family, created_at);

-- What completed payments count of their transfers, as changes that are only appended: a sale and what was overpaid, taken from what was
-- held for review. What adds up to more or less than zero came to the chain again, or left it.
create table payment_sales (
  merchant_id text collate "C" not null,
  payment_id text collate "C" not null,
  number int not null,
  coin text not null,
  ref text not null,
  at timestamptz not null,
  sale_units numeric(38, 0) not null,
  sale_cents bigint not null,
  over_units numeric(38, 0) not null,
  over_cents bigint not null,
  held_units numeric(38, 0) not null,
  held_cents bigint not null,
  primary key (merchant_id, payment_id, number)
);

create table transfers (
  coin text not null,
  ref text not null,
  payment_id text collate "C" not null,
  merchant_id text collate "C" not null,
  txid text,
  address text not null,
  units numeric(38, 0) not null check (units > 0),
  kind text not null,
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
  -- Outputs of one transaction to one payment are one transfer, named by the first of them. `outputs`: their numbers and units; null
  -- where there is one.
  output_count int not null default 1,
  outputs jsonb,
  -- Since when a source that has a vote shows the chain without the block of this transfer, or with another one in its place.
  disputed_since timestamptz,
  -- Who vouches for the block of a transfer: your own node, or the proof that was checked. Null until it is in a block.
  verified_by text check (verified_by in ('node', 'proof_of_work', 'sync_committee', 'providers', 'preimage')),
  -- The number of the log or the transaction of a transfer in its block, on EVM chains. Transfers that were seen at the same time are
  -- listed in this order.
  place int,
  primary key (payment_id, coin, ref)
);
create index transfers_by_ref on transfers (coin, ref);
create index transfers_by_block on transfers (coin, block_height);
create index transfers_unconfirmed on transfers (coin) where block_height is null;
-- Look-ups of a deposit address are answered from what came to it.
create index transfers_by_address on transfers (merchant_id, coin, address);
create index transfers_by_txid on transfers (txid) where txid is not null;
-- What arrived in a range of time, for the books.
create index transfers_of_merchant on transfers (merchant_id, first_seen_at);
-- What a merchant has waiting, for the confirmations that a new transfer needs.
create index transfers_waiting on transfers (merchant_id, coin) where (block_height is null) and (conflict_height is null);
-- Kept once the transfer is mined again: its block is a later one than a completed payment counted on.
create index transfers_unmined on transfers (coin, unmined_since) where unmined_since is not null;
create index transfers_disputed on transfers (coin) where disputed_since is not null;

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
  started_at timestamptz not null,
  -- What the payer of a test payment does after the first scenario, in order: coin, scenario, units and start of each.
  more jsonb not null default '[]'
);

-- What is known of each chain
create table chains (
  chain text primary key,
  genesis text not null
);

create table blocks (
  chain text not null,
  height bigint not null,
  hash text not null,
  parent text not null,
  time timestamptz not null,
  -- The fee per 1,000 virtual bytes that the block was paid on average, 0 if it had room; null where that is not known.
  paid numeric check (paid >= 0),
  primary key (chain, height)
);

create table tips (
  chain text primary key,
  height bigint not null,
  hash text not null,
  safe_height bigint,
  finalized_height bigint,
  chainlock_height bigint,
  scanned_through timestamptz not null,
  hold_reason text,
  -- The last look at the chain, certain or not
  looked_at timestamptz not null default clock_timestamp(),
  -- The lowest block that was read, the hash of the one below it, and since when the addresses given are watched without a gap
  watched_from bigint,
  watched_parent text,
  watched_since timestamptz,
  -- Blocks down to this height are still to be read; null: none
  read_back_to bigint,
  -- An operator let the follower begin again below a reorganization that is deeper than the coin allows
  begin_again boolean not null default false,
  -- Blocks were taken back and the branch that replaces them has not been read to its end: what completed payments lost by
  -- it is judged then.
  unwound boolean not null default false,
  -- What the work of each chain proves, as its follower last found it: the highest blocks with 1, 2, 3 ... confirmations in work, and
  -- fewer entries where nothing more is proven. Null where no proof of work is required.
  proven_heights int[],
  -- What a transfer costs on an EVM chain, in wei: for each unit of gas, and for its bytes.
  gas_price numeric,
  data_fee numeric,
  fee_at timestamptz
);

create table events (
  id text collate "C" primary key,
  merchant_id text collate "C" not null,
  mode text not null,
  payment_id text collate "C",
  type text not null,
  -- Place among the payment's events, from 1
  sequence bigint not null,
  body bytea,
  created_at timestamptz not null,
  xid xid8 not null default pg_current_xact_id(),
  feed bigint generated always as identity,
  unique (payment_id, sequence)
);
create index events_feed on events (merchant_id, mode, xid, feed) where body is not null;
-- The list of events by type. The one type that every creation writes is left out, so that creations pay nothing for it.
create index events_by_type on events (merchant_id, mode, type, xid, feed) where (body is not null) and (type <> 'payment.created');

create table endpoints (
  id text collate "C" primary key,
  merchant_id text collate "C" not null references merchants,
  mode text not null check (mode in ('live', 'test')),
  url text not null,
  events text[] not null,
  description text,
  state text not null default 'enabled' check (state in ('enabled', 'disabled', 'failing', 'gone', 'deleted')),
  -- Sealed with SECRET_KEY
  secret bytea not null,
  previous_secret bytea,
  previous_until timestamptz,
  failing_since timestamptz,
  created_at timestamptz not null default clock_timestamp(),
  -- An endpoint that only fails rests between single probes; a success resets both.
  failures int not null default 0,
  rests_until timestamptz,
  disabled_reason text check (disabled_reason in ('merchant', 'failures', 'gone')),
  -- The form of what an endpoint receives.
  dialect text not null default 'florin' check (dialect in ('florin', 'greenfield', 'commerce')),
  -- The endpoints that a shop created belong to its key.
  shop_key_id text collate "C",
  made_by text collate "C",
  failure_reason text,
  failure_address text,
  -- When members heard that it fails: they hear once, and again when it works.
  failure_told_at timestamptz,
  -- Whether the endpoint has taken a delivery since it exists. One that has not may hang, and gets a smaller share of the requests.
  answered boolean not null default false
);
create index endpoints_of on endpoints (merchant_id, mode) where state = 'enabled';
create index endpoints_shown on endpoints (merchant_id, mode) where state <> 'deleted';
create index endpoints_of_shop on endpoints (shop_key_id) where shop_key_id is not null;

create table deliveries (
  id bigint primary key generated always as identity,
  event_id text collate "C" not null references events,
  endpoint_id text collate "C" not null references endpoints,
  merchant_id text collate "C" not null,
  mode text not null,
  payment_id text collate "C",
  sequence bigint not null,
  state text not null default 'pending' check (state in ('pending', 'delivered', 'failed')),
  attempts int not null default 0,
  -- Null: nothing more is due
  due_at timestamptz,
  leased_until timestamptz,
  created_at timestamptz not null default clock_timestamp(),
  delivered_at timestamptz,
  -- How many steps of the schedule were taken; attempts counts those out of turn too
  step int not null default 0,
  -- Set while an attempt out of turn is due: when the schedule would have had it
  retry_at timestamptz,
  -- Due by itself, but an earlier event of its payment comes first; due_at says when to look again
  waits boolean not null default false,
  recovery_id text collate "C",
  -- Deliveries of a payment that must never arrive after a later one.
  ordered boolean not null default false,
  unique (event_id, endpoint_id),
  check ((state = 'pending') = (due_at is not null))
);
-- Room beside each row: a lease changes it in place, without touching an index.
alter table deliveries set (fillfactor = 70);
create index deliveries_lanes on deliveries (endpoint_id, due_at, id) where state = 'pending';
create index deliveries_of on deliveries (endpoint_id, state, id);
create index deliveries_order on deliveries (payment_id, sequence) where (state || '') = 'pending';
create index deliveries_ordered on deliveries (payment_id, endpoint_id, sequence) where ordered;
create trigger wake after insert or update of due_at on deliveries
  for each row when (new.due_at < clock_timestamp() + interval '10 seconds') execute function wake_when_due('deliveries');

create table attempts (
  delivery_id bigint not null references deliveries,
  number int not null,
  at timestamptz not null default clock_timestamp(),
  duration_ms int not null,
  status int,
  failure text,
  request_headers jsonb not null,
  reply bytea,
  url text,
  -- Why an attempt failed, more exactly than its class, and the address that it went to. Endpoints have those of their last failure.
  reason text,
  address text,
  primary key (delivery_id, number)
);

-- Durable due work. A worker deletes a row in the transaction that does its work. One row per kind and key.
create table due_work (
  kind text not null,
  key text collate "C" not null,
  merchant_id text collate "C" not null,
  due_at timestamptz not null,
  primary key (kind, key)
);
create index due_work_due on due_work (kind, due_at);
create trigger wake after insert or update of due_at on due_work
  for each row when (new.due_at < clock_timestamp() + interval '10 seconds') execute function wake_when_due();

create table idempotency (
  -- Key kind, merchant, mode, canonical route and key, hashed
  claim bytea primary key,
  fingerprint bytea not null,
  status int not null,
  sealed boolean not null default false,
  body bytea not null,
  created_at timestamptz not null default clock_timestamp()
);
create index idempotency_age on idempotency (created_at);

create table price_history (
  coin text not null,
  at timestamptz not null,
  price_e8 numeric(38, 0) not null,
  sources jsonb not null,
  primary key (coin, at)
);

-- Indexes a wallet's counter jumped over, from first_index to before end_index: never given to a payment, watched all the same.
create table skipped_indexes (
  id bigint primary key generated always as identity,
  wallet_id text collate "C" not null references wallets,
  first_index bigint not null,
  end_index bigint not null,
  reason text not null check (reason in ('restore', 'deposit', 'database')),
  at timestamptz not null default clock_timestamp(),
  check (first_index < end_index)
);
create index skipped_indexes_of on skipped_indexes (wallet_id);

-- Addresses of a wallet that no payment was given, and that are watched: those beyond its counter, and those of skipped indexes. Deriving
-- them takes a millisecond each, so a process that starts reads them here.
create table spare_addresses (
  family text not null,
  key text not null,
  address text not null,
  wallet_id text collate "C" not null,
  index bigint not null,
  xid xid8 not null default pg_current_xact_id(),
  primary key (family, key),
  unique (wallet_id, index)
);
create index spare_addresses_new on spare_addresses (family, xid);

-- Deposits to addresses of a wallet that no payment was given: seen beyond the counter, or in skipped indexes.
create table stray_deposits (
  coin text not null,
  ref text not null,
  merchant_id text collate "C" not null,
  wallet_id text collate "C" not null,
  index bigint not null,
  address text not null,
  txid text,
  units numeric(38, 0) not null check (units > 0),
  first_seen_at timestamptz not null,
  -- When the operator said that it is dealt with
  claimed_at timestamptz,
  primary key (coin, ref)
);

-- What the watcher found of a chain's health: settling reads it, and what it holds is shown.
create table chain_guard (
  chain text primary key,
  -- Whether the reasons hold completion: on mainnet only, elsewhere they are shown alone
  binding boolean not null default false,
  reasons text[] not null default '{}',
  codes text[] not null default '{}',
  -- The last deep reorganization: blocks taken back, and from which height
  reorg_depth int,
  reorg_height bigint,
  sources jsonb not null default '[]',
  -- With several sources: the last block that those with a vote agreed on; empty before the first
  agreed_hash text,
  -- With several sources: the height up to which those with a vote agreed
  agreed_height bigint,
  -- Payments above this wait, and why; null: none do.
  held_above_usd_cents bigint,
  held_above_reason text,
  -- Up to this amount a lock completes a transfer before its block is agreed on; null: never.
  lock_usd_cents bigint
);

-- Sends again what an endpoint missed: a few hundred rows a step, from a cursor.
create table recoveries (
  id text collate "C" primary key,
  endpoint_id text collate "C" not null references endpoints,
  -- Began by itself when the endpoint answered again
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
  queued_at timestamptz,
  cancelled_at timestamptz
);
create unique index recoveries_running on recoveries (endpoint_id, automatic) where queued_at is null;
create index recoveries_of on recoveries (endpoint_id);
create trigger wake after insert or update of cancelled_at on recoveries
  for each row when (new.queued_at is null) execute function wake('recoveries');

create table attempt_counts (
  outcome text primary key,
  attempts bigint not null
);

-- What the operator should know; closed when the endpoint is enabled again or deleted.
create table endpoint_notices (
  id bigint primary key generated always as identity,
  endpoint_id text collate "C" not null references endpoints,
  merchant_id text collate "C" not null,
  mode text not null,
  reason text not null,
  at timestamptz not null default clock_timestamp(),
  closed_at timestamptz
);
create index endpoint_notices_open on endpoint_notices (endpoint_id) where closed_at is null;

-- The logo on the payment page, checked when it is set; named by its hash, so that browsers may keep it.
create table merchant_logos (
  merchant_id text collate "C" primary key references merchants,
  hash text not null,
  type text not null check (type in ('image/png', 'image/svg+xml')),
  bytes bytea not null
);
create index merchant_logos_by_hash on merchant_logos (hash);

-- Who signs in to the dashboard, with what, for which merchant and as what. Times are written by the sign-in library.
create table users (
  id text collate "C" primary key,
  name text not null,
  email text not null unique,
  email_verified boolean not null default false,
  image text,
  two_factor_enabled boolean not null default false,
  created_at timestamptz not null default clock_timestamp(),
  updated_at timestamptz not null default clock_timestamp(),
  operator boolean not null default false
);

create table sessions (
  id text collate "C" primary key,
  user_id text collate "C" not null references users on delete cascade,
  token text not null unique,
  ip_address text,
  user_agent text,
  expires_at timestamptz not null,
  created_at timestamptz not null default clock_timestamp(),
  updated_at timestamptz not null default clock_timestamp(),
  -- Which merchant is shown; null: the first joined
  merchant_id text collate "C" references merchants,
  -- When the second factor, or the password where there is none, was shown again
  confirmed_at timestamptz,
  -- A session that began without its second factor counts as recent only once that was shown.
  by_trusted_device boolean not null default false
);
create index sessions_of on sessions (user_id);

-- Passwords, hashed.
create table accounts (
  id text collate "C" primary key,
  user_id text collate "C" not null references users on delete cascade,
  account_id text not null,
  provider_id text not null,
  access_token text,
  refresh_token text,
  id_token text,
  access_token_expires_at timestamptz,
  refresh_token_expires_at timestamptz,
  scope text,
  password text,
  created_at timestamptz not null default clock_timestamp(),
  updated_at timestamptz not null default clock_timestamp(),
  unique (provider_id, account_id)
);
create index accounts_of on accounts (user_id);

-- What a sign-in that is under way must come back with.
create table verifications (
  id text collate "C" primary key,
  identifier text not null,
  value text not null,
  expires_at timestamptz not null,
  created_at timestamptz not null default clock_timestamp(),
  updated_at timestamptz not null default clock_timestamp()
);
create index verifications_of on verifications (identifier);

-- Secrets and backup codes, encrypted under SECRET_KEY.
create table second_factors (
  id text collate "C" primary key,
  user_id text collate "C" not null unique references users on delete cascade,
  secret text not null,
  backup_codes text not null,
  verified boolean not null default false,
  failed_verification_count int not null default 0,
  locked_until timestamptz,
  -- The newest 30 seconds whose code was used: each code works once.
  last_step bigint,
  -- How many times in a row wrong codes locked a second factor: each lock is longer than the one before.
  locks int not null default 0
);

create table passkeys (
  id text collate "C" primary key,
  user_id text collate "C" not null references users on delete cascade,
  name text,
  public_key text not null,
  credential_id text not null unique,
  counter int not null,
  device_type text not null,
  backed_up boolean not null,
  transports text,
  aaguid text,
  created_at timestamptz
);
create index passkeys_of on passkeys (user_id);

create table members (
  merchant_id text collate "C" not null references merchants,
  user_id text collate "C" not null references users on delete cascade,
  role text not null check (role in ('owner', 'admin', 'developer', 'finance', 'support', 'viewer')),
  joined_at timestamptz not null default clock_timestamp(),
  -- Only who has been an owner for as long as a change waits counts as a second one.
  role_since timestamptz not null default clock_timestamp(),
  primary key (merchant_id, user_id)
);
create index members_of on members (user_id);

-- Who did what. Rows are added, never changed.
create table audit_log (
  id bigint primary key generated always as identity,
  merchant_id text collate "C" not null references merchants,
  -- Null: acts that belong to no mode
  mode text check (mode in ('live', 'test')),
  -- As they were then; a user may be gone since
  actor_id text,
  actor_name text not null,
  action text not null,
  object text not null,
  before jsonb,
  after jsonb,
  ip text not null,
  at timestamptz not null default clock_timestamp()
);
create index audit_log_of on audit_log (merchant_id, id desc);
-- The log is read by who, by what and by whom it concerns; few rows are written.
create index audit_log_by_actor on audit_log (merchant_id, actor_id, id desc);
create index audit_log_by_action on audit_log (merchant_id, action, id desc);
create index audit_log_by_object on audit_log (merchant_id, object, id desc);
create trigger audit_log_kept before delete or update on audit_log
  for each row execute function refuse_change();

-- Peers that send forwarded headers and are not listed as proxies, for the doctor.
create table unlisted_proxies (
  peer text collate "C" primary key,
  seen_at timestamptz not null default clock_timestamp()
);

-- Statistics of an endpoint that need no count of its deliveries: a few rows an hour, deleted after a week.
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

-- A page that makes a payment for anyone who comes: of a fixed amount or one the payer names, once or again and again.
create table payment_links (
  number bigint generated always as identity unique,
  id text collate "C" primary key,
  merchant_id text collate "C" not null references merchants,
  mode text not null check (mode in ('live', 'test')),
  name text not null,
  reusable boolean not null,
  return_url text,
  state text not null default 'active' check (state in ('active', 'archived')),
  -- The newest payment; a link for one payment leads to it while it can still be paid, and forever once it was
  payment_id text collate "C",
  payments bigint not null default 0,
  created_at timestamptz not null default clock_timestamp(),
  currency text not null default 'USD',
  -- In the smallest units of `currency`; null: the payer chooses
  amount_minor bigint check (amount_minor > 0),
  -- Whether the page asks the customer for an email address.
  asks_email boolean not null default false
);
create index payment_links_of on payment_links (merchant_id, mode, number desc);

-- How far the data of payers was erased, by the sequence of payments; those that ended later wait in due_work.
create table erasures (
  merchant_id text collate "C" not null,
  mode text not null,
  through_sequence bigint not null default 0,
  primary key (merchant_id, mode)
);

-- An account key that takes the place of another one waits here for its time, or for a second owner.
create table wallet_changes (
  merchant_id text collate "C" not null references merchants,
  family text not null,
  account_key text not null,
  script text not null,
  asked_by text collate "C" not null,
  asked_by_name text not null,
  asked_at timestamptz not null default clock_timestamp(),
  due_at timestamptz not null,
  primary key (merchant_id, family)
);
create index wallet_changes_due on wallet_changes (due_at);

create table invites (
  id text collate "C" primary key,
  merchant_id text collate "C" not null references merchants,
  email text not null,
  role text not null check (role in ('owner', 'admin', 'developer', 'finance', 'support', 'viewer')),
  -- Of the secret in the link
  token_hash bytea not null unique,
  invited_by text not null,
  created_at timestamptz not null default clock_timestamp(),
  expires_at timestamptz not null,
  -- Whether the link of an invitation went to its mailbox alone. The inviter may have seen older ones.
  mailed boolean not null default false,
  -- The inviter must still be a member who may give the role when the invite is accepted. An invite without one cannot be accepted.
  invited_by_id text collate "C" references users on delete cascade
);
create index invites_of on invites (merchant_id, created_at desc);

-- An e-mail address that changes once both addresses agreed.
create table email_changes (
  user_id text collate "C" primary key references users on delete cascade,
  new_email text not null,
  old_token_hash bytea not null unique,
  new_token_hash bytea not null unique,
  old_agreed boolean not null default false,
  new_agreed boolean not null default false,
  expires_at timestamptz not null
);

-- Browsers and addresses that a user signed in from, as a hash: the user is notified of a new one.
create table known_browsers (
  user_id text collate "C" not null references users on delete cascade,
  hash bytea not null,
  seen_at timestamptz not null default clock_timestamp(),
  primary key (user_id, hash)
);

-- What members should know. Of a merchant, or of one user alone.
create table notices (
  id bigint primary key generated always as identity,
  merchant_id text collate "C" references merchants,
  user_id text collate "C" references users on delete cascade,
  mode text check (mode in ('live', 'test')),
  kind text not null,
  -- What the text is made of
  detail jsonb not null,
  at timestamptz not null default clock_timestamp(),
  check ((merchant_id is null) <> (user_id is null))
);
create index notices_of_merchant on notices (merchant_id, id desc) where merchant_id is not null;
create index notices_of_user on notices (user_id, id desc) where user_id is not null;
create index notices_by_mode on notices (merchant_id, mode, id);

create table notice_reads (
  user_id text collate "C" not null references users on delete cascade,
  merchant_id text collate "C" not null references merchants,
  read_through bigint not null,
  -- How far notices of test mode are read; `read_through` is for all others.
  read_through_test bigint not null default 0,
  primary key (user_id, merchant_id)
);

-- Only what differs from the default of the kind.
create table notice_settings (
  user_id text collate "C" not null references users on delete cascade,
  merchant_id text collate "C" not null references merchants,
  kind text not null,
  in_app boolean not null,
  email boolean not null,
  primary key (user_id, merchant_id, kind)
);

-- E-mails to be sent; the worker takes them.
create table mails (
  id bigint primary key generated always as identity,
  recipient text not null,
  subject text not null,
  body text not null,
  kind text not null,
  attempts int not null default 0,
  due_at timestamptz default clock_timestamp(),
  failure text,
  sent_at timestamptz,
  created_at timestamptz not null default clock_timestamp(),
  -- Reset links and warnings are sent before other emails, and senders take turns: merchants, users, or each recipient.
  -- `identity` is a hash of all that makes two emails the same, for kinds of which only one is sent in a while.
  urgent boolean not null default false,
  sender text collate "C" not null default '',
  identity bytea
);
create index mails_due on mails (due_at) where due_at is not null;
create index mails_recent on mails (recipient, kind, created_at desc);
create index mails_by_lane on mails (urgent, sender, due_at, id) where due_at is not null;
create index mails_of_sender on mails (sender, kind, created_at desc);
create trigger wake after insert or update of due_at on mails
  for each row when (new.due_at < clock_timestamp() + interval '10 seconds') execute function wake_when_due('mails');

-- Which alerts of a month were given.
create table usage_alerts (
  merchant_id text collate "C" not null references merchants,
  month date not null,
  percent int not null,
  primary key (merchant_id, month, percent)
);

-- Totals a quarter of an hour, of which the days of every time zone consist, and of the days of the merchant's own. Appended in the
-- transaction of what they count, folded by the worker: total = days + deltas. When the time zone changes, the days are made again from the
-- quarters.
create table payment_quarters (
  merchant_id text collate "C" not null,
  mode text not null,
  quarter timestamptz not null,
  measure text not null,
  coin text not null,
  payments bigint not null,
  usd_cents bigint not null,
  seconds bigint not null,
  primary key (merchant_id, mode, quarter, measure, coin)
);

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

create table payment_quarter_deltas (
  id bigint primary key generated always as identity,
  merchant_id text collate "C" not null,
  mode text not null,
  quarter timestamptz not null,
  measure text not null,
  coin text not null,
  payments bigint not null,
  usd_cents bigint not null,
  seconds bigint not null
);

-- What a member arranged for themselves: saved views, columns, what was put away.
create table preferences (
  merchant_id text collate "C" not null references merchants,
  user_id text collate "C" not null references users on delete cascade,
  name text not null,
  value jsonb not null,
  primary key (merchant_id, user_id, name)
);

-- What each key asked, by hour. Kept for two days.
create table key_hours (
  key_id text collate "C" not null references keys,
  hour timestamptz not null,
  calls bigint not null,
  failed bigint not null,
  primary key (key_id, hour)
);
create index key_hours_age on key_hours (hour);

-- What was asked of the API, newest last. Written together once a second, kept for 30 days.
create table requests (
  id bigint primary key generated always as identity,
  request_id text collate "C" not null,
  merchant_id text collate "C" not null,
  mode text not null,
  key_id text collate "C" not null,
  at timestamptz not null,
  method text not null,
  path text not null,
  query text,
  status int not null,
  error_code text,
  duration_ms int not null,
  has_idempotency_key boolean not null,
  ip text not null,
  -- Without secrets, at most 2 kB; null: none was sent
  body text,
  -- Requests of the same key and second that were counted and not kept
  omitted int not null,
  -- Names of parameters that a logged request carried and that were ignored.
  ignored text[],
  -- The response body of a successful request, redacted and shortened like the request body.
  response_body text,
  -- What made a request with a secret key or the key of a shop, as its User-Agent says: plugins name their version there.
  agent text
);
create index requests_of on requests (merchant_id, mode, id desc);
create index requests_failed on requests (merchant_id, mode, id desc) where status >= 400;
create index requests_by_key on requests (key_id, id desc);
create index requests_by_name on requests (request_id);

-- Browsers whose sign-ins are not asked for a second factor, until a fixed day.
create table trusted_devices (
  id text collate "C" primary key,
  user_id text collate "C" not null references users on delete cascade,
  -- Of what the cookie holds
  token_hash bytea not null unique,
  ip text not null,
  user_agent text not null,
  created_at timestamptz not null default clock_timestamp(),
  used_at timestamptz not null default clock_timestamp(),
  expires_at timestamptz not null
);
create index trusted_devices_of on trusted_devices (user_id);

-- When a person wants e-mails about events; none: at once.
create table mail_timings (
  user_id text collate "C" primary key references users on delete cascade,
  time_zone text not null,
  -- Of a day in that zone; null: at once
  daily_hour int check ((daily_hour >= 0) and (daily_hour <= 23)),
  -- Minutes of a day in that zone; both or none
  quiet_from int check ((quiet_from >= 0) and (quiet_from <= 1439)),
  quiet_to int check ((quiet_to >= 0) and (quiet_to <= 1439)),
  check (((quiet_from is null) = (quiet_to is null)) and (quiet_from <> quiet_to))
);

-- Notices that wait to be sent to somebody as one e-mail.
create table held_mails (
  user_id text collate "C" not null references users on delete cascade,
  notice_id bigint not null,
  due_at timestamptz not null,
  primary key (user_id, notice_id)
);
create index held_mails_due on held_mails (due_at);
create trigger wake after insert or update of due_at on held_mails
  for each row when (new.due_at < clock_timestamp() + interval '10 seconds') execute function wake_when_due('mails');

-- From `due_at` on, an account key that takes the place of another one acts at once; without a row it waits.
create table wallet_waits_off (
  merchant_id text collate "C" primary key references merchants,
  asked_by text collate "C" not null,
  asked_by_name text not null,
  asked_at timestamptz not null default clock_timestamp(),
  due_at timestamptz not null,
  -- A change whose waiting period is over is in effect while the member who asked for it may still ask for it, or once it is settled:
  -- confirmed, immediate, or in effect when they left.
  settled_at timestamptz
);

-- What keeps a follower from its work, written by it; the row is there once it has tried.
create table followers (
  chain text primary key,
  -- Rounds that failed one after the other, since when, why, and at which block, where it was one
  failures int not null default 0,
  failing_since timestamptz,
  failure text,
  failing_height bigint,
  failing_hash text,
  -- How often it failed at that block, and when members were told
  block_failures int not null default 0,
  told_at timestamptz,
  -- Why what the source shows is not certain: nothing expires meanwhile
  behind_since timestamptz,
  behind_code text,
  behind_reason text,
  -- Why blocks below the first one cannot be read
  read_back_failure text,
  -- The blocks that a follower has to catch up with, while they are many.
  catch_up_from bigint,
  catch_up_to bigint,
  -- An address holds more than was recorded, and searching again did not show why. Until an operator releases it.
  unexplained text,
  -- Which sources do not say which blocks are final, so that payments that need such a block wait. Null: all of them say it.
  final_doubt text
);

-- Holds that an operator lifted.
create table chain_releases (
  id bigint primary key generated always as identity,
  chain text not null,
  reason text not null,
  lifted text[] not null,
  at timestamptz not null default clock_timestamp()
);
create index chain_releases_of on chain_releases (chain, id desc);

-- A link by which a person shows that the mailbox of their address is theirs.
create table email_proofs (
  user_id text collate "C" primary key references users on delete cascade,
  email text not null,
  token_hash bytea not null unique,
  expires_at timestamptz not null
);

-- What the transactions of transfers spend, once for each transaction and only while it can still lose its coins or its
-- block.
create table spent_outpoints (
  chain text not null,
  -- `txid:n`, ETH: `from:nonce`.
  outpoint text collate "C" not null,
  txid text collate "C" not null,
  xid xid8 not null default pg_current_xact_id(),
  primary key (chain, outpoint, txid)
);
create index spent_outpoints_by_txid on spent_outpoints (chain, txid);
create index spent_outpoints_new on spent_outpoints (chain, xid);

-- While customers of a merchant meet no currency they can pay with. Kept after it ends, so that one that comes and goes
-- does not notify again and again.
create table payment_outages (
  merchant_id text collate "C" primary key references merchants,
  notified_at timestamptz not null,
  ended_at timestamptz
);
create index payment_outages_open on payment_outages (merchant_id) where ended_at is null;

-- Metadata as pairs that lists are filtered by, newest first. `pair` is the MD5 of key, chr(1) and value.
create table payment_metadata (
  merchant_id text collate "C" not null,
  mode text not null,
  pair uuid not null,
  sequence bigint not null,
  primary key (merchant_id, mode, pair, sequence)
);

-- The texts that search finds payments by, lower case, one field per line. The worker writes them after the payment, so that
-- creating one costs nothing more.
create table payment_text_owners (
  merchant_id text collate "C" not null,
  mode text not null,
  -- Stands for merchant and mode in the index.
  number int generated always as identity unique,
  -- All payments up to this sequence have their texts.
  through_sequence bigint not null default 0,
  primary key (merchant_id, mode)
);

create table payment_texts (
  owner int not null,
  sequence bigint not null,
  -- The payment's version when its texts were read.
  version bigint not null,
  body text not null,
  primary key (owner, sequence)
);
-- Without statistics of terms, which would take long to collect and which no plan needs.
create index payment_texts_grams on payment_texts using gin (payment_text_grams(owner, (sequence >> 16), body)) with (fastupdate=off);
alter index payment_texts_grams alter column 1 set statistics 0;

-- A link by which a person who forgot the password chooses a new one.
create table password_resets (
  user_id text collate "C" not null references users on delete cascade,
  email text not null,
  token_hash bytea primary key,
  asked_at timestamptz not null default clock_timestamp(),
  expires_at timestamptz not null,
  known boolean not null default false
);
create index password_resets_of on password_resets (user_id, known, asked_at desc);

-- The proven headers of the best chain of each network, 80 bytes each, in pages of consecutive heights. Headers do not compress.
create table header_pages (
  chain text not null,
  network text not null,
  page int not null,
  first_height int not null,
  headers bytea not null,
  primary key (chain, network, page)
);
-- Each new block writes its page again. Without these settings, up to a fifth of all headers is kept twice until the next vacuum.
alter table header_pages set (
  autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 200,
  toast.autovacuum_vacuum_scale_factor = 0, toast.autovacuum_vacuum_threshold = 2000
);
-- A page of headers fits in a page of the table, so nothing is stored apart and little space is wasted.
alter table header_pages alter column headers set storage plain;

-- Peers of each network that worked, as host:port: the first to connect to after a restart. A row holds a few dozen at most.
create table known_peers (
  chain text not null,
  network text not null,
  anchors text[] not null,
  proven text[] not null,
  primary key (chain, network)
);

-- What the process that is connected to the peers of a network last reported, for the other processes and for operators.
create table peer_status (
  chain text not null,
  network text not null,
  phase text not null check (phase in ('connecting', 'headers', 'ready')),
  connected int not null,
  relaying int not null,
  height int not null,
  hash text not null,
  parent text not null,
  block_time timestamptz not null,
  syncing boolean not null,
  percent int not null,
  seconds_left int,
  clock_ahead_seconds int,
  bytes_in bigint not null,
  bytes_out bigint not null,
  started_at timestamptz not null,
  reported_at timestamptz not null default clock_timestamp(),
  -- Why no peer stays connected.
  trouble text,
  -- The lowest fee per 1,000 virtual bytes that most peers take, as they last told; null: none ever told.
  fee_floor numeric check (fee_floor >= 0),
  primary key (chain, network)
);

-- Who each Electrum server was when it was first asked: vouched for by a public authority, or the fingerprint of its certificate.
create table electrum_certificates (
  server text primary key,
  identity text not null,
  first_seen_at timestamptz not null default clock_timestamp()
);

-- The keys of connected shops. A key belongs to one merchant in one mode, and opens only what its permissions name.
create table shop_keys (
  id text collate "C" primary key,
  merchant_id text collate "C" not null references merchants,
  mode text not null check (mode in ('live', 'test')),
  dialect text not null check (dialect in ('greenfield', 'commerce')),
  platform text not null,
  name text not null,
  hash bytea not null unique,
  hint text not null,
  permissions text[] not null,
  origin text,
  created_by text,
  created_at timestamptz not null default clock_timestamp(),
  last_used_at timestamptz,
  revoked_at timestamptz,
  made_by text collate "C",
  -- The keys of one shop that replaced one another belong together, so that a new key keeps the invoices and webhooks of the shop.
  -- `first_id`: the first key of the shop; null for that key itself.
  first_id text collate "C" references shop_keys,
  -- Where the plugin received its key, without the query: it tells the shops of one host apart.
  site text,
  -- The key that a shop had before its key was replaced, until it ends.
  previous_hash bytea,
  previous_until timestamptz
);
create index shop_keys_of on shop_keys (merchant_id, mode, created_at);
create index shop_keys_made_by on shop_keys (merchant_id, made_by) where (made_by is not null) and (revoked_at is null);
create index shop_keys_of_line on shop_keys (coalesce(first_id, id));
create unique index shop_keys_previous on shop_keys (previous_hash) where previous_hash is not null;

-- What the plugin of a shop said about a payment, and what it was told. `metadata` keeps the text of its numbers and the order of
-- its keys.
create table shop_invoices (
  payment_id text collate "C" primary key references payments,
  merchant_id text collate "C" not null references merchants,
  mode text not null check (mode in ('live', 'test')),
  dialect text not null check (dialect in ('greenfield', 'commerce')),
  shop_key_id text collate "C" not null references shop_keys,
  order_id text,
  metadata json not null,
  checkout jsonb not null,
  told jsonb not null default '{}',
  told_sequence bigint not null default 0,
  created_at timestamptz not null default clock_timestamp()
);
create index shop_invoices_of on shop_invoices (merchant_id, mode, created_at, payment_id);
create index shop_invoices_orders on shop_invoices (merchant_id, mode, order_id);
create index shop_invoices_of_key on shop_invoices (shop_key_id, payment_id);

-- Where the money of each family of chains goes. The newest row that is due and was not dropped is in use; a later one waits.
create table sweep_destinations (
  id bigint primary key generated always as identity,
  merchant_id text collate "C" not null references merchants,
  family text not null,
  network text not null,
  address text not null,
  asked_by text collate "C",
  asked_by_name text not null,
  asked_at timestamptz not null default clock_timestamp(),
  due_at timestamptz not null,
  dropped_at timestamptz,
  settled_at timestamptz
);
create index sweep_destinations_of on sweep_destinations (merchant_id, family, id desc) where dropped_at is null;

-- One row for each signing file: of a sweep, of refunds or of payouts.
create table signing_files (
  number bigint generated always as identity unique,
  id text collate "C" primary key,
  merchant_id text collate "C" not null references merchants,
  -- Files of test mode are rehearsals: they spend what test payments received, on simulated chains.
  mode text not null default 'live' check (mode in ('live', 'test')),
  wallet_id text collate "C" not null references wallets,
  coin text not null,
  state text not null check (state in ('made', 'signed', 'sent', 'confirmed', 'failed', 'canceled')),
  -- What is asked to be signed, without any key that can spend. `round` counts replacements with a higher fee.
  file jsonb not null,
  round int not null default 0,
  destination text not null,
  total_units numeric(38, 0) not null check (total_units > 0),
  fee_units numeric(38, 0) not null,
  input_count int not null check (input_count > 0),
  made_by text not null,
  made_at timestamptz not null default clock_timestamp(),
  signed_at timestamptz,
  sent_at timestamptz,
  ended_at timestamptz,
  failure text,
  -- For sources without an index of transactions: the last block that was searched for transactions of the file; no hash: none was.
  read_height bigint,
  read_hash text,
  purpose text not null default 'sweep' check (purpose in ('sweep', 'refund', 'payout')),
  -- Signing files of refunds contain the addresses of payers. They are erased with the payments, once the file has ended.
  erased_at timestamptz,
  -- It was sent, and no source has the blocks below this height any more that were not searched for it.
  unsearched_below bigint,
  -- Which keys of a wallet with several have signed this round, by their order in its chain key, while others have to sign it too.
  signed_by int[] not null default '{}'
);
create index signing_files_of on signing_files (merchant_id, number desc);
create index signing_files_open on signing_files (coin) where state in ('signed', 'sent');
create index signing_files_of_refunds on signing_files (merchant_id) where (purpose = 'refund') and (erased_at is null);
create index signing_files_of_payouts on signing_files (merchant_id, ended_at) where (purpose = 'payout') and (erased_at is null);
create trigger wake after insert or update of state on signing_files
  for each row execute function wake('money_out');

-- Signed transactions, and what became of each. Those of all rounds are followed, because any of them can be mined.
create table signed_transactions (
  file_id text collate "C" not null references signing_files,
  round int not null,
  number int not null,
  txid text collate "C" not null,
  raw bytea not null,
  fee_units numeric(38, 0) not null,
  sent_at timestamptz,
  -- Why no source accepted it last.
  refusal text,
  block_height bigint,
  block_hash text,
  -- On chains of accounts. `after_number`: the transaction that must be mined before this one is sent, because it pays for
  -- its gas. `unmoved`: accounts whose money a mined transaction did not move. `looked_at`: when the chain was asked about it last.
  after_number int,
  unmoved text[] not null default '{}',
  looked_at timestamptz,
  -- `conflict_height`, `conflict_hash`: the block at which it was first seen that another transaction spent an input of this one
  -- or used its nonce. `failed_at`: it can never be mined.
  conflict_height bigint,
  conflict_hash text,
  failed_at timestamptz,
  -- What a mined transaction of an account cost, by its receipt, and what it paid to recipients in the coin of the file. Null: not mined.
  paid_units numeric(38, 0),
  arrived_units numeric(38, 0),
  primary key (file_id, round, number)
);
create index signed_transactions_by_txid on signed_transactions (txid);

-- What a file spends: an outpoint, a transfer to an account, or an account with its nonce. Nothing is in two open files.
create table signing_inputs (
  file_id text collate "C" not null references signing_files,
  number int not null,
  chain text not null,
  input text collate "C" not null,
  -- The transfer behind it; null for nonces.
  coin text,
  payment_id text collate "C",
  ref text,
  units numeric(38, 0),
  -- Set when the file was canceled or failed, so that another one may spend it.
  released_at timestamptz,
  -- The block in which another transaction spent the input.
  spent_height bigint,
  spent_hash text,
  -- Inputs of files that another transaction spent: the money is neither on the deposit address nor with the destination.
  lost_at timestamptz,
  -- On chains of accounts, what the file took of a transfer of which a part is left, which another file may take.
  taken_units numeric(38, 0),
  primary key (file_id, number)
);
create unique index signing_inputs_reserved on signing_inputs (chain, input) where released_at is null;
create index signing_inputs_by_transfer on signing_inputs (payment_id, coin, ref) where released_at is null;
create index signing_inputs_taken on signing_inputs (payment_id, coin, ref) where taken_units is not null;
-- Gas addresses pay for one file after the other.
create index signing_inputs_for_gas on signing_inputs (input) where input like 'gas:%';

-- Networks whose blocks come too fast to read each of them are read by ranges. An anchor is where a poll ended: the block that the sources
-- agreed on.
create table anchors (
  chain text not null,
  height bigint not null,
  hash text not null,
  at timestamptz not null default clock_timestamp(),
  primary key (chain, height)
);
create index anchors_by_time on anchors (chain, at);

-- Through which block each source was asked for transfers. What one leaves out, another one names.
create table range_reads (
  chain text not null,
  source text not null,
  height bigint not null,
  primary key (chain, source)
);

-- What the contract of a token is like: the code that was accepted, the code that was seen last, and why it is held.
create table token_contracts (
  coin text primary key,
  code text,
  seen_code text not null,
  hold text
);

-- Refunds that shops asked for. A customer names an address on the claim page; the merchant sends the money and says so.
create table shop_refunds (
  id text collate "C" primary key,
  merchant_id text collate "C" not null references merchants,
  mode text not null check (mode in ('live', 'test')),
  shop_key_id text collate "C" not null references shop_keys,
  name text not null,
  amount text not null,
  currency text not null,
  created_at timestamptz not null default clock_timestamp(),
  coin text,
  address text,
  claimed_at timestamptz,
  sent_at timestamptz,
  txid text,
  -- Refunds without a payment need the approvals of other refunds, have links that expire, and are in the books once they were sent.
  -- `coins`: what the customer may choose; null for all. `usd_cents`: null if there was no price. `units`: what was sent, in the
  -- smallest unit of the coin.
  claim_until timestamptz not null default clock_timestamp() + '30 days'::interval,
  coins text[],
  usd_cents bigint,
  units numeric,
  backed_by text collate "C",
  approved_by text,
  approved_by_user text collate "C",
  approved_at timestamptz,
  -- What a refund of a shop weighed for the limit when it was approved, in cents. A coin may have been worth less when the shop asked.
  approved_usd_cents bigint,
  -- How often its link was replaced. The first one ends with the ID, later ones with a token, too.
  claim_number int not null default 0,
  -- As of other refunds.
  link_ended_at timestamptz
);
create index shop_refunds_of on shop_refunds (merchant_id, mode, created_at, id);
-- The addresses of refunds that were sent are erased too.
create index shop_refunds_to_erase on shop_refunds (merchant_id, sent_at) where (sent_at is not null) and (address is not null);

-- What a light client of Ethereum's beacon chain knows: the blocks that the sync committee signed, and the committees (each key 48 bytes,
-- the sum of all keys last). With it, a restart needs no checkpoint.
create table light_clients (
  network text primary key,
  -- The setting that it began with; another one replaces the row.
  checkpoint text not null,
  finalized_slot bigint not null check (finalized_slot >= 0),
  finalized_root text not null,
  finalized_hash text not null,
  optimistic_slot bigint not null,
  optimistic_root text not null,
  optimistic_hash text not null,
  current_committee bytea not null,
  next_committee bytea,
  -- Why nothing may complete until an operator chooses another checkpoint.
  halted text,
  check (optimistic_slot >= finalized_slot)
);

-- Files of payouts that were imported.
create table payout_batches (
  number bigint generated always as identity unique,
  id text collate "C" primary key,
  merchant_id text collate "C" not null references merchants,
  mode text not null check (mode in ('live', 'test')),
  name text not null,
  file_hash bytea not null,
  requested_by text not null,
  created_at timestamptz not null
);
create index payout_batches_of on payout_batches (merchant_id, mode, number desc);
create index payout_batches_by_file on payout_batches (merchant_id, mode, file_hash);

-- Refunds of payments, and payouts to third parties. What the refunds of a payment return together never exceeds what arrived: each is
-- written under the lock of its payment.
create table outgoing_payments (
  number bigint generated always as identity unique,
  id text collate "C" primary key,
  kind text not null check (kind in ('refund', 'payout')),
  merchant_id text collate "C" not null references merchants,
  mode text not null check (mode in ('live', 'test')),
  coin text not null,
  units numeric(38, 0) not null check (units > 0),
  usd_cents bigint not null check (usd_cents >= 0),
  -- The display currency of the merchant when it was valued, and its units for one US dollar, times 10^8.
  display_currency text,
  display_rate numeric(38, 0) check (display_rate > 0),
  address text,
  state text not null check (state in ('requested', 'approved', 'signed', 'sent', 'confirmed', 'failed', 'canceled')),
  -- `failure` of one that a member sent: its transaction does not pay it.
  txid text collate "C",
  failure text,
  -- What a member marked as sent is looked for on the chain. `missed`: how often nothing found it, so that a typing error can be corrected.
  looked_at timestamptz,
  missed int,
  -- Who approves what is above the limit of the merchant. `backed_by`: the member who requested it or approved it first;
  -- `approved_by_user`: the member whose approval was the last one needed. `approved_usd_cents`: its worth then, which the limit is about.
  requested_by text not null,
  backed_by text collate "C",
  approved_by text,
  approved_by_user text collate "C",
  approved_usd_cents bigint,
  -- The file that pays it, and its transaction in it. `anchor`: what every transaction of it spends, so that at most one of them can be
  -- mined. It never changes.
  file_id text collate "C" references signing_files,
  transaction_number int,
  anchor text collate "C",
  created_at timestamptz not null,
  approved_at timestamptz,
  sent_at timestamptz,
  ended_at timestamptz,
  -- Without address and texts. Amounts, states and times stay.
  erased_at timestamptz,

  -- Of refunds only.
  -- When the Lightning invoice in `address` ends; null: it is an address on-chain.
  invoice_expires_at timestamptz,
  payment_id text collate "C" references payments,
  rate text check (rate in ('payment', 'current')),
  reason text,
  -- The hash of the token of its claim page. `claim_until`: null when the address was given by the merchant. `claim_number`: how often the
  -- link was replaced; the token follows from it.
  claim_hash bytea unique,
  claim_until timestamptz,
  claim_number int not null default 0,
  -- Where the claim link is mailed, and who entered that: decided when the link is made, so that nobody can replace it later.
  email text,
  email_from text,
  -- Whether the claim link of now was mailed. Without it, the address in `email` got none, such as after too many emails.
  link_mailed boolean not null default false,
  -- When the claim link was replaced because a member could have copied it, if nobody was mailed the new one. A member has to send it.
  link_ended_at timestamptz,

  -- Of payouts only.
  batch_id text collate "C" references payout_batches,
  reference text collate "C",
  description text,
  event_count bigint not null default 0,
  -- The wallet whose deposits pay for it, fixed with its anchor.
  wallet_id text collate "C" references wallets,
  -- Payouts from accounts. `parts`: the deposits whose addresses authorize a payout, fixed by its first file. `published_until`:
  -- the second at which the last authorization of it that may be known to others expires; such a payout can be in another file at once.
  parts jsonb,
  published_until bigint,
  check ((kind = 'refund') = (payment_id is not null and rate is not null)),
  check (address is not null or erased_at is not null or (kind = 'refund' and state in ('requested', 'canceled'))),
  check (((email is null) = (email_from is null)) and (email_from in ('merchant', 'page')))
);
create index outgoing_payments_of on outgoing_payments (merchant_id, mode, kind, number desc);
create index outgoing_payments_by_state on outgoing_payments (merchant_id, mode, kind, state, number);
create index outgoing_payments_of_payment on outgoing_payments (payment_id, number) where payment_id is not null;
create index outgoing_payments_of_batch on outgoing_payments (batch_id, number) where batch_id is not null;
create unique index outgoing_payments_by_reference on outgoing_payments (merchant_id, mode, reference)
  where (reference is not null) and (state <> 'canceled');
create index outgoing_payments_approved on outgoing_payments (merchant_id, approved_by_user, approved_at) where approved_by_user is not null;
create index outgoing_payments_to_sign on outgoing_payments (merchant_id, kind, coin, number)
  where (state = 'approved') and (file_id is null) and (mode = 'live');
create index outgoing_payments_in_files on outgoing_payments (file_id) where (state in ('approved', 'signed', 'sent')) and (file_id is not null);
create index outgoing_payments_published on outgoing_payments (published_until)
  where (state in ('signed', 'sent')) and (file_id is null) and (published_until is not null);
create index outgoing_payments_reserving on outgoing_payments (merchant_id, coin)
  where (kind = 'payout') and (state in ('approved', 'signed', 'sent')) and (anchor is not null);
create index outgoing_payments_sent_by_hand on outgoing_payments (looked_at nulls first, number)
  where (state = 'sent') and (file_id is null) and (mode = 'live') and ((failure is null) or (missed > 0)) and (address is not null);
create index outgoing_payments_by_txid on outgoing_payments (txid) where state in ('sent', 'confirmed');
-- What a signed file of a canceled payout spends outlives the cancellation.
create index outgoing_payments_canceled on outgoing_payments (merchant_id) where (state = 'canceled') and (anchor is not null);
create index outgoing_payments_to_erase on outgoing_payments (merchant_id, coalesce(ended_at, sent_at))
  where (kind = 'payout') and (erased_at is null) and (state in ('sent', 'confirmed', 'failed', 'canceled'));
create index outgoing_payments_with_invoice on outgoing_payments (invoice_expires_at)
  where (state in ('requested', 'approved')) and (invoice_expires_at is not null);
create trigger wake after insert or update of state, txid, file_id on outgoing_payments
  for each row when (new.mode = 'live') execute function wake('money_out');

-- The Lightning invoices of customers that refunds pay, also those that expired: each for one refund. The preimage proves that one is paid.
create table refund_invoices (
  payment_hash text collate "C" primary key,
  refund_id text collate "C" not null references outgoing_payments,
  -- Null once it was erased.
  bolt11 text,
  expires_at timestamptz not null,
  given_at timestamptz not null,
  approved_at timestamptz,
  preimage text
);
create index refund_invoices_of on refund_invoices (refund_id);

-- What open addresses held when their balance was last proven, so that a restart forgets nothing: whatever they gained since then must be
-- explained by transfers that were seen. Only for Ethereum providers that nobody has to trust.
create table balance_proofs (
  chain text not null,
  -- The account, 40 hex digits.
  key text collate "C" not null,
  -- The block of the proof.
  height bigint not null check (height >= 0),
  hash text not null,
  block_time timestamptz not null,
  nonce numeric not null check (nonce >= 0),
  balance numeric not null check (balance >= 0),
  code_hash bytea not null,
  -- No proof: the address was new, and no provider could prove its balance then, so it counts as unused.
  assumed boolean not null,
  primary key (chain, key, height, hash)
);

-- What accounts were seen to gain in each block.
create table balance_gains (
  chain text not null,
  key text collate "C" not null,
  height bigint not null,
  hash text not null,
  units numeric not null check (units > 0),
  primary key (chain, key, height, hash)
);

-- What addresses of payments that ended long ago held when they were last looked at, on chains that are read by ranges; one a day.
create table old_holdings (
  coin text collate "C" not null,
  key text collate "C" not null,
  balance numeric(38, 0) not null,
  recorded numeric(38, 0) not null,
  looked_at timestamptz not null default clock_timestamp(),
  primary key (coin, key)
);

-- Deposits that another wallet may have moved: those of canceled signing files, and those that the chain did not have any more when a file
-- was made. The books say that such money left.
create table moved_deposits (
  chain text not null,
  -- The output, or on chains of accounts the transfer.
  input text collate "C" not null,
  merchant_id text collate "C" not null references merchants,
  coin text not null,
  payment_id text collate "C" not null,
  ref text not null,
  units numeric(38, 0) not null,
  looked_at timestamptz,
  -- The tip at which it was first seen that the chain does not have it.
  missing_height bigint,
  missing_hash text,
  moved_at timestamptz,
  primary key (chain, input)
);
create index moved_deposits_watched on moved_deposits (coin, looked_at nulls first);
create index moved_deposits_by_transfer on moved_deposits (payment_id, coin, ref) where moved_at is not null;
create index moved_deposits_by_merchant on moved_deposits (merchant_id) where moved_at is not null;

-- Transactions that paid watched addresses, without witness, as blocks of peers had them: what signing them again would ask peers for.
create table kept_transactions (
  chain text not null,
  network text not null,
  txid text collate "C" not null,
  raw bytea not null,
  primary key (chain, network, txid)
);

-- Endpoints are made before the keys of shops.
alter table endpoints add constraint endpoints_shop_key_id_fkey foreign key (shop_key_id) references shop_keys(id);
