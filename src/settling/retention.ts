/**
 * Erases customers' data for merchants that enabled it: customers, description, items, language, return URL, metadata, the addresses and reasons of
 * refunds, and the signing files that contain these addresses, of payments that ended long enough ago; and the addresses, descriptions and
 * signing files of payouts. Amounts, taxes, rates, transfers, times and IDs stay; the bodies of events are erased after 30 days for all
 * merchants, which is the shortest time that can be set here.
 */

import type { Context } from '#context';
import type { Mode } from '#core/coin';
import { deleteCustomers } from '#customers';
import { dueWork, type Fragment, forgetReplies, type Sql, startQueue, type Tx } from '#db';
import { forgetRequests } from '#keys';
import { startLoop } from '#loop';
import { endOutages } from '#readiness';
import { applyDueChanges } from '#wallets';
import { dropMetadataPairs } from './metadata-pairs.ts';
import { type SettleKind, settleDuePayments } from './settle-payments.ts';
import { queueShopErasure } from './shop-queue.ts';
import { dropTexts } from './texts.ts';
import { foldCounts, foldTotals } from './totals.ts';

/** Payments in one step; a step is one transaction. */
const STEP = 500;
const LANES = 20;
/** How long until a payment that had not ended is checked again. */
const AGAIN_HOURS = 24;
/** How long what was sent keeps its address at least, so that it can be followed. */
const FOLLOWED_DAYS = 7;
const DUE = 'erase';

/** Merchants and the days of their setting; null: off. */
const merchantDays = (sql: Sql | Tx) => sql`
  (select id, case when jsonb_typeof(settings->'retentionDays') = 'number' and settings->>'retentionDays' ~ '^[1-9][0-9]{0,4}$'
    then (settings->>'retentionDays')::int end as days from merchants)`;

type Lane = { merchantId: string; mode: Mode; days: number };

/** One round over merchants with erasure: one step per mode, so that its cost is bounded. Returns how many were erased. */
export async function erasePayerData(ctx: Context): Promise<number> {
  // A setting that is not a whole number of days erases nothing, and does not stop the other merchants.
  const lanes = await ctx.db.sql<Lane[]>`
    select m.id as "merchantId", l.mode, m.days
    from ${merchantDays(ctx.db.sql)} as m cross join unnest(array['live', 'test']) as l (mode) left join erasures e on e.merchant_id = m.id and e.mode = l.mode
    where m.days is not null
      and ((select p.created_at from payments p where p.merchant_id = m.id and p.mode = l.mode and p.sequence > coalesce(e.through_sequence, 0)
          order by p.sequence limit 1) < clock_timestamp() - make_interval(days => m.days)
        or exists (select 1 from due_work d where d.kind = ${DUE} and d.merchant_id = m.id and d.due_at <= clock_timestamp()))
    order by m.id, l.mode limit ${LANES}`;
  let erased = 0;
  for (const lane of lanes) erased += await ctx.db.begin((tx) => eraseStep(tx, lane));
  await eraseShopRefunds(ctx);
  await erasePayouts(ctx);
  await erasePayoutFiles(ctx);
  return erased;
}

/**
 * A refund that is requested, or an address that is left, after its payment was erased: that is erased too, after as many days. The payment
 * is locked.
 */
export const eraseAgain = (tx: Tx, paymentId: string) => tx`
  insert into due_work (kind, key, merchant_id, due_at)
  select ${DUE}, p.id, p.merchant_id, clock_timestamp() + make_interval(days => coalesce(m.days, 0))
  from payments p join erasures e on e.merchant_id = p.merchant_id and e.mode = p.mode join ${merchantDays(tx)} as m on m.id = p.merchant_id
  where p.id = ${paymentId} and p.sequence <= e.through_sequence
  on conflict (kind, key) do update set due_at = greatest(due_work.due_at, excluded.due_at)`;

/** Refunds of shops that belong to no payment keep their address until the money was sent, and as long as set after that. */
const eraseShopRefunds = ({ db: { sql } }: Context) => sql`
  update shop_refunds set address = null where id in (
    select due.id
    from ${merchantDays(sql)} as m
    cross join lateral (select r.id from shop_refunds r
      where r.merchant_id = m.id and r.sent_at < clock_timestamp() - make_interval(days => m.days) and r.address is not null
      order by r.sent_at limit ${STEP}) as due
    where m.days is not null limit ${STEP})`;

