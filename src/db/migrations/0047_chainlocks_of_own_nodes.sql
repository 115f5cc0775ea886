-- Only your own node reports ChainLocks that count. A height that was recorded before may come from another source, so it is dropped; your
-- own node reports its last ChainLock again at the next poll.
update tips set chainlock_height = null where chainlock_height is not null;
