/** The delivery log: listing, reading with all attempts, resending one or all failed ones, and deleting after 30 days. */

import type { Context } from '#context';
import type { Mode } from '#core/coin';
import { API_VERSION, type DeliveredEvent, TEST_EVENT } from '#core/event';
import { base62, idOfNumber, newId, numberOfId } from '#core/id';
import { Problem } from '#core/problem';
import { asTextMap } from '#core/stored-json';
import type { Sight } from '#core/transfer';
import type { Sql, Tx } from '#db';
import { getEndpoint, requireWebhooks, visibleTo } from '#webhooks';
import { forgetHours } from './health.ts';
import { STEPS } from './queue.ts';

export const DELIVERY_STATES = ['pending', 'delivered', 'failed'] as const;
type DeliveryState = (typeof DELIVERY_STATES)[number];
const KEPT_DAYS = 30;
/** Rows per step of a recovery or a cleanup. */
const STEP_ROWS = 500;
/** Merchants and modes per round of cleanup. */
const FORGET_LANES = 50;
/** Deliveries that one page searches for an event type. */
const MOST_LOOKED_AT = 5_000;
/** Deliveries of a payment in its timeline. */
const MOST_OUTCOMES = 100;

type Owner = { merchantId: string; mode: Mode };
export type DeliveryItem = {
  id: string;
  eventId: string;
  eventType: DeliveredEvent;
  endpointId: string;
  paymentId: string | null;
  mode: Mode;
  state: DeliveryState;
  attemptCount: number;
  createdAt: Date;
  deliveredAt: Date | null;
  nextAttemptAt: Date | null;
};
type Attempt = {
  number: number;
  at: Date;
  durationMs: number;
  url: string | null;
  status: number | null;
  failure: string | null;
  /** More exactly than `failure`. Attempts from before reasons were stored have none. */
  reason: string | null;
  address: string | null;
  requestHeaders: Record<string, string>;
  reply: Uint8Array | null;
};
export type Delivery = DeliveryItem & { body: Uint8Array | null; attempts: Attempt[] };

type Row = Omit<DeliveryItem, 'id'> & { number: bigint };
const columns = (sql: Sql | Tx) => sql`
  d.id as number, d.event_id as "eventId", v.type as "eventType", d.endpoint_id as "endpointId", case when not starts_with(d.payment_id, 'po_') then d.payment_id end as "paymentId", d.mode, d.state,
  d.attempts as "attemptCount", d.created_at as "createdAt", d.delivered_at as "deliveredAt",
  case when d.state = 'pending' then d.due_at end as "nextAttemptAt"`;
const itemOf = (ctx: Context, { number, ...row }: Row): DeliveryItem => ({ id: idOfNumber('del', ctx.installKey, number), ...row });
const numberOf = (ctx: Context, deliveryId: string): bigint => {
  const number = numberOfId('del', ctx.installKey, deliveryId);
  if (number === null || number >= 2n ** 63n) throw new Problem('delivery_not_found', { id: deliveryId });
  return number;
};

/**
 * Deliveries of a merchant, newest first, of one endpoint or of all that are not deleted. Each endpoint and state has its own range
 * of the index deliveries_of, of which a page reads at most as many rows as it shows. Event types have no index: they are searched in
 * the newest MOST_LOOKED_AT deliveries (or those of the payment), and `searchedAll` is false when there were more. Errors:
 * cursor_invalid.
 */
