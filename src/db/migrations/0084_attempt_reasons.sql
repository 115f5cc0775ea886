-- Why an attempt failed, more exactly than its class, and the address that it went to. Endpoints have those of their last failure.
alter table attempts add column reason text, add column address text;
alter table endpoints add column failure_reason text, add column failure_address text;
-- Whether the endpoint has taken a delivery since it exists. One that has not may hang, and gets a smaller share of the requests.
alter table endpoints add column answered boolean not null default false;
update endpoints set answered = true where failures = 0;
