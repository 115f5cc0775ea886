-- What a refund of a shop weighed for the limit when it was approved, in cents. A coin may have been worth less when the shop asked.
alter table shop_refunds add column approved_usd_cents bigint;
