/** Batches of payouts as the dashboard and the commands show them. */
import { formatUnits, formatUsd } from '../core/money.ts';
import type { RefundState } from '../core/refund.ts';
import type { PayoutBatch } from './payout-batches.ts';

/** `totals`: what is not canceled, by coin. `open`: what nobody approved yet, which an approval of the batch approves. */
export function batchBody({ id, name, requestedBy, createdAt, parts }: PayoutBatch) {
  const sum = (of: typeof parts) => ({
    payouts: of.reduce((count, part) => count + part.payouts, 0),
    amount_usd: formatUsd(of.reduce((cents, part) => cents + part.usdCents, 0n)),
    totals: [...Map.groupBy(of, ({ coin }) => coin)].map(([coin, group]) => ({
      currency: coin,
      amount: formatUnits(
        coin,
        group.reduce((units, part) => units + part.units, 0n),
      ),
    })),
  });
  const states = Object.fromEntries(
    [...Map.groupBy(parts, ({ state }) => state)].map(([state, group]) => [state, group.reduce((count, part) => count + part.payouts, 0)]),
  ) as Partial<Record<RefundState, number>>;
  return {
    ...{ id, name, requested_by: requestedBy, created_at: createdAt.toISOString(), states },
    ...sum(parts.filter(({ state }) => state !== 'canceled')),
    open: sum(parts.filter(({ state }) => state === 'requested')),
  };
}
