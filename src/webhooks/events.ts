/** The outbox: events and their deliveries are written in the transaction of the transition they report. */
import type { Context } from '#context';
import type { Mode } from '#core/coin';
import { checkOrder, type EventType, STAR_EVENTS } from '#core/event';
import { Problem } from '#core/problem';
import { PAYOUT_PREFIX, type Sight } from '#core/transfer';
import { type Fragment, type LookedBackTo, lookThrough, OID, readEndedBelow, type Sql, type Tx } from '#db';

/** The form of what an endpoint receives: Florin's own events, or those that the plugin of a shop knows. */
export type Dialect = 'florin' | 'greenfield' | 'commerce';
/** Subscribes an endpoint of a shop to all events of its dialect. */
export const EVERYTHING = 'everything';

export type NewEvent = {
  id: string;
  merchantId: string;
  mode: Mode;
  /** What it is about: a payment, or for events of payouts the payout. */
  paymentId: string;
  type: EventType;
  sequence: bigint;
  /** JSON. Every delivery sends its UTF-8 bytes. */
  body: string;
  createdAt: Date;
};

/**
 * JSON texts as an array in one parameter. JSON contains no raw control characters (RFC 8259 section 7), so one of them separates the
 * texts; an array literal would escape every quote.
 */
export const jsonColumn = (sql: Sql | Tx, texts: readonly string[]) => sql`string_to_array(${texts.join('\u001f')}, chr(31))`;

/** Wakes the worker when the statement has queued deliveries. */
const wakeDeliveries = (sql: Sql | Tx) => sql`select pg_notify('deliveries', '') from (select 1 from queued limit 1) as q`;

/**
 * The end of a caller's own `with`: records the rows of `event_input` and one delivery for each enabled endpoint that chose the type, and
 * wakes the worker.
 */
export const recordingParts = (sql: Sql | Tx) => sql`
    recorded as (
      insert into events (id, merchant_id, mode, payment_id, type, sequence, body, created_at)
      select id, merchant_id, mode, payment_id, type, sequence, convert_to(body, 'UTF8'), created_at from event_input
    ), queued as (
      insert into deliveries (event_id, endpoint_id, merchant_id, mode, payment_id, sequence, due_at)
      select i.id, e.id, i.merchant_id, i.mode, i.payment_id, i.sequence, clock_timestamp()
      from event_input i join endpoints e on e.merchant_id = i.merchant_id and e.mode = i.mode and e.state = 'enabled'
        and e.dialect = 'florin'
        and (i.type = any(e.events) or ('*' = any(e.events) and i.type = any(${STAR_EVENTS as unknown as string[]}::text[])))
      returning 1
    ) ${wakeDeliveries(sql)}`;

/** The end of a caller's own `with` that records these events and their deliveries together with what they report. */
export function recordingEvents(tx: Tx, events: readonly NewEvent[]): Fragment {
  checkOrder(events);
  const column = <T>(of: (event: NewEvent) => T): T[] => events.map(of);
  return tx`
    event_input as (
      select * from unnest(${column((e) => e.id)}::text[], ${column((e) => e.merchantId)}::text[], ${column((e) => e.mode)}::text[],
        ${column((e) => e.paymentId)}::text[], ${column((e) => e.type)}::text[], ${tx.array(
          column((e) => e.sequence),
          OID.int8,
        )}::bigint[],
        ${jsonColumn(
          tx,
          column((e) => e.body),
        )}, ${tx.array(
          column((e) => e.createdAt),
          OID.timestamptz,
        )}::timestamptz[])
        as i (id, merchant_id, mode, payment_id, type, sequence, body, created_at)
    ), ${recordingParts(tx)}`;
}

/** Records events and their deliveries in one statement. */
export async function recordEvents(tx: Tx, events: readonly NewEvent[]): Promise<void> {
  if (events.length > 0) await tx`with ${recordingEvents(tx, events)}`;
}

/** An event in the words of a shop's plugin. Its deliveries to an endpoint never overtake each other. */
export type ShopEvent = Omit<NewEvent, 'type' | 'createdAt'> & {
  dialect: Exclude<Dialect, 'florin'>;
  type: string;
  /** The shop that requested the payment: no other one receives what it said about its customer. */
  lineId: string;
};

/**
 * Records events of shops that an endpoint of theirs wants, with their deliveries. They are numbered separately, and the API does not list
 * them: only their deliveries name the payment. `parts`: of the statement's `with`, which write what the shops know then.
 */
