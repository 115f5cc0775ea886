/** What the followers and the guard recorded about each chain, as payments, readiness, metrics and operators read it. */
import type { SourceState } from '#chains';
import type { Context } from '#context';
import type { Doubt } from '#core/certainty';
import { COIN, type Coin, chainCode, isCoin, leadingCoins } from '#core/coin';
import { isBinding, type Trust } from '#core/guard';
import { asList, asObject, asText, asWhole, oneOf, type StoredJson } from '#core/stored-json';

/** After this many failures at one block it is named, and operators are notified. */
export const BLOCK_FAILURES = 3;
/** Doubts about a responding source are reported only after this long, because machines behind one address may differ in height. */
const DOUBT_SHOWN_SECONDS = 15;

export type Trouble = {
  /** Names the chain. */
  coin: Coin;
  failures: number;
  failingSeconds: number;
  failure: string | null;
  /** Only when it failed there repeatedly. */
  failingBlock: { height: number; hash: string | null; failures: number } | null;
  doubt: (Doubt & { seconds: number }) | null;
  readBackFailure: string | null;
  /** An address that holds more than was recorded. */
  unexplained: string | null;
  /** Sources that do not say which blocks are final. */
  finalDoubt: string | null;
  /** While it reads many blocks that it missed. */
  catchUp: { percent: number; left: number } | null;
};

/** What keeps each follower from working; only of those that have tried. */
export async function readTroubles(ctx: Context): Promise<Trouble[]> {
  const rows = await ctx.db.sql<
    {
      chain: string;
      failures: number;
      failingSeconds: number | null;
      failure: string | null;
      height: number | null;
      hash: string | null;
      blockFailures: number;
      code: Doubt['code'] | null;
      reason: string | null;
      seconds: number;
      readBackFailure: string | null;
      unexplained: string | null;
      finalDoubt: string | null;
      from: number | null;
      to: number | null;
      read: number | null;
    }[]
  >`
    select f.chain, failures, extract(epoch from clock_timestamp() - failing_since)::float8 as "failingSeconds", failure,
      failing_height::int as height, failing_hash as hash, block_failures as "blockFailures", behind_code as code, behind_reason as reason,
      extract(epoch from clock_timestamp() - behind_since)::float8 as seconds, read_back_failure as "readBackFailure", unexplained, final_doubt as "finalDoubt",
      catch_up_from::int as "from", catch_up_to::int as "to", t.height::int as read
    from followers f left join tips t on t.chain = f.chain`;
  return leadingCoins()
    .flatMap((coin) => rows.filter((row) => row.chain === chainCode(coin)).map((row) => ({ ...row, coin })))
    .map(
      ({
        coin,
        failures,
        failingSeconds,
        failure,
        height,
        hash,
        blockFailures,
        code,
        reason,
        seconds,
        readBackFailure,
        unexplained,
        finalDoubt,
        from,
        to,
        read,
      }): Trouble => ({
        coin,
        failures,
        failingSeconds: failingSeconds ?? 0,
        failure,
        failingBlock: height !== null && blockFailures >= BLOCK_FAILURES ? { height, hash, failures: blockFailures } : null,
        doubt: code === null ? null : { code, reason: reason ?? '', seconds },
        readBackFailure,
        unexplained,
        finalDoubt,
        catchUp: from === null || to === null || read === null ? null : catchUpOf({ from, to, read }),
      }),
    );
}

/** How far a follower is that stood at block `from` and knows block `to`. */
export function catchUpOf({ from, to, read }: { from: number; to: number; read: number }): { percent: number; left: number } {
  const left = Math.max(0, to - read);
  return { percent: Math.max(0, Math.min(99, Math.floor((100 * (read - from)) / Math.max(1, to - from)))), left };
}
export const explainCatchUp = ({ percent, left }: { percent: number; left: number }): string =>
  `reading missed blocks ${percent}%, ${left.toLocaleString('en-US')} left`;

