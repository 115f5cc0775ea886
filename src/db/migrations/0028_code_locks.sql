-- merchants/: how many times in a row wrong codes locked a second factor: each lock is longer than the one before.
alter table second_factors add column locks int not null default 0;
