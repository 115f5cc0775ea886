-- merchants/: who signs in to the dashboard, with what, for which merchant and as what. Times are written by the sign-in library.
create table users (
  id text collate "C" primary key,
  name text not null,
  email text not null unique,
  email_verified boolean not null default false,
  image text,
  two_factor_enabled boolean not null default false,
  created_at timestamptz not null default clock_timestamp(),
  updated_at timestamptz not null default clock_timestamp()
);
create table sessions (
  id text collate "C" primary key,
  user_id text collate "C" not null references users on delete cascade,
  token text not null unique,
  ip_address text,
  user_agent text,
  expires_at timestamptz not null,
  created_at timestamptz not null default clock_timestamp(),
  updated_at timestamptz not null default clock_timestamp(),
  -- which merchant is shown; null: the first joined
  merchant_id text collate "C" references merchants,
  -- when the second factor, or the password where there is none, was shown again
  confirmed_at timestamptz
);
create index sessions_of on sessions (user_id);
-- Passwords, hashed.
create table accounts (
  id text collate "C" primary key,
  user_id text collate "C" not null references users on delete cascade,
  account_id text not null,
  provider_id text not null,
  access_token text,
  refresh_token text,
  id_token text,
  access_token_expires_at timestamptz,
  refresh_token_expires_at timestamptz,
  scope text,
  password text,
  created_at timestamptz not null default clock_timestamp(),
  updated_at timestamptz not null default clock_timestamp(),
  unique (provider_id, account_id)
);
create index accounts_of on accounts (user_id);
-- What a sign-in that is under way must come back with.
create table verifications (
  id text collate "C" primary key,
  identifier text not null,
  value text not null,
  expires_at timestamptz not null,
  created_at timestamptz not null default clock_timestamp(),
  updated_at timestamptz not null default clock_timestamp()
);
create index verifications_of on verifications (identifier);
-- Secrets and backup codes, encrypted under SECRET_KEY.
create table second_factors (
  id text collate "C" primary key,
  user_id text collate "C" not null unique references users on delete cascade,
  secret text not null,
  backup_codes text not null,
  verified boolean not null default false,
  failed_verification_count int not null default 0,
  locked_until timestamptz
);
create table passkeys (
  id text collate "C" primary key,
  user_id text collate "C" not null references users on delete cascade,
  name text,
  public_key text not null,
  credential_id text not null unique,
  counter int not null,
  device_type text not null,
  backed_up boolean not null,
  transports text,
  aaguid text,
  created_at timestamptz
);
create index passkeys_of on passkeys (user_id);
create table members (
  merchant_id text collate "C" not null references merchants,
  user_id text collate "C" not null references users on delete cascade,
  role text not null check (role in ('owner', 'admin', 'developer', 'finance', 'support', 'viewer')),
  joined_at timestamptz not null default clock_timestamp(),
  primary key (merchant_id, user_id)
);
create index members_of on members (user_id);
-- Who did what. Rows are added, never changed.
create table audit_log (
  id bigint generated always as identity primary key,
  merchant_id text collate "C" not null references merchants,
  -- null: acts that belong to no mode
  mode text check (mode in ('live', 'test')),
  -- as they were then; a user may be gone since
  actor_id text,
  actor_name text not null,
  action text not null,
  object text not null,
  before jsonb,
  after jsonb,
  ip text not null,
  at timestamptz not null default clock_timestamp()
);
create index audit_log_of on audit_log (merchant_id, id desc);
create function refuse_change() returns trigger language plpgsql as $$
begin
  raise exception 'rows of % are never changed', tg_table_name;
end $$;
create trigger audit_log_kept before update or delete on audit_log for each row execute function refuse_change();
-- payments/: one search box of the dashboard finds payments by exact match.
create index payments_by_invoice on payments (merchant_id, mode, invoice_id, sequence desc) where invoice_id is not null;
create index transfers_by_txid on transfers (txid) where txid is not null;
create index deposit_addresses_by_address on deposit_addresses (address);
create index payments_by_description on payments (merchant_id, mode, md5(request->>'description'), sequence desc)
  where request->>'description' is not null;
