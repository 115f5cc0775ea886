-- A value sealed with the key of the install's secrets, so that every start and every backup notices another key. Null until the first
-- start with a key that opens what is sealed.
alter table install add column key_check bytea;
