/** Records what the network says cannot be reorganized anymore: final blocks (ETH), ChainLocks and InstantSend locks (DASH). */
import type { ChainSource } from '../chains/chain.ts';
import type { Context } from '../context.ts';
import { type Coin, chainCode, finalityOf } from '../core/coin.ts';
import { queueProcessing } from '../payments/settle-payments.ts';
import type { Cursor } from './cursor.ts';
import { writeBounded } from './small-parts.ts';

/** DASH: unlocked transfers queried in one poll, newest first. */
const MAX_LOCK_LOOKS = 200;

export type FinalityPoll = {
  readonly ctx: Context;
  readonly source: Pick<ChainSource, 'coin' | 'finality' | 'txState'>;
  /** The cursor whose final blocks are recorded. */
  knownFor: string | null;
};

/** ETH: which blocks can no longer be reorganized, according to the cursor's chain. */
export async function pollFinality(poll: FinalityPoll, cursor: Cursor): Promise<void> {
  const { ctx, source } = poll;
  const { coin } = source;
  if (finalityOf(coin) !== 'tags' || cursor.hash === poll.knownFor) return;
  const { safe, finalized, tip } = await source.finality();
  // Only from a machine on the chain that was read: its finalized height must not vouch for another chain's block.
  if (tip !== cursor.hash) return;
  await ctx.db.begin(async (tx) => {
    const moved = await tx`
      update tips set safe_height = ${safe}::bigint, finalized_height = ${finalized}::bigint
      where chain = ${chainCode(coin)} and hash = ${cursor.hash}
        and (safe_height is distinct from ${safe}::bigint or finalized_height is distinct from ${finalized}::bigint)`;
    if (moved.count > 0) await queueProcessing(tx, { coin });
  });
  poll.knownFor = cursor.hash;
}

type Open = { paymentId: string; txid: string };
type Locked = { txid: string; lock: string; block_hash: string | null };

/** DASH: asks the operator's node which of the pending transfers have been locked since. */
export async function pollLocks({ ctx, source }: FinalityPoll): Promise<void> {
  const { coin } = source;
  if (finalityOf(coin) !== 'locks') return;
  const open = await readUnlocked(ctx, coin);
  const locks: Locked[] = [];
  for (const txid of new Set(open.map((row) => row.txid))) {
    const { lock, blockHash } = await source.txState(txid);
    if (lock) locks.push({ txid, lock, block_hash: blockHash });
  }
  if (locks.length === 0) return;
  const found = new Set(locks.map(({ txid }) => txid));
  await writeLocks(ctx, { coin, locks, paymentIds: open.filter((row) => found.has(row.txid)).map((row) => row.paymentId) });
}

const readUnlocked = (ctx: Context, coin: Coin) => ctx.db.sql<Open[]>`
  select t.payment_id as "paymentId", t.txid from transfers t join payments p on p.id = t.payment_id
  where t.coin = ${coin} and t.lock is null and t.txid is not null and p.mode = 'live' and p.status in ('pending', 'processing')
  order by t.first_seen_at desc limit ${MAX_LOCK_LOOKS}`;

/** A ChainLock applies to the requested block, an InstantSend lock to the transaction. */
const writeLocks = (ctx: Context, { coin, locks, paymentIds }: { coin: Coin; locks: readonly Locked[]; paymentIds: string[] }) =>
  writeBounded(ctx, { coin }, (tx, way) =>
    way.lockAndSettle(tx, paymentIds, async () => {
      await tx`
        update transfers t set lock = r.lock
        from jsonb_to_recordset(${tx.json(locks as never)}) as r (txid text, lock text, block_hash text)
        where t.coin = ${coin} and t.txid = r.txid and t.payment_id = any(${paymentIds}::text[])
          and (r.lock = 'instantsend' or t.block_hash = r.block_hash)`;
    }),
  );

/**
 * DASH: the height of the last ChainLock on the cursor's chain; null when none is known now, which leaves the recorded one as it is. While
 * the source that is followed cannot report ChainLocks, the recorded one is dropped, so that depth decides.
 */
export async function readChainlock({ ctx, source }: FinalityPoll, cursor: Cursor): Promise<number | null> {
  const { coin } = source;
  if (finalityOf(coin) !== 'locks') return null;
  const { tip, chainlock, blind } = await source.finality();
  if (blind) await ctx.db.sql`update tips set chainlock_height = null where chain = ${chainCode(coin)} and chainlock_height is not null`;
  // Nothing above the tip can be locked: such a height would also count for blocks that come later.
  return !blind && tip === cursor.hash && chainlock !== null && chainlock <= cursor.height ? chainlock : null;
}