export async function recordShopEvents(tx: Tx, events: readonly ShopEvent[], parts: Fragment): Promise<void> {
  const column = <T>(of: (event: ShopEvent) => T): T[] => events.map(of);
  const sequences = tx.array(
    column((e) => e.sequence),
    OID.int8,
  );
  const bodies = jsonColumn(
    tx,
    column((e) => e.body),
  );
  await tx`
    with ${parts}, event_input as (
      select i.*, e.id as endpoint_id from unnest(${column((e) => e.id)}::text[], ${column((e) => e.merchantId)}::text[],
        ${column((e) => e.mode)}::text[], ${column((e) => e.paymentId)}::text[], ${column((e) => e.dialect)}::text[],
        ${column((e) => e.type)}::text[], ${column((e) => e.lineId)}::text[], ${sequences}::bigint[], ${bodies})
        as i (id, merchant_id, mode, payment_id, dialect, type, shop_id, sequence, body)
      join shop_keys k on coalesce(k.first_id, k.id) = i.shop_id
      join endpoints e on e.shop_key_id = k.id and e.merchant_id = i.merchant_id and e.mode = i.mode and e.state = 'enabled' and e.dialect = i.dialect
        and (i.type = any(e.events) or ${EVERYTHING} = any(e.events))
    ), recorded as (
      insert into events (id, merchant_id, mode, payment_id, type, sequence, body, created_at)
      select distinct on (id) id, merchant_id, mode, null, type, sequence, convert_to(body, 'UTF8'), clock_timestamp() from event_input
    ), queued as (
      insert into deliveries (event_id, endpoint_id, merchant_id, mode, payment_id, sequence, due_at, ordered)
      select id, endpoint_id, merchant_id, mode, payment_id, sequence, clock_timestamp(), true from event_input order by sequence
      returning 1
    ) ${wakeDeliveries(tx)}`;
}

/**
 * The events and deliveries that a reader may see, as a condition on the column that names what they are about. All that is left out are
 * those of payouts, of which there are few and none older than 30 days, so a page still ends after reading few rows more than it shows.
 */
export const visibleTo = (sql: Sql | Tx, { payouts }: Sight, paymentId: Fragment): Fragment =>
  payouts ? sql`` : sql`and (${paymentId} is null or not starts_with(${paymentId}, ${PAYOUT_PREFIX}))`;

/** Spelled out, so that PostgreSQL uses the index of the rarer types. */
const BY_TYPE = (sql: Sql) => sql`and type <> 'payment.created'`;
type EventItem = { id: string; type: string; body: Uint8Array; createdAt: Date };

/**
 * Events of a merchant's payments, newest first, ordered by (xid, feed) and read only below the oldest open transaction of this
 * database, so that a reader who follows the cursor never skips one. Events of one payment are written one after another under its
 * row lock: they are ordered by their sequence, and each is visible as soon as its payment shows it. A search for a text may end before the
 * page is full. Errors: cursor_invalid.
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
    text = null,
    sight,
  }: {
    merchantId: string;
    mode: Mode;
    sight: Sight;
    limit: number;
    startingAfter: string | null;
    type: string | null;
    paymentId: string | null;
    /** A part of the JSON, in any case. */
    text?: string | null;
  },
): Promise<{ items: EventItem[]; hasMore: boolean; lookedBackTo: LookedBackTo }> {
  const { sql } = ctx.db;
  const [ofPayment, place, newestFirst] = paymentId
    ? [sql`and payment_id = ${paymentId}`, sql`sequence`, sql`sequence desc`]
    : [sql`and payment_id is not null`, sql`xid, feed`, sql`xid desc, feed desc`];
  if (startingAfter !== null) {
    const [known] = await sql`
      select 1 from events
      where id = ${startingAfter} and merchant_id = ${merchantId} and mode = ${mode} and body is not null ${ofPayment} ${visibleTo(sql, sight, sql`payment_id`)}`;
    if (!known) throw new Problem('cursor_invalid', {}, { param: 'starting_after' });
  }
  const complete = paymentId ? sql`` : sql`and xid < ${await readEndedBelow(sql)}::xid8`;
  const candidates = sql`from events
    where merchant_id = ${merchantId} and mode = ${mode} and body is not null ${ofPayment} ${visibleTo(sql, sight, sql`payment_id`)} ${complete}
      ${type ? sql`and type = ${type}` : sql``} ${type !== null && type !== 'payment.created' ? BY_TYPE(sql) : sql``}
      ${startingAfter ? sql`and (${place}) < (select ${place} from events where id = ${startingAfter})` : sql``}
    order by ${newestFirst}`;
  const found = text === null ? sql`` : sql`where strpos(lower(convert_from(body, 'UTF8')), ${text.toLowerCase()}) > 0`;
  return lookThrough(sql, {
    limit,
    further: startingAfter !== null,
    isExact: text === null,
    find: (bound) => sql<EventItem[]>`
      select id, type, body, created_at as "createdAt" from (select * ${candidates} ${text === null ? sql`limit ${limit + 1}` : bound}) as e ${found}
      order by ${newestFirst} limit ${limit + 1}`,
    candidateKeys: sql`select id ${candidates}`,
    last: (key) => sql<{ id: string; at: Date }[]>`select id, created_at as at from events where id = ${key}`,
  });
}

/** One event. Errors: event_not_found. */
export async function getEvent(
  ctx: Context,
  { merchantId, mode, eventId, sight }: { merchantId: string; mode: Mode; eventId: string; sight: Sight },
): Promise<EventItem> {
  const { sql } = ctx.db;
  const [row] = await sql<EventItem[]>`
    select id, type, body, created_at as "createdAt" from events
    where id = ${eventId} and merchant_id = ${merchantId} and mode = ${mode} and body is not null ${visibleTo(sql, sight, sql`payment_id`)}`;
  if (!row) throw new Problem('event_not_found', { id: eventId });
  return row;
}
