/** The delivery queue in SQL: which deliveries are next, the results of attempts, and the time of the next one. */
import type { Context } from '#context';
import type { Mode } from '#core/coin';
import { newId } from '#core/id';
import { PLANS } from '#core/plan';
import type { UnreachedReason } from '#core/unreached';
import type { Sql, Tx } from '#db';
import { type NewNotice, notifyMembers } from '#notices';
import type { Dialect } from '#webhooks';

/** Seconds from one attempt to the next: 0, 5 s, 5 min, 30 min, 2 h, 5 h, 10 h, 14 h, 20 h, 24 h; about 75 h in all. */
const SCHEDULE_SECONDS = [0, 5, 300, 1_800, 7_200, 18_000, 36_000, 50_400, 72_000, 86_400];
export const STEPS = SCHEDULE_SECONDS.length;
/** The same for events in order, which later ones wait for: seven attempts within 20 minutes, then 12 h, 24 h and 36 h. */
const ORDERED_SCHEDULE_SECONDS = [0, 5, 30, 60, 120, 300, 600, 43_200, 86_400, 129_600];
/** Jitter only lengthens a step: shortened steps could end before 72 h. */
const JITTER = 0.2;
/** Longer than an attempt, and storing it, can take; for those in order, whose endpoints are slower. */
export const LEASE_SECONDS = 30;
export const ORDERED_LEASE_SECONDS = 60;
/** A later event of a payment waits for at most this many attempts of an earlier one; where events arrive in order, for the second number. */
const ORDERED_ATTEMPTS = 3;
const STRICT_ATTEMPTS = 7;
const DISABLE_AFTER_DAYS = 5;
/** Members hear of an endpoint that has failed for this long. Attempts follow each other within half an hour then. */
const TELL_AFTER_MINUTES = 15;
/** After this many consecutive failures an endpoint is only probed, every 5 s to a minute. */
const BREAK_AFTER = 5;
const REST_SECONDS = 5;
const LONGEST_REST_SECONDS = 60;
/** Due rows of one endpoint per round. */
const LOOK_AT_ONCE = 40;
/** Pending deliveries of a disabled endpoint that are ended per round. */
const END_AT_ONCE = 500;

/** Concurrent requests to an endpoint before its speed is known. */
export const FIRST_ROOM = 4;

export type DueDelivery = {
  id: bigint;
  dialect: Dialect;
  eventId: string;
  endpointId: string;
  merchantId: string;
  paymentId: string | null;
  attempts: number;
  step: number;
  /** The end of the lease as exact text, to tell this lease from a later one. */
  lease: string;
  url: string;
  secret: Uint8Array;
  previousSecret: Uint8Array | null;
  /** Null when the event body was deleted: nothing can be sent. */
  body: Uint8Array | null;
  /** The endpoint's last attempt failed, or there was none yet. */
  failing: boolean;
};
export type AttemptOutcome = {
  due: DueDelivery;
  durationMs: number;
  status: number | null;
  failure: string | null;
  /** More exactly than `failure`; null when it was delivered. */
  reason: UnreachedReason | null;
  address: string | null;
  headers: Record<string, string>;
  reply: Uint8Array | null;
  retryAfterSeconds: number | null;
};
/** What this worker knows of an endpoint: its current and maximum concurrency, and whether it is slow or failing. */
export type Room = { endpointId: string; underWay: number; allowed: number; suspect: boolean };
/** How many requests a merchant has under way, and how many of them to suspect endpoints. */
export type Share = { merchantId: string; underWay: number; suspects: number };

type LeaseOptions = {
  limit: number;
  suspectLimit: number;
  /** The most requests of one merchant, and of them to suspect endpoints, those under way included. */
  merchantLimit: number;
  merchantSuspectLimit: number;
  lanes: number;
  after: string;
  rooms: readonly Room[];
  shares: readonly Share[];
  plans: readonly string[];
};

