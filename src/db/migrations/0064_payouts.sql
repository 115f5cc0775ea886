-- money-out/: payouts to third parties. Columns that refunds have too mean the same. `wallet_id`: the wallet whose deposits pay for it, fixed
-- with its anchor.
create table payout_batches (
  number bigint not null generated always as identity unique,
  id text collate "C" primary key,
  merchant_id text collate "C" not null references merchants (id),
  mode text not null check (mode in ('live', 'test')),
  name text not null,
  file_hash bytea not null,
  requested_by text not null,
  created_at timestamptz not null
);
create index payout_batches_of on payout_batches (merchant_id, mode, number desc);
create index payout_batches_by_file on payout_batches (merchant_id, mode, file_hash);

create table payouts (
  number bigint not null generated always as identity unique,
  id text collate "C" primary key,
  merchant_id text collate "C" not null references merchants (id),
  mode text not null check (mode in ('live', 'test')),
  batch_id text collate "C" references payout_batches (id),
  reference text collate "C",
  coin text not null,
  units numeric(38, 0) not null check (units > 0),
  usd_cents bigint not null check (usd_cents >= 0),
  address text not null,
  description text,
  state text not null check (state in ('requested', 'approved', 'signed', 'sent', 'confirmed', 'failed', 'canceled')),
  txid text collate "C",
  failure text,
  requested_by text not null,
  backed_by text collate "C",
  approved_by text,
  approved_by_user text collate "C",
  wallet_id text collate "C" references wallets (id),
  anchor text collate "C",
  sweep_id text collate "C" references sweeps (id),
  sweep_number int,
  event_count bigint not null default 0,
  created_at timestamptz not null,
  approved_at timestamptz,
  sent_at timestamptz,
  ended_at timestamptz
);
create index payouts_of on payouts (merchant_id, mode, number desc);
create index payouts_of_batch on payouts (batch_id, number) where batch_id is not null;
create unique index payouts_by_reference on payouts (merchant_id, mode, reference) where reference is not null and state <> 'canceled';
create index payouts_to_sign on payouts (merchant_id, coin, number) where state = 'approved' and sweep_id is null and mode = 'live';
create index payouts_in_files on payouts (sweep_id) where state in ('approved', 'signed', 'sent') and sweep_id is not null;
create index payouts_approved on payouts (merchant_id, approved_by_user, approved_at) where approved_by_user is not null;

alter table sweeps drop constraint sweeps_purpose_check;
alter table sweeps add constraint sweeps_purpose_check check (purpose in ('sweep', 'refund', 'payout'));
