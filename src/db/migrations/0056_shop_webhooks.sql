-- webhooks/: the endpoints that a shop created belong to its key. Until now, each was described by the name of its shop.
alter table endpoints add column shop_key_id text collate "C" references shop_keys (id);
update endpoints e set shop_key_id = (
  select k.id from shop_keys k
  where k.merchant_id = e.merchant_id and k.mode = e.mode and k.dialect = e.dialect and k.name = e.description and k.created_at <= e.created_at
  order by k.revoked_at is not null and k.revoked_at < e.created_at, k.created_at desc limit 1)
where e.dialect <> 'florin';
update endpoints e set state = 'disabled', disabled_reason = 'merchant'
from shop_keys k where k.id = e.shop_key_id and k.revoked_at is not null and e.state = 'enabled';
create index endpoints_of_shop on endpoints (shop_key_id) where shop_key_id is not null;
