-- merchants/: the logo on the payment page, checked when it is set; named by its hash, so that browsers may keep it.
create table merchant_logos (
  merchant_id text collate "C" primary key references merchants,
  hash text not null,
  type text not null check (type in ('image/png', 'image/svg+xml')),
  bytes bytea not null
);
create index merchant_logos_by_hash on merchant_logos (hash);
