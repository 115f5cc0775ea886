-- The rows that wait, told in other words than deliveries_lanes tells them: each statement on the queue fits one index.
drop index deliveries_order;
create index deliveries_order on deliveries (payment_id, sequence) where state || '' = 'pending';
-- What waits has a time, and only that.
alter table deliveries add check ((state = 'pending') = (due_at is not null));
-- Room beside each row: a lease changes it in place, without touching an index.
alter table deliveries set (fillfactor = 70);
