/**
 * Compares what the addresses of recent payments hold with what was recorded, on every chain that is read by ranges, whatever the payments
 * asked for. Providers may leave out logs, and nodes may index them late; a balance that nothing explains shows it, and blocks are searched
 * again. Nothing is recorded from a balance.
 */
import { HOLDINGS_AT_ONCE } from '#chains';
import type { Context } from '#context';
import { COIN, type Coin, chainOf, coinsBeside } from '#core/coin';
import { BALANCES_SECONDS, MOST_BALANCE_REQUESTS } from './poll-pace.ts';
import type { RangeSource } from './range-votes.ts';

/** A test node mines on demand. */
const REGTEST_MS = 1_000;
/** Balances in one look; the next one continues with the others. */
const MOST_HOLDINGS = MOST_BALANCE_REQUESTS * HOLDINGS_AT_ONCE;
/** Looks in a row that must show the same before it is believed: sources may lag behind what was read, or ahead of it. */
const SURE = 2;
/** Searches for one balance before it counts as explained. */
const MOST_SEARCHES = 3;
/** How far back is searched at most, and how much before the last look that was explained. */
const BACK_SECONDS = 6 * 3_600;
const BEFORE_SECONDS = 600;

export type Holder = { coin: Coin; account: string };
/** The last look that was explained. */
export type KnownBalance = {
  balance: bigint;
  /** Of everything recorded by then. */
  recorded: bigint;
  atMs: number;
  over: number;
  under: number;
};

/** What a look finds out about one holding. */
export type Verdict = 'explained' | 'unsure' | 'search' | 'given_up';
/** Compares a balance with what was recorded, given the last look that was explained. Changes `known`. */
export function judgeHolding(
  known: KnownBalance,
  { balance, recorded, nowMs }: { balance: bigint; recorded: bigint; nowMs: number },
): Verdict {
  const expected = known.balance + (recorded - known.recorded);
  const settle = (): void => {
    Object.assign(known, { balance, recorded, atMs: nowMs, over: 0, under: 0 });
  };
  if (balance === expected) {
    settle();
    return 'explained';
  }
  if (balance < expected) {
    // It was moved on, or the source lags.
    known.over = 0;
    if (++known.under < SURE) return 'unsure';
    settle();
    return 'explained';
  }
  known.under = 0;
  if (++known.over < SURE) return 'unsure';
  if (known.over < SURE + MOST_SEARCHES) return 'search';
  settle();
  return 'given_up';
}

/** Blocks to search once more, down from the newest one, and for which accounts. */
type MissingBlocks = { blocks: number; accounts: string[] };
/** `unexplained`: what no search explained; it counts as explained from now on. */
export type SentinelLook = { missing: MissingBlocks | null; unexplained: readonly Holder[] };
export const NOTHING_MISSING: SentinelLook = { missing: null, unexplained: [] };

/** What is recorded of each account and coin in blocks. */
export async function readRecorded(ctx: Context, coin: Coin, accounts: readonly string[]): Promise<Map<string, bigint>> {
  const rows = await ctx.db.sql<{ key: string; coin: Coin; units: bigint }[]>`
    select d.key, t.coin, sum(t.units)::numeric(38, 0) as units
    from deposit_addresses d join transfers t on t.payment_id = d.payment_id
    where d.family = ${COIN[coin].family} and d.key = any(${accounts as string[]}::text[]) and t.coin = any(${coinsBeside(coin)}::text[])
      and t.block_height is not null
    group by 1, 2`;
  return new Map(rows.map((row) => [`${row.coin} ${row.key}`, BigInt(row.units)]));
}

export type Sentinel = ReturnType<typeof createSentinel>;
/** For one source: each of them tells balances on its own, so that one that hides a payment keeps no other from showing it. */
export function createSentinel(ctx: Context, coin: Coin, { isRegtest, source }: { isRegtest: boolean; source: RangeSource }) {
  const { holdings: reader } = source.source.ranges;
  const holdings = new Map<string, KnownBalance>();
  const { blockSeconds } = chainOf(coin);
  let lookedAtMs = Number.NEGATIVE_INFINITY;
  let place = 0;

  /** The next accounts in turn. */
  const nextOf = (accounts: readonly string[], count: number): string[] => {
    const from = place < accounts.length ? place : 0;
    place = from + count;
    return accounts.slice(from, from + count);
  };
  const judge = ({ coin: held, account }: Holder, balance: bigint, recorded: bigint): { verdict: Verdict; known: KnownBalance } => {
    const id = `${held} ${account}`;
    const nowMs = ctx.clock.monotonicMs();
    const known = holdings.get(id) ?? { balance: 0n, recorded: 0n, atMs: nowMs - BACK_SECONDS * 1000, over: 0, under: 0 };
    holdings.set(id, known);
    return { verdict: judgeHolding(known, { balance, recorded, nowMs }), known };
  };

  /** Errors: ChainError. */
  return async (accounts: readonly string[]): Promise<SentinelLook> => {
    const nowMs = ctx.clock.monotonicMs();
    if (accounts.length === 0 || reader.coins.length === 0 || nowMs - lookedAtMs < (isRegtest ? REGTEST_MS : BALANCES_SECONDS * 1000))
      return NOTHING_MISSING;
    lookedAtMs = nowMs;
    const tokens = reader.coins;
    const part = nextOf(accounts, Math.max(1, Math.floor(MOST_HOLDINGS / Math.max(1, tokens.length))));
    const asked = part.flatMap((account) => tokens.map((token): Holder => ({ coin: token, account })));
    const balances = await reader.read(asked);
    const recorded = await readRecorded(ctx, coin, part);
    let seconds = 0;
    const missing = new Set<string>();
    const unexplained: Holder[] = [];
    for (const [i, holder] of asked.entries()) {
      const { verdict, known } = judge(holder, balances[i]!, recorded.get(`${holder.coin} ${holder.account}`) ?? 0n);
      const named = { coin: holder.coin, account: holder.account, source: source.name };
      if (verdict === 'given_up') {
        unexplained.push(holder);
        ctx.log.error(named, 'An address holds more than was recorded, and no source shows where it came from');
      }
      if (verdict !== 'search') continue;
      ctx.log.warn(named, 'An address holds more than was recorded; searching again for where it came from');
      seconds = Math.max(seconds, Math.min(BACK_SECONDS, (nowMs - known.atMs) / 1000 + BEFORE_SECONDS));
      missing.add(holder.account);
    }
    forget(new Set(accounts));
    return { missing: missing.size === 0 ? null : { blocks: Math.ceil(seconds / blockSeconds), accounts: [...missing] }, unexplained };
  };

  /** Payments of more than a week ago are not looked at any more. */
  function forget(accounts: ReadonlySet<string>): void {
    if (place < accounts.size) return;
    for (const id of holdings.keys()) if (!accounts.has(id.slice(id.indexOf(' ') + 1))) holdings.delete(id);
  }
}