/**
 * The statement that leases deliveries that are due. It walks the endpoints with waiting deliveries in a ring, `lanes` at a
 * time from behind `after`, by jumping along the index deliveries_lanes from one endpoint to the next; of each it reads at
 * most LOOK_AT_ONCE due rows in order. So it costs the same whether an endpoint has ten deliveries waiting or a million. Rows
 * are locked and changed by their ids, in laterals and arrays: no join may turn into a walk over all that waits.
 *
 * The planner often knows the queue as it was when empty, and then takes any index that fits for as good as the right one. So
 * only the right one fits: deliveries_lanes is of rows with `state = 'pending'`, deliveries_order of the same rows told in other
 * words, `state || '' = 'pending'`, and what is found by its key is asked in words of neither.
 *
 * Of a payment the oldest undelivered event goes first. A row behind one that is due or under way is checked again in a
 * second, one behind a later retry at that time; either is pulled forward when the row before it is done. While an endpoint
 * takes nothing at all, successors wait for as long as it does: what was missed then arrives in order. An `ordered` row waits for
 * the close attempts of those before it, and is ended when a later one has been taken, which says more than it does.
 *
 * Endpoints that fail, are slow, or have not taken anything yet are suspect: nobody knows that they will answer. They share a part of
 * the requests, and each merchant gets a part of both, so that nobody's hanging endpoints, old or new, hold up the others'.
 */
