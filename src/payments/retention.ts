/**
 * Erases customers' data for merchants that enabled it: description, items, language, return URL, metadata, and the addresses and reasons
 * of refunds, of payments that ended long enough ago. Amounts, taxes, rates, transfers, times and IDs stay; the bodies of events are
 * erased after 30 days for all merchants, which is the shortest time that can be set here.
 */
import type { Context } from '../context.ts';
import type { Mode } from '../core/coin.ts';
import type { Tx } from '../db/db.ts';
import { dropMetadataPairs } from './lists.ts';
import { queueShopErasure } from './shop-queue.ts';
import { dropTexts } from './texts.ts';

/** Payments in one step; a step is one transaction. */
const STEP = 500;
const LANES = 20;
/** How long until a payment that had not ended is checked again. */
const AGAIN_HOURS = 24;
const DUE = 'erase';

type Lane = { merchantId: string; mode: Mode; days: number };

/** One round over merchants with erasure: one step per mode, so that its cost is bounded. Returns how many were erased. */
export async function erasePayerData(ctx: Context): Promise<number> {
  // A setting that is not a whole number of days erases nothing, and does not stop the other merchants.
  const lanes = await ctx.db.sql<Lane[]>`
    select m.id as "merchantId", l.mode, m.days
    from (select id, case when jsonb_typeof(settings->'retentionDays') = 'number' and settings->>'retentionDays' ~ '^[1-9][0-9]{0,4}$'
        then (settings->>'retentionDays')::int end as days from merchants) as m cross join unnest(array['live', 'test']) as l (mode) left join erasures e on e.merchant_id = m.id and e.mode = l.mode
    where m.days is not null
      and ((select p.created_at from payments p where p.merchant_id = m.id and p.mode = l.mode and p.sequence > coalesce(e.through_sequence, 0)
          order by p.sequence limit 1) < clock_timestamp() - make_interval(days => m.days)
        or exists (select 1 from due_work d where d.kind = ${DUE} and d.merchant_id = m.id and d.due_at <= clock_timestamp()))
    order by m.id, l.mode limit ${LANES}`;
  let erased = 0;
  for (const lane of lanes) erased += await ctx.db.begin((tx) => eraseStep(tx, lane));
  return erased;
}

async function eraseStep(tx: Tx, { merchantId, mode, days }: Lane): Promise<number> {
  await tx`insert into erasures (merchant_id, mode) values (${merchantId}, ${mode}) on conflict do nothing`;
  const [lane] = await tx<{ through: bigint }[]>`
    select through_sequence as through from erasures where merchant_id = ${merchantId} and mode = ${mode} for update skip locked`;
  if (!lane) return 0;
  const next = await tx<{ id: string; sequence: bigint; ended: boolean }[]>`
    select id, sequence, ${ended(tx, days)} as ended from payments p
    where merchant_id = ${merchantId} and mode = ${mode} and sequence > ${lane.through.toString()}
      and created_at < clock_timestamp() - make_interval(days => ${days})
    order by sequence limit ${STEP}`;
  const waiting = await tx<{ id: string; ended: boolean }[]>`
    select p.id, ${ended(tx, days)} as ended from due_work d join payments p on p.id = d.key and p.mode = ${mode}
    where d.kind = ${DUE} and d.merchant_id = ${merchantId} and d.due_at <= clock_timestamp() order by d.due_at limit ${STEP}`;
  const ids = [...next, ...waiting].filter((row) => row.ended).map((row) => row.id);
  const later = [...next, ...waiting].filter((row) => !row.ended).map((row) => row.id);
  await tx`select 1 from payments where id = any(${ids}::text[]) order by id for update`;
  await dropMetadataPairs(tx, ids);
  await tx`
    update payments set request = (request - array['returnUrl', 'description', 'items', 'locale']) #- '{shop,cancelUrl}', metadata = '{}', version = version + 1
    where id = any(${ids}::text[])`;
  await dropTexts(tx, ids);
  await queueShopErasure(tx, ids);
  await tx`delete from refund_addresses where payment_id = any(${ids}::text[])`;
  await tx`
    update refunds set address = null, reason = null, erased_at = clock_timestamp()
    where payment_id = any(${ids}::text[]) and erased_at is null`;
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

/** Ended, and unchanged for this long. Refunds that may still be sent keep their address, and the payment its data. */
const ended = (tx: Tx, days: number) => tx`
  (status in ('completed', 'expired', 'cancelled', 'failed')
    and greatest(completed_at, expires_at, extended_until, created_at) < clock_timestamp() - make_interval(days => ${days})
    and not exists (select 1 from refunds r where r.payment_id = p.id and (r.state in ('approved', 'signed')
      or (r.state = 'requested' and (r.address is not null or r.claim_until > clock_timestamp())))))`;
