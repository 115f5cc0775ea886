-- money-out/: payouts from accounts. `parts`: the deposits whose addresses authorize a payout, fixed by its first file. `published_until`:
-- the second at which the last authorization of it that may be known to others expires; such a payout can be in another file at once.
alter table payouts add column parts jsonb, add column published_until bigint;
create index payouts_published on payouts (published_until) where state in ('signed', 'sent') and sweep_id is null and published_until is not null;
create index payouts_reserving on payouts (merchant_id, coin) where state in ('approved', 'signed', 'sent') and anchor is not null;
