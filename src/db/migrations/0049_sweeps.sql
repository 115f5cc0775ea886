-- money-out/: where the money of each family of chains goes. The newest row that is due and was not dropped is in use; a later one waits.
create table sweep_destinations (
  id bigint not null generated always as identity primary key,
  merchant_id text collate "C" not null references merchants (id),
  family text not null,
  network text not null,
  address text not null,
  asked_by text collate "C",
  asked_by_name text not null,
  asked_at timestamptz not null default clock_timestamp(),
  due_at timestamptz not null,
  dropped_at timestamptz
);
create index sweep_destinations_of on sweep_destinations (merchant_id, family, id desc) where dropped_at is null;

-- money-out/: one row for each signing file. Later purposes (refunds, payouts) use the same row and the same lines in `file`.
create table sweeps (
  number bigint not null generated always as identity unique,
  id text collate "C" primary key,
  merchant_id text collate "C" not null references merchants (id),
  wallet_id text collate "C" not null references wallets (id),
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
  failure text
);
create index sweeps_of on sweeps (merchant_id, number desc);
create index sweeps_open on sweeps (coin) where state in ('signed', 'sent');

-- money-out/: signed transactions, and what became of each. Those of all rounds are followed, because any of them can be mined.
create table sweep_transactions (
  sweep_id text collate "C" not null references sweeps (id),
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
  -- For token batches: how many of its transfers happened.
  moved int,
  primary key (sweep_id, round, number)
);
create index sweep_transactions_by_txid on sweep_transactions (txid);

-- money-out/: what a file spends: an outpoint, a transfer to an account, or an account with its nonce. Nothing is in two open files.
create table sweep_inputs (
  sweep_id text collate "C" not null references sweeps (id),
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
  primary key (sweep_id, number)
);
create unique index sweep_inputs_reserved on sweep_inputs (chain, input) where released_at is null;
create index sweep_inputs_by_transfer on sweep_inputs (payment_id, coin, ref) where released_at is null;
