/** The chain-health guard: compares the sources of a coin and judges its chain before anything completes on it. */
import { type Chain, ChainError, type SourceState } from '../chains/chain.ts';
import type { Context } from '../context.ts';
import { COIN, COINS, type Coin } from '../core/coin.ts';
import { isBinding, judgeChain, reorgText, type Vote } from '../core/guard.ts';
import type { Tx } from '../db/db.ts';
import { queueProcessing } from './settle-payments.ts';

/** Intervals need one block more than there are of them. */
const BLOCKS_JUDGED = 13;
/** The same finding is written again after this long, so that its age tells that somebody looks. */
const REWRITE_MS = 30_000;

/** One source as the watcher last found it. */
type StoredSource = { name: string; state: SourceState['state']; reason: string | null; height: number | null; software: string | null };
export type GuardView = {
  coin: Coin;
  /** Whether the reasons hold completion, or are reported only. */
  binding: boolean;
  reasons: string[];
  codes: string[];
  sources: StoredSource[];
};

/**
 * One guard per coin, run by its follower. `check` never fails for what a source does; only the database makes it throw.
 * `behind`: another source has blocks that the followed one lacks, so that what is not seen may be there all the same.
 */
export function createGuard(ctx: Context, chain: Chain): { check(): Promise<{ behind: boolean }> } {
  const { coin } = chain;
  const binding = isBinding(chain.network);
  let written = '';
  let writtenAtMs = Number.NEGATIVE_INFINITY;

  /** Whether two sources show one chain: near in height, and the same but for the last few blocks. Null: it cannot be told now. */
  const compare = async (one: SourceState, other: SourceState): Promise<boolean | null> => {
    const within = COIN[coin].agreeWithin;
    const [a, b] = [one.health!.tip, other.health!.tip];
    if (a.hash === b.hash) return true;
    if (Math.abs(a.height - b.height) > within) return false;
    const at = Math.max(0, Math.min(a.height, b.height) - within);
    try {
      const [here, there] = await Promise.all([one.source.blockAt(at), other.source.blockAt(at)]);
      return here !== null && there !== null && here.hash === there.hash;
    } catch (error) {
      if (error instanceof ChainError) return null;
      throw error;
    }
  };

  return {
    check: async () => {
      const survey = await chain.survey();
      const followed = survey.find((state) => state.followed && state.state === 'ok');
      const votes: Vote[] = [];
      for (const voter of survey) {
        if (voter.state !== 'ok') continue;
        const agrees = !followed || voter === followed ? true : await compare(followed, voter);
        if (agrees === null) continue;
        votes.push({ version: voter.health!.version, agrees });
      }
      const [seen] = await ctx.db.sql<
        { height: bigint; times: Date[] | null; depth: number | null; reorgHeight: bigint | null; now: Date }[]
      >`
        select t.height, g.reorg_depth as depth, g.reorg_height as "reorgHeight", clock_timestamp() as now,
          (select array_agg(b.time order by b.height desc) from (
            select time, height from blocks where coin = ${coin} order by height desc limit ${BLOCKS_JUDGED}) as b) as times
        from tips t left join chain_guard g on g.coin = t.coin where t.coin = ${coin}`;
      const reasons = judgeChain({
        coin,
        votes,
        height: Number(seen?.height ?? 0n),
        blockTimes: seen?.times ?? [],
        now: seen?.now ?? ctx.clock.now(),
        reorg: seen?.depth ? { depth: seen.depth, height: Number(seen.reorgHeight) } : null,
      });
      const agreed = followed && votes.every((vote) => vote.agrees) ? followed.health!.tip.hash : null;
      await record(survey, reasons, survey.length > 1 ? agreed : null);
      const highest = Math.max(...survey.map((state) => (state.state === 'ok' ? state.health!.tip.height : 0)));
      return { behind: binding && followed !== undefined && highest > followed.health!.tip.height + COIN[coin].agreeWithin };
    },
  };

  async function record(survey: readonly SourceState[], reasons: ReturnType<typeof judgeChain>, agreed: string | null): Promise<void> {
    const sources = survey.map(
      ({ name, state, reason, health }): StoredSource => ({
        name,
        state,
        reason,
        height: health?.tip.height ?? null,
        software: health?.software ?? null,
      }),
    );
    const texts = reasons.map((reason) => reason.text);
    const codes = reasons.map((reason) => reason.code);
    // Where several sources are set, what they agreed on stays until they agree on more: none of them answering is no agreement.
    const first = survey.length > 1 ? '' : null;
    const found = JSON.stringify([texts, agreed, sources]);
    if (found === written && ctx.clock.monotonicMs() - writtenAtMs < REWRITE_MS) return;
    const changed = await ctx.db.begin(async (tx) => {
      const [before] = await tx<{ reasons: string[]; codes: string[]; agreedHash: string | null }[]>`
        select reasons, codes, agreed_hash as "agreedHash" from chain_guard where coin = ${coin} for update`;
      await tx`
        insert into chain_guard (coin, binding, reasons, codes, agreed_hash, sources)
        values (${coin}, ${binding}, ${texts}, ${codes}, ${agreed ?? first}, ${tx.json(sources as never)})
        on conflict (coin) do update set binding = excluded.binding, reasons = excluded.reasons, codes = excluded.codes,
          agreed_hash = ${agreed === null && first !== null ? tx`coalesce(chain_guard.agreed_hash, '')` : tx`excluded.agreed_hash`},
          sources = excluded.sources, checked_at = clock_timestamp()`;
      const lifted = (before?.reasons.length ?? 0) > 0 && texts.length === 0;
      const agreesOnMore = agreed !== null && before !== undefined && before.agreedHash !== agreed;
      // What was held may complete: it is settled again.
      if (binding && (lifted || agreesOnMore)) await queueProcessing(tx, { coin });
      return codes.join() !== (before?.codes ?? []).join();
    });
    written = found;
    writtenAtMs = ctx.clock.monotonicMs();
    if (!changed) return;
    if (texts.length === 0) ctx.log.info({ coin }, 'the chain is healthy again');
    else ctx.log[binding ? 'warn' : 'info']({ coin, reasons: texts, held: binding }, 'the chain is not healthy');
  }
}

/** Remembers a deep reorganisation, and holds from this moment on: in the transaction that takes the blocks back. */
export async function noteReorg(
  tx: Tx,
  { coin, network }: Pick<Chain, 'coin' | 'network'>,
  { depth, height }: { depth: number; height: number },
): Promise<void> {
  if (depth < COIN[coin].deepReorg) return;
  await tx`
    insert into chain_guard (coin, binding, reasons, codes, reorg_depth, reorg_height)
    values (${coin}, ${isBinding(network)}, array[${reorgText(coin, { depth, height })}], array['deep_reorg'], ${depth}, ${height})
    on conflict (coin) do update set binding = excluded.binding, reorg_depth = excluded.reorg_depth, reorg_height = excluded.reorg_height,
      reasons = excluded.reasons || chain_guard.reasons, codes = excluded.codes || chain_guard.codes`;
}

/** The guard's findings, for readiness, metrics and look-ups; in the order of the coins. */
export async function readGuards(ctx: Context): Promise<GuardView[]> {
  const rows = await ctx.db.sql<GuardView[]>`select coin, binding, reasons, codes, sources from chain_guard`;
  return COINS.flatMap((coin) => rows.filter((row) => row.coin === coin && ctx.chains.has(coin)));
}
