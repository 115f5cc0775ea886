-- money-out/: a sweep was sent, and no source has the blocks below this height any more that were not searched for it.
alter table sweeps add column unsearched_below bigint;
