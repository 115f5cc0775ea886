/** DASH: the locks that a node reports, of transactions (InstantSend) and of blocks (ChainLocks). */
import type { Lock } from '../../core/payment.ts';
import type { Finality } from '../chain.ts';
import { fields, type ReplyFields } from '../reply.ts';
import { type CoreCalls, integer, text } from './core-calls.ts';

const NO_LOCK = { chainlock: null, tip: null };

/** Flags are booleans in most replies and strings in mempool replies. */
const isTrue = (value: unknown): boolean => value === true || value === 'true';

/** After a ChainLock, `instantlock` is true for every transaction of the block. Only `instantlock_internal` distinguishes the two. */
export function lockOf(tx: ReplyFields): Lock {
  if (isTrue(tx.chainlock)) return 'chainlock';
  return isTrue(tx.instantlock_internal ?? tx.instantlock) ? 'instantsend' : null;
}

/** Height of the best ChainLock, when it lies on the chain that the node follows. Null: the node has none. */
export async function bestChainLock({ post }: Pick<CoreCalls, 'post'>): Promise<Pick<Finality, 'chainlock' | 'tip'>> {
  const [reply, now] = await post([['getbestchainlock'], ['getbestblockhash']]);
  const best = fields(reply?.result);
  // An error means "none yet" (no quorums, as on a single node) or a version without ChainLocks. Depth decides instead.
  if (!reply || reply.error || best.known_block === false || !best.blockhash) return NO_LOCK;
  const height = integer(best.height);
  if (now && !now.error && now.result === best.blockhash) return { chainlock: height, tip: text(best.blockhash) };
  const [there, tip] = await post([['getblockhash', height], ['getbestblockhash']]);
  return there && tip && !there.error && text(there.result) === text(best.blockhash)
    ? { chainlock: height, tip: text(tip.result) }
    : NO_LOCK;
}
