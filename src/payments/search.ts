/** What the dashboard asks of payments: a filtered list without a count, one search over all names of a payment, its timeline. */
import type { Context } from '../context.ts';
import type { Coin, Mode } from '../core/coin.ts';
import type { Exception, PaymentStatus } from '../core/payment.ts';
import { Problem } from '../core/problem.ts';
import type { Fragment } from '../db/db.ts';
import { keysWithin, type LookedBackTo, lookThrough } from '../db/look.ts';
import type { ListItem } from './queries.ts';

export type FoundItem = ListItem & { receivedUnits: bigint; refundRequestedAt: Date | null; archivedAt: Date | null };
export type Filter = {
  status: PaymentStatus | null;
  coin: Coin | null;
  exception: Exception | 'any' | null;
  /** The price in cents, both ends included. */
  atLeast: bigint | null;
  atMost: bigint | null;
  from: Date | null;
  until: Date | null;
  refundRequested: boolean;
  /** What was put away: left out, alone, or among the others. */
  archived: 'without' | 'only' | 'with';
  search: string | null;
};
export const NO_FILTER: Filter = {
  status: null,
  coin: null,
  exception: null,
  atLeast: null,
  atMost: null,
  from: null,
  until: null,
  refundRequested: false,
  archived: 'with',
  search: null,
};

/** A filter as conditions: those that indexes answer, and the others. */
export async function conditionsOf(
  ctx: Context,
  { merchantId, mode, filter }: { merchantId: string; mode: Mode; filter: Filter },
): Promise<{ indexed: Fragment; others: Fragment; isExact: boolean }> {
  const { sql } = ctx.db;
  const { status, coin, exception, atLeast, atMost, from, until, archived, search } = filter;
  const mine = sql`merchant_id = ${merchantId} and mode = ${mode}`;
  const { within } = await keysWithin(sql, { key: 'sequence', time: 'created_at', rows: sql`payments where ${mine}`, from, until });
  // Each name has an index of its own; the few payments found are filtered after it.
  const names = sql`and id in (
          select ${search}
          union all (select id from payments where ${mine} and invoice_id = ${search} order by sequence desc limit 1000)
          union all (select id from payments where ${mine} and md5(request->>'description') = md5(${search})
            and request->>'description' = ${search} order by sequence desc limit 1000)
          union all (select payment_id from deposit_addresses where address = ${search} and merchant_id = ${merchantId})
          union all (select payment_id from transfers where txid = ${search} and merchant_id = ${merchantId} limit 1000))`;
  // One index is walked, the one that holds the fewest; what else is asked is looked for in what it gives.
  const walks = [
    archived === 'only' ? sql`and archived_at is not null` : null,
    filter.refundRequested ? sql`and refund_requested_at is not null` : null,
    exception === null ? null : sql`and exceptions <> '{}'`,
    status === null ? null : sql`and status = ${status}`,
    coin === null ? null : sql`and coin = ${coin}`,
  ].filter((walk) => walk !== null);
  const named = search !== null;
  const [walked, ...rest] = named ? [sql``, ...walks] : walks;
  return {
    indexed: sql`${named ? names : sql``} ${walked ?? sql``} ${within}`,
    others: sql`${rest.reduce((all, one) => sql`${all} ${one}`, sql``)} ${exception === null || exception === 'any' ? sql`` : sql`and ${exception} = any(exceptions)`}
      ${from ? sql`and created_at >= ${from}` : sql``} ${until ? sql`and created_at < ${until}` : sql``}
      ${atLeast === null ? sql`` : sql`and amount_usd_cents >= ${atLeast}`} ${atMost === null ? sql`` : sql`and amount_usd_cents <= ${atMost}`}
      ${archived === 'without' ? sql`and archived_at is null` : sql``}`,
    // What a name finds is bounded by itself.
    isExact:
      named ||
      (atLeast === null && atMost === null && archived !== 'without' && rest.length === 0 && (exception === null || exception === 'any')),
  };
}

/**
 * Newest first; `search` is an id, invoice id, description, deposit address or on-chain transaction id, exactly. A page looks at
 * a bounded number of payments: where that ended before the page was full, `lookedBackTo` is the last of them, and the next
 * page may start after it. Errors: cursor_invalid.
 */
export async function findPayments(
  ctx: Context,
  {
    merchantId,
    mode,
    limit,
    startingAfter,
    filter,
  }: { merchantId: string; mode: Mode; limit: number; startingAfter: string | null; filter: Filter },
): Promise<{ items: FoundItem[]; hasMore: boolean; lookedBackTo: LookedBackTo }> {
  const { sql } = ctx.db;
  let after: bigint | null = null;
  if (startingAfter !== null) {
    const [row] = await sql<{ sequence: bigint }[]>`
      select sequence from payments where id = ${startingAfter} and merchant_id = ${merchantId} and mode = ${mode}`;
    if (!row) throw new Problem('cursor_invalid', {}, { param: 'starting_after' });
    after = row.sequence;
  }
  const { indexed, others, isExact } = await conditionsOf(ctx, { merchantId, mode, filter });
  const candidates = sql`where merchant_id = ${merchantId} and mode = ${mode} ${indexed} ${after === null ? sql`` : sql`and sequence < ${after}`}
    order by sequence desc`;
  return lookThrough(sql, {
    limit,
    further: after !== null,
    isExact,
    find: (bound) => sql<FoundItem[]>`
      select id, mode, status, exceptions, amount_usd_cents as "amountUsdCents", coin, created_at as "createdAt",
        completed_at as "completedAt", invoice_id as "invoiceId", request->>'description' as description, received_units as "receivedUnits",
        refund_requested_at as "refundRequestedAt", archived_at as "archivedAt"
      from (select * from payments ${candidates} ${bound}) as p
      where true ${others}
      order by sequence desc limit ${limit + 1}`,
    candidateKeys: sql`select sequence from payments ${candidates}`,
    last: (key) => sql<{ id: string; at: Date }[]>`
      select id, created_at as at from payments where merchant_id = ${merchantId} and mode = ${mode} and sequence = ${key}`,
  });
}

