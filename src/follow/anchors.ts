/** Where a chain that is read by ranges was read to: one block for each poll, in place of every block. */
import type { Context } from '#context';
import { COIN, type Coin, chainCode, chainOf } from '#core/coin';
import type { Sql, Tx } from '#db';
import { type Cursor, CursorMoved } from './cursor.ts';

export type Anchor = Cursor;

/** The newest ones are kept whatever their age, so that a short reorganization after a long pause finds one. */
const KEPT_ANYWAY = 16;
/** How long anchors are kept: what a reorganization may take back, in time because blocks have no even pace. */
const keptSeconds = (coin: Coin): number => chainOf(coin).maxReorg * chainOf(coin).blockSeconds;

/** The cursor; null before the first poll. */
export async function readAnchor(ctx: Context, coin: Coin): Promise<Anchor | null> {
  const [row] = await ctx.db.sql<{ height: bigint; hash: string }[]>`select height, hash from tips where chain = ${chainCode(coin)}`;
  return row ? { height: Number(row.height), hash: row.hash } : null;
}

/** Starts at a block. Addresses that were issued before it had no quote on this chain. */
export async function beginAt(
  ctx: Context,
  coin: Coin,
  { at: { height, hash }, before, sources }: { at: Anchor; before: Date; sources: readonly string[] },
): Promise<void> {
  await ctx.db.begin(async (tx) => {
    await tx`
      insert into tips (chain, height, hash, scanned_through, watched_from, watched_parent, watched_since)
      values (${chainCode(coin)}, ${height}, ${hash}, ${before}, ${height + 1}, ${hash}, ${before}) on conflict do nothing`;
    await insertAnchors(tx, coin, [{ height, hash }]);
    // Also of those that are away now.
    await tx`
      insert into range_reads (chain, source, height) select ${COIN[coin].chain}, source, ${height} from unnest(${sources}::text[]) as s (source)
      on conflict do nothing`;
  });
}

const insertAnchors = (tx: Tx, coin: Coin, anchors: readonly Anchor[]) => tx`
  insert into anchors (chain, height, hash)
  select ${COIN[coin].chain}, a.height, a.hash
  from jsonb_to_recordset(${tx.json(anchors.map(({ height, hash }) => ({ height, hash })))}) as a (height bigint, hash text)
  on conflict (chain, height) do update set hash = excluded.hash, at = excluded.at`;

/** How far below the newest block anchors are added when many blocks were read at once. Fewer need none. */
const ANCHORS_BELOW = [64, 512, 4_096, 32_768];
const MANY_BLOCKS = 128;
/** Where to add anchors, so that a short reorganization after a long pause takes back few blocks. */
export const heightsBetween = (from: Anchor, to: Anchor): number[] =>
  to.height - from.height <= MANY_BLOCKS ? [] : ANCHORS_BELOW.map((depth) => to.height - depth).filter((height) => height > from.height);

/** Moves the cursor up, in the transaction that records what lies between. Errors: CursorMoved. */
export async function moveUp(
  tx: Tx,
  coin: Coin,
  { from, between, to }: { from: Anchor; between: readonly Anchor[]; to: Anchor },
): Promise<void> {
  const moved = await tx`
    update tips set height = ${to.height}, hash = ${to.hash}, hold_reason = null, begin_again = false
    where chain = ${chainCode(coin)} and hash = ${from.hash}`;
  if (moved.count === 0) throw new CursorMoved();
  await insertAnchors(tx, coin, [...between, to]);
  await tx`
    delete from anchors where chain = ${COIN[coin].chain} and at < clock_timestamp() - ${keptSeconds(coin)} * interval '1 second'
      and height < ${to.height} and height not in (
        select height from anchors where chain = ${COIN[coin].chain} and height < ${to.height} order by height desc limit ${KEPT_ANYWAY})`;
}

/** Whether all anchors since the start are kept. */
export async function hasShortHistory(ctx: Context, coin: Coin): Promise<boolean> {
  const [row] = await ctx.db.sql<{ isShort: boolean }[]>`
    select coalesce(t.watched_since > clock_timestamp() - ${keptSeconds(coin)} * interval '1 second', false) as "isShort"
    from tips t where t.chain = ${chainCode(coin)}`;
  return row?.isShort ?? true;
}

/** The anchors below a block, lowest first. */
export async function readAnchors(sql: Sql, coin: Coin, { below }: { below: number }): Promise<Anchor[]> {
  const rows = await sql<{ height: bigint; hash: string }[]>`
    select height, hash from anchors where chain = ${COIN[coin].chain} and height < ${below} order by height`;
  return rows.map(({ height, hash }) => ({ height: Number(height), hash }));
}

/**
 * The newest anchor that is still on the chain, with as few questions as possible; null when none is. Anchors are on the chain up to one of
 * them, and the ones above it are not.
 */
export async function newestOnChain(anchors: readonly Anchor[], isOnChain: (anchor: Anchor) => Promise<boolean>): Promise<Anchor | null> {
  let [on, off] = [-1, anchors.length];
  // Most reorganizations are short, so the steps double from the top.
  for (let step = 1; off > 0; step *= 2) {
    const at = Math.max(0, anchors.length - step);
    if (await isOnChain(anchors[at]!)) {
      on = at;
      break;
    }
    off = at;
  }
  while (off - on > 1) {
    const at = Math.floor((on + off) / 2);
    if (await isOnChain(anchors[at]!)) on = at;
    else off = at;
  }
  return anchors[on] ?? null;
}
