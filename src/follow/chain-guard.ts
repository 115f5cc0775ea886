/** The chain-health guard: compares the sources of a coin and judges its chain before anything completes on it. */
import { type Chain, ChainError, type ChainHealth, type ChainSource, type SourceState } from '../chains/chain.ts';
import type { Context } from '../context.ts';
import { type Coin, chainCode, chainOf } from '../core/coin.ts';
import { type GuardCode, type GuardReason, isBinding, judgeChain, judgeQuorum, type Quorum, reorgText, type Vote } from '../core/guard.ts';
import type { Tx } from '../db/db.ts';
import type { StoredSource } from '../payments/chain-state.ts';
import { queueProcessing, queueReversible } from '../payments/settle-payments.ts';
import { createDisputes } from './disputes.ts';
import { createAgreement, type Evidence } from './source-agreement.ts';

/** There is one more block than there are intervals. */
const BLOCKS_JUDGED = 13;
/** An unchanged finding is rewritten after this long, so that its age shows that the guard is running. */
const REWRITE_MS = 30_000;

type Cursor = { height: number; hash: string };
type Judgement = {
  sources: StoredSource[];
  reasons: readonly GuardReason[];
  quorum: Quorum;
  /** Null: one source is configured, or none has a vote and the last agreement stays. */
  agreed: Cursor | null;
};

/**
 * What the guard just found. `behind`: another source has blocks that the followed one lacks. `health`: what the followed source
 * reported about itself, after `since` by the database's clock; null when it has no vote.
 */
export type Judged = { behind: boolean; health: ChainHealth | null; since: Date };

/**
 * One guard per coin, run by its follower. Its functions throw only for database errors, never because of a source.
 * `check` surveys the sources; `behind`: another source has blocks that the followed one lacks, so that unseen payments may exist
 * there. `agree` compares what was read since then with what the sources showed.
 */