export const leaseStatement = (
  sql: Sql | Tx,
  { limit, suspectLimit, merchantLimit, merchantSuspectLimit, lanes, after, rooms, shares, plans }: LeaseOptions,
) => sql`
  with recursive lanes (id) as (
    (select endpoint_id from deliveries where state = 'pending' and endpoint_id > ${after} order by endpoint_id limit 1)
    union all
    select (select d.endpoint_id from deliveries d where d.state = 'pending' and d.endpoint_id > l.id order by d.endpoint_id limit 1)
    from lanes l where l.id is not null
  ), visited as materialized (
    select e.id, e.merchant_id, e.failures, e.failures >= ${BREAK_AFTER} as broken,
      e.failures > 0 or coalesce(r.suspect, not e.answered) as suspect,
      e.state = 'enabled' and m.plan = any(${plans as string[]}::text[]) as receives,
      case when e.rests_until > now() then 0
        when e.failures >= ${BREAK_AFTER} then 1 - least(1, coalesce(r.under_way, 0))
        else coalesce(r.allowed - r.under_way, ${FIRST_ROOM}) end as room
    from (select id from lanes where id is not null limit ${lanes}) l
      join endpoints e on e.id = l.id join merchants m on m.id = e.merchant_id
      left join unnest(${rooms.map((r) => r.endpointId)}::text[], ${rooms.map((r) => r.underWay)}::int[],
        ${rooms.map((r) => r.allowed)}::int[], ${rooms.map((r) => (r.suspect ? 1 : 0))}::int[]::bool[])
        as r (id, under_way, allowed, suspect) on r.id = e.id
  ), looked as materialized (
    select d.*, v.merchant_id, v.broken, v.suspect, v.room, b.active or l.under_way as active, b.holds, b.until, l.taken as outdated
    from visited v cross join lateral (
      select d.id, d.endpoint_id, d.payment_id, d.sequence, d.due_at, d.ordered from deliveries d
      where d.endpoint_id = v.id and d.state = 'pending' and d.due_at <= now() and (d.leased_until is null or d.leased_until < now())
      order by d.due_at, d.id limit least(${LOOK_AT_ONCE}, 2 * v.room + 8)
    ) d left join lateral (
      select bool_or(o.due_at <= now() or o.leased_until > now()) as active,
        bool_or(case when d.ordered then o.step < ${STRICT_ATTEMPTS} else o.step < ${ORDERED_ATTEMPTS} or v.broken end) as holds, max(o.due_at) as until
      from (
        select o.due_at, o.leased_until, o.step from deliveries o
        where o.payment_id = d.payment_id and o.sequence < d.sequence and o.state || '' = 'pending' and o.endpoint_id || '' = d.endpoint_id
        order by o.sequence limit ${LOOK_AT_ONCE}
      ) o
    ) b on true left join lateral (
      select bool_or(o.state = 'delivered') as taken, bool_or(o.leased_until > now()) as under_way from deliveries o
      where d.ordered and o.ordered and o.payment_id = d.payment_id and o.endpoint_id = d.endpoint_id and o.sequence > d.sequence
    ) l on d.ordered
    where v.receives and v.room > 0
  ), free as (
    select id, merchant_id, suspect, room, due_at, row_number() over (partition by endpoint_id order by due_at, id) as place
    from looked where active is not true and holds is not true and outdated is not true
  ), shared as (
    -- Of each merchant first the suspects that it may have, then everything.
    select m.*, row_number() over (partition by merchant_id order by place, due_at) + coalesce(s.under_way, 0) as held
    from (
      select *, row_number() over (partition by merchant_id, suspect order by place, due_at) as suspect_place from free where place <= room
    ) m left join unnest(${shares.map((s) => s.merchantId)}::text[], ${shares.map((s) => s.underWay)}::int[], ${shares.map((s) => s.suspects)}::int[])
      as s (owner, under_way, suspects) on s.owner = m.merchant_id
    where not suspect or suspect_place + coalesce(s.suspects, 0) <= ${merchantSuspectLimit}
  ), ranked as (
    select *, row_number() over (partition by suspect order by place, due_at) as rank from shared where held <= ${merchantLimit}
  ), chosen as (
    select d.id from (
      select id, place, due_at from ranked where not suspect or rank <= ${suspectLimit} order by place, due_at limit ${limit}
    ) c cross join lateral (
      -- All of it again: another worker may have finished the row since it was read.
      select id from deliveries where id = c.id and coalesce(due_at, 'infinity') <= clock_timestamp()
        and (leased_until is null or leased_until < clock_timestamp()) for update skip locked
    ) d
  ), leased as (
    update deliveries d set leased_until = clock_timestamp()
      + make_interval(secs => case when d.ordered then ${ORDERED_LEASE_SECONDS}::int else ${LEASE_SECONDS}::int end)
    where d.id = any(array(select id from chosen))
    returning d.id, d.event_id, d.endpoint_id, d.payment_id, d.attempts, d.step, d.leased_until::text as lease
  ), behind as (
    select l.id, case when l.active then now() + interval '1 second' else l.until end as until
    from looked l cross join lateral (
      -- A row that was pulled forward since it was read has another time.
      select id from deliveries where id = l.id and coalesce(due_at, 'infinity') = l.due_at for update skip locked
    ) d
    where (l.active or l.holds) and l.outdated is not true
  ), moved as (
    update deliveries d set due_at = b.until, waits = true
    from behind b where d.id = b.id and d.id = any(array(select id from behind)) returning 1
  ), ending as (
    select d.id from visited v cross join lateral (
      select id from deliveries where endpoint_id = v.id and state = 'pending' order by due_at limit ${END_AT_ONCE} for update skip locked
    ) d where not v.receives
    union all
    select d.id from looked l cross join lateral (select id from deliveries where id = l.id and coalesce(due_at, 'infinity') = l.due_at for update skip locked) d where l.outdated
  ), ended as (
    update deliveries set state = 'failed', due_at = null, leased_until = null, waits = false, retry_at = null
    where id = any(array(select id from ending)) returning recovery_id
  ), counted as (
    update recoveries r set failed = r.failed + c.n
    from (select recovery_id, count(*) as n from ended where recovery_id is not null group by 1) c where r.id = c.recovery_id
  )
  select (select max(id) from visited) as last, (select count(*)::int from visited) as visited,
    (select count(*)::int from moved) + (select count(*)::int from ended) as moved,
    exists (select 1 from visited where receives and room <= 0)
      or (select count(*) from looked where outdated is not true) > (select count(*) from leased) + (select count(*) from moved) as "hasLeft",
    l.id, l.event_id as "eventId", l.endpoint_id as "endpointId", l.payment_id as "paymentId", l.attempts, l.step, l.lease,
    e.merchant_id as "merchantId", e.dialect, e.url, e.secret, case when e.previous_until > clock_timestamp() then e.previous_secret end as "previousSecret", v.body,
    e.failures > 0 or not e.answered as failing
  -- A lease need not reach the disk: one that is lost in a crash is taken again.
  from (select set_config('synchronous_commit', 'off', true)) as one left join (leased l join endpoints e on e.id = l.endpoint_id join events v on v.id = l.event_id) on true
  order by l.id`;

