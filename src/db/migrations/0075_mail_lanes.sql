-- notices/: reset links and warnings are sent before other emails, and senders take turns: merchants, users, or each recipient.
-- `identity` is a hash of all that makes two emails the same, for kinds of which only one is sent in a while.
alter table mails add column urgent boolean not null default false, add column sender text collate "C" not null default '',
  add column identity bytea;
create index mails_by_lane on mails (urgent, sender, due_at, id) where due_at is not null;
create index mails_of_sender on mails (sender, kind, created_at desc);

-- people/: several reset links of a person may be open at once, so that somebody who asks for one does not end the one before. `known`:
-- asked for in a browser in which the person has signed in. Until it is replaced, a process of the previous version sends no links.
alter table password_resets drop constraint password_resets_pkey, drop constraint password_resets_token_hash_key,
  add primary key (token_hash), add column known boolean not null default false;
create index password_resets_of on password_resets (user_id, known, asked_at desc);
