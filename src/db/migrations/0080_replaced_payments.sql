-- payments/: the payment that took the place of one. That one names it in its request.
alter table payments add column replaced_by text collate "C";
