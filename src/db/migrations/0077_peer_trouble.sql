-- Why no peer stays connected.
alter table peer_status add column trouble text;
