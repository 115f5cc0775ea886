-- shops/: a refund of a payment is always in refunds, under one limit. What remains here belongs to no payment.
alter table shop_refunds drop column payment_id;

-- money-out/: refunds whose address and reason were erased keep their amounts, states and times.
alter table refunds add column erased_at timestamptz;
alter table refunds drop constraint refunds_check;
alter table refunds add constraint refunds_check check (address is not null or state in ('requested', 'canceled') or erased_at is not null);
