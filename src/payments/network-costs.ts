/** What paying on a network usually costs, for the payer who chooses one: its fee and the time until the payment is confirmed. */
import { type Coin, chainOf } from '../core/coin.ts';
import { requirementOf } from '../core/confirmation.ts';
import type { PaymentFacts } from '../core/payment.ts';
import type { Costs } from './view.ts';

/** Null for chains that are not an alternative to another. The time is that of the confirmations that this amount needs. */
export function costsOf(facts: PaymentFacts, coin: Coin): Costs | null {
  const { usualFeeCents, safeSeconds, finalSeconds, blockSeconds } = chainOf(coin);
  if (usualFeeCents === undefined) return null;
  const { rule, confirmations } = requirementOf(facts, coin, { receivedCents: 0n, company: 0n, kinds: 'token' });
  const deep = confirmations * blockSeconds;
  const seconds = { safe: Math.max(deep, safeSeconds ?? 0), finalized: Math.max(deep, finalSeconds ?? 0) }[rule as string] ?? deep;
  return { feeUsdCents: usualFeeCents, seconds: Math.ceil(seconds) };
}
