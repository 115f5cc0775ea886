-- money-out/: `conflict_height`, `conflict_hash`: the block at which it was first seen that another transaction spent an input of this one
-- or used its nonce. `failed_at`: it can never be mined.
alter table sweep_transactions
  add column conflict_height bigint,
  add column conflict_hash text,
  add column failed_at timestamptz;
