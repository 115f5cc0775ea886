-- shops/: the keys of connected shops. A key belongs to one merchant in one mode, and opens only what its permissions name.
create table shop_keys (
  id text collate "C" primary key,
  merchant_id text collate "C" not null references merchants (id),
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
  revoked_at timestamptz
);
create index shop_keys_of on shop_keys (merchant_id, mode, created_at);

-- shops/: what the plugin of a shop said about a payment, and what it was told. `metadata` keeps the text of its numbers and the order of
-- its keys.
create table shop_invoices (
  payment_id text collate "C" primary key references payments (id),
  merchant_id text collate "C" not null references merchants (id),
  mode text not null check (mode in ('live', 'test')),
  dialect text not null check (dialect in ('greenfield', 'commerce')),
  shop_key_id text collate "C" not null references shop_keys (id),
  order_id text,
  metadata json not null,
  checkout jsonb not null,
  told jsonb not null default '{}',
  told_sequence bigint not null default 0,
  created_at timestamptz not null default clock_timestamp()
);
create index shop_invoices_of on shop_invoices (merchant_id, mode, created_at, payment_id);
create index shop_invoices_orders on shop_invoices (merchant_id, mode, order_id);

-- The form of what an endpoint receives. Existing ones receive Florin's own events.
alter table endpoints add column dialect text not null default 'florin' check (dialect in ('florin', 'greenfield', 'commerce'));
-- Deliveries of a payment that must never arrive after a later one.
alter table deliveries add column ordered boolean not null default false;
create index deliveries_ordered on deliveries (payment_id, endpoint_id, sequence) where ordered;
