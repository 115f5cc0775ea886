-- payments/: terms of three characters, or of four after three hexadecimal digits, so that few payments share those of a number, an address
-- or an ID. Each is marked with its owner and its segment of 65,536 payments: an owner's segments are searched one by one, the newest
-- first, and no search reads what belongs to others. The last terms of a line are shorter: a query that is too short finds the terms that
-- begin with it.
create or replace function payment_text_grams(owner int, segment bigint, body text) returns tsvector
language sql immutable parallel safe strict cost 1000 as $$
  select array_to_tsvector(array_agg(to_hex(owner) || '.' || to_hex(segment) || '.'
    || substr(line, i, case when translate(substr(line, i, 3), '0123456789abcdef', '') = '' then 4 else 3 end)))
  from string_to_table(body, E'\n') as line, generate_series(1, length(line)) as i
$$;
-- The function payment_text_terms stays for processes of the previous version that run during an upgrade.
drop index payment_texts_terms;
create index payment_texts_grams on payment_texts using gin (payment_text_grams(owner, sequence >> 16, body)) with (fastupdate = off);
-- Without statistics of terms, which would take long to collect and which no plan needs.
alter index payment_texts_grams alter column 1 set statistics 0;
