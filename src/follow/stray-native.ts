/**
 * Finds what customers sent in the native coin of a network where only tokens are offered, such as ETH on Base. Nothing names such
 * transfers, so balances of all addresses are compared with what was recorded, and a balance that rose leads to the block it rose in.
 */
import { type BlockRef, ChainError, NATIVES_AT_ONCE, type NativeReader, type Sighting } from '#chains';
import { COIN, type Coin, chainOf, strayNativeOf } from '#core/coin';
import { DAY_MS } from '#core/dates';
import type { Anchor } from './anchors.ts';
import { BALANCES_SECONDS } from './poll-pace.ts';
import { readHits, recordRange } from './range-record.ts';
import { agreedAt, Disagreement, LeftOut, type VotingSource, verifierOf } from './range-votes.ts';
import type { ChainWatch } from './watching.ts';

/** A test node mines on demand. */
const REGTEST_MS = 1_000;
/** How far back an address is looked at that was not looked at before. */
const BACK_SECONDS = (7 * DAY_MS) / 1_000;
/** Blocks that are found in one look; the next one continues with the others. */
const MOST_BLOCKS = 4;
/** Looks that fail one after another before an operator reads about it, and again after as many. */
const WARN_EVERY = 20;

/** What an account held at a block, all of which is explained by then. */
type Known = { height: number; balance: bigint };
type Look = { voting: readonly VotingSource[]; keys: readonly string[]; cursor: Anchor };

const nativeReader = ({ one }: VotingSource): NativeReader => one.source.ranges.native!;
/** Whether a source failed. It is a second look: a source that cannot show balances still shows what was paid. */
const isFailure = (error: unknown): boolean => error instanceof ChainError || error instanceof LeftOut || error instanceof Disagreement;

/** What the first source shows that can; null where none has it anymore. Errors: ChainError when all others fail. */
async function firstOf<T>(voting: readonly VotingSource[], ask: (reader: NativeReader) => Promise<T | null>): Promise<T | null> {
  let failure: ChainError | null = null;
  for (const one of voting) {
    try {
      const shown = await ask(nativeReader(one));
      if (shown !== null) return shown;
    } catch (error) {
      if (!(error instanceof ChainError)) throw error;
      failure = error;
    }
  }
  if (failure) throw failure;
  return null;
}

/**
 * The lowest block above `from` that ends with more than was held there, given that `to` does. `balanceAt`: null where it is not known
 * anymore; then null.
 */
export async function findRise(
  { from, to, above }: { from: number; to: number; above: bigint },
  balanceAt: (height: number) => Promise<bigint | null>,
): Promise<number | null> {
  let [low, high] = [from, to];
  while (high - low > 1) {
    const middle = Math.floor((low + high) / 2);
    const balance = await balanceAt(middle);
    if (balance === null) return null;
    if (balance > above) high = middle;
    else low = middle;
  }
  return high;
}

