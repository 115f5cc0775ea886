-- shops/: refunds that shops asked for. A customer names an address on the claim page; the merchant sends the money and says so.
create table shop_refunds (
  id text collate "C" primary key,
  merchant_id text collate "C" not null references merchants (id),
  mode text not null check (mode in ('live', 'test')),
  shop_key_id text collate "C" not null references shop_keys (id),
  payment_id text collate "C" references payments (id),
  name text not null,
  amount text not null,
  currency text not null,
  created_at timestamptz not null default clock_timestamp(),
  coin text,
  address text,
  claimed_at timestamptz,
  sent_at timestamptz,
  txid text
);
create index shop_refunds_of on shop_refunds (merchant_id, mode, created_at, id);
