/** The accounts that a provider is asked about: addresses of recent payments, and of older ones that are still open. */
import type { Context } from '../context.ts';
import { DAY_MS } from '../core/clock.ts';
import { COIN, type Coin, coinsBeside } from '../core/coin.ts';
import { readEndedBelow } from '../db/db.ts';

/** Payments end well before this, late money included. Older addresses are looked at once a day. */
export const RECENT_PAYMENTS_MS = 7 * DAY_MS;
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
        select 1 from signing_files where coin = any(${coinsBeside(coin)}::text[]) and state in ('signed', 'sent') limit 1`;
      return rows.length > 0;
    },
  };
}
