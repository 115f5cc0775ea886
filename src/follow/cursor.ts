/** Where a follower is on its chain: how it starts, and how it finds the last common block. A lagging source takes nothing back. */
import { type BlockRef, ChainError, type ChainSource } from '../chains/chain.ts';
import type { Context } from '../context.ts';
import type { Doubt } from '../core/certainty.ts';
import { COIN, type Coin, chainCode, chainOf } from '../core/coin.ts';
import type { Tx } from '../db/db.ts';
import { lockAndSettleMany, queueProcessing } from '../payments/settle-payments.ts';
import { noteReorg } from './chain-guard.ts';

export type Cursor = { height: number; hash: string };
/** The last block that is still on the chain, or why the source cannot be followed now. */
export type Found = { cursor: Cursor } | { doubt: Doubt };

/** Thrown when another follower moved the cursor: its work is kept, ours is discarded. */
export class CursorMoved extends Error {}

type Stored = { height: number; hash: string; parent: string };

/** The cursor of one follower, stored in tables. */
export function createCursor(ctx: Context, source: ChainSource) {
  const { coin } = source;
  const { maxReorg } = chainOf(coin);
  /** Whether an outdated hold may be stored. True at startup, when the state is unknown. */
  let mayBeHeld = true;

  /** Checks that the source is on the chain of this install. Errors: ChainError wrong_network. */
  const checkNetwork = async (): Promise<void> => {
    const genesis = await source.genesis();
    await ctx.db.sql`insert into chains (coin, genesis) values (${chainCode(coin)}, ${genesis}) on conflict do nothing`;
    const [pinned] = await ctx.db.sql<{ genesis: string }[]>`select genesis from chains where coin = ${chainCode(coin)}`;
    if (pinned!.genesis !== genesis) {
      throw new ChainError('wrong_network', `the ${coin} node is on another network (genesis ${genesis.slice(0, 16)}…) than this install`);
    }
    const health = await source.health();
    if (health.network !== source.network)
      throw new ChainError('wrong_network', `the ${coin} node is on ${health.network}, ${coin}_NETWORK says ${source.network}`);
  };

  const read = async (): Promise<Cursor> => {
    const [row] = await ctx.db.sql<{ height: bigint; hash: string }[]>`select height, hash from tips where coin = ${chainCode(coin)}`;
    if (row) return { height: Number(row.height), hash: row.hash };
    // Addresses are issued from here on. Older ones wait for the blocks that could have paid them: see read-back.
    const [before] = await ctx.db.sql<{ now: Date }[]>`select clock_timestamp() as now`;
    const tip = await source.tip();
    await ctx.db.begin(async (tx) => {
      await tx`
        insert into tips (coin, height, hash, scanned_through, watched_from, watched_parent, watched_since, read_back_to)
        values (${chainCode(coin)}, ${tip.height}, ${tip.hash}, clock_timestamp(), ${tip.height + 1}, ${tip.hash}, ${before!.now},
          case when exists (select 1 from deposit_addresses where coin = ${COIN[coin].family}) then 0 end) on conflict do nothing`;
      await insertBlock(tx, coin, tip);
    });
    return { height: tip.height, hash: tip.hash };
  };

  /** Our newest blocks, newest first, as many as a reorganization may take back. */
  const readStored = async (cursor: Cursor): Promise<Stored[]> => {
    const rows = await ctx.db.sql<{ height: bigint; hash: string; parent: string }[]>`
      select height, hash, parent from blocks where coin = ${chainCode(coin)} and height <= ${cursor.height} order by height desc limit ${maxReorg + 1}`;
    return rows.map((row) => ({ ...row, height: Number(row.height) }));
  };

  /** Whether the source has a different block than ours at this height. Heights that we never read contradict nothing. */
  const contradicts = async ({ height, hash }: BlockRef): Promise<boolean> => {
    const [ours] = await ctx.db.sql<{ hash: string }[]>`
      select hash from blocks where coin = ${chainCode(coin)} and height = ${height}
      union all
      select parent from (select height, parent from blocks where coin = ${chainCode(coin)} order by height limit 1) as lowest where lowest.height = ${height + 1}
      limit 1`;
    return ours !== undefined && ours.hash !== hash;
  };

  /** The fork below the lowest block that was read: the source still knows the headers that were orphaned, and their parents. */
  const forkBelow = async (lowest: Stored, cursor: Cursor): Promise<BlockRef | null> => {
    let hash = lowest.parent;
    for (let height = lowest.height - 1; height >= 0 && cursor.height - height <= maxReorg; height--) {
      const there = await source.blockAt(height);
      if (there?.hash === hash) return there;
      const left = await source.block(hash);
      if (!left) return null;
      hash = left.parent;
    }
    return null;
  };

  /** An operator investigated, and let the follower continue with the chain that its source shows. */
  const mayBeginAgain = async (): Promise<boolean> =>
    (await ctx.db.sql`select 1 from tips where coin = ${chainCode(coin)} and begin_again`).length > 0;

  /** Goes back to the last block that is still on the chain of the source, and takes back what was read above it. */
  const unwind = async (cursor: Cursor, tip: BlockRef): Promise<Cursor> => {
    const stored = await readStored(cursor);
    for (const row of stored) {
      // The source does not have this height yet, so it says nothing about it.
      if (row.height > tip.height) continue;
      const there = await source.blockAt(row.height);
      // Several machines behind one address may be at different heights: a block that one of them lacks is not gone.
      if (!there) throw new ChainError('outage', `the ${coin} node has a tip above ${row.height} but not that block`);
      if (there.hash === row.hash) {
        if (row.height < cursor.height) await orphanAbove(row, cursor);
        return { height: row.height, hash: row.hash };
      }
    }
    // A young install has no common block when the fork is below its first one. When the fork cannot be determined, the follower
    // restarts as deep as the coin allows: payments since then are above that height, wherever they are mined now.
    const lowest = stored.at(-1);
    if (lowest && stored.length <= maxReorg) {
      const base = (await forkBelow(lowest, cursor)) ?? (await source.blockAt(Math.max(0, lowest.height - maxReorg)));
      if (base) {
        await orphanAbove(base, cursor, base);
        return { height: base.height, hash: base.hash };
      }
    }
    const base = lowest && (await mayBeginAgain()) ? await source.blockAt(Math.min(lowest.height - 1, tip.height)) : null;
    if (base) {
      await orphanAbove(base, cursor, base);
      return { height: base.height, hash: base.hash };
    }
    mayBeHeld = true;
    await ctx.db
      .sql`update tips set hold_reason = 'a reorganization deeper than this coin allows; an operator must look' where coin = ${chainCode(coin)}`;
    throw new ChainError('outage', `no common block of ${coin} within ${maxReorg} blocks; completion is held`);
  };

  /** `base`: a block that is not recorded yet and becomes the lowest one. */
  const orphanAbove = async (fork: Cursor, cursor: Cursor, base: BlockRef | null = null): Promise<void> => {
    ctx.log.warn({ coin, depth: cursor.height - fork.height, height: fork.height }, 'Chain reorganization detected');
    const affected = await ctx.db.sql<{ id: string }[]>`
      select distinct payment_id as id from transfers where coin = ${coin} and (block_height > ${fork.height} or conflict_height > ${fork.height})`;
    await ctx.db.begin((tx) =>
      lockAndSettleMany(
        ctx,
        tx,
        affected.map((row) => row.id),
        async () => {
          await moveCursor(tx, coin, cursor, fork);
          // A bare balance gain belongs only to its block: the blocks that replace it report it again.
          await tx`delete from transfers where coin = ${coin} and kind = 'delta' and block_height > ${fork.height}`;
          await tx`
            update tips set safe_height = case when safe_height > ${fork.height} then ${fork.height} else safe_height end,
              finalized_height = case when finalized_height > ${fork.height} then ${fork.height} else finalized_height end,
              -- Everything above the fork is read again.
              watched_parent = case when watched_from > ${fork.height + 1} then ${fork.hash} else watched_parent end,
              watched_from = least(watched_from, ${fork.height + 1})
            where coin = ${chainCode(coin)}`;
          await tx`
            update transfers set block_height = null, block_hash = null, block_time = null, unmined_since = clock_timestamp(),
              disputed_since = null, lock = case when lock = 'instantsend' then lock end
            where coin = ${coin} and block_height > ${fork.height}`;
          await tx`update transfers set conflict_height = null where coin = ${coin} and conflict_height > ${fork.height}`;
          await tx`delete from blocks where coin = ${chainCode(coin)} and height > ${fork.height}`;
          await noteReorg(tx, source, { depth: cursor.height - fork.height, height: cursor.height });
          if (base) await insertBlock(tx, coin, base);
          // Should never happen, but a height that referred to a locked block must not vouch for another one.
          await tx`update tips set chainlock_height = ${fork.height} where coin = ${chainCode(coin)} and chainlock_height > ${fork.height}`;
        },
      ),
    );
  };

  /** The last block is on the chain, so a hold that said otherwise is over. */
  const stands = async (cursor: Cursor): Promise<void> => {
    if (!mayBeHeld) return;
    await ctx.db.begin(async (tx) => {
      const lifted = await tx`
        update tips set hold_reason = null where coin = ${chainCode(coin)} and hash = ${cursor.hash} and hold_reason is not null`;
      if (lifted.count === 0) return;
      ctx.log.info({ coin, height: cursor.height }, 'The last block read is on the chain again; payments can complete');
      await queueProcessing(tx, { coin });
    });
    mayBeHeld = false;
  };

  return {
    checkNetwork,
    read,
    stands,
    /** Finds the cursor on the chain that ends with `tip`; takes blocks back only when that chain has others in their place. */
    find: async (cursor: Cursor, tip: BlockRef): Promise<Found> => {
      // Usually, and always while catching up, the last block is still there.
      if ((await source.blockAt(cursor.height))?.hash === cursor.hash) {
        await stands(cursor);
        return { cursor };
      }
      // A node that just started, fell behind or replaced another, or machines behind one address at different heights.
      const missing = cursor.height - tip.height;
      if (missing > 0 && !(await contradicts(tip)))
        return older(`the source is ${missing} ${missing === 1 ? 'block' : 'blocks'} behind what was read before (block ${tip.height})`);
      // A node that reindexes the chain shows other tips on the way.
      const { syncing, headers } = await source.health();
      if (syncing) return { doubt: { code: 'syncing', reason: `the source is still syncing (block ${tip.height} of ${headers})` } };
      return { cursor: await unwind(cursor, tip) };
    },
  };
}

