-- How often the claim link of a refund was replaced: the token of the link follows from it.
alter table refunds add column claim_number integer not null default 0;
