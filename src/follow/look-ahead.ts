/** Watches unissued addresses of wallets: indexes beyond the counters, and those that a counter skipped. */
import { setImmediate } from 'node:timers/promises';
import { deriveAddress, type Script } from '#addresses';
import type { Sighting } from '#chains';
import type { Context } from '#context';
import { COIN, type Coin, type Family, type Network } from '#core/coin';
import { Problem } from '#core/problem';
import type { Tx } from '#db';
import { burnIndexes } from '#wallets';
import type { WatchSet } from './watch-set.ts';

/** Indexes watched beyond a wallet's counter, because another program may have issued addresses from the same account key. */
const LOOK_AHEAD = 100n;
/** Derivations, about a millisecond each, between two turns of the event loop. */
const BATCH = 5;
/** Addresses that are written, or read, at a time. */
const AT_ONCE = 2_000;

export type Spare = { walletId: string; merchantId: string; index: bigint; address: string };
export type Stray = Sighting & { coin: Coin; spare: Spare };

/** Thrown when an address was just issued to a payment: the step is retried, with the address watched for that payment. */
export class AddressGiven extends Error {}

/** A wallet whose counter moved, and the indexes from `from` to before `to` that are watched and not stored yet. */
type Missing = { id: string; chainKey: string; script: Script; ranges: readonly (readonly [from: string, to: string])[] };

type Followed = { coin: Coin; network: Network };
type Row = { wallet_id: string; index: string; key: string; address: string };
const write = async (ctx: Context, family: Family, rows: readonly Row[]): Promise<void> => {
  await ctx.db.sql`
    insert into spare_addresses (family, key, address, wallet_id, index)
    select ${family}, r.key, r.address, r.wallet_id, r.index
    from jsonb_to_recordset(${ctx.db.sql.json(rows)}) as r (wallet_id text, index bigint, key text, address text) on conflict do nothing`;
};
/**
 * In the order of wallets and indexes: so two followers cannot deadlock, and after a failure midway, what is stored beyond a counter has no gap.
 */
async function derive(ctx: Context, { coin, network }: Followed, watched: WatchSet, wallets: readonly Missing[]): Promise<void> {
  const { family } = COIN[coin];
  let rows: Row[] = [];
  for (const { id, chainKey, script, ranges } of wallets)
    for (const [from, to] of ranges)
      for (let index = BigInt(from); index < BigInt(to); index++) {
        const { key, address } = deriveAddress({ chainKey, script, coin, network, index });
        watched.add(key);
        rows.push({ wallet_id: id, index: index.toString(), key, address });
        if (rows.length % BATCH === 0) await setImmediate();
        if (rows.length < AT_ONCE) continue;
        await write(ctx, family, rows);
        rows = [];
      }
  if (rows.length > 0) await write(ctx, family, rows);
}

/**
 * One follower's spare addresses: in `watched`, where they stay once issued, and in the table, which says whose they are. They are derived
 * once, when the counter of their wallet moves, by whichever follower of the family comes first; all others read them.
 */