export async function listDeliveries(
  ctx: Context,
  {
    merchantId,
    mode,
    limit,
    startingAfter,
    endpointId,
    eventId,
    state,
    sight,
    paymentId = null,
    eventType = null,
  }: Owner & {
    sight: Sight;
    limit: number;
    startingAfter: string | null;
    endpointId: string | null;
    eventId: string | null;
    state: DeliveryState | null;
    paymentId?: string | null;
    eventType?: string | null;
  },
): Promise<{ items: DeliveryItem[]; hasMore: boolean; searchedAll: boolean }> {
  const { sql } = ctx.db;
  const shown = visibleTo(sql, sight, sql`payment_id`);
  let before: string | null = null;
  if (startingAfter !== null) {
    const number = numberOfId('del', ctx.installKey, startingAfter);
    const [known] =
      number === null || number >= 2n ** 63n
        ? []
        : await sql`select 1 from deliveries where id = ${number.toString()} and merchant_id = ${merchantId} and mode = ${mode} ${shown}`;
    if (!known) throw new Problem('cursor_invalid', {}, { param: 'starting_after' });
    before = number!.toString();
  }
  const older = before === null ? sql`` : sql`and id < ${before}::bigint`;
  const states = state === null ? [...DELIVERY_STATES] : [state];
  const narrow = eventId !== null || paymentId !== null;
  const looked = eventType === null || narrow ? limit + 1 : MOST_LOOKED_AT;
  const found = narrow
    ? sql`
        select id from deliveries where merchant_id = ${merchantId} and mode = ${mode} and state = any(${states}::text[])
          ${eventId === null ? sql`` : sql`and event_id = ${eventId}`}
          ${
            paymentId === null
              ? sql``
              : sql`and event_id = any(array(
            select id from events where payment_id = ${paymentId} ${eventType === null ? sql`` : sql`and type = ${eventType}`}))`
          }
          ${endpointId === null ? sql`` : sql`and endpoint_id = ${endpointId}`} ${older} ${shown}
        order by id desc limit ${limit + 1}`
    : sql`
        select p.id from endpoints e cross join unnest(${states}::text[]) as s (state) cross join lateral (
          select id from deliveries where endpoint_id = e.id and state = s.state ${older} ${shown} order by id desc limit ${looked}
        ) p
        where e.merchant_id = ${merchantId} and e.mode = ${mode} and ${endpointId === null ? sql`e.state <> 'deleted'` : sql`e.id = ${endpointId}`}
        order by p.id desc limit ${looked}`;
  const answer = await sql<((Row | { number: null }) & { looked: bigint })[]>`
    with f as materialized (${found})
    select c.looked, r.* from (select count(*) as looked from f) c left join (
      -- Row by row: a join could be made by walking all there is.
      select ${columns(sql)} from f cross join lateral (select * from deliveries where id = f.id offset 0) d
        cross join lateral (select type from events where id = d.event_id offset 0) v
      ${eventType === null ? sql`` : sql`where v.type = ${eventType}`} order by d.id desc limit ${limit + 1}
    ) r on true order by r.number desc`;
  const searchedAll = eventType === null || narrow || answer[0]!.looked < BigInt(looked);
  const rows = answer.filter((row): row is Row & { looked: bigint } => row.number !== null);
  return {
    items: rows.slice(0, limit).map(({ looked: _, ...row }) => itemOf(ctx, row)),
    hasMore: rows.length > limit || (!searchedAll && rows.length > 0),
    searchedAll,
  };
}

export type LastAttempt = Pick<Attempt, 'at' | 'durationMs' | 'status' | 'failure' | 'reason'>;
/** The result of the last attempt of each delivery; deliveries without attempts are omitted. */
export async function listLastAttempts(
  ctx: Context,
  { deliveryIds }: { deliveryIds: readonly string[] },
): Promise<Map<string, LastAttempt>> {
  const rows = await ctx.db.sql<(LastAttempt & { id: bigint })[]>`
    select i.id, a.at, a.duration_ms as "durationMs", a.status, a.failure, a.reason
    from unnest(${deliveryIds.map((id) => numberOf(ctx, id).toString())}::bigint[]) as i (id) cross join lateral (
      select at, duration_ms, status, failure, reason from attempts where delivery_id = i.id order by number desc limit 1
    ) a`;
  return new Map(rows.map(({ id, ...attempt }) => [idOfNumber('del', ctx.installKey, id), attempt]));
}

export type DeliveryOutcome = Pick<DeliveryItem, 'id' | 'eventType' | 'attemptCount'> & {
  /** Null when the endpoint was deleted. */
  endpointId: string | null;
  /** That was asked last. */
  url: string;
  state: 'delivered' | 'failed' | 'failing';
  /** Why the last attempt failed; null when it succeeded or there was none. */
  failure: string | null;
  at: Date;
};

