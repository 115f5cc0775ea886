-- follow/: the number of the log or the transaction of a transfer in its block, on EVM chains. Transfers that were seen at the same time are
-- listed in this order.
alter table transfers add column place integer;