const older = (reason: string): Found => ({ doubt: { code: 'older', reason } });

/** Compare-and-set on the old hash: two followers never apply the same step. */
export async function moveCursor(tx: Tx, coin: Coin, from: Cursor, to: Cursor): Promise<void> {
  const moved = await tx`
    update tips set height = ${to.height}, hash = ${to.hash}, hold_reason = null, begin_again = false, updated_at = clock_timestamp()
    where coin = ${chainCode(coin)} and hash = ${from.hash}`;
  if (moved.count === 0) throw new CursorMoved();
}

/** Locks the cursor until the transaction ends: what was seen at one block is not written after a later one, which may contain it. */
export async function holdCursor(tx: Tx, coin: Coin, cursor: Cursor): Promise<void> {
  const same = await tx`select 1 from tips where coin = ${chainCode(coin)} and hash = ${cursor.hash} for share`;
  if (same.length === 0) throw new CursorMoved();
}

export async function insertBlock(tx: Tx, coin: Coin, block: BlockRef): Promise<void> {
  await tx`
    insert into blocks (coin, height, hash, parent, time)
    values (${chainCode(coin)}, ${block.height}, ${block.hash}, ${block.parent}, ${block.time})
    on conflict (coin, height) do update set hash = excluded.hash, parent = excluded.parent, time = excluded.time`;
}
