/** What a refund may become, how much of a payment can be refunded, and what an amount is in the coin of the payment. */
import type { Coin } from './coin.ts';
import { isConfirmed, requirement } from './confirmation.ts';
import { e8ToCents } from './money.ts';
import type { PaymentFacts, Tips, Transfer } from './payment.ts';
import { rolesOf } from './settle.ts';
import { isGone, worth } from './transfer.ts';

export const REFUND_STATES = ['requested', 'approved', 'signed', 'sent', 'confirmed', 'failed', 'canceled'] as const;
export type RefundState = (typeof REFUND_STATES)[number];
export const REFUND_RATES = ['payment', 'current'] as const;
export type RefundRate = (typeof REFUND_RATES)[number];
/** Who entered the address of an email about a refund: the merchant, or somebody with the link of the payment page. */
export const REFUND_EMAIL_SOURCES = ['merchant', 'page'] as const;
export type RefundEmailSource = (typeof REFUND_EMAIL_SOURCES)[number];

/**
 * The states that may follow each one. After `approved`, members may have sent the money: only they can end it without sending. The same
 * holds for `failed`: another transaction spent the money, which the merchant may have sent to the customer from another wallet.
 */
export const NEXT_REFUND: Readonly<Record<RefundState, readonly RefundState[]>> = {
  requested: ['approved', 'canceled'],
  approved: ['signed', 'sent', 'canceled'],
  signed: ['sent', 'failed'],
  sent: ['confirmed', 'failed'],
  confirmed: [],
  failed: ['sent', 'canceled'],
  canceled: [],
};
export const mayBecome = (from: RefundState, to: RefundState): boolean => NEXT_REFUND[from].includes(to);

/** Refunds that return money, or still may. */
export const isReserved = (state: RefundState): boolean => state !== 'canceled';
/** Refunds whose money has left. */
export const isPaidOut = (state: RefundState): boolean => state === 'sent' || state === 'confirmed';

/** What the refunds of a payment return or may still return, summed by coin and state. */
export type RefundSum = { coin: Coin; state: RefundState; units: bigint };
/** The sums after a refund was made, or changed from `before`. */
export function replaceRefund(sums: readonly RefundSum[], before: RefundSum | null, after: RefundSum): RefundSum[] {
  const others = sums.flatMap((sum) => {
    if (before === null || sum.coin !== before.coin || sum.state !== before.state) return [sum];
    return sum.units === before.units ? [] : [{ ...sum, units: sum.units - before.units }];
  });
  const { coin, state, units } = after;
  return isReserved(state) ? [...others, { coin, state, units }] : others;
}
/** What refunds return or may still return, in a coin. */
export const reservedUnits = (sums: readonly RefundSum[], coin: Coin): bigint =>
  sums.reduce((total, sum) => (sum.coin === coin ? total + sum.units : total), 0n);
/** What has left in refunds, by coin. */
export function returnedUnits(sums: readonly RefundSum[]): Partial<Record<Coin, bigint>> {
  const returned: Partial<Record<Coin, bigint>> = {};
  for (const { coin, state, units } of sums) if (isPaidOut(state)) returned[coin] = (returned[coin] ?? 0n) + units;
  return returned;
}
/** Whether a refund is more than a request. */
export const hasApproved = (sums: readonly RefundSum[]): boolean => sums.some(({ state }) => state !== 'requested');

/** Confirmed money of a payment in one coin, without what the merchant marked as refunded. */
export function confirmedUnits(facts: PaymentFacts, transfers: readonly Transfer[], tips: Tips, coin: Coin): bigint {
  const receivedCents = e8ToCents(transfers.reduce((sum, t) => sum + worth(t), 0n));
  const roles = rolesOf(facts, transfers, tips);
  return transfers.reduce((sum, t) => {
    const counts = t.coin === coin && !isGone(t, tips) && roles.get(t) !== 'refunded';
    return counts && isConfirmed(t, requirement(facts, t, receivedCents), tips[coin]) ? sum + t.units : sum;
  }, 0n);
}

/**
 * The part of `whole` that `part` is of `total`, rounded down. Refunding the total returns exactly the whole, and refunds of parts never
 * return more together.
 */
export const shareOf = (whole: bigint, { part, total }: { part: bigint; total: bigint }): bigint => (whole * part) / total;
