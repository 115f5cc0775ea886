-- What the watcher found of a chain's health: settling reads it, and what it holds is shown.
create table chain_guard (
  coin text primary key,
  -- whether the reasons hold completion: on mainnet only, elsewhere they are shown alone
  binding boolean not null default false,
  reasons text[] not null default '{}',
  codes text[] not null default '{}',
  -- with several sources: the height up to which those with a vote agreed
  agreed_height bigint,
  -- the last deep reorganisation: blocks taken back, and from which height
  reorg_depth int,
  reorg_height bigint,
  sources jsonb not null default '[]',
  checked_at timestamptz not null default clock_timestamp()
);
-- Look-ups of a deposit address are answered from what came to it.
create index transfers_by_address on transfers (merchant_id, coin, address);
