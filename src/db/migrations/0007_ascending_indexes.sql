-- What is newest stands last, where B-trees add without a search and fill their pages; lists read backwards.
drop index payments_by_coin;
create index payments_by_coin on payments (merchant_id, mode, coin, sequence) where coin is not null;
drop index payments_by_status;
create index payments_by_status on payments (merchant_id, mode, status, sequence);
drop index events_feed;
create index events_feed on events (merchant_id, mode, xid, feed) where body is not null;
