-- money-out/: who approves refunds above the limit of the merchant. `backed_by`: the member who requested a refund or approved it first;
-- `approved_by_user`: the member whose approval was the last one needed.
alter table refunds add column backed_by text collate "C", add column approved_by_user text collate "C";
create index refunds_approved on refunds (merchant_id, approved_by_user, approved_at) where approved_by_user is not null;
