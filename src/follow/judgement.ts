/** What the guard found about a chain: as it is stored, and what changes with it. */
import { ChainError, type JoinedSource, type SourceState } from '#chains';
import type { Context } from '#context';
import { type Coin, chainCode, chainOf } from '#core/coin';
import type { GuardCode, GuardReason, Quorum } from '#core/guard';
import { type StoredSource, sourcesToJson } from '#readiness';
import { queueProcessing } from '#settling';
import type { Cursor } from './cursor.ts';
import type { View } from './range-votes.ts';

export type Judgement = {
  sources: readonly StoredSource[];
  reasons: readonly GuardReason[];
  quorum: Quorum;
  /** Null: one source is configured, or none has a vote and the last agreement stays. `cursor`: whatever was read was agreed on. */
  agreed: Cursor | 'cursor' | null;
};
type Before = { reasons: string[]; codes: string[]; above: string | null; agreedHash: string | null };
type Row = Before & { agreedHeight: number | null; aboveCents: string | null; lockCents: string | null };

/** The highest recorded block that all voting sources have; height -1 when they have none in common. Null: no source votes. */
export function lowestAgreed(evidence: Iterable<Evidence>): Cursor | null {
  let agreed: Cursor | null = null;
  for (const { through } of evidence) {
    const has = through ?? { height: -1, hash: '' };
    if (agreed === null || has.height < agreed.height) agreed = has;
  }
  return agreed;
}

/** The sources as operators see them. */
export const describeSources = (
  survey: readonly SourceState[],
  evidence: ReadonlyMap<SourceState, Evidence> | null,
): readonly StoredSource[] =>
  survey.map((state) => {
    const { name, trust, state: standing, reason, health } = state;
    const through = evidence?.get(state)?.through?.height ?? null;
    return { name, trust, state: standing, reason, height: health?.tip.height ?? null, through, software: health?.software ?? null };
  });

/** A source of a chain that is read by ranges. */
export const describeView = ({ one, state, reason, head }: View): StoredSource => ({
  ...{ name: one.name, trust: one.trust, state, reason, height: head?.height ?? null, through: null, software: null },
});

/** The judgement as a row. With one source there is nothing to agree on, and no amount to wait for. */
export function rowOf({ sources, reasons, quorum, agreed }: Judgement, quorumAboveUsdCents: bigint): Row {
  const several = sources.length > 1;
  const above = several ? quorum.above : null;
  const codes: GuardCode[] = [...reasons.map((reason) => reason.code), ...(above === null ? [] : (['quorum'] as const))];
  const limit = String(quorumAboveUsdCents);
  return {
    reasons: reasons.map((reason) => reason.text),
    codes,
    above,
    aboveCents: above === null ? null : limit,
    lockCents: several && quorum.locks ? limit : null,
    agreedHash: several && agreed !== 'cursor' ? (agreed?.hash ?? '') : null,
    agreedHeight: agreed && agreed !== 'cursor' && agreed.height >= 0 ? agreed.height : null,
  };
}

/**
 * What a new row means for payments and people. `completes`: what was on hold may complete, so it is settled again. `changed`: the
 * operator sees it in the log.
 */
export function effectOf(
  before: Before | undefined,
  row: Row,
  { agreed }: Pick<Judgement, 'agreed'>,
): { completes: boolean; changed: boolean } {
  const lifted =
    before !== undefined && ((before.reasons.length > 0 && row.reasons.length === 0) || (before.above !== null && row.above === null));
  const agreesOnMore = agreed !== null && before !== undefined && before.agreedHash !== row.agreedHash;
  return { completes: lifted || agreesOnMore, changed: row.codes.join() !== (before?.codes ?? []).join() };
}

/** An unchanged finding is written again after this long, so that its age shows that the guard is running. */
const REWRITE_MS = 30_000;

/** One per guard. Stores a judgement if `found` differs from what was stored last, or that is old. */
export function createRecord(ctx: Context, of: { coin: Coin; binding: boolean }): (judgement: Judgement, found?: unknown) => Promise<void> {
  let written = '';
  let writtenAtMs = Number.NEGATIVE_INFINITY;
  return async (judgement, found = judgement) => {
    const text = JSON.stringify(found);
    if (text === written && ctx.clock.monotonicMs() - writtenAtMs < REWRITE_MS) return;
    await writeJudgement(ctx, of, judgement);
    written = text;
    writtenAtMs = ctx.clock.monotonicMs();
  };
}

