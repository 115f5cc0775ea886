-- How often nothing found a transaction that a member entered for a refund or a payout, so that a typing error can be corrected.
alter table refunds add column missed integer;
alter table payouts add column missed integer;
drop index refunds_sent_by_hand;
drop index payouts_sent_by_hand;
create index refunds_sent_by_hand on refunds (looked_at nulls first, number)
  where state = 'sent' and sweep_id is null and mode = 'live' and (failure is null or missed > 0) and address is not null;
create index payouts_sent_by_hand on payouts (looked_at nulls first, number)
  where state = 'sent' and sweep_id is null and mode = 'live' and (failure is null or missed > 0) and address is not null;
create index refunds_by_txid on refunds (txid) where state in ('sent', 'confirmed');
create index payouts_by_txid on payouts (txid) where state in ('sent', 'confirmed');

-- The worth at the approval, which the limit of one member is about. Null: it was approved by an older version, and the worth at the request counts.
alter table refunds add column approved_usd_cents bigint;
alter table payouts add column approved_usd_cents bigint;

-- What a signed file of a canceled payout spends outlives the cancellation.
create index payouts_canceled on payouts (merchant_id) where state = 'canceled' and anchor is not null;
