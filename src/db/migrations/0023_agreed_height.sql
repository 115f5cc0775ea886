-- payments/: what the sources of a coin agree on. `agreed_hash` is now the highest block that was read and that every source with a
-- vote has, at `agreed_height`; empty while there is none. Null: one source is set.
alter table chain_guard add column agreed_height bigint;
-- Payments above this wait, and why; null: none do.
alter table chain_guard add column held_above_usd_cents bigint;
alter table chain_guard add column held_above_reason text;
-- Up to this amount a lock completes a transfer before its block is agreed on; null: never.
alter table chain_guard add column lock_usd_cents bigint;
