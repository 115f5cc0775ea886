/** Whether each coin can be paid now: its node, how far its chain has been read, its price. */

import { readReports } from '#chain-store';
import { explainReport, isStale, STALE_SECONDS, type StoredReport } from '#chains';
import type { Context } from '#context';
import type { Doubt } from '#core/certainty';
import { COIN, COINS, type Coin, chainCode, type Mode, nativeOf } from '#core/coin';
import type { Sql, Tx } from '#db';
import { catchUpOf, explainCatchUp, explainTrouble, readGuards, readTroubles } from './chain-state.ts';

type CoinHealth = {
  coin: Coin;
  /** `none`: no source is configured. `limited`: larger payments wait. */
  chain: 'ok' | 'limited' | 'held' | 'behind' | 'starting' | 'none' | 'simulated';
  height: bigint | null;
  lagSeconds: number | null;
  reasons: string[];
  /** Null when it can be quoted. */
  priceFault: string | null;
};
/** A coin is not offered when its source has not been read for this long, or may lack blocks that other sources have. */
const BEHIND_SECONDS = 60;
/** Until then, peers may still be on their way. */
const UNREACHABLE_SECONDS = 120;
/** Source problems that make its coin unpayable. An old last block alone can be normal. */
const UNPAYABLE: readonly Doubt['code'][] = ['older', 'syncing', 'alone'];

/** Why completion is on hold on each chain, by coin. */
export async function readHolds(ctx: Context): Promise<ReadonlyMap<Coin, readonly string[]>> {
  const [tips, guards] = await Promise.all([
    ctx.db.sql<
      { code: string; holdReason: string }[]
    >`select chain as code, hold_reason as "holdReason" from tips where hold_reason is not null`,
    readGuards(ctx),
  ]);
  return new Map(
    COINS.map((coin) => [
      coin,
      [
        ...tips.flatMap((tip) => (tip.code === chainCode(coin) ? [tip.holdReason] : [])),
        ...guards.flatMap((guard) => (guard.coin === nativeOf(coin) && guard.binding ? guard.reasons : [])),
      ],
    ]),
  );
}

export async function readCoinHealth(ctx: Context, { mode }: { mode: Mode }): Promise<CoinHealth[]> {
  if (mode === 'test')
    return COINS.map((coin) => ({ coin, chain: 'simulated', height: null, lagSeconds: null, reasons: [], priceFault: null }));
  const [tips, held, guards, troubles, reports] = await Promise.all([
    ctx.db.sql<{ code: string; height: bigint; lag: number; unread: number }[]>`
      select chain as code, height, extract(epoch from clock_timestamp() - scanned_through)::float8 as lag,
        extract(epoch from clock_timestamp() - looked_at)::float8 as unread from tips`,
    readHolds(ctx),
    readGuards(ctx),
    readTroubles(ctx),
    readReports(ctx.db.sql),
  ]);
  return COINS.map((coin): CoinHealth => {
    const price = ctx.prices.quotable(COIN[coin].asset);
    const priceFault = 'price' in price ? null : price.reason;
    const tip = tips.find((row) => row.code === chainCode(coin));
    if (!ctx.chains.get(COIN[coin].chain)?.follows) return { coin, chain: 'none', height: null, lagSeconds: null, reasons: [], priceFault };
    const grave = troubles
      .filter((one) => one.coin === nativeOf(coin))
      .flatMap((one) => explainTrouble(one).flatMap((t) => (t.grave ? [t.text] : [])));
    if (!tip) {
      const report = reports.find((one) => one.coin === COIN[coin].family && !isStale(one));
      const syncing = report && !ctx.chains.get(COIN[coin].chain)!.watch ? explainReport(report) : null;
      // Nobody needs the chain yet.
      const idle = ctx.chains.get(COIN[coin].chain)!.onDemand && !report;
      const reasons = [...(syncing === null ? [] : [syncing]), ...grave];
      return { coin, chain: idle ? 'none' : 'starting', height: null, lagSeconds: null, reasons, priceFault };
    }
    const holds = held.get(coin)!;
    const limits = guards.flatMap((guard) =>
      guard.coin === nativeOf(coin) && guard.binding && guard.aboveReason !== null ? [guard.aboveReason] : [],
    );
    const behind = grave.length > 0 || tip.unread > BEHIND_SECONDS;
    const chain = holds.length > 0 ? 'held' : behind ? 'behind' : limits.length > 0 ? 'limited' : 'ok';
    const lagSeconds = Math.max(0, Math.round(tip.lag));
    return { coin, chain, height: tip.height, lagSeconds, reasons: [...holds, ...limits, ...grave], priceFault };
  });
}

