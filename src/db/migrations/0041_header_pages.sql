-- chains/: the proven headers of the best chain of each network, 80 bytes each, in pages of consecutive heights. Headers do not compress.
create table header_pages (
  coin text not null,
  network text not null,
  page int not null,
  first_height int not null,
  headers bytea not null,
  primary key (coin, network, page)
);
alter table header_pages alter column headers set storage external;
