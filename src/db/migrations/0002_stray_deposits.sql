-- merchants/ ---------------------------------------------------------------------------------------------------
-- The transaction that changed the wallet last: followers read again only what might have changed since their last look.
alter table wallets add column xid xid8 not null default pg_current_xact_id();

-- Indexes a wallet's counter jumped over, from first_index to before end_index: never given to a payment, watched all the same.
create table skipped_indexes (
  id bigint generated always as identity primary key,
  wallet_id text collate "C" not null references wallets,
  first_index bigint not null,
  end_index bigint not null,
  reason text not null check (reason in ('restore', 'deposit')),
  at timestamptz not null default clock_timestamp(),
  check (first_index < end_index)
);
create index skipped_indexes_of on skipped_indexes (wallet_id);

-- payments/ ----------------------------------------------------------------------------------------------------
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
  -- when the operator said that it is dealt with
  claimed_at timestamptz,
  primary key (coin, ref)
);
