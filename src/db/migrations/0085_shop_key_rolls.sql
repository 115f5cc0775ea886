-- The key that a shop had before its key was replaced, until it ends.
alter table shop_keys add column previous_hash bytea, add column previous_until timestamptz;
create unique index shop_keys_previous on shop_keys (previous_hash) where previous_hash is not null;