type LeaseRow = { last: string | null; visited: number; moved: number; hasLeft: boolean } & (DueDelivery | { id: null });

/**
 * Leases deliveries. `next` is where the ring continues, empty after a full turn. `moved`: rows that were rescheduled without a
 * request. `hasLeft`: more is due at these endpoints, and has to wait until a request ends.
 */
export async function leaseDue(
  ctx: Context,
  options: Omit<LeaseOptions, 'plans'>,
): Promise<{ due: DueDelivery[]; next: string; moved: number; hasLeft: boolean }> {
  const plans = PLANS.filter((plan) => ctx.settings.plans[plan].webhooks);
  const rows = (await leaseStatement(ctx.db.sql, { ...options, plans }).execute()) as unknown as LeaseRow[];
  const { last, visited, moved, hasLeft } = rows[0]!;
  return {
    due: rows.filter((row): row is LeaseRow & DueDelivery => row.id !== null),
    next: visited < options.lanes ? '' : last!,
    moved,
    hasLeft,
  };
}

/** Seconds until the next attempt; null after the last one. Retry-After is honored up to twice the step. */
export function nextStepSeconds(
  attempts: number,
  retryAfterSeconds: number | null,
  random: number,
  { isOrdered = false }: { isOrdered?: boolean } = {},
): number | null {
  const step = (isOrdered ? ORDERED_SCHEDULE_SECONDS : SCHEDULE_SECONDS)[attempts];
  if (step === undefined) return null;
  const jittered = step * (1 + JITTER * random);
  return retryAfterSeconds === null ? jittered : Math.max(jittered, Math.min(retryAfterSeconds, 2 * step));
}

/** Outcomes for counting: responses by status, everything else by its reason. */
const countedAs = ({ failure, status }: AttemptOutcome): string =>
  failure === null ? 'delivered' : status === null ? failure : `status_${Math.floor(status / 100)}xx`;

const tally = (names: readonly string[]): [string, number][] =>
  [...names.reduce((counts, name) => counts.set(name, (counts.get(name) ?? 0) + 1), new Map<string, number>())].sort(([a], [b]) =>
    a < b ? -1 : 1,
  );

/**
 * Stores the results of a batch of attempts, in one statement where all were delivered. Only a lease that is still ours decides, but a 2xx
 * response is always recorded.
 */
export async function recordOutcomes(ctx: Context, outcomes: readonly AttemptOutcome[]): Promise<void> {
  // What failed before it was sent says nothing of the endpoint.
  const working = new Set(outcomes.flatMap((o) => (o.failure === null ? [o.due.endpointId] : [])));
  const failed = outcomes.filter((o) => o.failure !== null && o.failure !== 'internal' && !working.has(o.due.endpointId));
  const record = (sql: Sql | Tx) => outcomesStatement(ctx, sql, outcomes, [...working].sort());
  if (failed.length === 0) {
    const mended = await record(ctx.db.sql);
    if (mended.length > 0) await ctx.db.begin((tx) => notifyMembers(ctx, tx, mended.map(worksAgain)));
  } else
    await ctx.db.begin(async (tx) => {
      await notifyMembers(ctx, tx, (await record(tx)).map(worksAgain));
      await recordFailures(ctx, tx, failed);
    });
}

type Mended = { id: string; merchantId: string; mode: Mode; url: string };
const worksAgain = ({ id, merchantId, mode, url }: Mended): NewNotice => ({
  ...{ merchantId, mode, kind: 'endpoint_failing' },
  detail: { endpoint: id, host: new URL(url).host, change: 'mended' },
});

/**
 * Records attempts and what follows from them: the deliveries and those that waited for them, the endpoints that respond again, and the
 * counts. PostgreSQL runs the parts from the last to the first, so the counts, whose few rows every worker writes, are locked last.
 */
