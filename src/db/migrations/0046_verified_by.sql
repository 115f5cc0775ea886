-- Who vouches for the block of a transfer: your own node, or the proof of work that was checked. Null until it is in a block, and for blocks
-- that were read before this was recorded.
alter table transfers add column verified_by text
  check (verified_by in ('node', 'proof_of_work', 'sync_committee', 'providers'));
