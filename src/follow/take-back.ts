/** Takes back blocks of a branch that lost: their transfers are unconfirmed again. Deep reorganizations hold completion. */
import type { Chain } from '../chains/chain.ts';
import type { Context } from '../context.ts';
import { COIN, type Coin, chainCode, chainOf, coinsBeside } from '../core/coin.ts';
import { isBinding, reorgText } from '../core/guard.ts';
import { invariant } from '../core/invariant.ts';
import type { Tx } from '../db/db.ts';
import { queueReversible } from '../payments/settle-payments.ts';
import { type Cursor, insertBlock, moveCursor } from './cursor.ts';
import type { Fork } from './fork.ts';
import { writeBounded } from './small-parts.ts';

type Of = Pick<Chain, 'coin' | 'network'>;

/** Moves the cursor down to the fork, and takes back what was read above it. */
export async function takeBack(ctx: Context, { coin, network }: Of, cursor: Cursor, { cursor: fork, base }: Fork): Promise<void> {
  const depth = cursor.height - fork.height;
  invariant(depth > 0, `a reorganization of ${coin} takes back at least one block`);
  ctx.log.warn({ coin, depth, height: fork.height }, 'Chain reorganization detected');
  const affected = await ctx.db.sql<{ id: string }[]>`
    select distinct payment_id as id from transfers
    where coin = any(${coinsBeside(coin)}::text[]) and (block_height > ${fork.height} or conflict_height > ${fork.height})`;
  const ids = affected.map((row) => row.id);
  await writeBounded(ctx, { coin, depth, height: fork.height }, (tx, way) =>
    way.lockAndSettle(tx, ids, async () => {
      await moveCursor(tx, coin, cursor, fork);
      await unconfirm(tx, coin, fork);
      await noteReorg(tx, { coin, network }, { depth, height: cursor.height });
      if (base) await insertBlock(tx, coin, base);
    }),
  );
}

/** Removes everything that blocks above the fork confirmed, and those blocks. */
async function unconfirm(tx: Tx, coin: Coin, fork: Cursor): Promise<void> {
  const coins = coinsBeside(coin);
  // A bare balance gain belongs only to its block: the blocks that replace it report it again.
  await tx`delete from transfers where coin = any(${coins}::text[]) and kind = 'delta' and block_height > ${fork.height}`;
  await tx`
    update tips set safe_height = case when safe_height > ${fork.height} then ${fork.height} else safe_height end,
      finalized_height = case when finalized_height > ${fork.height} then ${fork.height} else finalized_height end,
      -- Should never happen, but a height that referred to a locked block must not vouch for another one.
      chainlock_height = case when chainlock_height > ${fork.height} then ${fork.height} else chainlock_height end,
      -- Everything above the fork is read again.
      watched_parent = case when watched_from > ${fork.height + 1} then ${fork.hash} else watched_parent end,
      watched_from = least(watched_from, ${fork.height + 1})
    where chain = ${chainCode(coin)}`;
  await tx`
    update transfers set block_height = null, block_hash = null, block_time = null, verified_by = null, unmined_since = clock_timestamp(),
      disputed_since = null, lock = case when lock = 'instantsend' then lock end
    where coin = any(${coins}::text[]) and block_height > ${fork.height}`;
  await tx`update transfers set conflict_height = null where coin = any(${coins}::text[]) and conflict_height > ${fork.height}`;
  await tx`delete from blocks where chain = ${chainCode(coin)} and height > ${fork.height}`;
  await tx`delete from anchors where chain = ${COIN[coin].chain} and height > ${fork.height}`;
  // Also at sources that are away now.
  await tx`update range_reads set height = ${fork.height} where chain = ${COIN[coin].chain} and height > ${fork.height}`;
}

/**
 * Records that blocks are taken back, in the same transaction: the effect on completed payments is judged once the other branch
 * has been read. A deep reorganization is remembered, and holds completion from this moment on.
 */
async function noteReorg(tx: Tx, { coin, network }: Of, { depth, height }: { depth: number; height: number }): Promise<void> {
  await tx`update tips set unwound = true where chain = ${chainCode(coin)}`;
  if (depth < chainOf(coin).deepReorg) return;
  await tx`
    insert into chain_guard (chain, binding, reasons, codes, reorg_depth, reorg_height)
    values (${chainCode(coin)}, ${isBinding(network)}, array[${reorgText(coin, { depth, height })}], array['deep_reorg'], ${depth}, ${height})
    on conflict (chain) do update set binding = excluded.binding, reorg_depth = excluded.reorg_depth, reorg_height = excluded.reorg_height,
      reasons = excluded.reasons || chain_guard.reasons, codes = excluded.codes || chain_guard.codes`;
}

/** The new branch has been read up to its tip: the effect on completed payments is judged now. */
export async function endReorg(ctx: Context, { coin, hash }: { coin: Coin; hash: string }): Promise<void> {
  const unwound = await ctx.db.sql`select 1 from tips where chain = ${chainCode(coin)} and hash = ${hash} and unwound`;
  if (unwound.length === 0) return;
  await ctx.db.begin(async (tx) => {
    const ended = await tx`update tips set unwound = false where chain = ${chainCode(coin)} and hash = ${hash} and unwound`;
    if (ended.count > 0) await queueReversible(tx, { coin });
  });
}