/**
 * The newest deliveries of a payment with their results: those that ended, and those that wait for a retry. A delivery that is being
 * resent stays delivered meanwhile. A test clock may be ahead, so times before the event are not shown.
 */
export async function listOutcomes(
  ctx: Context,
  { merchantId, mode, paymentId }: Owner & { paymentId: string },
): Promise<DeliveryOutcome[]> {
  const rows = await ctx.db.sql<(Omit<DeliveryOutcome, 'id'> & { number: bigint })[]>`
    select d.id as number, v.type as "eventType", case when e.state <> 'deleted' then e.id end as "endpointId", coalesce(a.url, e.url) as url,
      d.attempts as "attemptCount", a.failure,
      case when d.state = 'failed' then 'failed' when a.failure is not null then 'failing' else 'delivered' end as state,
      greatest(v.created_at, case when d.state <> 'failed' and a.failure is null then d.delivered_at else coalesce(a.at, d.created_at) end) as at
    from (select id, type, created_at from events where payment_id = ${paymentId} and merchant_id = ${merchantId} and mode = ${mode}
      union all select id, type, created_at from events where merchant_id = ${merchantId} and mode = ${mode} and id = any(array(
        select event_id from deliveries where payment_id = ${paymentId} and ordered)) offset 0) v
      -- Row by row: a join could be made by walking all there is.
      cross join lateral (select * from deliveries where event_id = v.id offset 0) d
      join endpoints e on e.id = d.endpoint_id
      left join lateral (select at, url, failure from attempts where delivery_id = d.id order by number desc limit 1) a on true
    where d.state <> 'pending' or a.failure is not null or d.delivered_at is not null
    order by d.id desc limit ${MOST_OUTCOMES}`;
  return rows.map(({ number, ...row }) => ({ id: idOfNumber('del', ctx.installKey, number), ...row }));
}

/** One delivery with all its attempts and its body. Errors: delivery_not_found. */
export async function getDelivery(
  ctx: Context,
  { merchantId, mode, deliveryId, sight, tx }: Owner & { deliveryId: string; sight: Sight; tx?: Tx },
): Promise<Delivery> {
  const sql = tx ?? ctx.db.sql;
  const number = numberOf(ctx, deliveryId).toString();
  const [row] = await sql<(Row & { body: Uint8Array | null })[]>`
    select ${columns(sql)}, v.body from deliveries d join events v on v.id = d.event_id
    where d.id = ${number} and d.merchant_id = ${merchantId} and d.mode = ${mode} ${visibleTo(sql, sight, sql`d.payment_id`)}`;
  if (!row) throw new Problem('delivery_not_found', { id: deliveryId });
  const attempts = await sql<(Omit<Attempt, 'requestHeaders'> & { requestHeaders: unknown })[]>`
    select number, at, duration_ms as "durationMs", url, status, failure, reason, address, request_headers as "requestHeaders", reply
    from attempts where delivery_id = ${number} order by number desc limit 100`;
  const { body, ...item } = row;
  return {
    ...itemOf(ctx, item),
    body,
    attempts: attempts.toReversed().map((one) => ({ ...one, requestHeaders: asTextMap(one.requestHeaders) })),
  };
}
/**
 * Resends one delivery immediately. A pending delivery gets an extra attempt; a finished one restarts its retry schedule. Errors:
 * delivery_not_found, endpoint_disabled, plan_required, delivery_overtaken.
 */
export async function resendDelivery(
  ctx: Context,
  tx: Tx,
  { merchantId, mode, deliveryId, sight }: Owner & { deliveryId: string; sight: Sight },
): Promise<Delivery> {
  await requireWebhooks(ctx, tx, { merchantId });
  const number = numberOf(ctx, deliveryId).toString();
  const [row] = await tx<{ id: bigint; enabled: boolean; endpointId: string }[]>`
    select d.id, e.state = 'enabled' as enabled, e.id as "endpointId" from deliveries d join endpoints e on e.id = d.endpoint_id
    where d.id = ${number} and d.merchant_id = ${merchantId} and d.mode = ${mode} ${visibleTo(tx, sight, tx`d.payment_id`)} for update of d`;
  if (!row) throw new Problem('delivery_not_found', { id: deliveryId });
  if (!row.enabled) throw new Problem('endpoint_disabled', { id: row.endpointId });
  if ((await overtaken(tx, [row.id])).has(row.id)) throw new Problem('delivery_overtaken', { id: deliveryId });
  await tx`update deliveries d set ${againNow(tx)} where d.id = ${number} and (d.leased_until is null or d.leased_until < clock_timestamp())`;
  await tx`select pg_notify('deliveries', '')`;
  return getDelivery(ctx, { merchantId, mode, deliveryId, sight, tx });
}
/**
 * Ordered deliveries that may not be sent again: the shop took a later one of the payment, or it is being sent. Locks the later ones, so
 * that no worker begins to send one meanwhile.
 */
