-- money-out/: the display currency of the merchant when a refund or payout was valued, and its units for one US dollar, times 10^8.
alter table refunds add column display_currency text, add column display_rate numeric(38, 0) check (display_rate > 0);
alter table payouts add column display_currency text, add column display_rate numeric(38, 0) check (display_rate > 0);
-- Inputs of files that another transaction spent: the money is neither on the deposit address nor with the destination.
alter table sweep_inputs add column lost_at timestamptz;
-- Of files none of whose transactions was mined, what was not released is lost.
update sweep_inputs i set lost_at = s.ended_at
from sweeps s
where s.id = i.sweep_id and s.state = 'failed' and s.ended_at is not null and i.released_at is null and i.payment_id is not null
  and i.input ~ '^[0-9a-f]{64}:[0-9]+$'
  and not exists (select 1 from sweep_transactions t where t.sweep_id = s.id and t.block_height is not null);
