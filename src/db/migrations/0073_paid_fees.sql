-- money-out/: what a mined transaction of an account cost, by its receipt, and for a sweep of native coin what arrived at the destination.
-- Null: not mined, or mined before this.
alter table sweep_transactions add column paid_units numeric(38, 0), add column arrived_units numeric(38, 0);