async function overtaken(tx: Tx, ids: readonly bigint[]): Promise<Set<bigint>> {
  const rows = await tx<{ id: bigint; later: boolean }[]>`
    select d.id, o.state = 'delivered' or o.leased_until > clock_timestamp() as later
    from deliveries d join deliveries o on o.ordered and o.payment_id = d.payment_id and o.endpoint_id = d.endpoint_id and o.sequence > d.sequence
    where d.id = any(${ids.map(String)}::bigint[]) and d.ordered order by o.id for update of o`;
  return new Set(rows.flatMap(({ id, later }) => (later ? [id] : [])));
}

/** Due immediately: an extra attempt when a retry is pending, else from the first step. Test events are tried once. */
const againNow = (sql: Sql | Tx) => sql`
  state = 'pending', due_at = now(), waits = false, leased_until = null,
  step = case when d.state = 'pending' then d.step when d.payment_id is null then ${STEPS - 1} else 0 end,
  retry_at = case when d.state = 'pending' and d.step > 0 then coalesce(d.retry_at, d.due_at) end`;

/**
 * Resends all events of a payment to their enabled endpoints, oldest first, and returns the number. Errors: payment_not_found,
 * plan_required.
 */
export async function resendPayment(
  ctx: Context,
  tx: Tx,
  { merchantId, mode, paymentId, sight }: Owner & { paymentId: string; sight: Sight },
): Promise<number> {
  await requireWebhooks(ctx, tx, { merchantId });
  const [known] = await tx`
    select 1 from events where payment_id = ${paymentId} and merchant_id = ${merchantId} and mode = ${mode}
      ${visibleTo(tx, sight, tx`payment_id`)} limit 1`;
  if (!known) throw new Problem('payment_not_found', { id: paymentId });
  const rows = await tx`
    with chosen as (
      select d.id from deliveries d
      where d.event_id in (select id from events where payment_id = ${paymentId} and body is not null) and d.merchant_id = ${merchantId} and d.mode = ${mode}
        and d.endpoint_id in (select id from endpoints where merchant_id = ${merchantId} and mode = ${mode} and state = 'enabled')
        and (d.leased_until is null or d.leased_until < clock_timestamp())
      order by d.id limit ${STEP_ROWS} for update
    )
    update deliveries d set ${againNow(tx)} from chosen c where d.id = c.id returning 1`;
  await tx`select pg_notify('deliveries', '')`;
  return rows.length;
}

export const RECOVERY_STATUSES = ['queueing', 'delivering', 'done', 'cancelled'] as const;
export type Recovery = {
  id: string;
  endpointId: string;
  since: Date;
  createdAt: Date;
  /** Deliveries that had failed at the start, those resent so far, and their results. */
  total: number;
  queued: number;
  delivered: number;
  failed: number;
  status: (typeof RECOVERY_STATUSES)[number];
};

/**
 * Starts to resend what an endpoint missed since an instant: failed deliveries, and immediately those that wait for a retry. The
 * worker does it in steps that survive a restart. Errors: endpoint_not_found, endpoint_disabled, plan_required, recovery_running.
 */