export type StrayNative = ReturnType<typeof createStrayNative>;
/** One for each follower. */
export function createStrayNative(watching: ChainWatch, { isRegtest, binding }: { isRegtest: boolean; binding: boolean }) {
  const { ctx, coin: chain } = watching;
  const coin = strayNativeOf(chain);
  const explained = new Map<string, Known>();
  let lookedAtMs = Number.NEGATIVE_INFINITY;
  let place = 0;
  let failures = 0;

  const failed = (error: unknown): void => {
    const isLasting = ++failures % WARN_EVERY === 0;
    ctx.log[isLasting ? 'warn' : 'debug']({ err: error, coin: chain, failures }, 'Could not look for coins that were sent by mistake');
  };

  /** Looks at the next addresses, and records what arrived there. Errors: CursorMoved. */
  const look = async ({ voting, keys, cursor }: Look): Promise<void> => {
    if (!coin) return;
    const first = place < keys.length ? place : 0;
    const part = keys.slice(first, first + NATIVES_AT_ONCE);
    const balances = await firstOf(voting, (reader) => reader.balances(part, cursor.hash));
    if (balances === null) throw new ChainError('outage', `no source shows balances of ${coin} in block ${cursor.height}`);
    place = first + part.length;
    let failure: unknown = null;
    const recorded = await readRecorded(watching, { coin, part, isVerified: verifierOf(voting) !== null });
    let left = MOST_BLOCKS;
    for (const [i, key] of part.entries()) {
      const balance = balances[i]!;
      const rows = recorded.get(key) ?? [];
      const known = explained.get(key) ?? null;
      const expected = rows.reduce((sum, row) => (row.height > (known?.height ?? -1) ? sum + row.units : sum), known?.balance ?? 0n);
      // What was sent from an address was swept. Less than a cent does not count.
      if (balance < expected + COIN[coin].dustUnits) {
        explained.set(key, { height: cursor.height, balance });
        continue;
      }
      if (left-- === 0) {
        // The next look continues here, so that the same few addresses cannot use up every look.
        place = first + i;
        break;
      }
      // What was recorded before the first look is explained.
      const from = known?.height ?? rows.reduce((highest, { height }) => Math.max(highest, height), startOf(coin, cursor));
      try {
        explained.set(key, await record(watching, { voting, cursor, coin, key, balance, expected, from }));
      } catch (error) {
        if (!isFailure(error)) throw error;
        failure = error;
      }
    }
    if (place >= keys.length) forgetOthers(new Set(keys));
    if (failure) failed(failure);
    else failures = 0;
  };
  const forgetOthers = (keys: ReadonlySet<string>): void => {
    for (const key of explained.keys()) if (!keys.has(key)) explained.delete(key);
  };

  return {
    look: async (of: Look): Promise<void> => {
      const nowMs = ctx.clock.monotonicMs();
      const isDue = nowMs - lookedAtMs >= (isRegtest ? REGTEST_MS : BALANCES_SECONDS * 1000);
      if (!isDue || of.keys.length === 0 || of.voting.some(({ one }) => !one.source.ranges.native)) return;
      // Where nothing completes unverified, the money waits for a second source, which may show it in another block.
      if (binding && verifierOf(of.voting) === null) return;
      lookedAtMs = nowMs;
      try {
        await look(of);
      } catch (error) {
        if (!isFailure(error)) throw error;
        failed(error);
      }
    },
    /** After a reorganization, everything is compared again. */
    forget: (): void => explained.clear(),
  };
}

type Recorded = { height: number; units: bigint };
/** What was recorded by account. What only one source showed does not count once another one can confirm it. */
async function readRecorded(
  { ctx }: ChainWatch,
  { coin, part, isVerified }: { coin: Coin; part: readonly string[]; isVerified: boolean },
): Promise<Map<string, Recorded[]>> {
  const rows = await ctx.db.sql<{ key: string; height: bigint; units: bigint }[]>`
    select d.key, t.block_height as height, sum(t.units)::numeric(38, 0) as units
    from deposit_addresses d join transfers t on t.payment_id = d.payment_id
    where d.family = ${COIN[coin].family} and d.key = any(${part as string[]}::text[]) and t.coin = ${coin} and t.block_height is not null
      and (t.verified_by is not null or not ${isVerified})
    group by 1, 2`;
  const found = new Map<string, Recorded[]>();
  for (const { key, height, units } of rows) found.set(key, [...(found.get(key) ?? []), { height: Number(height), units: BigInt(units) }]);
  return found;
}

const startOf = (coin: Coin, { height }: Anchor): number => Math.max(0, height - Math.ceil(BACK_SECONDS / chainOf(coin).blockSeconds));

type Rise = { voting: readonly VotingSource[]; cursor: Anchor; coin: Coin; key: string; balance: bigint; expected: bigint; from: number };
type Change = { ref: BlockRef; had: bigint; has: bigint; paid: readonly Sighting[] };

/** Records what arrived in the first block where the balance rose. Returns what is explained then. Errors: ChainError, CursorMoved. */
async function record(watching: ChainWatch, rise: Rise): Promise<Known> {
  const { ctx } = watching;
  const { voting, cursor, coin, key, balance, expected, from } = rise;
  const before = await balanceAt(voting, { key, height: from });
  if (before !== null && before >= balance) {
    ctx.log.warn({ coin, account: key }, 'An address holds a coin that is not offered for longer than it belongs to a payment');
    return { height: cursor.height, balance };
  }
  const placed = before === null ? null : await findChange(rise, before);
  // Without old balances, the money is recorded in the block that it was seen at.
  const change = placed ?? { ref: await blockAt(voting, cursor.height), had: expected, has: balance, paid: [] };
  if (placed === null) await confirmBalance(voting, { key, hash: change.ref.hash, balance });
  await write(watching, { ...rise, ref: change.ref, sightings: withRest(rise, change) });
  ctx.log.warn({ coin, account: key, height: change.ref.height }, 'A customer sent a coin that is not offered');
  return { height: change.ref.height, balance: change.has };
}