function outcomesStatement(ctx: Context, sql: Sql | Tx, outcomes: readonly AttemptOutcome[], working: string[]) {
  const fraction = () => Buffer.from(ctx.random(4)).readUInt32BE() / 2 ** 32;
  const rows = outcomes.map((o) => ({
    id: o.due.id.toString(),
    endpoint_id: o.due.endpointId,
    lease: o.due.lease,
    number: o.due.attempts + 1,
    duration_ms: o.durationMs,
    status: o.status,
    failure: o.failure,
    reason: o.reason,
    counted_as: countedAs(o),
    address: o.address,
    url: o.due.url,
    request_headers: o.headers,
    reply: o.reply?.length ? Buffer.from(o.reply).toString('base64') : null,
    next_seconds:
      o.failure === null
        ? null
        : nextStepSeconds(o.due.step + 1, o.retryAfterSeconds, fraction(), { isOrdered: o.due.dialect !== 'florin' }),
    gone: o.status === 410,
  }));
  return sql<Mended[]>`
    with input as materialized (
      select * from jsonb_to_recordset(${sql.json(rows as never)}) as r (id bigint, endpoint_id text, lease text, number int, duration_ms int,
        status int, failure text, reason text, counted_as text, address text, url text, request_headers jsonb, reply text,
        next_seconds double precision, gone boolean)
    ), counts as (
      insert into attempt_counts (outcome, attempts)
      select counted_as, count(*) from input group by 1 order by 1
      on conflict (outcome) do update set attempts = attempt_counts.attempts + excluded.attempts
    ), hours as (
      insert into attempt_hours (endpoint_id, hour, outcome, attempts, total_ms, slowest_ms, last_at)
      select endpoint_id, date_trunc('hour', clock_timestamp(), 'UTC'), coalesce(failure, 'delivered'), count(*), sum(duration_ms), max(duration_ms),
        clock_timestamp() from input group by 1, 2, 3 order by 1, 2, 3
      on conflict (endpoint_id, hour, outcome) do update set attempts = attempt_hours.attempts + excluded.attempts,
        total_ms = attempt_hours.total_ms + excluded.total_ms, slowest_ms = greatest(attempt_hours.slowest_ms, excluded.slowest_ms),
        last_at = excluded.last_at
    ), logged as (
      insert into attempts (delivery_id, number, at, duration_ms, status, failure, reason, address, url, request_headers, reply)
      select id, number, clock_timestamp() - make_interval(secs => duration_ms / 1000.0), duration_ms, status, failure, reason, address, url, request_headers,
        decode(reply, 'base64') from input
      on conflict (delivery_id, number) do nothing
    ), written as (
      update deliveries d set
        attempts = greatest(d.attempts, i.number), leased_until = null, waits = false, retry_at = null,
        -- An attempt out of turn takes no step of the schedule.
        step = case when i.failure is null or d.retry_at is not null then d.step else least(d.step + 1, ${STEPS}) end,
        state = case when i.failure is null then 'delivered'
          when i.gone or (d.retry_at is null and i.next_seconds is null) then 'failed' else 'pending' end,
        delivered_at = case when i.failure is null then clock_timestamp() else d.delivered_at end,
        due_at = case when i.failure is null or i.gone then null
          when d.retry_at is not null then greatest(d.retry_at, clock_timestamp() + make_interval(secs => ${SCHEDULE_SECONDS[1]!}))
          else clock_timestamp() + make_interval(secs => i.next_seconds) end
      from input i where d.id = i.id and d.state <> 'delivered'
        and (i.failure is null or (d.state = 'pending' and d.leased_until::text = i.lease))
      returning d.endpoint_id, d.payment_id, d.state, d.step, d.recovery_id
    ), was as materialized (
      select id, failures, failure_told_at is not null as told, merchant_id, mode, url from endpoints
      where id = any(${working}::text[]) and (failing_since is not null or failures > 0 or not answered) order by id for update
    ), mended as (
      update endpoints e set failing_since = null, failures = 0, rests_until = null, answered = true, failure_reason = null, failure_address = null,
        failure_told_at = null
      from was where e.id = was.id
    ), recovering as (
      -- Failed deliveries wait for hours. The endpoint responds again, so they are sent now.
      insert into recoveries (id, endpoint_id, automatic, since, last_delivery_id, total)
      select i.recovery_id, was.id, true, '-infinity', coalesce((select max(id) from deliveries where endpoint_id = was.id), 0), 0
      from was join unnest(${working}::text[], ${working.map(() => newId('rec', ctx.random))}::text[]) as i (id, recovery_id) on i.id = was.id
      where was.failures >= ${BREAK_AFTER}
      on conflict do nothing
    ), recovered as (
      update recoveries r set delivered = r.delivered + w.delivered, failed = r.failed + w.failed
      from (select recovery_id, count(*) filter (where state = 'delivered') as delivered, count(*) filter (where state = 'failed') as failed
        from written where recovery_id is not null and state <> 'pending' group by 1) w
      where r.id = w.recovery_id
    ), cleared as (
      -- What waited for these is due. Those of the batch itself have just been written.
      update deliveries set waits = false, due_at = clock_timestamp() where id = any(array(
        select n.id from written w cross join lateral (
          select id from deliveries where payment_id = w.payment_id and endpoint_id || '' = w.endpoint_id and state || '' = 'pending' and waits
            and id <> all(array(select id from input))
          order by sequence limit ${LOOK_AT_ONCE}
        ) n where w.payment_id is not null and (w.state <> 'pending' or w.step >= ${ORDERED_ATTEMPTS})))
        -- Asked again of each row: another worker may have ended it since it was read.
        and due_at is not null
    )
    select id, merchant_id as "merchantId", mode, url from was where told`;
}