/** Payouts that were paid or ended long enough ago, and that no signing file can still pay. */
const erasePayouts = ({ db: { sql } }: Context) => sql`
  update outgoing_payments set address = null, description = null, erased_at = clock_timestamp() where id in (
    select due.id from ${merchantDays(sql)} as m
    cross join lateral (select p.id from outgoing_payments p
      where p.kind = 'payout' and p.merchant_id = m.id and p.erased_at is null and p.state in ('sent', 'confirmed', 'failed', 'canceled')
        and coalesce(p.ended_at, p.sent_at) < clock_timestamp() - make_interval(days => m.days)
        and not exists (select 1 from signing_files s where s.id = p.file_id and s.state in ('made', 'signed', 'sent'))
      order by coalesce(p.ended_at, p.sent_at) limit ${STEP}) as due
    where m.days is not null limit ${STEP})`;

/** The signing files of payouts, once they have ended and all of their payouts are erased. A canceled file has none. */
const erasePayoutFiles = ({ db: { sql } }: Context) => sql`
  with erased as (
    update signing_files set file = jsonb_set(file, '{requests}', '[]'), erased_at = clock_timestamp() where id in (
      select due.id from ${merchantDays(sql)} as m
      cross join lateral (select s.id from signing_files s
        where s.merchant_id = m.id and s.purpose = 'payout' and s.erased_at is null and s.state in ('confirmed', 'failed', 'canceled')
          and s.ended_at < clock_timestamp() - make_interval(days => m.days)
          and not exists (select 1 from outgoing_payments p where p.file_id = s.id and p.erased_at is null)
        order by s.ended_at limit ${STEP}) as due
      where m.days is not null limit ${STEP})
    returning id)
  update signed_transactions set raw = '' where file_id in (select id from erased)`;

async function eraseStep(tx: Tx, { merchantId, mode, days }: Lane): Promise<number> {
  await tx`insert into erasures (merchant_id, mode) values (${merchantId}, ${mode}) on conflict do nothing`;
  const [lane] = await tx<{ through: bigint }[]>`
    select through_sequence as through from erasures where merchant_id = ${merchantId} and mode = ${mode} for update skip locked`;
  if (!lane) return 0;
  const next = await tx<{ id: string; sequence: bigint }[]>`
    select id, sequence from payments p
    where merchant_id = ${merchantId} and mode = ${mode} and sequence > ${lane.through.toString()}
      and created_at < clock_timestamp() - make_interval(days => ${days})
    order by sequence limit ${STEP}`;
  const waiting = await tx<{ id: string }[]>`
    select p.id from due_work d join payments p on p.id = d.key and p.mode = ${mode}
    where d.kind = ${DUE} and d.merchant_id = ${merchantId} and d.due_at <= clock_timestamp() order by d.due_at limit ${STEP}`;
  const found = [...next, ...waiting].map(({ id }) => id);
  await tx`select 1 from payments where id = any(${found}::text[]) order by id for update`;
  // Only now, because a refund may have been requested a moment ago.
  const rows = await tx<{ id: string; customerId: string | null; ended: boolean }[]>`
    select id, customer_id as "customerId", ${ended(tx, days)} as ended from payments p where id = any(${found}::text[])`;
  const ids = rows.filter((row) => row.ended).map((row) => row.id);
  const later = rows.filter((row) => !row.ended).map((row) => row.id);
  await dropMetadataPairs(tx, ids);
  await tx`
    update payments set request = (request - array['returnUrl', 'description', 'items', 'locale']) #- '{shop,cancelUrl}', metadata = '{}', customer_id = null, version = version + 1
    where id = any(${ids}::text[])`;
  await deleteCustomers(
    tx,
    rows.flatMap((row) => (row.ended && row.customerId !== null ? [row.customerId] : [])),
  );
  await dropTexts(tx, ids);
  await queueShopErasure(tx, ids);
  await tx`delete from refund_addresses where payment_id = any(${ids}::text[])`;
  await eraseFiles(tx, { merchantId, ids });
  await tx`
    update outgoing_payments set address = null, reason = null, email = null, email_from = null, erased_at = clock_timestamp()
    where payment_id = any(${ids}::text[]) and erased_at is null`;
  await tx`
    update refund_invoices set bolt11 = null
    where refund_id in (select id from outgoing_payments where payment_id = any(${ids}::text[])) and bolt11 is not null`;
  await tx`delete from due_work where kind = ${DUE} and key = any(${ids}::text[])`;
  await tx`
    insert into due_work (kind, key, merchant_id, due_at)
    select ${DUE}, id, ${merchantId}, clock_timestamp() + make_interval(hours => ${AGAIN_HOURS}) from unnest(${later}::text[]) as id
    on conflict (kind, key) do update set due_at = excluded.due_at`;
  const through = next.at(-1)?.sequence;
  if (through !== undefined)
    await tx`update erasures set through_sequence = ${through.toString()} where merchant_id = ${merchantId} and mode = ${mode}`;
  return ids.length;
}

