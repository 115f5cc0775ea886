-- ! breaking
-- payments/: what the transactions of transfers spend, once for each transaction and only while it can still lose its coins or its
-- block. Transfers are one for each transaction and address from here on: a program of before would count their outputs again.
-- `transfers.spends` is not written any more; followers copy what they still need of it when they start.
create table spent_outpoints (
  coin text not null,
  -- `txid:n`, ETH: `from:nonce`.
  outpoint text collate "C" not null,
  txid text collate "C" not null,
  xid xid8 not null default pg_current_xact_id(),
  primary key (coin, outpoint, txid)
);
create index spent_outpoints_by_txid on spent_outpoints (coin, txid);
create index spent_outpoints_new on spent_outpoints (coin, xid);
-- Outputs of one transaction to one payment are one transfer, named by the first of them. `outputs`: their numbers and units; null
-- where there is one.
alter table transfers add column output_count int not null default 1, add column outputs jsonb;
