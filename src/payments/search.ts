/** What the dashboard asks of payments: a filtered list without a count, one search over all names of a payment, its timeline. */
import type { Context } from '../context.ts';
import type { Coin, Mode } from '../core/coin.ts';
import type { PaymentStatus } from '../core/payment.ts';
import { Problem } from '../core/problem.ts';
import type { ListItem } from './queries.ts';

export type FoundItem = ListItem & { receivedUnits: bigint };

/** Newest first; `search` is an id, invoice id, description, deposit address or on-chain transaction id, exactly. Errors: cursor_invalid. */
export async function findPayments(
  ctx: Context,
  {
    merchantId,
    mode,
    limit,
    startingAfter,
    filter: { status, coin, from, until, search },
  }: {
    merchantId: string;
    mode: Mode;
    limit: number;
    startingAfter: string | null;
    filter: { status: PaymentStatus | null; coin: Coin | null; from: Date | null; until: Date | null; search: string | null };
  },
): Promise<{ items: FoundItem[]; hasMore: boolean }> {
  const { sql } = ctx.db;
  let after: bigint | null = null;
  if (startingAfter !== null) {
    const [row] = await sql<{ sequence: bigint }[]>`
      select sequence from payments where id = ${startingAfter} and merchant_id = ${merchantId} and mode = ${mode}`;
    if (!row) throw new Problem('cursor_invalid', {}, { param: 'starting_after' });
    after = row.sequence;
  }
  const mine = sql`merchant_id = ${merchantId} and mode = ${mode}`;
  // Each name has an index of its own; the few payments found are filtered after it.
  const named =
    search === null
      ? sql``
      : sql`and id in (
          select ${search}
          union all (select id from payments where ${mine} and invoice_id = ${search} order by sequence desc limit 1000)
          union all (select id from payments where ${mine} and md5(request->>'description') = md5(${search})
            and request->>'description' = ${search} order by sequence desc limit 1000)
          union all (select payment_id from deposit_addresses where address = ${search} and merchant_id = ${merchantId})
          union all (select payment_id from transfers where txid = ${search} and merchant_id = ${merchantId} limit 1000))`;
  const rows = await sql<FoundItem[]>`
    select id, mode, status, exceptions, amount_usd_cents as "amountUsdCents", coin, created_at as "createdAt",
      completed_at as "completedAt", invoice_id as "invoiceId", request->>'description' as description, received_units as "receivedUnits"
    from payments
    where ${mine} ${named}
      ${status ? sql`and status = ${status}` : sql``} ${coin ? sql`and coin = ${coin}` : sql``}
      ${from ? sql`and created_at >= ${from}` : sql``} ${until ? sql`and created_at < ${until}` : sql``}
      ${after === null ? sql`` : sql`and sequence < ${after}`}
    order by sequence desc limit ${limit + 1}`;
  return { items: rows.slice(0, limit), hasMore: rows.length > limit };
}

export type Moment = {
  at: Date;
  kind: 'created' | 'coin_chosen' | 'transfer_seen' | 'transfer_confirmed' | 'decision' | 'event';
  /** The decision, or the type of the event. */
  what: string | null;
  coin: Coin | null;
  units: bigint | null;
  /** An address where a coin was chosen, else an on-chain transaction id. */
  ref: string | null;
  /** Who decided, when it was a member. */
  actor: string | null;
};

/** All that happened to a payment, oldest first. */
export async function listMoments(
  ctx: Context,
  { merchantId, mode, paymentId }: { merchantId: string; mode: Mode; paymentId: string },
): Promise<Moment[]> {
  const { sql } = ctx.db;
  return sql<Moment[]>`
    with p as (select * from payments where id = ${paymentId} and merchant_id = ${merchantId} and mode = ${mode}),
    moments (at, place, kind, what, coin, units, ref, actor) as (
      select created_at, 0, 'created', created_with, null, null::numeric, null, null from p
      union all select q.from_at, 1, 'coin_chosen', null, q.coin, q.units, q.address, null from quotes q join p on q.payment_id = p.id
      union all select t.first_seen_at, 2, 'transfer_seen', null, t.coin, t.units, t.txid, null from transfers t join p on t.payment_id = p.id
      union all select t.block_time, 3, 'transfer_confirmed', null, t.coin, t.units, t.txid, null
        from transfers t join p on t.payment_id = p.id where t.block_time is not null
      union all select d.at, 4, 'decision', d.kind, null, null, null,
          (select actor_name from audit_log a where a.merchant_id = p.merchant_id and a.object = p.id and a.after->>'decision' = d.kind
            and a.at between d.at - interval '1 minute' and d.at + interval '1 minute' order by a.id limit 1)
        from decisions d join p on d.payment_id = p.id
      union all select e.created_at, 5, 'event', e.type, null, null, null, null
        from events e join p on e.payment_id = p.id where e.type <> 'payment.created'
    )
    select at, kind, what, coin, units, ref, actor from moments order by at, place`;
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