/** What is known about a chain that is or was read. The columns of the peers are null unless a process is connected to them. */
type Standing = {
  code: string;
  unread: boolean | null;
  doubt: string | null;
  /** What the follower reported before it read its first block. */
  waits: string | null;
  from: number | null;
  to: number | null;
  read: number | null;
  /** No peer has been connected for a while. */
  cut: boolean | null;
} & { [K in 'phase' | 'connected' | 'percent' | 'secondsLeft' | 'trouble']: StoredReport[K] | null };

/** Why a chain is not read although a process works on it; null when nothing says so. */
function whyNotYet({ phase, connected, percent, secondsLeft, trouble, from, to, read, waits }: Standing): string | null {
  const syncing = phase === null ? null : explainReport({ phase, connected: connected!, percent: percent!, secondsLeft, trouble });
  if (syncing !== null) return syncing;
  if (waits !== null) return waits;
  return from === null || to === null || read === null ? null : explainCatchUp(catchUpOf({ from, to, read }));
}

export type Unreachable = {
  code: 'source_missing' | 'source_starting' | 'source_silent' | 'source_unreachable' | 'source_behind' | 'token_held';
  reason: string;
};
/**
 * Live coins for which no address can be issued now, and why: a payment to it must be detected. An address is watched from the block
 * at which the follower of its coin started.
 */
export async function readUnreachable(ctx: Context, sql: Sql | Tx): Promise<ReadonlyMap<Coin, Unreachable>> {
  const rows = await sql<Standing[]>`
    select chain as code, t.looked_at < clock_timestamp() - ${BEHIND_SECONDS} * interval '1 second' as unread,
      case when f.behind_code = any(${[...UNPAYABLE]}::text[]) and f.behind_since < clock_timestamp() - ${BEHIND_SECONDS} * interval '1 second'
        then f.behind_reason end as doubt, case when t.chain is null and f.behind_code = 'syncing' then f.behind_reason end as waits,
      f.catch_up_from::int as "from", f.catch_up_to::int as "to", t.height::int as read, p.phase, p.connected, p.percent,
      p.seconds_left as "secondsLeft", p.trouble,
      p.connected = 0 and p.started_at < clock_timestamp() - ${UNREACHABLE_SECONDS} * interval '1 second' as cut
    from tips t full join (select * from peer_status where reported_at > clock_timestamp() - ${STALE_SECONDS} * interval '1 second') p using (chain)
      full join followers f using (chain)`;
  const held = await sql<{ coin: string; hold: string }[]>`select coin, hold from token_contracts where hold is not null`;
  const found = new Map(rows.map((row) => [row.code, row]));
  return new Map(
    COINS.flatMap((coin): [Coin, Unreachable][] => {
      const away = (code: Unreachable['code'], reason: string): [Coin, Unreachable][] => [[coin, { code, reason }]];
      if (!ctx.chains.get(COIN[coin].chain)?.follows) return away('source_missing', 'no source is configured');
      const row = found.get(chainCode(coin));
      const hold = held.find((one) => one.coin === coin)?.hold;
      if (hold !== undefined) return away('token_held', hold);
      if (row?.unread === false) return row.doubt === null ? [] : away('source_behind', row.doubt);
      // Peers that a node is only compared with keep nobody waiting.
      const phase = ctx.chains.get(COIN[coin].chain)!.watch ? null : (row?.phase ?? null);
      const working = row ? whyNotYet({ ...row, phase }) : null;
      if (working !== null && phase !== null && row!.cut) return away('source_unreachable', row!.trouble ?? 'no peer is connected');
      if (working !== null) return away('source_behind', working);
      if (!row || row.unread === null) return away('source_starting', 'its source has not been reached yet');
      return away('source_silent', 'its source has not answered for a minute');
    }),
  );
}
