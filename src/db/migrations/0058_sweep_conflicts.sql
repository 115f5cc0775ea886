-- money-out/: `conflict_height`, `conflict_hash`: the block at which it was first seen that another transaction spent an input of this one
-- or used its nonce. `failed_at`: it can never be mined.
alter table sweep_transactions
  add column conflict_height bigint,
  add column conflict_hash text,
  add column failed_at timestamptz;
-- For sources without an index of transactions. `read_height`, `read_hash`: the last block that was searched for transactions of the sweep;
-- no hash: none was. `spent_height`, `spent_hash`: the block in which another transaction spent the input.
alter table sweeps add column read_height bigint, add column read_hash text;
alter table sweep_inputs add column spent_height bigint, add column spent_hash text;
-- A sweep cannot be in a block before the newest of its inputs.
update sweeps s set read_height = (
  select max(t.block_height) - 1 from sweep_inputs i join transfers t on t.payment_id = i.payment_id and t.coin = i.coin and t.ref = i.ref
  where i.sweep_id = s.id)
where state in ('made', 'signed', 'sent');
