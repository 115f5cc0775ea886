-- merchants/: whether the link of an invitation went to its mailbox alone. Whoever invited may have seen older ones.
alter table invites add column mailed boolean not null default false;
-- A link by which a person shows that the mailbox of their address is theirs.
create table email_proofs (
  user_id text collate "C" primary key references users on delete cascade,
  email text not null,
  token_hash bytea not null unique,
  expires_at timestamptz not null
);