export async function startRecovery(
  ctx: Context,
  tx: Tx,
  { merchantId, mode, endpointId, since }: Owner & { endpointId: string; since: Date },
): Promise<Recovery> {
  await requireWebhooks(ctx, tx, { merchantId });
  const endpoint = await getEndpoint(ctx, { merchantId, mode, endpointId, dialect: 'any', tx });
  if (!endpoint.enabled) throw new Problem('endpoint_disabled', { id: endpointId });
  const recoveryId = newId('rec', ctx.random);
  const [made] = await tx`
    insert into recoveries (id, endpoint_id, automatic, since, last_delivery_id, total)
    select ${recoveryId}, ${endpointId}, false, ${since}, coalesce((select max(id) from deliveries where endpoint_id = ${endpointId}), 0),
      (select count(*) from deliveries where endpoint_id = ${endpointId} and created_at >= ${since} and payment_id is not null
        and (state = 'failed' or (state = 'pending' and attempts > 0)))
    on conflict do nothing returning 1`;
  if (!made) throw new Problem('recovery_running', { id: endpointId });
  return getRecovery(ctx, { merchantId, mode, recoveryId, tx });
}

/** A recovery with its progress. Errors: recovery_not_found. */
export async function getRecovery(
  ctx: Context,
  { merchantId, mode, recoveryId, tx }: Owner & { recoveryId: string; tx?: Tx },
): Promise<Recovery> {
  const sql = tx ?? ctx.db.sql;
  const [row] = await sql<RecoveryRow[]>`
    select ${recoveryColumns(sql)} from recoveries r join endpoints e on e.id = r.endpoint_id
    where r.id = ${recoveryId} and not r.automatic and e.merchant_id = ${merchantId} and e.mode = ${mode} ${tx ? tx`for update of r` : sql``}`;
  if (!row) throw new Problem('recovery_not_found', { id: recoveryId });
  return recoveryOf(row);
}
type RecoveryRow = Omit<Recovery, 'status' | 'total' | 'queued' | 'delivered' | 'failed'> &
  Record<'total' | 'queued' | 'delivered' | 'failed', bigint> & { queueing: boolean; cancelled: boolean };
const recoveryColumns = (sql: Sql | Tx) => sql`
  r.id, r.endpoint_id as "endpointId", r.since, r.created_at as "createdAt", r.total, r.queued, r.delivered, r.failed,
  r.queued_at is null as queueing, r.cancelled_at is not null as "cancelled"`;
function recoveryOf({ queueing, cancelled, total, queued, delivered, failed, ...recovery }: RecoveryRow): Recovery {
  const status = cancelled ? 'cancelled' : queueing ? 'queueing' : delivered + failed < queued ? 'delivering' : 'done';
  return { ...recovery, total: Number(total), queued: Number(queued), delivered: Number(delivered), failed: Number(failed), status };
}

/** The recoveries of an endpoint that a person started, newest first. Errors: endpoint_not_found. */
export async function listRecoveries(
  ctx: Context,
  { merchantId, mode, endpointId, limit }: Owner & { endpointId: string; limit: number },
): Promise<Recovery[]> {
  await getEndpoint(ctx, { merchantId, mode, endpointId, dialect: 'any' });
  const { sql } = ctx.db;
  const rows = await sql<RecoveryRow[]>`
    select ${recoveryColumns(sql)} from recoveries r where r.endpoint_id = ${endpointId} and not r.automatic
    order by r.created_at desc, r.id limit ${limit}`;
  return rows.map(recoveryOf);
}
/**
 * Cancels a recovery. Deliveries that it moved and that were not sent yet return to their previous state, in steps of the worker; a
 * request in flight is completed. A finished recovery stays finished. Errors: recovery_not_found, recovery_running (a later one is
 * queueing).
 */
export async function cancelRecovery(
  ctx: Context,
  tx: Tx,
  { merchantId, mode, recoveryId }: Owner & { recoveryId: string },
): Promise<Recovery> {
  const { status, endpointId } = await getRecovery(ctx, { merchantId, mode, recoveryId, tx });
  if (status === 'done' || status === 'cancelled') return getRecovery(ctx, { merchantId, mode, recoveryId, tx });
  const [other] = await tx`
    select 1 from recoveries where endpoint_id = ${endpointId} and not automatic and queued_at is null and id <> ${recoveryId}`;
  if (other) throw new Problem('recovery_running', { id: endpointId });
  // Walks it again from its first row, to restore what it moved.
  await tx`
    update recoveries set cancelled_at = clock_timestamp(), queued_at = null, delivery_cursor = 0, stepped_at = clock_timestamp()
    where id = ${recoveryId}`;
  return getRecovery(ctx, { merchantId, mode, recoveryId, tx });
}

