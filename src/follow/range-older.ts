/**
 * Looks once a day, in turn, at what the addresses of payments hold that ended more than a week ago, on chains that are read by ranges:
 * nobody searches for transfers to them any more, and a customer may still pay an old address. Money that nothing explains is searched for.
 */
import { HOLDINGS_AT_ONCE } from '#chains';
import type { Context } from '#context';
import { COIN, type Coin, chainOf, coinsBeside } from '#core/coin';
import { DAY_MS } from '#core/dates';
import { readEndedBelow } from '#db';
import { BALANCES_SECONDS } from './poll-pace.ts';
import { type Holder, judgeHolding, type KnownBalance, NOTHING_MISSING, readRecorded, type SentinelLook } from './range-sentinel.ts';
import type { RangeSource } from './range-votes.ts';

/** How far back is searched at most, and how much before the last look. */
const MOST_BACK_MS = 7 * DAY_MS;
const BEFORE_MS = 600_000;

type Row = { coin: Coin; key: string; balance: bigint; recorded: bigint; lookedAt: Date };

export type OlderLook = ReturnType<typeof createOlderLook>;
/** For one chain. Each call asks one of the sources at most once; another one begins each day, so that no source alone can hide money. */
export function createOlderLook(ctx: Context, coin: Coin, { isRegtest }: { isRegtest: boolean }) {
  const { family } = COIN[coin];
  /** Where the walk over all addresses is; null: it ended. */
  let place: { at: Date; key: string } | null = null;
  let begunAtMs = Number.NEGATIVE_INFINITY;
  let lookedAtMs = Number.NEGATIVE_INFINITY;
  let walks = 0;
  /** Addresses that seem to hold more than was recorded, until that is sure. */
  const suspects = new Map<string, KnownBalance>();

  /** The next addresses of the walk, which begins again a day after it began. */
  const readPart = async (most: number, nowMs: number): Promise<string[]> => {
    if (place === null && nowMs - begunAtMs >= DAY_MS) {
      place = { at: new Date(0), key: '' };
      begunAtMs = nowMs;
      walks++;
    }
    if (place === null) return [];
    const rows = await ctx.db.sql<{ key: string; at: Date }[]>`
      select key, created_at as at from deposit_addresses
      where family = ${family} and created_at <= ${new Date(ctx.clock.now().getTime() - RECENT_PAYMENTS_MS)}
        and (created_at, key) > (${place.at}, ${place.key}) order by created_at, key limit ${most}`;
    place = rows.length < most ? null : rows.at(-1)!;
    return rows.map(({ key }) => key);
  };
  const readKnown = async (keys: readonly string[]): Promise<Map<string, Row>> => {
    const rows = await ctx.db.sql<Row[]>`
      select coin, key, balance, recorded, looked_at as "lookedAt" from old_holdings where key = any(${keys as string[]}::text[])`;
    return new Map(rows.map((row) => [`${row.coin} ${row.key}`, row]));
  };

  /** Errors: ChainError. */
  return async (sources: readonly RangeSource[]): Promise<SentinelLook> => {
    const nowMs = ctx.clock.monotonicMs();
    const source = sources[walks % Math.max(1, sources.length)];
    const tokens = source?.source.ranges.holdings.coins ?? [];
    if (!source || tokens.length === 0 || nowMs - lookedAtMs < (isRegtest ? 1_000 : BALANCES_SECONDS * 1_000)) return NOTHING_MISSING;
    lookedAtMs = nowMs;
    const again = [...new Set([...suspects.keys()].map((id) => id.slice(id.indexOf(' ') + 1)))];
    const part = [...new Set([...again, ...(await readPart(Math.max(1, Math.floor(HOLDINGS_AT_ONCE / tokens.length)), nowMs))])];
    if (part.length === 0) return NOTHING_MISSING;
    const asked = part.flatMap((account) => tokens.map((token): Holder => ({ coin: token, account })));
    const balances = await source.source.ranges.holdings.read(asked);
    const [recorded, rows] = [await readRecorded(ctx, coin, part), await readKnown(part)];
    const missing = new Set<string>();
    const unexplained: Holder[] = [];
    const settled: { coin: Coin; key: string; balance: string; recorded: string }[] = [];
    let backMs = 0;
    for (const [i, holder] of asked.entries()) {
      const id = `${holder.coin} ${holder.account}`;
      const row = rows.get(id);
      const since = row ? ctx.clock.now().getTime() - row.lookedAt.getTime() : DAY_MS;
      const known = suspects.get(id) ?? {
        ...{ balance: BigInt(row?.balance ?? 0n), recorded: BigInt(row?.recorded ?? 0n), atMs: nowMs - since, over: 0, under: 1 },
      };
      const now = { balance: balances[i]!, recorded: recorded.get(id) ?? 0n, nowMs };
      const verdict = judgeHolding(known, now);
      const named = { coin: holder.coin, account: holder.account, source: source.name };
      if (verdict === 'explained' || verdict === 'given_up') {
        suspects.delete(id);
        settled.push({ coin: holder.coin, key: holder.account, balance: String(now.balance), recorded: String(now.recorded) });
      } else suspects.set(id, known);
      if (verdict === 'given_up') unexplained.push(holder);
      if (verdict !== 'search') continue;
      ctx.log.warn(named, 'An address of a payment that ended long ago holds more than was recorded; searching for where it came from');
      backMs = Math.max(backMs, Math.min(MOST_BACK_MS, nowMs - known.atMs + BEFORE_MS));
      missing.add(holder.account);
    }
    await ctx.db.sql`
      insert into old_holdings (coin, key, balance, recorded)
      select r.coin, r.key, r.balance, r.recorded
      from jsonb_to_recordset(${ctx.db.sql.json(settled)}) as r (coin text, key text, balance numeric, recorded numeric)
      on conflict (coin, key) do update set balance = excluded.balance, recorded = excluded.recorded, looked_at = clock_timestamp()`;
    const blocks = Math.ceil(backMs / 1000 / chainOf(coin).blockSeconds);
    return { missing: missing.size === 0 ? null : { blocks, accounts: [...missing] }, unexplained };
  };
}

