-- How many addresses payments by public keys took from a wallet in the hour that began at public_hour.
alter table wallets
  add column public_hour timestamptz,
  add column public_addresses int not null default 0;
