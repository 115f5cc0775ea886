/**
 * Searches blocks for transactions of sweeps, on Bitcoin-like chains whose source shows only waiting transactions: peers, and nodes without
 * an index. Blocks also show which inputs other transactions spent, and ours under other IDs.
 */
import { type BlockRef, ChainError, type JoinedSource } from '#chains';
import type { Context } from '#context';
import { type Coin, coinsBeside } from '#core/coin';
import { effectOfRaw, outputsOfRaw } from './utxo-check.ts';

/** Blocks that are read in one round. */
const AT_ONCE = 10;
/** Blocks that are read again after a reorganization whose fork is not known; nodes that prune keep more than these. */
const AGAIN = 100;

/** The script of wallets whose transactions others can give another ID. */
export const OLD_FORM = 'p2pkh';

type OpenFile = { id: string; height: number | null; hash: string | null };
type SearchList = {
  sweeps: readonly OpenFile[];
  /** Inputs by outpoint, and our transactions by ID. */
  inputs: ReadonlyMap<string, string>;
  ours: ReadonlySet<string>;
};

/** Searches the next blocks. */
export async function readSweepBlocks(ctx: Context, chain: JoinedSource, tip: BlockRef): Promise<void> {
  const coins: Coin[] = coinsBeside(chain.coin);
  const sweeps = await ctx.db.sql<OpenFile[]>`
    select id, read_height::int as height, read_hash as hash from signing_files
    where state in ('signed', 'sent') and coin = any(${coins}::text[]) and mode = ${ctx.mode} order by number limit 1000`;
  if (sweeps.length === 0) return;
  const read = await Promise.all(sweeps.map((sweep) => readUpTo(chain, sweep, tip)));
  const from = Math.min(...read) + 1;
  if (from > tip.height) return;
  const wanted = await readWanted(ctx, sweeps);
  let parent: string | null = null;
  for (let height = from; height <= tip.height && height < from + AT_ONCE; height++) {
    const block = await chain.blockAt(height);
    // The chain changed meanwhile, so the next round finds the fork.
    if (!block || (parent !== null && block.parent !== parent)) return;
    const behind = sweeps.flatMap(({ id }, i) => (read[i]! < height ? [id] : []));
    try {
      await readBlock(ctx, chain, { block, wanted, behind });
    } catch (error) {
      if (!(error instanceof ChainError) || error.kind !== 'pruned') throw error;
      return passPruned(ctx, { sweeps, behind, to: tip.height - AGAIN });
    }
    parent = block.hash;
  }
}

/**
 * Continues with newer blocks: no source has these any more, and everything else of the chain would wait for them. What was sent before may
 * be in one of them.
 */
async function passPruned(
  { db: { sql }, log }: Context,
  { sweeps, behind, to }: { sweeps: readonly OpenFile[]; behind: readonly string[]; to: number },
): Promise<void> {
  const passed = sweeps.filter(({ id, height }) => behind.includes(id) && (height === null || height < to)).map(({ id }) => id);
  const unsearched = await sql<{ id: string }[]>`
    update signing_files s set unsearched_below = ${to}
    where s.id = any(${passed}::text[]) and exists (select 1 from signed_transactions t where t.file_id = s.id and t.sent_at is not null)
    returning s.id`;
  if (unsearched.length > 0)
    log.error(
      { sweeps: unsearched.map(({ id }) => id), to },
      'Blocks were pruned before they were searched for sweeps; search the transactions in an explorer',
    );
  await sql`update signing_files set read_height = ${to}, read_hash = null where id = any(${passed}::text[])`;
}

/**
 * The block that contains a transaction, from the depth of its outputs: for those in blocks that no source has any more. Null: its outputs
 * are spent, it is not mined, or no source can tell.
 */
export async function blockByOutputs(chain: JoinedSource, { txid, raw }: { txid: string; raw: Uint8Array }): Promise<BlockRef | null> {
  const outpoints = Array.from({ length: outputsOfRaw(raw) }, (_, n) => `${txid}:${n}`);
  const found = await chain.outlet.depthOf?.(outpoints).catch((error: unknown) => {
    if (error instanceof ChainError && error.kind === 'unsupported') return null;
    throw error;
  });
  const best = found && (await blockOf(chain, found.best));
  if (!best || (await chain.blockAt(best.height))?.hash !== best.hash) return null;
  return chain.blockAt(best.height - found.confirmations + 1);
}

/** The height up to which the blocks of the best chain were searched for a sweep. */
async function readUpTo(chain: JoinedSource, { height, hash }: OpenFile, tip: BlockRef): Promise<number> {
  if (height === null || hash === null) return Math.max(-1, Math.min(height ?? tip.height - AGAIN, tip.height));
  let block = await blockOf(chain, hash);
  for (let back = 0; block && back < AGAIN; back++) {
    if ((await chain.blockAt(block.height))?.hash === block.hash) return block.height;
    block = await blockOf(chain, block.parent);
  }
  return Math.max(-1, Math.min(height, tip.height) - AGAIN);
}
async function blockOf(chain: JoinedSource, hash: string): Promise<BlockRef | null> {
  try {
    return await chain.block(hash);
  } catch (error) {
    if (error instanceof ChainError && error.kind === 'not_found') return null;
    throw error;
  }
}

