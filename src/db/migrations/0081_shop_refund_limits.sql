-- shops/: refunds without a payment need the approvals of other refunds, have links that expire, and are in the books once they were sent.
-- `coins`: what the customer may choose; null for all. `usd_cents`: null if there was no price. `units`: what was sent, in the smallest unit of the coin.
alter table shop_refunds add column claim_until timestamptz not null default clock_timestamp() + interval '30 days';
alter table shop_refunds add column coins text[];
alter table shop_refunds add column usd_cents bigint;
alter table shop_refunds add column units numeric;
alter table shop_refunds add column backed_by text collate "C";
alter table shop_refunds add column approved_by text;
alter table shop_refunds add column approved_by_user text collate "C";
alter table shop_refunds add column approved_at timestamptz;