/** Stores a judgement. What it releases is settled again; what it changes is logged. */
async function writeJudgement(ctx: Context, { coin, binding }: { coin: Coin; binding: boolean }, judgement: Judgement): Promise<void> {
  const { agreed, sources } = judgement;
  const row = rowOf(judgement, ctx.settings.quorumAboveUsdCents);
  const changed = await ctx.db.begin(async (tx) => {
    const [before] = await tx<Before[]>`
      select reasons, codes, held_above_reason as above, agreed_hash as "agreedHash" from chain_guard where chain = ${chainCode(coin)} for update`;
    // No answer from several sources is not an agreement: the last agreement stays until they agree on more.
    const keeps = sources.length > 1 && agreed === null ? tx`chain_guard.agreed_hash is not null` : tx`false`;
    await tx`
      insert into chain_guard (chain, binding, reasons, codes, agreed_hash, agreed_height, held_above_usd_cents, held_above_reason,
        lock_usd_cents, sources)
      values (${chainCode(coin)}, ${binding}, ${row.reasons}, ${row.codes}, ${row.agreedHash}, ${row.agreedHeight}, ${row.aboveCents},
        ${row.above}, ${row.lockCents}, ${tx.json(sourcesToJson(sources) as never)})
      on conflict (chain) do update set binding = excluded.binding, reasons = excluded.reasons, codes = excluded.codes,
        agreed_hash = case when ${keeps} then chain_guard.agreed_hash else excluded.agreed_hash end,
        agreed_height = case when ${keeps} then chain_guard.agreed_height else excluded.agreed_height end,
        held_above_usd_cents = excluded.held_above_usd_cents, held_above_reason = excluded.held_above_reason,
        lock_usd_cents = excluded.lock_usd_cents, sources = excluded.sources`;
    const effect = effectOf(before, row, judgement);
    if (binding && effect.completes) await queueProcessing(tx, { coin });
    return effect.changed;
  });
  if (!changed) return;
  const reasons = row.above === null ? row.reasons : [...row.reasons, row.above];
  if (reasons.length === 0) ctx.log.info({ coin }, 'Chain is healthy again');
  else ctx.log[binding ? 'warn' : 'info']({ coin, reasons, held: binding }, 'The chain is not healthy');
}

// How far each source of a coin shows the blocks that were read. The guard applies its rules to this evidence.

type Block = { height: number; hash: string };
/** `through`: the highest recorded block that the source showed, or null. `contradicts`: the source has a different block above it. */
export type Evidence = { through: Block | null; contradicts: boolean };
const NONE: Evidence = { through: null, contradicts: false };

/** One per coin. Remembers what each source showed, so a source is asked only once about each block that is new to it or to us. */
export function createAgreement(ctx: Context, chain: JoinedSource): (voter: SourceState, cursor: Block) => Promise<Evidence> {
  const { coin } = chain;
  const known = new Map<SourceState['source'], Evidence & { asked: string }>();

  /** The recorded hashes of these heights. */
  const readHashes = async (from: number, to: number): Promise<Map<number, string>> => {
    const rows = await ctx.db.sql<{ height: bigint; hash: string }[]>`
      select height, hash from blocks where chain = ${chainCode(coin)} and height between ${from} and ${to}`;
    return new Map(rows.map((row) => [Number(row.height), row.hash]));
  };

  /** What a source shows now; null when unclear, because several machines behind one address may be at different heights. */
  const look = async ({ source, health }: SourceState, cursor: Block): Promise<Evidence | null> => {
    const tip = health!.tip;
    if (tip.hash === cursor.hash) return { through: cursor, contradicts: false };
    const top = Math.min(tip.height, cursor.height);
    const shown = async (height: number): Promise<string | null> =>
      height === tip.height ? tip.hash : ((await source.blockAt(height))?.hash ?? null);
    const first = await shown(top);
    if (first === null) return null;
    const recorded = await readHashes(top - chainOf(coin).maxReorg, top);
    if (first === recorded.get(top)) return { through: { height: top, hash: first }, contradicts: false };
    // Another branch: find a common block with doubling steps, then the last common one by bisection.
    let differs = top;
    let common: number | null = null;
    for (let step = 1; common === null; step *= 2) {
      const at = top - step;
      if (!recorded.has(at)) return { through: null, contradicts: recorded.has(top) };
      const hash = await shown(at);
      if (hash === null) return null;
      if (hash === recorded.get(at)) common = at;
      else differs = at;
    }
    while (differs - common > 1) {
      const at = Math.floor((common + differs) / 2);
      const hash = await shown(at);
      if (hash === null) return null;
      if (hash === recorded.get(at)) common = at;
      else differs = at;
    }
    return { through: { height: common, hash: recorded.get(common)! }, contradicts: true };
  };

  /** What it showed before, as far as that is still part of the chain that was read. */
  const stillRecorded = async ({ through, contradicts }: Evidence): Promise<Evidence> => {
    if (!through) return NONE;
    return (await readHashes(through.height, through.height)).get(through.height) === through.hash ? { through, contradicts } : NONE;
  };

  return async (voter, cursor) => {
    const asked = `${voter.health!.tip.hash} ${cursor.hash}`;
    const before = known.get(voter.source);
    if (before?.asked === asked) return before;
    let found: Evidence | null = null;
    try {
      found = await look(voter, cursor);
    } catch (error) {
      if (!(error instanceof ChainError)) throw error;
    }
    const last = before ? await stillRecorded(before) : NONE;
    if (found === null) {
      known.set(voter.source, { ...last, asked: '' });
      return last;
    }
    // A machine that lags does not retract what another one behind the same address showed.
    if (!found.contradicts && (last.through?.height ?? -1) > (found.through?.height ?? -1)) found = last;
    known.set(voter.source, { ...found, asked });
    return found;
  };
}