async function readWanted({ db: { sql } }: Context, sweeps: readonly OpenFile[]): Promise<SearchList> {
  const ids = sweeps.map(({ id }) => id);
  const [inputs, transactions] = await Promise.all([
    sql<{ input: string; id: string }[]>`
      select input, file_id as id from signing_inputs where file_id = any(${ids}::text[]) and payment_id is not null`,
    sql<{ txid: string }[]>`select txid from signed_transactions where file_id = any(${ids}::text[])`,
  ]);
  return { sweeps, inputs: new Map(inputs.map(({ input, id }) => [input, id])), ours: new Set(transactions.map(({ txid }) => txid)) };
}

/** Writes down what of ours is in a block, and what others spent in it. `behind`: the sweeps for which it was not searched yet. */
async function readBlock(
  { db }: Context,
  chain: JoinedSource,
  { block: { height, hash }, wanted, behind }: { block: BlockRef; wanted: SearchList; behind: readonly string[] },
): Promise<void> {
  const fetched = await chain.fetchBlock(hash);
  const { conflicts } = await fetched.scan({
    has: () => false,
    watchesSpends: true,
    spends: (outpoint) => wanted.inputs.has(outpoint),
    recent: () => [],
    waiting: [],
  });
  fetched.done?.();
  const ids = wanted.sweeps.map(({ id }) => id);
  const others = [...new Set(conflicts.flatMap(({ txid }) => (wanted.ours.has(txid) ? [] : [txid])))];
  const renamed = await readRenamed(db, chain, { ids, others, hash });
  const isOurs = (txid: string): boolean => wanted.ours.has(txid) || renamed.some(({ now }) => now === txid);
  const mined = [...new Set(conflicts.flatMap(({ txid }) => (isOurs(txid) ? [txid] : [])))];
  const lost = conflicts.flatMap(({ txid, outpoint }) => (isOurs(txid) ? [] : [outpoint]));
  await db.begin(async (tx) => {
    for (const { was, now } of renamed)
      await tx`update signed_transactions set txid = ${now} where file_id = any(${ids}::text[]) and txid = ${was} and failed_at is null`;
    if (mined.length > 0)
      await tx`
        update signed_transactions set block_height = ${height}, block_hash = ${hash}, refusal = null, conflict_height = null,
          conflict_hash = null, sent_at = coalesce(sent_at, clock_timestamp())
        where file_id = any(${ids}::text[]) and txid = any(${mined}::text[]) and failed_at is null`;
    if (lost.length > 0)
      await tx`
        update signing_inputs set spent_height = ${height}, spent_hash = ${hash}
        where file_id = any(${ids}::text[]) and input = any(${lost}::text[])`;
    await tx`update signing_files set read_height = ${height}, read_hash = ${hash} where id = any(${behind as string[]}::text[])`;
  });
}

/**
 * Transactions of sweeps that a block contains under other IDs. Where signatures are in the old form, anybody who sees a transaction can write
 * them differently: it then has another ID, and spends and pays the same.
 */
async function readRenamed(
  { sql }: Context['db'],
  chain: JoinedSource,
  { ids, others, hash }: { ids: readonly string[]; others: readonly string[]; hash: string },
): Promise<{ was: string; now: string }[]> {
  if (others.length === 0) return [];
  const own = await sql<{ txid: string; raw: Uint8Array }[]>`
    select t.txid, t.raw from signed_transactions t join signing_files s on s.id = t.file_id join wallets w on w.id = s.wallet_id
    where t.file_id = any(${ids as string[]}::text[]) and w.script = ${OLD_FORM}`;
  if (own.length === 0) return [];
  const byEffect = new Map(own.map(({ txid, raw }) => [effectOfRaw(raw), txid]));
  const raws = await chain.outlet.readTransactions(others.map((txid) => ({ txid, blockHash: hash })));
  return others.flatMap((now, i) => {
    const was = byEffect.get(effectOfRaw(raws[i]!));
    return was === undefined ? [] : [{ was, now }];
  });
}

/** Which of these inputs of a sweep another transaction spent in a block of the best chain. */
export async function spentInBlocks(
  { db: { sql } }: Context,
  chain: JoinedSource,
  { sweepId, outpoints }: { sweepId: string; outpoints: readonly string[] },
): Promise<ReadonlySet<string>> {
  const rows = await sql<{ input: string; height: number; hash: string }[]>`
    select input, spent_height::int as height, spent_hash as hash from signing_inputs
    where file_id = ${sweepId} and input = any(${outpoints as string[]}::text[]) and spent_hash is not null`;
  const heights = [...new Set(rows.map(({ height }) => height))];
  const best = new Set(await Promise.all(heights.map(async (height) => (await chain.blockAt(height))?.hash)));
  return new Set(rows.flatMap(({ input, hash }) => (best.has(hash) ? [input] : [])));
}
