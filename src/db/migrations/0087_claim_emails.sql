-- Where the claim link of a refund is mailed, and who entered that: decided when the link is made, so that nobody can replace it later.
alter table refunds
  add column email text,
  add column email_from text,
  add constraint refunds_email check ((email is null) = (email_from is null) and email_from = any (array['merchant', 'page']));

update refunds r set email = a.email, email_from = 'page' from refund_addresses a
  where a.payment_id = r.payment_id and a.email is not null and r.erased_at is null;