/** As sentences, and whether each one blocks the coin or is only informational. */
export function explainTrouble({
  failures,
  failure,
  failingBlock,
  doubt,
  unexplained,
  finalDoubt,
  catchUp,
}: Trouble): { text: string; grave: boolean }[] {
  const found: { text: string; grave: boolean }[] = [];
  if (failingBlock) {
    const { height, hash, failures: times } = failingBlock;
    found.push({ text: `block ${height}${hash ? ` (${hash})` : ''} could not be read ${times} times: ${failure}`, grave: true });
  } else if (failures > 0) found.push({ text: failure ?? 'it fails', grave: true });
  if (catchUp && catchUp.left > 0) found.push({ text: explainCatchUp(catchUp), grave: true });
  if (doubt && (doubt.seconds > DOUBT_SHOWN_SECONDS || doubt.code === 'alone'))
    found.push({ text: `${doubt.reason}; nothing expires meanwhile`, grave: doubt.code !== 'settling' && doubt.code !== 'stalled' });
  if (unexplained !== null) found.push({ text: unexplained, grave: false });
  if (finalDoubt !== null) found.push({ text: `${finalDoubt}; payments that need a final block wait`, grave: false });
  return found;
}

/** Stablecoins that are held because of their contracts. `isBinding`: on a main network. */
export async function readTokenHolds(ctx: Context): Promise<{ coin: Coin; hold: string; isBinding: boolean }[]> {
  const rows = await ctx.db.sql<
    { coin: string; hold: string }[]
  >`select coin, hold from token_contracts where hold is not null order by coin`;
  return rows.flatMap(({ coin, hold }) =>
    isCoin(coin) && ctx.chains.has(COIN[coin].chain) ? [{ coin, hold, isBinding: isBinding(ctx.settings.networks[COIN[coin].chain]) }] : [],
  );
}

type GuardView = {
  /** Names the chain. */
  coin: Coin;
  /** Whether the reasons hold completion, or are only reported. */
  binding: boolean;
  reasons: string[];
  codes: string[];
  /** Why larger payments wait; null when they do not. */
  aboveReason: string | null;
  sources: StoredSource[];
};

/** The guard's findings, for readiness, metrics and lookups; in the order of the coins. */
export async function readGuards(ctx: Context): Promise<GuardView[]> {
  const rows = await ctx.db.sql<
    (Omit<GuardView, 'coin' | 'sources'> & { code: string; sources: unknown })[]
  >`select chain as code, binding, reasons, codes, held_above_reason as "aboveReason", sources from chain_guard`;
  return leadingCoins().flatMap((coin) =>
    rows.flatMap(({ code, sources, ...row }) =>
      code === chainCode(coin) && ctx.chains.has(COIN[coin].chain) ? [{ coin, ...row, sources: sourcesFromJson(sources) }] : [],
    ),
  );
}

// The sources of a chain as the guard stored them: written with the version of their form, read field by field with defaults.

/** One source as the guard last found it. */
export type StoredSource = {
  name: string;
  trust: Trust;
  state: SourceState['state'];
  reason: string | null;
  height: number | null;
  /** The highest block that was read and that this source has; null: not known. */
  through: number | null;
  software: string | null;
};

/** Grows when the meaning of a field changes. Entries without a version have the first form. */
const VERSION = 1;
const TRUSTS: readonly Trust[] = ['own', 'proven', 'claimed'];
const STATES: readonly SourceState['state'][] = ['ok', 'syncing', 'behind', 'unproven', 'down', 'wrong_network'];

export const sourcesToJson = (sources: readonly StoredSource[]): readonly StoredJson[] =>
  sources.map((source) => ({ v: VERSION, ...source }));

/** A source without a name is omitted. A trust or a state that this version does not know becomes the weakest one. */
export const sourcesFromJson = (value: unknown): StoredSource[] =>
  asList(value).flatMap((entry) => {
    const stored = asObject(entry);
    const name = asText(stored.name);
    if (name === null) return [];
    return {
      name,
      trust: oneOf(TRUSTS, stored.trust) ?? 'claimed',
      state: oneOf(STATES, stored.state) ?? 'down',
      reason: asText(stored.reason),
      height: asWhole(stored.height),
      through: asWhole(stored.through),
      software: asText(stored.software),
    };
  });
