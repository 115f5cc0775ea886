-- http/: peers that send forwarded headers and are not listed as proxies, for the doctor.
create table unlisted_proxies (
  peer text collate "C" primary key,
  seen_at timestamptz not null default clock_timestamp()
);
