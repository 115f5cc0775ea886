-- shops/: the keys of one shop that replaced one another belong together, so that a new key keeps the invoices and webhooks of the shop.
-- `first_id`: the first key of the shop; null for that key itself.
alter table shop_keys add column first_id text collate "C" references shop_keys (id);
-- Where the plugin received its key, without the query: it tells the shops of one host apart.
alter table shop_keys add column site text;
-- Keys that a plugin fetched for the same host, and keys that replaced a disconnected one of the same name.
update shop_keys k set first_id = f.id from (
  select id, first_value(id) over (partition by merchant_id, mode, dialect, platform, origin order by created_at, id) as first
  from shop_keys where origin is not null) as o join shop_keys f on f.id = o.first
where o.id = k.id and f.id <> k.id;
update shop_keys k set first_id = (
  select f.id from shop_keys f
  where f.merchant_id = k.merchant_id and f.mode = k.mode and f.dialect = k.dialect and f.platform = k.platform and f.name = k.name
    and f.origin is null and f.revoked_at <= k.created_at order by f.created_at, f.id limit 1)
where k.origin is null;
create index shop_keys_of_line on shop_keys ((coalesce(first_id, id)));
