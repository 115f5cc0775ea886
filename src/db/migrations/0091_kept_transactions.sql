-- Transactions that paid watched addresses, without witness, as blocks of peers had them: what signing them again would ask peers for.
create table kept_transactions (
  coin text not null,
  network text not null,
  txid text collate "C" not null,
  raw bytea not null,
  primary key (coin, network, txid)
);