async function blockAt(voting: readonly VotingSource[], height: number): Promise<BlockRef> {
  const [ref] = await agreedAt(voting, [height]);
  if (!ref) throw new ChainError('outage', `no source shows block ${height} now`);
  return ref;
}

async function balanceAt(voting: readonly VotingSource[], { key, height }: { key: string; height: number }): Promise<bigint | null> {
  const { hash } = await blockAt(voting, height);
  return (await firstOf(voting, (reader) => reader.balances([key], hash)))?.[0] ?? null;
}

/** The first block where the balance rose, on which all voting sources agree; null where one of them has no old balances. */
async function findChange({ voting, cursor, coin, key, from }: Rise, before: bigint): Promise<Change | null> {
  const height = await findRise({ from, to: cursor.height, above: before }, (at) => balanceAt(voting, { key, height: at }));
  if (height === null) return null;
  const ref = await blockAt(voting, height);
  const shown = new Map<string, [bigint, bigint]>();
  for (const one of voting) {
    const [had, has] = [await nativeReader(one).balances([key], ref.parent), await nativeReader(one).balances([key], ref.hash)];
    if (!had || !has) return null;
    shown.set(String([had[0], has[0]]), [had[0]!, has[0]!]);
  }
  const [[had, has] = [0n, 0n]] = shown.values();
  if (shown.size !== 1 || has <= had)
    throw new ChainError('outage', `the sources name different balances of ${coin} in block ${ref.height}`);
  return { ref, had, has, paid: (await firstOf(voting, (reader) => reader.paid(ref.hash, new Set([key])))) ?? [] };
}

/** All voting sources must show the balance. Errors: ChainError. */
async function confirmBalance(
  voting: readonly VotingSource[],
  { key, hash, balance }: { key: string; hash: string; balance: bigint },
): Promise<void> {
  for (const one of voting) {
    const shown = await nativeReader(one).balances([key], hash);
    if (shown?.[0] !== balance) throw new ChainError('outage', `${one.one.name} does not show the balance that another source shows`);
  }
}

/** What transactions paid themselves, and what contracts must have paid besides; never more than the balance rose by. */
function withRest({ coin, key }: Rise, { ref, had, has, paid }: Change): Sighting[] {
  const direct = paid.reduce((sum, { units }) => sum + units, 0n);
  // A source that names more than arrived is not believed.
  const believed = direct <= has - had ? paid : [];
  const rest = has - had - believed.reduce((sum, { units }) => sum + units, 0n);
  const counted = believed.filter(({ units }) => units >= COIN[coin].dustUnits);
  if (rest < COIN[coin].dustUnits) return counted;
  return [...counted, { coin, key, ref: `delta:${ref.height}:${key}`, txid: null, units: rest, kind: 'delta', spends: [], lock: null }];
}

/** Records the sightings together with everything else that the block pays. */
async function write(
  watching: ChainWatch,
  {
    voting,
    cursor,
    coin,
    key,
    ref,
    sightings,
  }: Pick<Rise, 'voting' | 'cursor' | 'coin' | 'key'> & { ref: BlockRef; sightings: readonly Sighting[] },
): Promise<void> {
  const named = new Map([[ref.height, new Set([ref.hash])]]);
  const hits = await readHits(watching, voting, { named, known: new Set(), again: new Set() });
  await recordRange(watching, {
    ...{ cursor, to: cursor, between: [], vanished: [], present: null, progress: new Map(), queue: false },
    // What one source alone showed of the same money, perhaps in another block.
    replaces: verifierOf(voting) === null || sightings.length === 0 ? null : { coin, key },
    hits: hits.map((hit) => ({ ...hit, sightings: [...hit.sightings, ...sightings] })),
  });
}
