-- payments/: addresses given out lately, for sources that are asked for one address after the other.
create index deposit_addresses_recent on deposit_addresses (coin, created_at);
