/** The blocks of simulated chains, which follow from the clock, and the recorded tips of a mode. */
import { createHash } from 'node:crypto';
import type { BlockRef } from '#chains';
import type { Context } from '#context';
import { type Coin, chainCode } from '#core/coin';
import type { Fragment, Sql, Tx } from '#db';

/** A block every second, above all blocks of deposits. */
const BLOCK_MS = 1_000;
const FIRST_MS = Date.UTC(2026, 0, 1);
const FIRST_HEIGHT = 10_000;
export const heightAt = (time: Date): number => FIRST_HEIGHT + Math.max(0, Math.floor((time.getTime() - FIRST_MS) / BLOCK_MS));

/** What was sent is in the next block. */
export const minedAt = (sentAt: Date): number => heightAt(sentAt) + 1;

/** Its hash ends with its height. */
export function blockOf(height: number): BlockRef {
  return {
    height,
    hash: hashOf(height),
    parent: hashOf(height - 1),
    time: new Date(FIRST_MS + (height - FIRST_HEIGHT) * BLOCK_MS),
  };
}
const hashOf = (height: number): string =>
  createHash('sha256').update(`florin simulated block ${height}`).digest('hex').slice(8) + height.toString(16).padStart(8, '0');

/** Recorded tips as the table `tips`; of test mode, the simulated one. */
export function tipsIn(ctx: Pick<Context, 'mode' | 'clock'>, sql: Sql | Tx, coin: Coin): Fragment {
  if (ctx.mode === 'live') return sql`tips`;
  const { height, hash } = blockOf(heightAt(ctx.clock.now()));
  return sql`(select ${chainCode(coin)}::text as chain, ${height}::bigint as height, ${hash}::text as hash,
    ${height}::bigint as finalized_height, clock_timestamp() as scanned_through) tips`;
}
