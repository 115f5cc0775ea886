/** The confirmation tiers of a payment: the default table, what merchants raise, and what the operator overrides. */
import type { CompletionRule, ConfirmationTier } from './coin.ts';
import { invariant } from './invariant.ts';

const GRADE: Readonly<Record<CompletionRule, number>> = {
  confirmations: 0,
  instantsend: 1,
  instantsend_or_chainlock: 2,
  chainlock: 3,
  safe: 1,
  finalized: 2,
};

/** Whether a tier asks for less than another one: only an operator's override does. */
export const isLowerTier = (tier: ConfirmationTier, than: ConfirmationTier): boolean =>
  tier.rule === than.rule ? tier.confirmations < than.confirmations : GRADE[tier.rule] < GRADE[than.rule];

/**
 * The confirmation tiers of a new payment: the default table, raised by the merchant (lower values are ignored), or the operator's
 * override. Only the override may go lower, and its numbers replace locks and tags.
 */
export function mergeConfirmations(
  table: readonly ConfirmationTier[],
  merchant: readonly ConfirmationTier[] | null,
  operator: readonly ConfirmationTier[] | null,
): readonly ConfirmationTier[] {
  const base = operator ?? table;
  if (!merchant || merchant.length === 0) return base;
  const bounds = [...new Set([...base, ...merchant].map((t) => t.belowUsdCents))].toSorted((a, b) =>
    a === null ? 1 : b === null ? -1 : a < b ? -1 : 1,
  );
  const at = (tiers: readonly ConfirmationTier[], bound: bigint | null): ConfirmationTier => {
    const tier = tiers.find((t) => t.belowUsdCents === null || (bound !== null && bound <= t.belowUsdCents)) ?? tiers.at(-1);
    invariant(tier, 'there is a confirmation tier for every amount');
    return tier;
  };
  return bounds.map((bound) => {
    const low = at(base, bound);
    const wish = at(merchant, bound);
    const raised = wish.rule === low.rule ? wish.confirmations > low.confirmations : GRADE[wish.rule] > GRADE[low.rule];
    return { ...(raised ? { ...wish, confirmations: Math.max(wish.confirmations, low.confirmations) } : low), belowUsdCents: bound };
  });
}

/** Reads `1`, or `100:1,1000:2,*:6` (below 100 USD one, below 1000 two, else six). Errors: says what is wrong. */
export function parseConfirmations(text: string): readonly ConfirmationTier[] {
  const tier = (below: bigint | null, count: string): ConfirmationTier => {
    if (!/^[1-9]\d{0,3}$/.test(count)) throw new Error('needs whole numbers of confirmations from 1 up');
    return { belowUsdCents: below, confirmations: Number(count), rule: 'confirmations' };
  };
  const parts = text.split(',').map((part) => part.trim());
  const [only, ...more] = parts;
  if (only !== undefined && more.length === 0 && !only.includes(':')) return [tier(null, only)];
  const tiers = parts.map((part) => {
    const [bound = '', count = ''] = part.split(':');
    if (bound !== '*' && !/^[1-9]\d{0,9}$/.test(bound)) throw new Error('must look like 1, or 100:1,1000:2,*:6');
    return tier(bound === '*' ? null : BigInt(bound) * 100n, count);
  });
  const bounds = tiers.map((t) => t.belowUsdCents);
  if (bounds.at(-1) !== null || bounds.slice(0, -1).some((b, i) => b === null || (i > 0 && b <= bounds[i - 1]!))) {
    throw new Error('needs rising bounds and *:N as the last part');
  }
  return tiers;
}
