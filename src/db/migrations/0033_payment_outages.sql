-- payments/: while customers of a merchant meet no currency they can pay with. Kept after it ends, so that one that comes and goes
-- does not notify again and again.
create table payment_outages (
  merchant_id text collate "C" primary key references merchants (id),
  began_at timestamptz not null,
  notified_at timestamptz not null,
  ended_at timestamptz
);
create index payment_outages_open on payment_outages (merchant_id) where ended_at is null;
