/** What keeps a follower from working, recorded for readiness, metrics, `doctor` and the operators. */
import type { Context } from '#context';
import type { Doubt } from '#core/certainty';
import { COIN, type Coin, chainCode } from '#core/coin';
import { notifyOperators } from '#notices';
import { BLOCK_FAILURES, catchUpOf, explainCatchUp } from '#readiness';
import { queueProcessing } from '#settling';
import { isDoneByAnother } from './cursor.ts';

const MOST_TEXT = 300;
/** So many missing blocks are caught up with in public, and fewer when they take this long. */
const MANY_BLOCKS = 24;
const LONG_MS = 10_000;
/** Lines in the log meanwhile. */
const LOG_EVERY_MS = 10_000;

/** One round of one term of a follower: true when more is left to read. */
export type Reading = (stopping: AbortSignal) => Promise<boolean>;

export type BlockName = { height: number; hash: string | null };

/** Writes why a round failed, and tells operators of a block at which it keeps failing. */
async function writeFailure(ctx: Context, coin: Coin, { error, at }: { error: unknown; at: BlockName | null }): Promise<void> {
  const text = (error instanceof Error ? error.message : String(error)).slice(0, MOST_TEXT);
  await ctx.db.begin(async (tx) => {
    const [row] = await tx<{ blockFailures: number; told: boolean }[]>`
      insert into followers as f (chain, failures, failing_since, failure, failing_height, failing_hash, block_failures)
      values (${chainCode(coin)}, 1, clock_timestamp(), ${text}, ${at?.height ?? null}, ${at?.hash ?? null}, ${at ? 1 : 0})
      on conflict (chain) do update set failures = f.failures + 1,
        failing_since = coalesce(f.failing_since, excluded.failing_since), failure = excluded.failure,
        -- Other failures, such as an unreachable node, say nothing about the block.
        failing_height = coalesce(excluded.failing_height, f.failing_height),
        failing_hash = case when excluded.failing_height is null then f.failing_hash else excluded.failing_hash end,
        block_failures = case when excluded.failing_height is null then f.block_failures
          when excluded.failing_height = f.failing_height then f.block_failures + 1 else 1 end,
        told_at = case when excluded.failing_height is null or excluded.failing_height = f.failing_height then f.told_at end
      returning block_failures as "blockFailures", told_at is not null as told`;
    if (!at || row!.told || row!.blockFailures < BLOCK_FAILURES) return;
    await tx`update followers set told_at = clock_timestamp() where chain = ${chainCode(coin)}`;
    await notifyOperators(ctx, tx, { kind: 'chain_failing', detail: { coin, height: at.height, reason: text } });
    ctx.log.error({ coin, height: at.height, hash: at.hash, reason: text }, 'The follower keeps failing at this block');
  });
}

export type FollowState = ReturnType<typeof createFollowState>;

