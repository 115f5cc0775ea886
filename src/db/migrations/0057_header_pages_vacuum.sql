-- chains/: each new block writes its page of 20 kB again. Without these settings, up to a fifth of all headers is kept twice until the
-- next vacuum.
alter table header_pages set (
  autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 200,
  toast.autovacuum_vacuum_scale_factor = 0, toast.autovacuum_vacuum_threshold = 2000
);
