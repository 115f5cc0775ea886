-- payments/: blocks were taken back and the branch that replaces them has not been read to its end: what completed payments lost by
-- it is judged then.
alter table tips add column unwound boolean not null default false;
-- Since when a source that has a vote shows the chain without the block of this transfer, or with another one in its place.
alter table transfers add column disputed_since timestamptz;
-- Kept once the transfer is mined again: its block is a later one than a completed payment counted on.
create index transfers_unmined on transfers (coin, unmined_since) where unmined_since is not null;
create index transfers_disputed on transfers (coin) where disputed_since is not null;
-- Completed payments whose money is not confirmed any more: each block may change that.
create index payments_reversed on payments (id) where status = 'completed' and 'reorged' = any(exceptions);
