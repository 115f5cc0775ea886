/** The outbox: events and their deliveries are written in the transaction of the transition they report. */

import type { Context } from '../context.ts';
import type { Mode } from '../core/coin.ts';
import { EVENT_TYPES, type EventType } from '../core/event.ts';
import { Problem } from '../core/problem.ts';
import { OID, type Sql, type Tx } from '../db/db.ts';

export type NewEvent = {
  id: string;
  merchantId: string;
  mode: Mode;
  paymentId: string;
  type: EventType;
  sequence: bigint;
  /** The exact bytes that every delivery carries. */
  body: Uint8Array;
  createdAt: Date;
};

/**
 * The statement parts that record events and one delivery for each enabled endpoint that wants the type, for a caller's own
 * `with`: it ends with the table `queued`, one row a delivery.
 */
export function eventsCte(sql: Sql | Tx, events: readonly NewEvent[]) {
  const column = <T>(of: (event: NewEvent) => T): T[] => events.map(of);
  const sequences = column((e) => e.sequence);
  const bodies = column((e) => Buffer.from(e.body.buffer, e.body.byteOffset, e.body.length));
  const instants = column((e) => e.createdAt);
  return sql`event_input as (
      select * from unnest(${column((e) => e.id)}::text[], ${column((e) => e.merchantId)}::text[], ${column((e) => e.mode)}::text[],
        ${column((e) => e.paymentId)}::text[], ${column((e) => e.type)}::text[], ${sql.array(sequences, OID.int8)}::bigint[],
        ${sql.array(bodies, OID.bytea)}::bytea[], ${sql.array(instants, OID.timestamptz)}::timestamptz[])
        as i (id, merchant_id, mode, payment_id, type, sequence, body, created_at)
    ), recorded as (
      insert into events (id, merchant_id, mode, payment_id, type, sequence, body, created_at) select * from event_input
    ), queued as (
      insert into deliveries (event_id, endpoint_id, merchant_id, mode, payment_id, sequence, due_at)
      select i.id, e.id, i.merchant_id, i.mode, i.payment_id, i.sequence, clock_timestamp()
      from event_input i join endpoints e on e.merchant_id = i.merchant_id and e.mode = i.mode and e.state = 'enabled'
        and (i.type = any(e.events) or ('*' = any(e.events) and i.type = any(${EVENT_TYPES as unknown as string[]}::text[])))
      returning 1
    )`;
}

/** Wakes the worker when the statement queued deliveries. */
export const wakeDeliveries = (sql: Sql | Tx) => sql`select pg_notify('deliveries', '') from (select 1 from queued limit 1) as q`;

/** Records events and their deliveries in one statement. */
export async function recordEvents(tx: Tx, events: readonly NewEvent[]): Promise<void> {
  if (events.length > 0) await tx`with ${eventsCte(tx, events)} ${wakeDeliveries(tx)}`;
}

export type EventItem = { id: string; type: string; body: Uint8Array; createdAt: Date };

/**
 * Events of a merchant, newest first, ordered by (xid, feed) and read only below the oldest running transaction, so that
 * a reader that follows the cursor never skips one. Errors: cursor_invalid.
 */
export async function listEvents(
  ctx: Context,
  {
    merchantId,
    mode,
    limit,
    startingAfter,
    type,
    paymentId,
  }: {
    merchantId: string;
    mode: Mode;
    limit: number;
    startingAfter: string | null;
    type: string | null;
    paymentId: string | null;
  },
): Promise<{ items: EventItem[]; hasMore: boolean }> {
  const { sql } = ctx.db;
  if (startingAfter !== null) {
    const [known] = await sql`select 1 from events where id = ${startingAfter} and merchant_id = ${merchantId} and mode = ${mode}`;
    if (!known) throw new Problem('cursor_invalid', {}, { param: 'starting_after' });
  }
  const rows = await sql<EventItem[]>`
    select id, type, body, created_at as "createdAt" from events
    where merchant_id = ${merchantId} and mode = ${mode} and xid < pg_snapshot_xmin(pg_current_snapshot())
      ${type ? sql`and type = ${type}` : sql``} ${paymentId ? sql`and payment_id = ${paymentId}` : sql``}
      ${startingAfter ? sql`and (xid, feed) < (select xid, feed from events where id = ${startingAfter})` : sql``}
    order by xid desc, feed desc limit ${limit + 1}`;
  return { items: rows.slice(0, limit), hasMore: rows.length > limit };
}

/** One event. Errors: event_not_found. */
export async function getEvent(
  ctx: Context,
  { merchantId, mode, eventId }: { merchantId: string; mode: Mode; eventId: string },
): Promise<EventItem> {
  const [row] = await ctx.db.sql<EventItem[]>`
    select id, type, body, created_at as "createdAt" from events where id = ${eventId} and merchant_id = ${merchantId} and mode = ${mode}`;
  if (!row) throw new Problem('event_not_found', { id: eventId });
  return row;
}