/** Opens the circuit breakers of endpoints that fail, tells their members, and disables those that responded with 410 or only fail. */
async function recordFailures(ctx: Context, tx: Tx, failed: readonly AttemptOutcome[]): Promise<void> {
  const failures = tally(failed.map((o) => o.due.endpointId));
  const of = (endpointId: string) => failed.filter((o) => o.due.endpointId === endpointId);
  const asked = failures.map(([id]) => Math.min(Math.max(0, ...of(id).map((o) => o.retryAfterSeconds ?? 0)), LONGEST_REST_SECONDS));
  const gone = failures.map(([id]) => (of(id).some((o) => o.status === 410) ? 1 : 0));
  const last = failures.map(([id]) => of(id).at(-1)!);
  type Off = {
    id: string;
    merchantId: string;
    mode: Mode;
    url: string;
    reason: string;
    state: string;
    cause: string | null;
    address: string | null;
    /** Members have just not heard of it yet. */
    news: boolean;
  };
  const changed = await tx<Off[]>`
    with input as (
      select i.*, e.failures + i.n as total, e.failure_told_at is null as untold from unnest(${failures.map(([id]) => id)}::text[], ${failures.map(([, n]) => n)}::int[],
        ${asked}::float8[], ${gone}::int[], ${last.map((o) => o.reason)}::text[], ${last.map((o) => o.address)}::text[])
        as i (id, n, asked, gone, reason, address)
      join (select id, failures, failure_told_at from endpoints where id = any(${failures.map(([id]) => id)}::text[]) and state = 'enabled' order by id for update) e
        on e.id = i.id
    )
    update endpoints e set
      failures = i.total, failure_reason = i.reason, failure_address = i.address, failing_since = coalesce(e.failing_since, clock_timestamp()),
      failure_told_at = case when e.failing_since < clock_timestamp() - make_interval(mins => ${TELL_AFTER_MINUTES})
        then coalesce(e.failure_told_at, clock_timestamp()) end,
      rests_until = clock_timestamp() + make_interval(secs => greatest(i.asked, case when i.total < ${BREAK_AFTER} then 0
        else least(${LONGEST_REST_SECONDS}, ${REST_SECONDS} * 2 ^ least(i.total - ${BREAK_AFTER}, 10)) end)),
      state = case when i.gone = 1 then 'gone'
        when e.failing_since < clock_timestamp() - make_interval(days => ${DISABLE_AFTER_DAYS}) then 'disabled' else e.state end,
      disabled_reason = case when i.gone = 1 then 'gone'
        when e.failing_since < clock_timestamp() - make_interval(days => ${DISABLE_AFTER_DAYS}) then 'failures' end
    from input i where e.id = i.id
    returning e.id, e.merchant_id as "merchantId", e.mode, e.url, e.state, e.disabled_reason as reason, i.reason as cause, i.address,
      i.untold and e.failure_told_at is not null as news`;
  for (const { id, merchantId, mode, url, state, reason, cause, address, news } of changed) {
    const why = { ...(cause !== null && { cause }), ...(address !== null && { address }) };
    const about = { endpoint: id, host: new URL(url).host, ...why };
    if (state === 'enabled') {
      if (news) await notifyMembers(ctx, tx, [{ merchantId, mode, kind: 'endpoint_failing', detail: about }]);
      continue;
    }
    ctx.log.warn({ endpoint: id, merchant: merchantId, mode, reason }, 'A webhook endpoint was disabled');
    await tx`insert into endpoint_notices (endpoint_id, merchant_id, mode, reason) values (${id}, ${merchantId}, ${mode}, ${reason})`;
    await notifyMembers(ctx, tx, [{ merchantId, mode, kind: 'endpoint_off', detail: { ...about, reason } }]);
  }
}

