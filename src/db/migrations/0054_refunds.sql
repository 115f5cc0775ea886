-- money-out/: refunds of payments. What they return together never exceeds what arrived: each is written under the lock of its payment.
create table refunds (
  number bigint not null generated always as identity unique,
  id text collate "C" primary key,
  merchant_id text collate "C" not null references merchants (id),
  mode text not null check (mode in ('live', 'test')),
  payment_id text collate "C" not null references payments (id),
  coin text not null,
  units numeric(38, 0) not null check (units > 0),
  usd_cents bigint not null check (usd_cents >= 0),
  rate text not null check (rate in ('payment', 'current')),
  state text not null check (state in ('requested', 'approved', 'signed', 'sent', 'confirmed', 'failed', 'canceled')),
  address text,
  -- The hash of the token of its claim page; null when the address was given by the merchant.
  claim_hash bytea unique,
  claim_until timestamptz,
  reason text,
  txid text collate "C",
  requested_by text not null,
  approved_by text,
  created_at timestamptz not null,
  approved_at timestamptz,
  sent_at timestamptz,
  ended_at timestamptz,
  failure text,
  check (address is not null or state in ('requested', 'canceled'))
);
create index refunds_of on refunds (merchant_id, mode, number desc);
create index refunds_of_payment on refunds (payment_id, number);

-- payments/: what refunds have returned, in units by coin.
alter table payments add column refunded jsonb not null default '{}';