export function createLookAhead(ctx: Context, { coin, network }: Followed, watched: WatchSet) {
  const { family } = COIN[coin];

  return {
    /** Reads the wallets changed since the transaction `readFrom`, derives the addresses that came into range, and watches all that are new. */
    refresh: async (readFrom: string): Promise<void> => {
      const { sql } = ctx.db;
      const wallets = await sql<Missing[]>`
        select w.id, w.chain_key as "chainKey", w.script, coalesce((
          select jsonb_agg(jsonb_build_array(r.low::text, r.high::text) order by r.low) from (
            select greatest(w.next_index, 1 + (select max(index) from spare_addresses where wallet_id = w.id)) as low,
              w.next_index + ${LOOK_AHEAD.toString()}::bigint as high
            union all select k.first_index, k.end_index from skipped_indexes k where k.wallet_id = w.id and k.end_index - k.first_index > (
              select count(*) from spare_addresses where wallet_id = w.id and index >= k.first_index and index < k.end_index)) as r
          where r.low < r.high), '[]') as ranges
        from wallets w where w.family = ${family} and w.network = ${network} and w.xid >= ${readFrom}::xid8 order by w.id`;
      if (wallets.length === 0) return;
      await derive(ctx, { coin, network }, watched, wallets);
      // What was issued is an address of its payment now.
      await sql`
        delete from spare_addresses where (family, key) in (
          select s.family, s.key from wallets w join spare_addresses s on s.wallet_id = w.id and s.index < w.next_index
          where w.family = ${family} and w.xid >= ${readFrom}::xid8
            and not exists (select 1 from skipped_indexes k where k.wallet_id = w.id and s.index >= k.first_index and s.index < k.end_index)
          for update of s skip locked)`;
      const stored = sql<{ key: string }[]>`
        select key from spare_addresses where family = ${family} and xid >= ${readFrom}::xid8`;
      for await (const rows of stored.cursor(AT_ONCE)) for (const { key } of rows) watched.add(key);
    },

    /**
     * Records deposits to spare addresses, each once, and moves the counters beyond them. Returns the new ones, to be reported after
     * the commit. Errors: AddressGiven.
     */
    record: async (tx: Tx, strays: readonly Stray[], seenAt: Date): Promise<Stray[]> => {
      // A peg-out in the mempool has a different reference than the output that pays it, so only mined ones are recorded.
      // Dust is ignored, as for payments: it would move the counter by a hundred for almost nothing.
      const certain = strays.filter(
        (stray) => stray.units >= COIN[stray.coin].dustUnits && !(stray.kind === 'pegout' && stray.ref.includes(':pegout:')),
      );
      if (certain.length === 0) return [];
      const furthest = new Map<string, bigint>();
      for (const { spare } of certain) {
        const so = furthest.get(spare.walletId);
        if (so === undefined || spare.index > so) furthest.set(spare.walletId, spare.index);
      }
      // In id order, as everywhere, so that transactions cannot deadlock.
      for (const [walletId, through] of [...furthest].sort(([a], [b]) => (a < b ? -1 : 1))) await burnIndexes(tx, { walletId, through });
      const given =
        await tx`select 1 from deposit_addresses where family = ${COIN[coin].family} and key = any(${certain.map((stray) => stray.key)}::text[]) limit 1`;
      if (given.length > 0) throw new AddressGiven('an address was given while a deposit to it was read');
      const rows = certain.map(({ spare, coin, ref, txid, units }) => ({
        coin,
        ref,
        merchant_id: spare.merchantId,
        wallet_id: spare.walletId,
        index: Number(spare.index),
        address: spare.address,
        txid,
        units: units.toString(),
      }));
      const added = await tx<{ coin: Coin; ref: string }[]>`
        insert into stray_deposits (coin, ref, merchant_id, wallet_id, index, address, txid, units, first_seen_at)
        select r.coin, r.ref, r.merchant_id, r.wallet_id, r.index, r.address, r.txid, r.units, ${seenAt}
        from jsonb_to_recordset(${tx.json(rows)}) as r (coin text, ref text, merchant_id text, wallet_id text, index bigint, address text,
          txid text, units numeric)
        on conflict (coin, ref) do nothing returning coin, ref`;
      const fresh = new Set(added.map((row) => `${row.coin} ${row.ref}`));
      return certain.filter((stray) => fresh.has(`${stray.coin} ${stray.ref}`));
    },

    /** Logs the recorded deposits; `doctor` lists them until the operator claims them. */
    tell: (strays: readonly Stray[]): void => {
      for (const { coin, spare, ref } of strays) {
        ctx.log.warn(
          { coin, ref, wallet: spare.walletId, index: Number(spare.index), address: spare.address },
          'Received a deposit at an address that no payment uses; run: ./florin doctor',
        );
      }
    },
  };
}

/** The operator has handled a deposit to an unused address: `doctor` no longer lists it. Errors: parameter_invalid. */
export async function claimDeposit(ctx: Context, { coin, ref }: { coin: Coin; ref: string }): Promise<void> {
  const claimed = await ctx.db.sql`
    update stray_deposits set claimed_at = coalesce(claimed_at, clock_timestamp()) where coin = ${coin} and ref = ${ref}`;
  if (claimed.count === 0) throw new Problem('parameter_invalid', { reason: 'this deposit does not exist' }, { param: 'ref' });
}
