-- payments/: until when a partial payment keeps its rate, which is less than until when the rest may come.
alter table payments add column rate_lock_until timestamptz;
-- What payers were told stays as it is.
update payments set rate_lock_until = extended_until where extended_until is not null and status = 'pending';
