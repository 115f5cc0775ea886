-- chains/simulated: what the payer of a test payment does after the first scenario, in order: coin, scenario, units and start of each.
alter table simulations add column more jsonb not null default '[]';
