-- payments/: metadata as pairs that lists are filtered by, newest first. `pair` is the MD5 of key, chr(1) and value.
create table payment_metadata (
  merchant_id text collate "C" not null,
  mode text not null,
  pair uuid not null,
  sequence bigint not null,
  primary key (merchant_id, mode, pair, sequence)
);
create index payments_by_amount on payments (merchant_id, mode, amount_usd_cents, sequence);

-- Existing payments.
insert into payment_metadata (merchant_id, mode, pair, sequence)
select merchant_id, mode, md5(m.key || chr(1) || m.value)::uuid, sequence
from payments, jsonb_each_text(metadata) as m where metadata <> '{}' on conflict do nothing;
