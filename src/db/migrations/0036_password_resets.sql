-- merchants/: a link by which a person who forgot the password chooses a new one.
create table password_resets (
  user_id text collate "C" primary key references users on delete cascade,
  email text not null,
  token_hash bytea not null unique,
  asked_at timestamptz not null default clock_timestamp(),
  expires_at timestamptz not null
);
