-- chains/: who each Electrum server was when it was first asked: vouched for by a public authority, or the fingerprint of its certificate.
create table electrum_certificates (
  server text primary key,
  identity text not null,
  first_seen_at timestamptz not null default clock_timestamp()
);
