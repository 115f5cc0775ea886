-- Deposits that another wallet may have moved: those of canceled signing files, and those that the chain did not have any more when a file
-- was made. The books say that such money left.
create table moved_deposits (
  chain text not null,
  -- The output, or on chains of accounts the transfer.
  input text collate "C" not null,
  merchant_id text collate "C" not null references merchants (id),
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
insert into moved_deposits (chain, input, merchant_id, coin, payment_id, ref, units)
select i.chain, i.input, s.merchant_id, i.coin, i.payment_id, i.ref, i.units
from sweep_inputs i join sweeps s on s.id = i.sweep_id
where s.state = 'canceled' and i.payment_id is not null and i.units is not null
on conflict do nothing;
