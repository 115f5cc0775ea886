/** Prices of the past in the database: one row per asset and minute, for jumps across a restart and the change of a day. */
import { addMs, DAY_MS, MINUTE_MS } from '../core/clock.ts';
import { ASSETS, type Asset } from '../core/coin.ts';
import type { Db } from '../db/db.ts';

/** The time between two rows of an asset. */
export const HISTORY_MS = MINUTE_MS;
/** The price of a day ago may be this much earlier or later. */
const DAY_AGO_SLACK_MS = 30 * MINUTE_MS;

/** Prices stored within this time, newest first. */
export const readRecentPrices = (db: Db, { now, withinMs }: { now: Date; withinMs: number }) =>
  db.sql<{ asset: Asset; at: Date; priceE8: bigint }[]>`
    select coin as asset, at, price_e8 as "priceE8" from price_history
    where coin = any(${[...ASSETS]}) and at > ${addMs(now, -withinMs)} and at <= ${now} order by at desc`;

/** The price of each asset closest to the same time yesterday. */
export async function readDayAgo(db: Db, now: Date): Promise<Map<Asset, bigint>> {
  const then = addMs(now, -DAY_MS);
  const rows = await db.sql<{ asset: Asset; priceE8: bigint }[]>`
    select distinct on (coin) coin as asset, price_e8 as "priceE8" from price_history
    where coin = any(${[...ASSETS]}) and at between ${addMs(then, -DAY_AGO_SLACK_MS)} and ${addMs(then, DAY_AGO_SLACK_MS)}
    order by coin, abs(extract(epoch from at - ${then}::timestamptz)), at`;
  return new Map(rows.map(({ asset, priceE8 }) => [asset, priceE8]));
}

export const minuteOf = (now: Date): Date => new Date(Math.floor(now.getTime() / HISTORY_MS) * HISTORY_MS);

/** Stores the prices of a minute, once even when several processes write them. */
export async function writePrices(
  db: Db,
  minute: Date,
  prices: readonly { asset: Asset; priceE8: bigint; sources: readonly string[] }[],
): Promise<void> {
  const rows = prices.map(({ asset, priceE8, sources }) => ({ coin: asset, price_e8: priceE8.toString(), sources }));
  await db.sql`
    insert into price_history (coin, at, price_e8, sources)
    select r.coin, ${minute}, r.price_e8, r.sources
    from jsonb_to_recordset(${db.sql.json(rows as never)}) as r (coin text, price_e8 numeric, sources jsonb)
    on conflict do nothing`;
}

/** Keeps every minute for two days, then the first minute of every hour for 90 days. */
export async function thinHistory(db: Db, now: Date): Promise<void> {
  await db.sql`
    delete from price_history h where coin = any(${[...ASSETS]}) and (at < ${addMs(now, -90 * DAY_MS)} or (at < ${addMs(now, -2 * DAY_MS)}
      and exists (select 1 from price_history e where e.coin = h.coin and e.at >= date_trunc('hour', h.at) and e.at < h.at)))`;
}
