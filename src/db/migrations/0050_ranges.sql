-- Networks whose blocks come too fast to read each of them are read by ranges. An anchor is where a poll ended: the block that the sources
-- agreed on.
create table anchors (
  chain text not null,
  height bigint not null,
  hash text not null,
  at timestamptz not null default clock_timestamp(),
  primary key (chain, height)
);
create index anchors_by_time on anchors (chain, at);
-- Through which block each source was asked for transfers. What one leaves out, another one names.
create table range_reads (
  chain text not null,
  source text not null,
  height bigint not null,
  primary key (chain, source)
);
-- Whether anyone waits for a network, which is then read more often.
create index payments_open_in_coin on payments (coin) where status in ('pending', 'processing') and mode = 'live';
-- What the contract of a token is like: the code that was accepted, the code that was seen last, and why it is held.
create table token_contracts (
  coin text primary key,
  code text,
  seen_code text not null,
  hold text,
  changed_at timestamptz not null default clock_timestamp()
);
