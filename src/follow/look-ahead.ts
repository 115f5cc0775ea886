/** Watches unissued addresses of wallets: indexes beyond the counters, and those that a counter skipped. */
import { setImmediate } from 'node:timers/promises';
import { deriveAddress, type Script, type Sighting } from '#chains';
import type { Context } from '#context';
import { COIN, type Coin, type Network } from '#core/coin';
import { Problem } from '#core/problem';
import type { Tx } from '#db';
import { burnIndexes } from '#wallets';
import type { WatchSet } from './watch-set.ts';

/** Indexes watched beyond a wallet's counter, because another program may have issued addresses from the same account key. */
const LOOK_AHEAD = 100n;
/** Derivations, about a millisecond each, between two turns of the event loop. */
const BATCH = 5;

type Spare = { walletId: string; merchantId: string; index: bigint; address: string };
type Range = { from: bigint; to: bigint };
export type Stray = Sighting & { coin: Coin; spare: Spare };

/** Thrown when an address was just issued to a payment: the step is retried, with the address watched for that payment. */
export class AddressGiven extends Error {}

/** One follower's spare addresses, by wallet, and in `watched`, where they stay once issued. Derives keys only when a counter moved. */
export function createLookAhead(ctx: Context, { coin, network }: { coin: Coin; network: Network }, watched: WatchSet) {
  const byKey = new Map<string, Spare>();
  const byWallet = new Map<string, Map<bigint, string>>();

  return {
    find: (key: string): Spare | undefined => byKey.get(key),

    /** Reads the wallets changed since the transaction `readFrom` and derives the addresses that came into range. */
    refresh: async (readFrom: string): Promise<void> => {
      const wallets = await ctx.db.sql<
        { id: string; merchantId: string; chainKey: string; script: Script; next: bigint; skipped: [string, string][] | null }[]
      >`
        select w.id, w.merchant_id as "merchantId", w.chain_key as "chainKey", w.script, w.next_index as next, s.skipped
        from wallets w left join lateral (
          select jsonb_agg(jsonb_build_array(first_index::text, end_index::text)) as skipped from skipped_indexes where wallet_id = w.id) s on true
        where w.family = ${COIN[coin].family} and w.network = ${network} and w.xid >= ${readFrom}::xid8`;
      for (const { id: walletId, merchantId, chainKey, script, next, skipped } of wallets) {
        const ranges: Range[] = [
          ...(skipped ?? []).map(([from, to]) => ({ from: BigInt(from), to: BigInt(to) })),
          { from: next, to: next + LOOK_AHEAD },
        ];
        const known = byWallet.get(walletId) ?? new Map<bigint, string>();
        byWallet.set(walletId, known);
        for (const [index, key] of known) {
          if (ranges.some(({ from, to }) => index >= from && index < to)) continue;
          known.delete(index);
          byKey.delete(key);
        }
        let derived = 0;
        for (const { from, to } of ranges) {
          for (let index = from; index < to; index++) {
            if (known.has(index)) continue;
            const { key, address } = deriveAddress({ chainKey, script, coin, network, index });
            known.set(index, key);
            watched.add(key);
            byKey.set(key, { walletId, merchantId, index, address });
            if (++derived % BATCH === 0) await setImmediate();
          }
        }
      }
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
