-- follow/: what a transfer costs on an EVM chain, in wei: for each unit of gas, and for its bytes.
alter table tips add column gas_price numeric, add column data_fee numeric, add column fee_at timestamptz;