/** One step of the recovery that has waited longest. Its cursor moves in the transaction that queues the rows. False: none is running. */
export async function stepRecovery(ctx: Context): Promise<boolean> {
  return ctx.db.begin(async (tx) => {
    const [job] = await tx<{ id: string; endpointId: string; automatic: boolean; last: bigint; cursor: bigint; cancelled: boolean }[]>`
      select id, endpoint_id as "endpointId", automatic, last_delivery_id as last, delivery_cursor as cursor,
        cancelled_at is not null as cancelled
      from recoveries where queued_at is null order by stepped_at limit 1 for update skip locked`;
    if (!job) return false;
    const range = (state: DeliveryState) => tx`
      (select id from deliveries where endpoint_id = ${job.endpointId} and state = ${state} and id > ${job.cursor.toString()}::bigint
        and id <= ${job.last.toString()}::bigint order by id limit ${STEP_ROWS})`;
    const rows = await tx<{ id: bigint }[]>`
      select id from (${range('pending')} ${job.automatic || job.cancelled ? tx`` : tx`union all ${range('failed')}`}) as r order by id limit ${STEP_ROWS}`;
    const end = rows.at(-1)?.id;
    if (end === undefined) {
      await tx`update recoveries set queued_at = clock_timestamp() where id = ${job.id}`;
      return true;
    }
    if (job.cancelled) {
      await putBack(tx, { recoveryId: job.id, ids: rows.map((row) => row.id), cursor: end });
      return true;
    }
    const late = await overtaken(
      tx,
      rows.map((row) => row.id),
    );
    const again = rows.filter((row) => !late.has(row.id));
    const moved = await tx<{ own: boolean }[]>`
      with chosen as (
        select id, state from deliveries where id = any(${again.map((row) => row.id.toString())}::bigint[]) and created_at >= (select since from recoveries where id = ${job.id})
          and payment_id is not null and (leased_until is null or leased_until < clock_timestamp())
          and (state = 'failed' or (state = 'pending' and attempts > 0 and due_at > clock_timestamp()))
        order by id for update
      )
      update deliveries d set ${againNow(tx)}, recovery_id = case when ${job.automatic} then d.recovery_id
          when c.state = 'pending' then coalesce(d.recovery_id, ${job.id}) else ${job.id} end
      from chosen c where d.id = c.id returning d.recovery_id = ${job.id} as own`;
    await tx`
      update recoveries set delivery_cursor = ${end.toString()}, stepped_at = clock_timestamp(), queued = queued + ${moved.filter((row) => row.own).length}
      where id = ${job.id}`;
    return true;
  });
}

/** One step of canceling a recovery: rows return to waiting or failed. */
async function putBack(tx: Tx, { recoveryId, ids, cursor }: { recoveryId: string; ids: readonly bigint[]; cursor: bigint }): Promise<void> {
  const rows = await tx<{ state: DeliveryState }[]>`
    with chosen as (
      select id from deliveries where id = any(${ids.map(String)}::bigint[]) and recovery_id = ${recoveryId} and state = 'pending'
        and (leased_until is null or leased_until < clock_timestamp())
      order by id for update
    )
    update deliveries d set state = case when d.retry_at is null then 'failed' else 'pending' end, due_at = d.retry_at, retry_at = null,
      waits = false, leased_until = null, recovery_id = null
    from chosen c where d.id = c.id returning d.state`;
  await tx`
    update recoveries set delivery_cursor = ${cursor.toString()}, stepped_at = clock_timestamp(), queued = queued - ${rows.length}
    where id = ${recoveryId}`;
}

/** The position of the next cleanup round, per process. */
const lanes = new WeakMap<Context, [merchantId: string, mode: string]>();

/**
 * Deletes what is older than 30 days: event bodies, deliveries, attempts; and deleted endpoints without deliveries. A round visits
 * some merchants and their oldest rows, so its cost is bounded.
 */
