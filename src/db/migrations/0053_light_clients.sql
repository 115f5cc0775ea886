-- What a light client of Ethereum's beacon chain knows: the blocks that the sync committee signed, and the committees (each key 48 bytes, the
-- sum of all keys last). With it, a restart needs no checkpoint.
create table light_clients (
  network text primary key,
  -- The setting that it began with; another one replaces the row.
  checkpoint text not null,
  finalized_slot bigint not null check (finalized_slot >= 0),
  finalized_root text not null,
  finalized_hash text not null,
  optimistic_slot bigint not null check (optimistic_slot >= finalized_slot),
  optimistic_root text not null,
  optimistic_hash text not null,
  current_committee bytea not null,
  next_committee bytea,
  -- Why nothing may complete until an operator chooses another checkpoint.
  halted text,
  updated_at timestamptz not null
);
