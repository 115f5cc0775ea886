-- merchants/: who is asked to join, what a merchant asks of its members, who runs the install.
alter table merchants add column second_factor_required boolean not null default false;
alter table users add column operator boolean not null default false;
-- The first owner of the first merchant.
update users set operator = true where id = (
  select m.user_id from members m join merchants on merchants.id = m.merchant_id
  where m.role = 'owner' order by merchants.created_at, merchants.id, m.joined_at limit 1);
-- The newest 30 seconds whose code was used: each code works once.
alter table second_factors add column last_step bigint;
create table invites (
  id text collate "C" primary key,
  merchant_id text collate "C" not null references merchants,
  email text not null,
  role text not null check (role in ('owner', 'admin', 'developer', 'finance', 'support', 'viewer')),
  -- of the secret in the link
  token_hash bytea not null unique,
  invited_by text not null,
  created_at timestamptz not null default clock_timestamp(),
  expires_at timestamptz not null
);
create index invites_of on invites (merchant_id, created_at desc);
-- An e-mail address that changes once both addresses agreed.
create table email_changes (
  user_id text collate "C" primary key references users on delete cascade,
  new_email text not null,
  old_token_hash bytea not null unique,
  new_token_hash bytea not null unique,
  old_agreed boolean not null default false,
  new_agreed boolean not null default false,
  expires_at timestamptz not null
);
-- Browsers and addresses a user signed in from, as a hash: a new one is told.
create table known_browsers (
  user_id text collate "C" not null references users on delete cascade,
  hash bytea not null,
  seen_at timestamptz not null default clock_timestamp(),
  primary key (user_id, hash)
);
-- What members should know. Of a merchant, or of one user alone.
create table notices (
  id bigint generated always as identity primary key,
  merchant_id text collate "C" references merchants,
  user_id text collate "C" references users on delete cascade,
  mode text check (mode in ('live', 'test')),
  kind text not null,
  -- what the text is made of
  detail jsonb not null,
  at timestamptz not null default clock_timestamp(),
  check ((merchant_id is null) <> (user_id is null))
);
create index notices_of_merchant on notices (merchant_id, id desc) where merchant_id is not null;
create index notices_of_user on notices (user_id, id desc) where user_id is not null;
create table notice_reads (
  user_id text collate "C" not null references users on delete cascade,
  merchant_id text collate "C" not null references merchants,
  read_through bigint not null,
  primary key (user_id, merchant_id)
);
-- Only what differs from the default of the kind.
create table notice_settings (
  user_id text collate "C" not null references users on delete cascade,
  merchant_id text collate "C" not null references merchants,
  kind text not null,
  in_app boolean not null,
  email boolean not null,
  primary key (user_id, merchant_id, kind)
);
-- E-mails to be sent; the worker takes them.
create table mails (
  id bigint generated always as identity primary key,
  recipient text not null,
  subject text not null,
  body text not null,
  kind text not null,
  attempts int not null default 0,
  due_at timestamptz default clock_timestamp(),
  failure text,
  sent_at timestamptz,
  created_at timestamptz not null default clock_timestamp()
);
create index mails_due on mails (due_at) where due_at is not null;
create index mails_recent on mails (recipient, kind, created_at desc);
-- Which alerts of a month were given.
create table usage_alerts (
  merchant_id text collate "C" not null references merchants,
  month date not null,
  percent int not null,
  primary key (merchant_id, month, percent)
);
-- The log is read by who, by what and by whom it concerns; few rows are written.
create index audit_log_by_actor on audit_log (merchant_id, actor_id, id desc);
create index audit_log_by_action on audit_log (merchant_id, action, id desc);
create index audit_log_by_object on audit_log (merchant_id, object, id desc);
-- db/: when the last backup was written.
alter table install add column backed_up_at timestamptz;
