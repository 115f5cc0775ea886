-- wallets/ -----------------------------------------------------------------------------------------------------
-- The database server on which the wallet issued its last address: after a failover or a restore, another one continues.
alter table wallets add column issued_on text;
alter table skipped_indexes drop constraint skipped_indexes_reason_check,
  add constraint skipped_indexes_reason_check check (reason in ('restore', 'deposit', 'database'));
