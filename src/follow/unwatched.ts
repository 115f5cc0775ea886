/** Addresses that were issued before the first block of their coin from which all blocks are read. */
import type { Context } from '#context';
import { type Coin, NATIVE_COINS } from '#core/coin';

export type UnwatchedAddresses = {
  coin: Coin;
  addresses: number;
  /** When the first of them was issued. */
  earliest: Date;
  /** The lowest block that was read; null before the first one. */
  from: number | null;
  /** The height down to which blocks are still to be read; null when there are none. */
  to: number | null;
  /** Why they cannot be read. */
  failure: string | null;
};

/** The follower records its start a moment before the first address can be issued. */
const SLACK = '1 minute';

/** One row for each coin with addresses that may have been paid in a block that was not read. */
export async function readUnwatched(ctx: Context): Promise<UnwatchedAddresses[]> {
  return ctx.db.sql<UnwatchedAddresses[]>`
    select c.coin, d.addresses, d.earliest, t.watched_from::int as "from", t.read_back_to::int as "to", f.read_back_failure as failure
    from unnest(${[...NATIVE_COINS]}::text[]) with ordinality as c (coin, n)
    left join tips t on t.chain = c.coin left join followers f on f.chain = c.coin
    cross join lateral (
      select count(*)::int as addresses, min(created_at) as earliest from deposit_addresses
      where family = c.coin and created_at < coalesce(t.watched_since - ${SLACK}::interval, 'infinity')) as d
    where d.addresses > 0 order by c.n`;
}

const plural = (count: number, one: string): string => `${count} ${count === 1 ? one : `${one}es`}`;

/** The problem, and how to fix it. */
export function explainUnwatched({ coin, addresses, earliest, from, to, failure }: UnwatchedAddresses): { detail: string; fix: string } {
  const given = `${plural(addresses, 'address')} given since ${earliest.toISOString()}`;
  if (from === null)
    return { detail: `${given}: no block of ${coin} has been read yet`, fix: `start the service with a ${coin} source that answers` };
  const before = `${given}, before block ${from}, from which on all blocks are read`;
  const accept = `once you have looked for payments to them in the merchant's wallet: florin chain release --coin ${coin} --reason "..."`;
  if (to === null) return { detail: `${before}; blocks further back are not read`, fix: accept };
  const rest = `blocks ${Math.max(1, to)} to ${from - 1} are still to be read`;
  return failure === null
    ? { detail: `${before}; ${rest}`, fix: 'keep the service running until they are' }
    : { detail: `${before}; ${rest}: ${failure}`, fix: `use a source that has these blocks, or ${accept}` };
}
