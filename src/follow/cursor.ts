/** Where a follower is on its chain, stored in tables: how it starts, and how it moves. */
import { type BlockRef, ChainError, type ChainSource, type JoinedSource } from '#chains';
import type { Context } from '#context';
import { COIN, type Coin, chainCode } from '#core/coin';
import { invariant } from '#core/invariant';
import type { Tx } from '#db';
import { AddressGiven } from './look-ahead.ts';

export type Cursor = { height: number; hash: string };

/** Thrown when another follower moved the cursor: its work is kept, ours is discarded. */
export class CursorMoved extends Error {}

/** Whether a round ended because another process had read the block, or issued the address, meanwhile. Its work is kept: nothing failed. */
export const isDoneByAnother = (error: unknown): boolean => error instanceof CursorMoved || error instanceof AddressGiven;

/** Checks that the source is on the chain of this install. Errors: ChainError wrong_network. */
export async function checkNetwork(ctx: Context, source: ChainSource): Promise<void> {
  const { coin } = source;
  const genesis = await source.genesis();
  await ctx.db.sql`insert into chains (chain, genesis) values (${chainCode(coin)}, ${genesis}) on conflict do nothing`;
  const [pinned] = await ctx.db.sql<{ genesis: string }[]>`select genesis from chains where chain = ${chainCode(coin)}`;
  if (pinned!.genesis !== genesis) {
    throw new ChainError('wrong_network', `the ${coin} source is on another network (genesis ${genesis.slice(0, 16)}…) than this install`);
  }
  const health = await source.health();
  if (health.network !== source.network)
    throw new ChainError('wrong_network', `the ${coin} source is on ${health.network}, ${coin}_NETWORK says ${source.network}`);
}

/**
 * The cursor; on the first call of an install, the tip of the source. `unwound`: blocks were taken back, and what replaces them is not read
 * completely yet.
 */
export async function readChainCursor(ctx: Context, source: ChainSource): Promise<Cursor & { unwound: boolean }> {
  const { coin } = source;
  const [row] = await ctx.db.sql<{ height: bigint; hash: string; unwound: boolean }[]>`
    select height, hash, unwound from tips where chain = ${chainCode(coin)}`;
  if (row) return { ...row, height: Number(row.height) };
  // Addresses are issued from here on. Older ones wait for the blocks that could have paid them: see read-back.
  const [before] = await ctx.db.sql<{ now: Date }[]>`select clock_timestamp() as now`;
  const tip = await source.tip();
  await ctx.db.begin(async (tx) => {
    await tx`
      insert into tips (chain, height, hash, scanned_through, watched_from, watched_parent, watched_since, read_back_to)
      values (${chainCode(coin)}, ${tip.height}, ${tip.hash}, clock_timestamp(), ${tip.height + 1}, ${tip.hash}, ${before!.now},
        case when exists (select 1 from deposit_addresses where family = ${COIN[coin].family}) then 0 end) on conflict do nothing`;
    await insertBlock(tx, coin, tip);
  });
  return { height: tip.height, hash: tip.hash, unwound: false };
}

/** What a follower reads: all sources of a chain, or in tests one of them. */
export type FollowedSource = ChainSource & Partial<Pick<JoinedSource, 'provenWork'>>;
/** The blocks that are proven on the chain that ends with this one; null where no proof binds. */
export const provenHeightsOf = (source: FollowedSource, { binding, hash }: { binding: boolean; hash: string }): readonly number[] | null =>
  (binding && source.provenWork?.(hash)?.heights) || null;

/**
 * Up by one block, or down to a fork. Compare-and-set on the old hash: two followers never apply the same step. `proven`: what is proven
 * from now on; left out, nothing is until the next block. Errors: CursorMoved.
 */
export async function moveCursor(tx: Tx, coin: Coin, from: Cursor, to: Cursor, proven?: readonly number[] | null): Promise<void> {
  invariant(
    to.height === from.height + 1 || (to.height >= 0 && to.height < from.height),
    `the cursor of ${coin} moves up by one block, or down`,
  );
  const moved = await tx`
    update tips set height = ${to.height}, hash = ${to.hash}, hold_reason = null, begin_again = false,
      proven_heights = case when ${proven !== undefined} then ${(proven ?? null) as number[] | null}::int[] when proven_heights is not null then '{}' end
    where chain = ${chainCode(coin)} and hash = ${from.hash}`;
  if (moved.count === 0) throw new CursorMoved();
}

/** Locks the cursor until the transaction ends: what was seen at one block is not written after a later one, which may contain it. */
export async function holdCursor(tx: Tx, coin: Coin, cursor: Cursor): Promise<void> {
  const same = await tx`select 1 from tips where chain = ${chainCode(coin)} and hash = ${cursor.hash} for share`;
  if (same.length === 0) throw new CursorMoved();
}

/** `paid`: as a source tells it of a block that was read; null: it was not. */
export async function insertBlock(tx: Tx, coin: Coin, block: BlockRef, paid: bigint | null = null): Promise<void> {
  await tx`
    insert into blocks (chain, height, hash, parent, time, paid)
    values (${chainCode(coin)}, ${block.height}, ${block.hash}, ${block.parent}, ${block.time}, ${paid?.toString() ?? null}::numeric)
    on conflict (chain, height) do update set hash = excluded.hash, parent = excluded.parent, time = excluded.time, paid = excluded.paid`;
}
