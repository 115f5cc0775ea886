-- What made a request with a secret key or the key of a shop, as its User-Agent says: plugins name their version there.
alter table requests add column agent text;
create index shop_invoices_of_key on shop_invoices (shop_key_id, payment_id);
