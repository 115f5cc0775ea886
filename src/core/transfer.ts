/** What one transfer is, apart from its payment: dust, gone, or contested by another transaction. */
import { DAY_MS, MINUTE_MS } from './clock.ts';
import { COIN, type Coin, chainOf, kindOf } from './coin.ts';
import type { PaymentFacts, Tips, Transfer, WRONG_COIN } from './payment.ts';

/** Blocks of a chain of accounts after which a transaction that no source knows is gone. */
const GONE_AFTER_BLOCKS = 12;
/**
 * A transfer counts as gone when it was neither mined nor in the mempool for this long while in sync. On chains of accounts the sender's
 * next transaction takes its place, so it does not come back after a few blocks; elsewhere a wallet may send the same one again.
 */
export const goneAfterMs = (coin: Coin): number =>
  kindOf(coin) === 'ethereum' ? Math.max(MINUTE_MS, GONE_AFTER_BLOCKS * chainOf(coin).blockSeconds * 1000) : DAY_MS;

/** Whether a transfer is dust. Several outputs below the limit are dust together, because none of them is worth its fee. */
export const isDust = (t: Transfer): boolean => t.units < COIN[t.coin].dustUnits * BigInt(t.outputs ?? 1);

/** Whether the transfer can no longer be paid: a confirmed conflict, or long unseen while the follower was in sync. */
export function isGone(t: Transfer, tips: Tips): boolean {
  if (t.block) return false;
  if (t.conflict && t.conflict.height !== null) return true;
  if (!t.absentSince) return false;
  const tip = tips[t.coin];
  return tip !== undefined && tip.scannedThrough.getTime() - t.absentSince.getTime() >= goneAfterMs(t.coin);
}

/** Whether it arrived: in a block, or locked by the network. Otherwise it is only announced, and may never come. */
export const hasArrived = (t: Transfer): boolean => t.block !== null || t.lock !== null;

/** Whether a conflicting spend waits in the mempool, so either may be mined. */
export const isContested = (t: Transfer): boolean => !t.block && t.conflict !== null && t.conflict.height === null;

/** The sum of transfers too small to count that are still there. */
export const dustOf = (transfers: readonly Transfer[], tips: Tips, coin: Coin | null): bigint =>
  transfers.reduce((total, t) => (t.coin === coin && isDust(t) && !isGone(t, tips) ? total + t.units : total), 0n);

/**
 * The coins that the payer was asked for. Chains of one family share the address of a payment, so other coins can arrive there too; they
 * count only if the merchant accepts them, whatever they are worth.
 */
export const askedCoins = ({ quotes, fixed }: PaymentFacts): ReadonlySet<Coin> =>
  new Set([...quotes.map(({ coin }) => coin), ...(fixed ? [fixed.coin] : [])]);

/** What is wrong with a coin that was not asked for: its network, or on the right network the token. */
export const faultOfCoin = (asked: ReadonlySet<Coin>, coin: Coin): (typeof WRONG_COIN)[number] =>
  [...asked].some((one) => COIN[one].chain === COIN[coin].chain) ? 'wrong_token' : 'wrong_network';

/** Whether the payer may still change the coin: nothing that counts has arrived. */
export function mayChangeCoin(facts: PaymentFacts, transfers: readonly Transfer[]): boolean {
  const asked = askedCoins(facts);
  return !transfers.some((t) => asked.has(t.coin) && !isDust(t) && !isContested(t) && !isGone(t, {}) && t.firstSeenAt >= facts.createdAt);
}