export function createGuard(
  ctx: Context,
  chain: Chain,
  { binding = isBinding(chain.network) }: { binding?: boolean } = {},
): { check(): Promise<Judged>; agree(): Promise<void> } {
  const { coin } = chain;
  const evidenceOf = createAgreement(ctx, chain);
  const writeDisputes = createDisputes(ctx, chain);
  const compared = new Map<ChainSource, { tips: string; agrees: boolean }>();
  let survey: readonly SourceState[] = [];
  let judged = '';
  let written = '';
  let writtenAtMs = Number.NEGATIVE_INFINITY;

  /** Whether two sources show one chain: close in height, and equal except for the last few blocks. Null: unknown now. */
  const compare = async (one: SourceState, other: SourceState): Promise<boolean | null> => {
    const within = chainOf(coin).agreeWithin;
    const [a, b] = [one.health!.tip, other.health!.tip];
    if (a.hash === b.hash) return true;
    if (Math.abs(a.height - b.height) > within) return false;
    const tips = `${a.hash} ${b.hash}`;
    const before = compared.get(other.source);
    if (before?.tips === tips) return before.agrees;
    const at = Math.max(0, Math.min(a.height, b.height) - within);
    try {
      const [here, there] = await Promise.all([one.source.blockAt(at), other.source.blockAt(at)]);
      const agrees = here !== null && there !== null && here.hash === there.hash;
      if (here && there) compared.set(other.source, { tips, agrees });
      return agrees;
    } catch (error) {
      if (error instanceof ChainError) return null;
      throw error;
    }
  };

  const readVotes = async (followed: SourceState | undefined): Promise<Vote[]> => {
    const votes: Vote[] = [];
    for (const voter of survey) {
      if (voter.state !== 'ok') continue;
      const agrees = !followed || voter === followed ? true : await compare(followed, voter);
      if (agrees !== null) votes.push({ version: voter.health!.version, agrees });
    }
    return votes;
  };

  /** The highest recorded block that each source has, and the highest that all voting sources have. */
  const readAgreement = async (cursor: Cursor): Promise<{ evidence: Map<SourceState, Evidence>; agreed: Cursor | null }> => {
    const evidence = new Map<SourceState, Evidence>();
    let agreed: Cursor | null = null;
    for (const voter of survey) {
      if (voter.state !== 'ok') continue;
      const found = await evidenceOf(voter, cursor);
      evidence.set(voter, found);
      const through = found.through ?? { height: -1, hash: '' };
      if (agreed === null || through.height < agreed.height) agreed = through;
    }
    return { evidence, agreed };
  };

  const judge = async (): Promise<void> => {
    const followed = survey.find((state) => state.followed && state.state === 'ok');
    const [seen] = await ctx.db.sql<
      { height: bigint; hash: string; times: Date[] | null; depth: number | null; reorgHeight: bigint | null; now: Date }[]
    >`
      select t.height, t.hash, g.reorg_depth as depth, g.reorg_height as "reorgHeight", clock_timestamp() as now,
        (select array_agg(b.time order by b.height desc) from (
          select time, height from blocks where coin = ${chainCode(coin)} order by height desc limit ${BLOCKS_JUDGED}) as b) as times
      from tips t left join chain_guard g on g.coin = t.coin where t.coin = ${chainCode(coin)}`;
    const several = survey.length > 1;
    const cursor = seen && { height: Number(seen.height), hash: seen.hash };
    const { evidence, agreed } = several && cursor ? await readAgreement(cursor) : { evidence: null, agreed: null };
    const reasons = judgeChain({
      coin,
      votes: await readVotes(followed),
      height: Number(seen?.height ?? 0n),
      blockTimes: seen?.times ?? [],
      now: seen?.now ?? ctx.clock.now(),
      reorg: seen?.depth ? { depth: seen.depth, height: Number(seen.reorgHeight) } : null,
    });
    const voters = survey.map((one) => ({ one, name: one.name, trust: one.trust, votes: one.state === 'ok' }));
    const quorum = judgeQuorum(voters, voters.find(({ one }) => one === followed) ?? null, ctx.settings.quorumAboveUsdCents);
    const sources = survey.map((state): StoredSource => {
      const { name, trust, state: standing, reason, health } = state;
      const through = evidence?.get(state)?.through?.height ?? null;
      return { name, trust, state: standing, reason, height: health?.tip.height ?? null, through, software: health?.software ?? null };
    });
    await record({ sources, reasons: quorum.hold ? [...reasons, quorum.hold] : reasons, quorum, agreed });
    if (binding && evidence && cursor) {
      await writeDisputes(
        [...evidence].map(([voter, shown]) => ({ voter, evidence: shown })),
        cursor,
      );
    }
    judged = cursor?.hash ?? '';
  };

  return {
    check: async () => {
      const [now] = await ctx.db.sql<{ since: Date }[]>`select clock_timestamp() as since`;
      survey = await chain.survey();
      await judge();
      const followed = survey.find((state) => state.followed && state.state === 'ok');
      const highest = Math.max(...survey.map((state) => (state.state === 'ok' ? state.health!.tip.height : 0)));
      const health = followed?.health ?? null;
      return { since: now!.since, health, behind: binding && health !== null && highest > health.tip.height + chainOf(coin).agreeWithin };
    },
    agree: async () => {
      if (survey.length < 2) return;
      const [now] = await ctx.db.sql<{ hash: string }[]>`select hash from tips where coin = ${chainCode(coin)}`;
      if (now && now.hash !== judged) await judge();
    },
  };

  async function record({ sources, reasons, quorum, agreed }: Judgement): Promise<void> {
    const texts = reasons.map((reason) => reason.text);
    const several = sources.length > 1;
    const above = several ? quorum.above : null;
    const codes: GuardCode[] = [...reasons.map((reason) => reason.code), ...(above === null ? [] : (['quorum'] as const))];
    const found = JSON.stringify([texts, above, quorum.locks, agreed, sources]);
    if (found === written && ctx.clock.monotonicMs() - writtenAtMs < REWRITE_MS) return;
    const limit = String(ctx.settings.quorumAboveUsdCents);
    const row = {
      aboveCents: above === null ? null : limit,
      lockCents: several && quorum.locks ? limit : null,
      agreedHash: several ? (agreed?.hash ?? '') : null,
      agreedHeight: agreed && agreed.height >= 0 ? agreed.height : null,
    };
    const changed = await ctx.db.begin(async (tx) => {
      const [before] = await tx<{ reasons: string[]; codes: string[]; above: string | null; agreedHash: string | null }[]>`
        select reasons, codes, held_above_reason as above, agreed_hash as "agreedHash" from chain_guard where coin = ${chainCode(coin)} for update`;
      // No answer from several sources is not an agreement: the last agreement stays until they agree on more.
      const keeps = several && agreed === null ? tx`chain_guard.agreed_hash is not null` : tx`false`;
      await tx`
        insert into chain_guard (coin, binding, reasons, codes, agreed_hash, agreed_height, held_above_usd_cents, held_above_reason,
          lock_usd_cents, sources)
        values (${chainCode(coin)}, ${binding}, ${texts}, ${codes}, ${row.agreedHash}, ${row.agreedHeight}, ${row.aboveCents}, ${above},
          ${row.lockCents}, ${tx.json(sources as never)})
        on conflict (coin) do update set binding = excluded.binding, reasons = excluded.reasons, codes = excluded.codes,
          agreed_hash = case when ${keeps} then chain_guard.agreed_hash else excluded.agreed_hash end,
          agreed_height = case when ${keeps} then chain_guard.agreed_height else excluded.agreed_height end,
          held_above_usd_cents = excluded.held_above_usd_cents, held_above_reason = excluded.held_above_reason,
          lock_usd_cents = excluded.lock_usd_cents, sources = excluded.sources, checked_at = clock_timestamp()`;
      const lifted =
        before !== undefined && ((before.reasons.length > 0 && texts.length === 0) || (before.above !== null && above === null));
      const agreesOnMore = agreed !== null && before !== undefined && before.agreedHash !== row.agreedHash;
      // What was on hold may complete, so it is settled again.
      if (binding && (lifted || agreesOnMore)) await queueProcessing(tx, { coin });
      return codes.join() !== (before?.codes ?? []).join();
    });
    written = found;
    writtenAtMs = ctx.clock.monotonicMs();
    if (!changed) return;
    const told = above === null ? texts : [...texts, above];
    if (told.length === 0) ctx.log.info({ coin }, 'Chain is healthy again');
    else ctx.log[binding ? 'warn' : 'info']({ coin, reasons: told, held: binding }, 'the chain is not healthy');
  }
}

