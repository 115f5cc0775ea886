-- follow/: an address holds more than was recorded, and searching again did not show why. Until an operator releases it.
alter table followers add column unexplained text;
