-- merchants/: what people call a key, who made it, when it ends, and where it was used last.
alter table keys
  add column name text not null default '',
  -- the name of the member, as it was then; null: the operator
  add column created_by text,
  add column expires_at timestamptz,
  -- the key that was made to take its place; no reference, so that a backup may restore rows in any order
  add column replaced_by text collate "C",
  add column last_used_ip text,
  add column last_used_path text;
update keys set name = case kind when 'secret' then 'Secret key' else 'Public key' end;
create index keys_of on keys (merchant_id, mode, created_at desc, id desc);
-- What each key asked, by hour. Kept for two days.
create table key_hours (
  key_id text collate "C" not null references keys,
  hour timestamptz not null,
  calls bigint not null,
  failed bigint not null,
  primary key (key_id, hour)
);
create index key_hours_age on key_hours (hour);
-- What was asked of the API, newest last. Written together once a second, kept for 30 days.
create table requests (
  id bigint generated always as identity primary key,
  request_id text collate "C" not null,
  merchant_id text collate "C" not null,
  mode text not null,
  key_id text collate "C" not null,
  at timestamptz not null,
  method text not null,
  path text not null,
  query text,
  status integer not null,
  error_code text,
  duration_ms integer not null,
  has_idempotency_key boolean not null,
  ip text not null,
  -- without secrets, at most 2 kB; null: none was sent
  body text,
  -- requests of the same key and second that were counted and not kept
  omitted integer not null
);
create index requests_of on requests (merchant_id, mode, id desc);
create index requests_failed on requests (merchant_id, mode, id desc) where status >= 400;
create index requests_by_key on requests (key_id, id desc);
create index requests_by_name on requests (request_id);
-- webhooks/: the list of events by type. The one type that every creation writes is left out, so that creations pay nothing for it.
create index events_by_type on events (merchant_id, mode, type, xid, feed) where body is not null and type <> 'payment.created';
