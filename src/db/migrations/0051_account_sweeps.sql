-- money-out/: sweeps on chains of accounts. `after_number`: the transaction that must be mined before this one is sent, because it pays for
-- its gas. `unmoved`: accounts whose money a mined transaction did not move. `looked_at`: when the chain was asked about it last.
alter table sweep_transactions
  add column after_number int,
  add column unmoved text[] not null default '{}',
  add column looked_at timestamptz;
alter table sweep_transactions drop column moved;
