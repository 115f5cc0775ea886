-- money-out/: what a member marked as sent is looked for on the chain. `failure` of one that is sent: its transaction does not pay it.
alter table refunds add column looked_at timestamptz;
create index refunds_sent_by_hand on refunds (looked_at nulls first, number)
  where state = 'sent' and sweep_id is null and mode = 'live' and failure is null and address is not null;
alter table payouts add column looked_at timestamptz;
create index payouts_sent_by_hand on payouts (looked_at nulls first, number)
  where state = 'sent' and sweep_id is null and mode = 'live' and failure is null and address is not null;

-- Payouts are erased by the setting of the merchant, and the files that paid them once they have ended.
alter table payouts add column erased_at timestamptz;
alter table payouts alter column address drop not null;
alter table payouts add constraint payouts_address_check check (address is not null or erased_at is not null);
create index payouts_to_erase on payouts (merchant_id, coalesce(ended_at, sent_at))
  where erased_at is null and state in ('sent', 'confirmed', 'failed', 'canceled');
create index sweeps_of_payouts on sweeps (merchant_id, ended_at) where purpose = 'payout' and erased_at is null;

-- payments/: refunds that were requested, and addresses that were left, after their payment was erased.
insert into due_work (kind, key, merchant_id, due_at)
select 'erase', p.id, p.merchant_id, clock_timestamp() from payments p
join erasures e on e.merchant_id = p.merchant_id and e.mode = p.mode and p.sequence <= e.through_sequence
where exists (select 1 from refunds r where r.payment_id = p.id and r.erased_at is null)
  or exists (select 1 from refund_addresses a where a.payment_id = p.id)
on conflict (kind, key) do nothing;
