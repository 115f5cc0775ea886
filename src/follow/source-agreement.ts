/** How far each source of a coin shows the blocks that were read. The guard applies its rules to this evidence. */
import { type Chain, ChainError, type SourceState } from '../chains/chain.ts';
import type { Context } from '../context.ts';
import { chainCode, chainOf } from '../core/coin.ts';

type Block = { height: number; hash: string };
/** `through`: the highest recorded block that the source showed, or null. `contradicts`: the source has a different block above it. */
export type Evidence = { through: Block | null; contradicts: boolean };
const NONE: Evidence = { through: null, contradicts: false };

/** One per coin. Remembers what each source showed, so a source is asked only once about each block that is new to it or to us. */
export function createAgreement(ctx: Context, chain: Chain): (voter: SourceState, cursor: Block) => Promise<Evidence> {
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
