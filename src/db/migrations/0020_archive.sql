-- payments/: when a member put a payment away; null: it stands in the lists.
alter table payments add column archived_at timestamptz;
create index payments_archived on payments (merchant_id, mode, sequence) where archived_at is not null;
