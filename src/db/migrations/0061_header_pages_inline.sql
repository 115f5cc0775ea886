-- chains/: pages of 101 headers instead of 256. They fit in a page of the table, so nothing is stored apart and little space is wasted.
create temporary table headers_before on commit drop as select coin, network, first_height, headers || ''::bytea as headers from header_pages;
truncate header_pages;
alter table header_pages alter column headers set storage plain;
insert into header_pages (coin, network, page, first_height, headers)
select coin, network, height / 101, min(height),
  string_agg(substring(headers from (height - first_height) * 80 + 1 for 80), ''::bytea order by height)
from headers_before cross join lateral generate_series(first_height, first_height + length(headers) / 80 - 1) as height
group by coin, network, height / 101
-- A gap below a raised checkpoint ends a page; these headers are downloaded again.
having count(*) = max(height) - min(height) + 1;
