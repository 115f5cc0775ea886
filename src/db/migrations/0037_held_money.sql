-- payments/: what arrived in US cents, null where it was never settled by a version that writes it; and what arrived without
-- counting, by coin and state, null where there is nothing.
alter table payments add column received_usd_cents bigint;
alter table payments add column uncounted jsonb;
-- The worker settles those again that have something to say there.
insert into due_work (kind, key, merchant_id, due_at)
select 'settle', p.id, p.merchant_id, clock_timestamp() from payments p
where p.exceptions <> '{}' or exists (select 1 from decisions d where d.payment_id = p.id)
on conflict (kind, key) do nothing;
-- merchants/: how far notices of test mode are read; `read_through` is for all others.
alter table notice_reads add column read_through_test bigint not null default 0;
update notice_reads set read_through_test = read_through;
create index notices_by_mode on notices (merchant_id, mode, id);
