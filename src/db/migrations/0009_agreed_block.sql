-- Sources agree on a block, not on a height: of another block of that height the others have never heard.
alter table chain_guard drop column agreed_height;
-- with several sources: the last block that those with a vote agreed on; empty before the first
alter table chain_guard add column agreed_hash text;
