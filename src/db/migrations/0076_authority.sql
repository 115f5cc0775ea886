-- people/, merchants/, webhooks/: who stands behind what takes effect later.

-- The inviter must still be a member who may give the role when the invite is accepted. An invite without one cannot be accepted.
alter table invites add column invited_by_id text collate "C" references users (id) on delete cascade;
update invites i set invited_by_id = (
  select a.actor_id from audit_log a join users u on u.id = a.actor_id
  where a.merchant_id = i.merchant_id and a.action = 'member.invited' and a.object = i.email order by a.id desc limit 1);

-- The maker of an endpoint is the member who last decided where its events go.
update endpoints e set made_by = a.actor_id from (
  select distinct on (merchant_id, object) merchant_id, object, actor_id from audit_log
  where action = 'endpoint.update' and before->>'url' is distinct from after->>'url' order by merchant_id, object, id desc) a
where a.merchant_id = e.merchant_id and a.object = e.id;

-- The default also gives an end to links that older processes make during the upgrade.
alter table merchants add column setup_expires_at timestamptz not null default clock_timestamp() + interval '7 days';

-- wallets/, money-out/: a change whose waiting period is over is in effect while the member who asked for it may still ask for it, or once
-- it is settled: confirmed, immediate, or in effect when they left.
alter table wallet_waits_off add column settled_at timestamptz;
update wallet_waits_off set settled_at = due_at where due_at <= clock_timestamp();
alter table sweep_destinations add column settled_at timestamptz;
update sweep_destinations set settled_at = due_at where due_at <= clock_timestamp();