export type Moment = {
  at: Date;
  kind: 'created' | 'opened' | 'coin_chosen' | 'transfer_seen' | 'transfer_confirmed' | 'decision' | 'event';
  /** The decision, or the type of the event. */
  what: string | null;
  coin: Coin | null;
  units: bigint | null;
  /** An address where a coin was chosen, else an on-chain transaction id. */
  ref: string | null;
  /** Who decided, when it was a member. */
  actor: string | null;
  /** US dollars per coin at which a coin was chosen, and whose prices agreed on it. */
  rateE8: bigint | null;
  sources: string[] | null;
  /** That made the payment. */
  key: { id: string; name: string; hint: string } | null;
};

/** All that happened to a payment, oldest first. */
export async function listMoments(
  ctx: Context,
  { merchantId, mode, paymentId }: { merchantId: string; mode: Mode; paymentId: string },
): Promise<Moment[]> {
  const { sql } = ctx.db;
  return sql<Moment[]>`
    with p as (select * from payments where id = ${paymentId} and merchant_id = ${merchantId} and mode = ${mode}),
    moments (at, place, kind, what, coin, units, ref, actor, rate_e8, sources, key) as (
      select created_at, 0, 'created', created_with, null, null::numeric, null,
          (select actor_name from audit_log a where a.merchant_id = p.merchant_id and a.object = p.id and a.action = 'payment.create' limit 1),
          null::numeric, null::jsonb,
          (select jsonb_build_object('id', k.id, 'name', k.name, 'hint', k.hint) from keys k where k.id = p.key_id) from p
      union all select opened_at, 1, 'opened', null, null, null, null, null, null, null, null from p where opened_at is not null
      union all select q.from_at, 1, 'coin_chosen', null, q.coin, q.units, q.address, null, q.rate_e8, q.sources, null
        from quotes q join p on q.payment_id = p.id
      union all select t.first_seen_at, 2, 'transfer_seen', null, t.coin, t.units, t.txid, null, null, null, null
        from transfers t join p on t.payment_id = p.id
      union all select t.block_time, 3, 'transfer_confirmed', null, t.coin, t.units, t.txid, null, null, null, null
        from transfers t join p on t.payment_id = p.id where t.block_time is not null
      union all select d.at, 4, 'decision', d.kind, null, null, d.txid,
          (select actor_name from audit_log a where a.merchant_id = p.merchant_id and a.object = p.id and a.after->>'decision' = d.kind
            -- The decision's own number: its time may be that of a test clock.
            and (a.after->>'number')::int = d.number order by a.id limit 1), null, null, null
        from decisions d join p on d.payment_id = p.id
      union all select e.created_at, 5, 'event', e.type, null, null, null, null, null, null, null
        from events e join p on e.payment_id = p.id where e.type <> 'payment.created'
    )
    select at, kind, what, coin, units, ref, actor, rate_e8 as "rateE8", sources, key from moments order by at, place`;
}

/** For each owner a text that changes when any of the payments may have: the newest event. One look for all open dashboards. */
export async function readPulse(
  ctx: Context,
  { owners }: { owners: readonly { merchantId: string; mode: Mode }[] },
): Promise<(string | null)[]> {
  const rows = await ctx.db.sql<{ pulse: string | null }[]>`
    select (select id from events e where e.merchant_id = o.merchant_id and e.mode = o.mode and body is not null
      order by xid desc, feed desc limit 1) as pulse
    from unnest(${owners.map((o) => o.merchantId)}::text[], ${owners.map((o) => o.mode)}::text[]) with ordinality as o (merchant_id, mode, n)
    order by o.n`;
  return rows.map((row) => row.pulse);
}

/** The same of confirmations, which change without an event: the ends of the chains, of which there are few. Test payments have their own. */
export async function readChainPulse(ctx: Context, { owners }: { owners: readonly { mode: Mode }[] }): Promise<(string | null)[]> {
  if (owners.every(({ mode }) => mode === 'test')) return owners.map(() => null);
  const [row] = await ctx.db.sql<{ pulse: string | null }[]>`
    select string_agg(concat_ws(' ', coin, hash, safe_height, finalized_height, chainlock_height), ',' order by coin) as pulse from tips`;
  return owners.map(({ mode }) => (mode === 'live' ? row!.pulse : null));
}