/**
 * Records that blocks are taken back, in the same transaction: the effect on completed payments is judged once the other branch
 * has been read. A deep reorganization is remembered, and holds completion from this moment on.
 */
export async function noteReorg(
  tx: Tx,
  { coin, network }: Pick<Chain, 'coin' | 'network'>,
  { depth, height }: { depth: number; height: number },
): Promise<void> {
  await tx`update tips set unwound = true where coin = ${chainCode(coin)}`;
  if (depth < chainOf(coin).deepReorg) return;
  await tx`
    insert into chain_guard (coin, binding, reasons, codes, reorg_depth, reorg_height)
    values (${chainCode(coin)}, ${isBinding(network)}, array[${reorgText(coin, { depth, height })}], array['deep_reorg'], ${depth}, ${height})
    on conflict (coin) do update set binding = excluded.binding, reorg_depth = excluded.reorg_depth, reorg_height = excluded.reorg_height,
      reasons = excluded.reasons || chain_guard.reasons, codes = excluded.codes || chain_guard.codes`;
}

/** The new branch has been read up to its tip: the effect on completed payments is judged now. */
export async function endReorg(ctx: Context, { coin, hash }: { coin: Coin; hash: string }): Promise<void> {
  const unwound = await ctx.db.sql`select 1 from tips where coin = ${chainCode(coin)} and hash = ${hash} and unwound`;
  if (unwound.length === 0) return;
  await ctx.db.begin(async (tx) => {
    const ended = await tx`update tips set unwound = false where coin = ${chainCode(coin)} and hash = ${hash} and unwound`;
    if (ended.count > 0) await queueReversible(tx, { coin });
  });
}
