-- money-out/: refunds in signing files. The file of a refund is a row of sweeps; `sweep_number` is its transaction in it. `anchor`: the
-- output that every transaction of the refund spends, so that at most one of them can be mined. It never changes.
alter table sweeps add column purpose text not null default 'sweep' check (purpose in ('sweep', 'refund'));
alter table refunds
  add column anchor text collate "C",
  add column sweep_id text collate "C" references sweeps (id),
  add column sweep_number int;
create index refunds_in_files on refunds (sweep_id) where state in ('approved', 'signed', 'sent') and sweep_id is not null;
