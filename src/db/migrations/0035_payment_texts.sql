-- payments/: the texts that search finds payments by, lower case, one field per line. The worker writes them after the payment, so that
-- creating one costs nothing more.
create table payment_text_owners (
  merchant_id text collate "C" not null,
  mode text not null,
  -- Stands for merchant and mode in the index.
  number int generated always as identity unique,
  -- All payments up to this sequence have their texts.
  through_sequence bigint not null default 0,
  primary key (merchant_id, mode)
);
create table payment_texts (
  owner int not null,
  sequence bigint not null,
  -- The payment's version when its texts were read.
  version bigint not null,
  body text not null,
  primary key (owner, sequence)
);

-- Three bytes of text, marked with their owner and their segment of 65,536 payments: an owner's segments are searched one by one, the
-- newest first, and no search reads what belongs to others.
create or replace function payment_text_terms(owner int, segment bigint, body text) returns bigint[]
language sql immutable parallel safe strict as $$
  select coalesce(array_agg(distinct
    ((((owner::bigint << 15) | (segment & 32767)) << 24) | (get_byte(b, i) << 16) | (get_byte(b, i + 1) << 8) | get_byte(b, i + 2))), '{}')
  from convert_to(body, 'UTF8') as b, generate_series(0, octet_length(b) - 3) as i
$$;
-- Without a pending list: each search would read all of it once per segment.
create index payment_texts_terms on payment_texts using gin (payment_text_terms(owner, sequence >> 16, body)) with (fastupdate = off);