// The accounts that a provider is asked about: addresses of recent payments, and of older ones that are still open.

/** Payments end well before this, late money included. Older addresses are looked at once a day. */
const RECENT_PAYMENTS_MS = 7 * DAY_MS;
/** How often older payments are looked for. */
const OLDER_EVERY_MS = 300_000;

export type Accounts = ReturnType<typeof createAccounts>;

/** The accounts of one follower, read again as far as they may have changed. */
export function createAccounts(ctx: Context, coin: Coin) {
  const recent = new Map<string, number>();
  let older: readonly string[] = [];
  let olderAtMs = Number.NEGATIVE_INFINITY;
  let readFrom = '0';
  const { family } = COIN[coin];
  return {
    /** Keys of 40 hex digits. */
    read: async (): Promise<string[]> => {
      const since = new Date(ctx.clock.now().getTime() - RECENT_PAYMENTS_MS);
      const endedBelow = await readEndedBelow(ctx.db.sql);
      const rows = await ctx.db.sql<{ key: string; at: Date }[]>`
        select key, created_at as at from deposit_addresses where family = ${family} and xid >= ${readFrom}::xid8 and created_at > ${since}`;
      for (const { key, at } of rows) recent.set(key, at.getTime());
      readFrom = endedBelow;
      const nowMs = ctx.clock.monotonicMs();
      if (nowMs - olderAtMs >= OLDER_EVERY_MS) {
        for (const [key, atMs] of recent) if (atMs <= since.getTime()) recent.delete(key);
        const open = await ctx.db.sql<{ key: string }[]>`
          select d.key from payments p join deposit_addresses d on d.payment_id = p.id
          where p.coin = any(${coinsBeside(coin)}::text[]) and p.status in ('pending', 'processing') and p.mode = 'live'
            and d.family = ${family} and d.created_at <= ${new Date(since.getTime() + OLDER_EVERY_MS)}`;
        older = open.map(({ key }) => key);
        olderAtMs = nowMs;
      }
      return older.length === 0 ? [...recent.keys()] : [...new Set([...recent.keys(), ...older])];
    },
    /** Whether a payment is open that may be paid on this chain. */
    anyOpen: async (): Promise<boolean> => {
      const rows = await ctx.db.sql`
        select 1 from payments p where p.coin = any(${coinsBeside(coin)}::text[]) and p.status in ('pending', 'processing') and p.mode = 'live' limit 1`;
      return rows.length > 0;
    },
    /** Whether a transaction that sends money from this chain is followed. */
    anySent: async (): Promise<boolean> => {
      const rows = await ctx.db.sql`
        select 1 from signing_files where coin = any(${coinsBeside(coin)}::text[]) and state in ('signed', 'sent') and mode = 'live' limit 1`;
      return rows.length > 0;
    },
  };
}
