-- Enqueued work wakes the workers of its kind, on a channel of its own. The notification is sent at the commit, so the work is there.

-- Work with a due time: at once, or `soon`, so that the time is read. What is due later is found before that by those who look regularly.
create function wake_when_due() returns trigger language plpgsql as $$
declare
  kind text := tg_argv[0];
begin
  if kind is null then kind := new.kind; end if;
  perform pg_notify(kind, case when new.due_at > clock_timestamp() then 'soon' else '' end);
  return null;
end
$$;

-- Work that is done when it is there.
create function wake() returns trigger language plpgsql as $$
begin
  perform pg_notify(tg_argv[0], '');
  return null;
end
$$;

create trigger wake after insert or update of due_at on payments for each row
  when (new.due_at < clock_timestamp() + interval '10 seconds') execute function wake_when_due('payments');
create trigger wake after insert or update of due_at on due_work for each row
  when (new.due_at < clock_timestamp() + interval '10 seconds') execute function wake_when_due();
create trigger wake after insert or update of due_at on deliveries for each row
  when (new.due_at < clock_timestamp() + interval '10 seconds') execute function wake_when_due('deliveries');
create trigger wake after insert or update of due_at on mails for each row
  when (new.due_at < clock_timestamp() + interval '10 seconds') execute function wake_when_due('mails');
create trigger wake after insert or update of due_at on held_mails for each row
  when (new.due_at < clock_timestamp() + interval '10 seconds') execute function wake_when_due('mails');
create trigger wake after insert or update of cancelled_at on recoveries for each row
  when (new.queued_at is null) execute function wake('recoveries');
create trigger wake after insert or update of state on sweeps for each row execute function wake('money_out');
create trigger wake after insert or update of state, txid, sweep_id on refunds for each row
  when (new.mode = 'live') execute function wake('money_out');
create trigger wake after insert or update of state, txid, sweep_id on payouts for each row
  when (new.mode = 'live') execute function wake('money_out');
create trigger wake after insert on wallets for each row execute function wake('wallets');
