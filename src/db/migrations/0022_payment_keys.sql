-- payments/: the key that a program made the payment with.
alter table payments add column key_id text collate "C";