/** The notes of one follower, which is their only writer. */
export function createFollowState(ctx: Context, coin: Coin) {
  /** What the table contains, as far as this process knows, so that nothing is written repeatedly. */
  let failing = true;
  let noted: string | null = '';
  /** Whether the table may say that blocks are missing: also what a stopped process left. */
  let mayCatchUp = true;
  let catchingUp: { from: number; to: number } | null = null;
  /** The same, in public or not, and since when. */
  let reading: { from: number; to: number; sinceMs: number } | null = null;
  let toldAtMs = Number.NEGATIVE_INFINITY;
  const writeCatchUp = async (now: { from: number; to: number } | null): Promise<void> => {
    await ctx.db.sql`
      insert into followers (chain, catch_up_from, catch_up_to) values (${chainCode(coin)}, ${now?.from ?? null}, ${now?.to ?? null})
      on conflict (chain) do update set catch_up_from = excluded.catch_up_from, catch_up_to = excluded.catch_up_to`;
  };
  const showCatchUp = async (): Promise<void> => {
    if (!reading || catchingUp?.to === reading.to) return;
    catchingUp = { from: reading.from, to: reading.to };
    mayCatchUp = true;
    await writeCatchUp(catchingUp);
  };
  const worked = async (): Promise<void> => {
    if (!failing) return;
    await ctx.db.sql`
      insert into followers (chain) values (${chainCode(coin)})
      on conflict (chain) do update set failures = 0, failing_since = null, failure = null,
        failing_height = null, failing_hash = null, block_failures = 0, told_at = null`;
    failing = false;
  };

  return {
    cannotTellFinal: createFinalNote(ctx, coin),
    /**
     * Runs a round and records how it ended. `at`: the block that it reads. `failed` runs before a failure is recorded. That another process
     * has done the work meanwhile is none.
     */
    round: async <T>(
      work: () => Promise<T>,
      { at = () => null, failed = () => {} }: { at?: () => BlockName | null; failed?: () => void } = {},
    ): Promise<T> => {
      try {
        const result = await work();
        await worked();
        return result;
      } catch (error) {
        if (isDoneByAnother(error)) throw error;
        failed();
        failing = true;
        // If the database is the cause, it cannot be recorded either.
        await writeFailure(ctx, coin, { error, at: at() }).catch((cause) =>
          ctx.log.warn({ err: cause, coin }, 'Could not record why a follower failed'),
        );
        throw error;
      }
    },
    /** An address holds more than was recorded. Stays until an operator releases it. */
    cannotExplain: async (text: string): Promise<void> => {
      await ctx.db.sql`
        insert into followers (chain, unexplained) values (${chainCode(coin)}, ${text})
        on conflict (chain) do update set unexplained = excluded.unexplained`;
    },
    /** The blocks from one height to another are read next. */
    catchesUp: async (from: number, to: number): Promise<void> => {
      reading = { from: reading?.from ?? from, to, sinceMs: reading?.sinceMs ?? ctx.clock.monotonicMs() };
      if (to - from >= MANY_BLOCKS) await showCatchUp();
    },
    /** A block was read. In a long round, what kept the one before from it is over now, not at its end. */
    reads: async (height: number): Promise<void> => {
      const nowMs = ctx.clock.monotonicMs();
      if (reading && nowMs - reading.sinceMs >= LONG_MS) await showCatchUp();
      if (!catchingUp) return;
      await worked();
      if (nowMs - toldAtMs < LOG_EVERY_MS) return;
      toldAtMs = nowMs;
      ctx.log.info({ coin, height }, `${COIN[coin].name}: ${explainCatchUp(catchUpOf({ ...catchingUp, read: height }))}`);
    },
    /** Nothing is left to read. */
    isUpToDate: async (height: number): Promise<void> => {
      reading = null;
      if (!mayCatchUp) return;
      await writeCatchUp(null);
      if (catchingUp) ctx.log.info({ coin, height }, `${COIN[coin].name}: all missed blocks are read`);
      catchingUp = null;
      mayCatchUp = false;
    },
    /** Whether what the source shows is certain (null), or why not. */
    doubts: async (doubt: Doubt | null): Promise<void> => {
      const now = doubt && `${doubt.code} ${doubt.reason}`;
      if (now === noted) return;
      await ctx.db.sql`
        insert into followers as f (chain, behind_since, behind_code, behind_reason)
        values (${chainCode(coin)}, case when ${doubt !== null} then clock_timestamp() end, ${doubt?.code ?? null}, ${doubt?.reason ?? null})
        on conflict (chain) do update set
          behind_since = case when excluded.behind_since is not null then coalesce(f.behind_since, excluded.behind_since) end,
          behind_code = excluded.behind_code, behind_reason = excluded.behind_reason`;
      noted = now;
    },
  };
}

/** Notes which sources do not say which blocks are final. Waiting payments tell it as the reason. */
function createFinalNote(ctx: Context, coin: Coin): (names: readonly string[]) => Promise<void> {
  let noted: string | null = '';
  return async (names) => {
    const text = names.length === 0 ? null : `${names.join(' and ')} ${names.length === 1 ? 'does' : 'do'} not say which blocks are final`;
    if (text === noted) return;
    await ctx.db.begin(async (tx) => {
      await tx`
        insert into followers (chain, final_doubt) values (${chainCode(coin)}, ${text})
        on conflict (chain) do update set final_doubt = excluded.final_doubt`;
      await queueProcessing(tx, { coin });
    });
    noted = text;
  };
}
