-- merchants/: names of parameters that a logged request carried and that were ignored.
alter table requests add column ignored text[];
