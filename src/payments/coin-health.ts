/** Whether each coin can be paid now: its node, how far its chain is read, its price. */
import type { Context } from '../context.ts';
import { COINS, type Coin, type Mode } from '../core/coin.ts';
import type { Sql, Tx } from '../db/db.ts';
import { readGuards } from './guard.ts';

export type CoinHealth = {
  coin: Coin;
  /** `none`: no source is set up. */
  chain: 'ok' | 'held' | 'behind' | 'starting' | 'none' | 'simulated';
  height: bigint | null;
  lagSeconds: number | null;
  reasons: string[];
  /** Null when it can be quoted. */
  priceFault: string | null;
};
/** A follower that has not completed a look for so long is behind. */
const BEHIND_SECONDS = 180;

export async function readCoinHealth(ctx: Context, { mode }: { mode: Mode }): Promise<CoinHealth[]> {
  if (mode === 'test')
    return COINS.map((coin) => ({ coin, chain: 'simulated', height: null, lagSeconds: null, reasons: [], priceFault: null }));
  const [tips, guards] = await Promise.all([
    ctx.db.sql<{ coin: Coin; height: bigint; lag: number; holdReason: string | null }[]>`
      select coin, height, extract(epoch from clock_timestamp() - scanned_through)::float8 as lag, hold_reason as "holdReason" from tips`,
    readGuards(ctx),
  ]);
  return COINS.map((coin): CoinHealth => {
    const price = ctx.prices.quotable(coin);
    const priceFault = 'price' in price ? null : price.reason;
    const tip = tips.find((row) => row.coin === coin);
    if (!ctx.chains.get(coin)?.follows) return { coin, chain: 'none', height: null, lagSeconds: null, reasons: [], priceFault };
    if (!tip) return { coin, chain: 'starting', height: null, lagSeconds: null, reasons: [], priceFault };
    const reasons = [
      ...(tip.holdReason ? [tip.holdReason] : []),
      ...guards.flatMap((guard) => (guard.coin === coin && guard.binding ? guard.reasons : [])),
    ];
    const chain = reasons.length > 0 ? 'held' : tip.lag > BEHIND_SECONDS ? 'behind' : 'ok';
    return { coin, chain, height: tip.height, lagSeconds: Math.max(0, Math.round(tip.lag)), reasons, priceFault };
  });
}

/**
 * Live coins of which no address can be given now, and why: who pays must be seen. An address is watched from the block on with which
 * the follower of its coin began.
 */
export async function readUnreachable(ctx: Context, sql: Sql | Tx): Promise<ReadonlyMap<Coin, string>> {
  const begun = new Set((await sql<{ coin: Coin }[]>`select coin from tips`).map(({ coin }) => coin));
  return new Map(
    COINS.flatMap((coin): [Coin, string][] => {
      if (!ctx.chains.get(coin)?.follows) return [[coin, 'no node is configured']];
      return begun.has(coin) ? [] : [[coin, 'its node has not been reached yet']];
    }),
  );
}
