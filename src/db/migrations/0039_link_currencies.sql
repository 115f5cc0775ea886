-- payments/: links priced in other currencies. `amount_minor` is in the smallest units of `currency`; null if the customer chooses.
-- `amount_usd_cents` is still written for USD links, because older versions of the service read it.
alter table payment_links add column currency text not null default 'USD', add column amount_minor bigint check (amount_minor > 0);
update payment_links set amount_minor = amount_usd_cents;
