/** What a follower looks for on its chain: deposit addresses, unissued addresses, and outpoints that our pending transfers spend. */
import type { ChainSource, Matcher, Sighting } from '#chains';
import type { Context } from '#context';
import { COIN, type Coin, chainCode, chainOf, type Network } from '#core/coin';
import { addMs, DAY_MS, earliest } from '#core/dates';
import { readEndedBelow } from '#db';
import { readGasPayments } from '#signing';
import { createLookAhead, type Spare, type Stray } from './look-ahead.ts';
import { type AddressOwner, eachOutput, type OwnedSighting, type WaitingTransaction } from './sightings.ts';
import { createSpentOutpoints } from './spent-outpoints.ts';
import { createWatchSet, type WatchSet } from './watch-set.ts';

/** How long an address counts as recently issued; windows and late payments end well before. */
const RECENT_MS = 7 * DAY_MS;
/** Open addresses that a source is asked to prove at a time. */
const MOST_OPEN = 2_400;
/** Addresses read between two turns of the event loop. */
const KEYS_AT_ONCE = 2_000;

export type ChainWatch = {
  readonly ctx: Context;
  readonly coin: Coin;
  readonly network: Network;
  readonly keys: WatchSet;
  readonly spares: ReturnType<typeof createLookAhead>;
  readonly spent: ReturnType<typeof createSpentOutpoints>;
  /** All rows of transactions before this one are in memory. */
  readFrom: string;
};

export function createWatching(ctx: Context, source: Pick<ChainSource, 'coin' | 'network'>): ChainWatch {
  const keys = createWatchSet();
  return {
    ctx,
    coin: source.coin,
    network: source.network,
    keys,
    spares: createLookAhead(ctx, source, keys),
    spent: createSpentOutpoints(ctx, source.coin),
    readFrom: '0',
  };
}

/** Updates the memory from all committed rows: rereads what might have committed since the last read. */
export async function refreshWatching(watching: ChainWatch): Promise<void> {
  const { ctx, coin, keys, spares, spent, readFrom } = watching;
  const { sql } = ctx.db;
  const { family } = COIN[coin];
  const endedBelow = await readEndedBelow(sql);
  // Wallets before addresses: an address issued between the two reads is then known as spare, as issued, or as both, but never as neither.
  const [news] = await sql<{ wallets: boolean; issued: boolean; spent: boolean }[]>`
    select exists (select 1 from wallets where family = ${family} and xid >= ${readFrom}::xid8) as wallets,
      exists (select 1 from deposit_addresses where family = ${family} and xid >= ${readFrom}::xid8) as issued,
      exists (select 1 from spent_outpoints where chain = ${chainCode(coin)} and xid >= ${readFrom}::xid8) as spent`;
  if (news!.wallets) await spares.refresh(readFrom);
  const given = sql<{ key: string }[]>`select key from deposit_addresses where family = ${family} and xid >= ${readFrom}::xid8`;
  if (news!.issued) for await (const rows of given.cursor(KEYS_AT_ONCE)) for (const { key } of rows) keys.add(key);
  if (news!.spent) await spent.refresh(readFrom);
  watching.readFrom = endedBelow;
}

/** The memory as sources use it. */
export const matcherOf = ({ ctx, coin, keys, spent }: ChainWatch, waiting: readonly WaitingTransaction[]): Matcher => ({
  has: keys.has,
  watchesSpends: spent.any(),
  spends: spent.has,
  quick: { pays: keys.hasBytes, spends: spent.hasBytes },
  recent: async (at) => {
    const since = new Date(earliest(at, ctx.clock.now()).getTime() - RECENT_MS);
    const rows = await ctx.db.sql<{ key: string }[]>`
      select key from deposit_addresses where family = ${COIN[coin].family} and created_at > ${since} order by created_at, key`;
    return rows.map((row) => row.key);
  },
  open: async () => {
    const rows = await ctx.db.sql<{ key: string; endsAt: Date }[]>`
      select d.key, greatest(p.expires_at, p.extended_until) as "endsAt" from deposit_addresses d join payments p on p.id = d.payment_id
      where d.family = ${COIN[coin].family} and d.created_at > ${new Date(ctx.clock.now().getTime() - RECENT_MS)}
        and p.mode = 'live' and p.status in ('pending', 'processing')
      order by "endsAt", d.key limit ${MOST_OPEN + 1}`;
    const slackMs = chainOf(coin).slackSeconds * 1000;
    return {
      listed: rows.slice(0, MOST_OPEN).map(({ key, endsAt }) => ({ key, endsAt, countsUntil: addMs(endsAt, slackMs) })),
      othersEnd: rows[MOST_OPEN]?.endsAt ?? null,
    };
  },
  waiting: waiting.map((row) => row.txid),
});

/** Transfers to payments, and deposits to unissued addresses. */
type Sorted = { sightings: OwnedSighting[]; strays: Stray[] };

/**
 * Finds out whose addresses these are. The table decides who owns an address, not memory. What a sweep of the merchant pays for the gas of
 * an address is not money of a customer.
 */
export async function sortSightings({ ctx, coin, network }: ChainWatch, all: readonly Sighting[]): Promise<Sorted> {
  if (all.length === 0) return { sightings: [], strays: [] };
  const { family } = COIN[coin];
  const keys = [...new Set(all.map((one) => one.key))];
  // In one statement, because an address that is issued in between goes from one table to the other.
  const rows = await ctx.db.sql<({ key: string } & (({ index: null } & AddressOwner) | ({ paymentId: null } & Spare)))[]>`
    select key, payment_id as "paymentId", merchant_id as "merchantId", address, created_at as "createdAt", null as "walletId", null as index
    from deposit_addresses where family = ${family} and key = any(${keys}::text[])
    union all
    select s.key, null, w.merchant_id, s.address, null, s.wallet_id, s.index from spare_addresses s join wallets w on w.id = s.wallet_id
    where s.family = ${family} and s.key = any(${keys}::text[]) and w.network = ${network}`;
  const [owners, spares] = [new Map<string, AddressOwner>(), new Map<string, Spare>()];
  for (const { key, ...row } of rows) {
    if (row.paymentId !== null) owners.set(key, row);
    else spares.set(key, row);
  }
  const txids = [...new Set(all.flatMap(({ key, txid }) => (txid !== null && owners.has(key) ? [txid] : [])))];
  const gas = txids.length === 0 ? [] : await readGasPayments(ctx.db.sql, txids);
  const isGas = ({ key, txid }: Sighting): boolean => gas.some(([merchant, id]) => id === txid && owners.get(key)?.merchantId === merchant);
  return assignOwners(
    all.flatMap((one) => (isGas(one) ? [] : [{ ...one, coin: one.coin ?? coin }])),
    owners,
    spares,
  );
}

/** A sighting and its coin: that of the source, unless it names another one. */
type InCoin = Sighting & { coin: Coin };
/** An address with an owner belongs to it, even if it still counts as unissued; one that is neither is not ours. */
export function assignOwners(
  all: readonly InCoin[],
  owners: ReadonlyMap<string, AddressOwner>,
  spares: ReadonlyMap<string, Spare>,
): Sorted {
  const sightings: OwnedSighting[] = [];
  const strays: Stray[] = [];
  for (const sighting of all) {
    const owner = owners.get(sighting.key);
    const spare = spares.get(sighting.key);
    if (owner) sightings.push({ ...sighting, owner });
    else if (spare) for (const stray of eachOutput({ ...sighting, spare })) strays.push(stray);
  }
  return { sightings, strays };
}
