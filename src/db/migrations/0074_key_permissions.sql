-- keys/, shops/, webhooks/: the user who made it. Null: the operator, an API key without a maker, or nobody knows.
alter table keys add column made_by text collate "C";
alter table shop_keys add column made_by text collate "C";
alter table endpoints add column made_by text collate "C";
-- What a secret key may do. Null: everything, because it was created before permissions existed.
alter table keys add column permissions text[] check (kind = 'secret' or permissions is null);
create index keys_made_by on keys (merchant_id, made_by) where made_by is not null and revoked_at is null;
create index shop_keys_made_by on shop_keys (merchant_id, made_by) where made_by is not null and revoked_at is null;
-- Until now only the audit log knew the maker by ID. A replaced key and its successor are in one entry.
update keys k set made_by = a.actor_id from audit_log a
where a.merchant_id = k.merchant_id and a.actor_id is not null
  and ((a.action = 'key.created' and a.object = k.id) or (a.action = 'key.rolled' and a.after->>'replaced_by' = k.id));
update shop_keys s set made_by = a.actor_id from audit_log a
where a.merchant_id = s.merchant_id and a.actor_id is not null and a.action = 'shop.connected' and a.object = s.id;
update endpoints e set made_by = a.actor_id from audit_log a
where a.merchant_id = e.merchant_id and a.actor_id is not null and a.action = 'endpoint.create' and a.object = e.id;
