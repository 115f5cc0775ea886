-- payments/: refunds asked for before there was a queue wait in it like those asked for since.
update payments p set attention = true
where refund_requested_at is not null and not attention and status not in ('pending', 'processing')
  and not 'refund_request' = any(reviewed)
  and not exists (select 1 from decisions d where d.payment_id = p.id and d.kind in ('reject', 'refund_sent'));
