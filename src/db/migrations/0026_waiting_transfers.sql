-- payments/: what a merchant has waiting, for the confirmations that a new transfer needs. blocks.usd_cents is no longer written.
create index transfers_waiting on transfers (merchant_id, coin) where block_height is null and conflict_height is null;
