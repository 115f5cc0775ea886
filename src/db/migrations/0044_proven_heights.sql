-- What the work of each chain proves, as its follower last found it: the highest blocks with 1, 2, 3 ... confirmations in work, and
-- fewer entries where nothing more is proven. Null where no proof of work is required.
alter table tips add column proven_heights integer[];
