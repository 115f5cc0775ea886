-- chains/: peers of each network that worked, as host:port: the first to connect to after a restart. A row holds a few dozen at most.
create table known_peers (
  coin text not null,
  network text not null,
  anchors text[] not null,
  proven text[] not null,
  saved_at timestamptz not null default clock_timestamp(),
  primary key (coin, network)
);

-- chains/: what the process that is connected to the peers of a network last reported, for the other processes and for operators.
create table peer_status (
  coin text not null,
  network text not null,
  phase text not null check (phase in ('connecting', 'headers', 'ready')),
  connected int not null,
  relaying int not null,
  height int not null,
  hash text not null,
  parent text not null,
  block_time timestamptz not null,
  syncing boolean not null,
  percent int not null,
  seconds_left int,
  clock_ahead_seconds int,
  bytes_in bigint not null,
  bytes_out bigint not null,
  started_at timestamptz not null,
  reported_at timestamptz not null default clock_timestamp(),
  primary key (coin, network)
);

-- follow/: the blocks that a follower has to catch up with, while they are many.
alter table followers add column catch_up_from bigint, add column catch_up_to bigint;
