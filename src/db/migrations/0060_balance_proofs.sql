-- What open addresses held when their balance was last proven, so that a restart forgets nothing: whatever they gained since then must be
-- explained by transfers that were seen. Only for Ethereum providers that nobody has to trust.
create table balance_proofs (
  chain text not null,
  -- The account, 40 hex digits.
  key text collate "C" not null,
  -- The block of the proof.
  height bigint not null check (height >= 0),
  hash text not null,
  block_time timestamptz not null,
  nonce numeric not null check (nonce >= 0),
  balance numeric not null check (balance >= 0),
  code_hash bytea not null,
  -- No proof: the address was new, and no provider could prove its balance then, so it counts as unused.
  assumed boolean not null,
  primary key (chain, key, height, hash)
);

-- What accounts were seen to gain in each block.
create table balance_gains (
  chain text not null,
  key text collate "C" not null,
  height bigint not null,
  hash text not null,
  units numeric not null check (units > 0),
  primary key (chain, key, height, hash)
);
