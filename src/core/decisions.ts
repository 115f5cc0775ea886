/** The decisions of the merchant about the money of a payment: canceled, accepted, rejected, refunded. */
import type { PaymentFacts } from './payment.ts';

export type Decided = {
  closedAt: Date | null;
  cancelled: boolean;
  /** The refs that each accept still covers: without those rejected or refunded later. */
  accepts: readonly (readonly string[])[];
  /** All refs that an accept covers. */
  named: ReadonlySet<string>;
  /** Transfers that were rejected or refunded, and not accepted since. */
  settledRefs: ReadonlyMap<string, 'rejected' | 'refunded'>;
};

/** The merchant's decisions, read from the last to the first. */
export function foldDecisions(facts: PaymentFacts): Decided {
  let closedAt: Date | null = null;
  let cancelled = false;
  const accepts: (readonly string[])[] = [];
  const settledRefs = new Map<string, 'rejected' | 'refunded'>();
  for (const { kind, at, transfers } of facts.decisions.toReversed()) {
    switch (kind) {
      case 'cancel':
        cancelled = true;
        closedAt = at;
        break;
      case 'accept': {
        const left = transfers.filter((ref) => !settledRefs.has(ref));
        if (left.length > 0) accepts.push(left);
        break;
      }
      case 'reject':
      case 'refund_sent':
        closedAt = at;
        for (const ref of transfers) if (!settledRefs.has(ref)) settledRefs.set(ref, kind === 'reject' ? 'rejected' : 'refunded');
        break;
    }
  }
  return { closedAt, cancelled, accepts, named: new Set(accepts.flat()), settledRefs };
}