export async function forgetEvents(ctx: Context): Promise<number> {
  let [merchantId, mode] = lanes.get(ctx) ?? ['', ''];
  let forgotten = 0;
  for (let lane = 0; lane < FORGET_LANES; lane++) {
    const [next] = await ctx.db.sql<{ merchantId: string; mode: string }[]>`
      select merchant_id as "merchantId", mode from events where body is not null and (merchant_id, mode) > (${merchantId}, ${mode})
      order by merchant_id, mode limit 1`;
    if (!next) {
      [merchantId, mode] = ['', ''];
      break;
    }
    ({ merchantId, mode } = next);
    forgotten += await forgetOldest(ctx, merchantId, mode);
  }
  lanes.set(ctx, [merchantId, mode]);
  await ctx.db.sql`
    delete from endpoints where id in (
      select e.id from endpoints e where e.state = 'deleted' and not exists (select 1 from deliveries d where d.endpoint_id = e.id)
        and not exists (select 1 from endpoint_notices n where n.endpoint_id = e.id) and not exists (select 1 from recoveries r where r.endpoint_id = e.id)
      limit ${STEP_ROWS})`;
  return forgotten;
}

function forgetOldest(ctx: Context, merchantId: string, mode: string): Promise<number> {
  return ctx.db.begin(async (tx) => {
    await forgetHours(tx, { merchantId, mode });
    const rows = await tx<{ id: string }[]>`
      select o.id from (
        select id, created_at from events where merchant_id = ${merchantId} and mode = ${mode} and body is not null
        order by xid, feed limit ${STEP_ROWS}
      ) o
      where o.created_at < clock_timestamp() - make_interval(days => ${KEPT_DAYS})
        and not exists (select 1 from deliveries d where d.event_id = o.id and d.state = 'pending')`;
    if (rows.length === 0) return 0;
    const ids = rows.map((row) => row.id);
    await tx`delete from attempts where delivery_id in (select id from deliveries where event_id = any(${ids}::text[]))`;
    await tx`delete from deliveries where event_id = any(${ids}::text[])`;
    await tx`update events set body = null where id = any(${ids}::text[])`;
    return rows.length;
  });
}
/**
 * Sends `webhook.test` to an endpoint, or in test mode a sample event of another type, through the queue but only once. Returns the
 * number of the delivery. Live mode never signs events that did not happen. Errors: endpoint_not_found, endpoint_disabled,
 * plan_required, parameter_invalid (type).
 */
export async function sendTestEvent(
  ctx: Context,
  tx: Tx,
  {
    merchantId,
    mode,
    endpointId,
    sample = { type: TEST_EVENT, data: { endpoint_id: endpointId } },
  }: Owner & { endpointId: string; sample?: { type: string; data: object } },
): Promise<bigint> {
  if (mode === 'live' && sample.type !== TEST_EVENT)
    throw new Problem('parameter_invalid', { reason: `live mode can send ${TEST_EVENT} only` }, { param: 'type' });
  await requireWebhooks(ctx, tx, { merchantId });
  const endpoint = await getEndpoint(ctx, { merchantId, mode, endpointId, tx });
  if (!endpoint.enabled) throw new Problem('endpoint_disabled', { id: endpointId });
  const [{ now } = { now: ctx.clock.now() }] = await tx<{ now: Date }[]>`select clock_timestamp() as now`;
  const eventId = `evt_${base62(24, ctx.random)}`;
  const body = JSON.stringify({
    id: eventId,
    type: sample.type,
    created_at: now.toISOString(),
    mode,
    api_version: API_VERSION,
    data: sample.data,
  });
  await tx`
    insert into events (id, merchant_id, mode, payment_id, type, sequence, body, created_at)
    values (${eventId}, ${merchantId}, ${mode}, null, ${sample.type}, 1, ${Buffer.from(body)}, ${now})`;
  const [row] = await tx<{ id: bigint }[]>`
    insert into deliveries (event_id, endpoint_id, merchant_id, mode, payment_id, sequence, due_at, step)
    values (${eventId}, ${endpointId}, ${merchantId}, ${mode}, null, 1, clock_timestamp(), ${STEPS - 1}) returning id`;
  await tx`select pg_notify('deliveries', '')`;
  return row!.id;
}
