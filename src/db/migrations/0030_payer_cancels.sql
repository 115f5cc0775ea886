-- payments/: who cancelled. Of earlier decisions nobody knows: they count as the merchant's, whom a payer cannot overrule.
alter table decisions add column by_payer boolean not null default false;
