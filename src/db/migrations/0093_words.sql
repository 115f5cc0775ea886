-- ! breaking
-- Columns are named after what they hold: the code of a chain, the family of a wallet, or a coin that is quoted, moved or priced.
alter table chains rename column coin to chain;
alter table blocks rename column coin to chain;
alter table tips rename column coin to chain;
alter table chain_guard rename column coin to chain;
alter table chain_releases rename column coin to chain;
alter table followers rename column coin to chain;
alter table spent_outpoints rename column coin to chain;
alter table header_pages rename column coin to chain;
alter table known_peers rename column coin to chain;
alter table peer_status rename column coin to chain;
alter table kept_transactions rename column coin to chain;

alter table wallets rename column coin to family;
alter table wallet_changes rename column coin to family;
alter table deposit_addresses rename column coin to family;

-- What is signed offline is a file, for a sweep, a refund or a payout.
alter table sweeps rename to signing_files;
alter table sweep_transactions rename to signed_transactions;
alter table sweep_inputs rename to signing_inputs;
alter table signed_transactions rename column sweep_id to file_id;
alter table signing_inputs rename column sweep_id to file_id;
alter table refunds rename column sweep_id to file_id;
alter table refunds rename column sweep_number to transaction_number;
alter table payouts rename column sweep_id to file_id;
alter table payouts rename column sweep_number to transaction_number;

alter sequence sweeps_number_seq rename to signing_files_number_seq;
-- Indexes and constraints are named after their tables and columns.
do $$
declare
  chains text := '^(chains|blocks|tips|chain_guard|chain_releases|followers|spent_outpoints|header_pages|known_peers|peer_status|kept_transactions)_coin_';
  one record;
  called text;
begin
  for one in
    select conrelid::regclass::text as of, conname::text as name, true as is_constraint from pg_constraint
      where connamespace = current_schema()::regnamespace and conrelid <> 0
    union all
    select '', relname::text, false from pg_class x
      where relnamespace = current_schema()::regnamespace and relkind = 'i' and not exists (select 1 from pg_constraint where conindid = x.oid and contype in ('p', 'u'))
  loop
    called := regexp_replace(one.name, '^sweep_transactions', 'signed_transactions');
    called := regexp_replace(called, '^sweep_inputs', 'signing_inputs');
    called := regexp_replace(called, '^sweeps_', 'signing_files_');
    called := replace(called, '_sweep_id_', '_file_id_');
    called := regexp_replace(called, chains, '\1_chain_');
    called := regexp_replace(called, '^(wallets|wallet_changes|deposit_addresses)_coin_', '\1_family_');
    if called = one.name then continue; end if;
    if one.is_constraint then
      execute format('alter table %s rename constraint %I to %I', one.of, one.name, called);
    else
      execute format('alter index %I rename to %I', one.name, called);
    end if;
  end loop;
end $$;
