-- merchants/: browsers whose sign-ins are not asked for a second factor, until a fixed day.
create table trusted_devices (
  id text collate "C" primary key,
  user_id text collate "C" not null references users on delete cascade,
  -- of what the cookie holds
  token_hash bytea not null unique,
  ip text not null,
  user_agent text not null,
  created_at timestamptz not null default clock_timestamp(),
  used_at timestamptz not null default clock_timestamp(),
  expires_at timestamptz not null
);
create index trusted_devices_of on trusted_devices (user_id);
-- A session that began without its second factor counts as recent only once that was shown.
alter table sessions add column by_trusted_device boolean not null default false;
-- When a person wants e-mails about events; none: at once.
create table mail_timings (
  user_id text collate "C" primary key references users on delete cascade,
  time_zone text not null,
  -- of a day in that zone; null: at once
  daily_hour int check (daily_hour between 0 and 23),
  -- minutes of a day in that zone; both or none
  quiet_from int check (quiet_from between 0 and 1439),
  quiet_to int check (quiet_to between 0 and 1439),
  check ((quiet_from is null) = (quiet_to is null) and quiet_from <> quiet_to)
);
-- Notices that wait to be sent to somebody as one e-mail.
create table held_mails (
  user_id text collate "C" not null references users on delete cascade,
  notice_id bigint not null,
  due_at timestamptz not null,
  primary key (user_id, notice_id)
);
create index held_mails_due on held_mails (due_at);
-- What a secret key may do, and from where: addresses and networks; none: from anywhere.
alter table keys add column read_only boolean not null default false;
alter table keys add column allowed_ips text[] not null default '{}';
