/** How many confirmations an invoice waits for, in the names of the protocol. */
import type { Coin, ConfirmationTier } from '../../core/coin.ts';
import { confirmationTier } from '../../core/confirmation.ts';
import type { PaymentFacts } from '../../core/payment.ts';

export const SPEED_POLICIES = ['HighSpeed', 'MediumSpeed', 'LowMediumSpeed', 'LowSpeed'] as const;
export type SpeedPolicy = (typeof SPEED_POLICIES)[number];
export const SPEED_CONFIRMATIONS: Readonly<Record<SpeedPolicy, number>> = { HighSpeed: 0, MediumSpeed: 1, LowMediumSpeed: 2, LowSpeed: 6 };

/** The slowest policy that the payment is at least as strict as, in the fastest of its coins. */
export function speedPolicy(facts: PaymentFacts, coins: readonly Coin[]): SpeedPolicy {
  const counts = coins.map((coin) => blocksOf(confirmationTier(facts, coin, facts.targetUsdCents)));
  const least = counts.length === 0 ? 1 : Math.min(...counts);
  return SPEED_POLICIES.findLast((policy) => SPEED_CONFIRMATIONS[policy] <= least)!;
}

/** How many blocks a tier waits for; locks come before or with the first one, and final blocks after many. */
function blocksOf({ rule, confirmations }: ConfirmationTier): number {
  switch (rule) {
    case 'confirmations':
      return Math.max(1, confirmations);
    case 'instantsend':
      return 0;
    case 'instantsend_or_chainlock':
    case 'chainlock':
      return 1;
    case 'safe':
    case 'finalized':
      return Number.POSITIVE_INFINITY;
  }
}