/**
 * Erases the signing files that returned money of the payments, with what was signed. All of them have ended: nothing is signed, sent or
 * replaced from them anymore.
 */
async function eraseFiles(tx: Tx, { merchantId, ids }: { merchantId: string; ids: readonly string[] }): Promise<void> {
  const rows = await tx<
    { id: string }[]
  >`select distinct payment_id as id from outgoing_payments where payment_id = any(${ids as string[]}::text[])`;
  if (rows.length === 0) return;
  await tx`
    with erased as (
      update signing_files s set file = jsonb_set(file, '{requests}', '[]'), erased_at = clock_timestamp()
      where merchant_id = ${merchantId} and purpose = 'refund' and erased_at is null and state in ('confirmed', 'failed', 'canceled')
        and exists (select 1 from jsonb_path_query(file, '$.requests[*].**.reference') as line (reference)
          where line.reference #>> '{}' = any(${rows.map(({ id }) => id)}::text[]))
      returning id)
    update signed_transactions set raw = '' where file_id in (select id from erased)`;
}

/** Ended, and unchanged for this long. Refunds that may still be sent keep their address, and the payment its data. */
const ended = (tx: Tx, days: number) => tx`
  (status in ('completed', 'expired', 'cancelled', 'failed')
    and greatest(completed_at, expires_at, extended_until, created_at) < clock_timestamp() - make_interval(days => ${days})
    and not exists (select 1 from outgoing_payments r where r.payment_id = p.id and (r.state in ('approved', 'signed')
      -- Its transaction may not be found yet.
      or (r.state = 'sent' and r.sent_at > clock_timestamp() - make_interval(days => ${FOLLOWED_DAYS}))
      or exists (select 1 from signing_files s where s.id = r.file_id and s.state in ('made', 'signed', 'sent'))
      -- The file of a token says when its authorizations expire.
      or exists (select 1 from outgoing_payments o
        where o.file_id = r.file_id and o.state in ('approved', 'signed', 'sent') and o.coin like '%@%')
      or (r.state = 'requested' and (r.address is not null or r.claim_until > clock_timestamp())))))`;

// The worker's loops over what is due by time: settling, folding counts, waiting keys, deleting old replies, requests and payers' data.

/** Payments settled in one transaction when a block has come: their customers wait. */
const BATCH = 200;
/** Of those whose time has come, which may be a hundred thousand: requests have the processor for twice as long as one transaction takes. */
const STEP_DUE = 25;
const RESTS = 2;
const HOUSEKEEPING_MS = 10_000;

/** Starts the loops; `stop` waits for the current rounds. Several workers may run: rows are taken with SKIP LOCKED. */
export function startHousekeeping(ctx: Context): { stop(): Promise<void> } {
  const settling = (kind: SettleKind, due: (sql: Sql) => Fragment, { limit, rests }: { limit: number; rests: number }) =>
    startQueue(ctx, {
      name: kind,
      due,
      round: async () => {
        const startedMs = ctx.clock.monotonicMs();
        const settled = await settleDuePayments(ctx, { limit, kinds: [kind] });
        if (settled < limit) return false;
        return rests === 0 || Math.ceil((ctx.clock.monotonicMs() - startedMs) * rests);
      },
      failed: (error, failures) => ctx.log.error({ err: error, failures }, 'Could not settle due payments; retrying'),
    });
  const loops = [
    settling('payments', (sql) => sql`(select min(due_at) from payments)`, { limit: STEP_DUE, rests: RESTS }),
    settling('settle', dueWork('settle'), { limit: BATCH, rests: 0 }),
    startLoop({
      pollMs: HOUSEKEEPING_MS,
      round: async (stopping) => {
        await keepHouse(ctx, stopping);
        return false;
      },
      failed: (error, failures) => ctx.log.error({ err: error, failures }, 'Could not fold counts and delete old rows; retrying'),
    }),
  ];
  return { stop: async () => void (await Promise.all(loops.map((loop) => loop.stop()))) };
}

async function keepHouse(ctx: Context, stopping: AbortSignal): Promise<void> {
  while (!stopping.aborted && (await foldCounts(ctx, { limit: 5_000 })) === 5_000);
  while (!stopping.aborted && (await foldTotals(ctx, { limit: 5_000 })) === 5_000);
  await forgetReplies(ctx.db);
  await applyDueChanges(ctx);
  await endOutages(ctx);
  await erasePayerData(ctx);
  while (!stopping.aborted && (await forgetRequests(ctx)));
}