/**
 * Moves the pending deliveries of a test clock forward, in the transaction that advances it. What a worker is at stays as it is: its result
 * sets the time again, and a worker that records a result holds endpoints while it asks for deliveries.
 */
export async function advanceDeliveries(
  tx: Tx,
  { merchantId, paymentId, seconds }: { merchantId: string; paymentId: string | null; seconds: number },
): Promise<void> {
  await tx`
    update deliveries set due_at = due_at - make_interval(secs => ${seconds}::double precision),
      retry_at = retry_at - make_interval(secs => ${seconds}::double precision)
    where id = any(array(
      select id from deliveries where merchant_id = ${merchantId} and mode = 'test' and state = 'pending' and due_at is not null
        and (leased_until is null or leased_until < clock_timestamp())
        and endpoint_id in (select id from endpoints where merchant_id = ${merchantId} and mode = 'test')
        ${paymentId ? tx`and payment_id = ${paymentId}` : tx``}
      order by id for update))`;
  if (!paymentId) {
    await tx`
      update endpoints set rests_until = rests_until - make_interval(secs => ${seconds}::double precision)
      where id = any(array(
        select id from endpoints where merchant_id = ${merchantId} and mode = 'test' and rests_until is not null for update skip locked))`;
  }
  await tx`select pg_notify('deliveries', '')`;
}

/** Metrics: due deliveries and the age of the oldest, requests in flight, attempts by outcome. */
export async function readDeliveryQueue(ctx: Context): Promise<{
  due: number;
  inFlight: number;
  oldestSeconds: number;
  attempts: { outcome: string; attempts: number }[];
  endpointsOff: number;
}> {
  const [row] = await ctx.db.sql<{ due: bigint; inFlight: bigint; oldest: number | null; off: bigint }[]>`
    select count(*) filter (where due_at <= clock_timestamp() and (leased_until is null or leased_until < clock_timestamp())) as due,
      count(*) filter (where leased_until > clock_timestamp()) as "inFlight",
      extract(epoch from clock_timestamp() - min(due_at) filter (where leased_until is null or leased_until < clock_timestamp()))::float8 as oldest,
      (select count(*) from endpoint_notices where closed_at is null) as off
    from deliveries where state = 'pending'`;
  const attempts = await ctx.db.sql<{ outcome: string; attempts: bigint }[]>`select outcome, attempts from attempt_counts order by outcome`;
  return {
    due: Number(row!.due),
    inFlight: Number(row!.inFlight),
    oldestSeconds: Math.max(0, row!.oldest ?? 0),
    attempts: attempts.map((a) => ({ outcome: a.outcome, attempts: Number(a.attempts) })),
    endpointsOff: Number(row!.off),
  };
}
