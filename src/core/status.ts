/** The status of a payment: which one may follow which, and which ones only the merchant changes. */
import { invariant } from './invariant.ts';
import type { PaymentStatus, SettlementStep } from './payment.ts';

/** The allowed transitions. The database also rejects all others. */
export const NEXT: Readonly<Record<PaymentStatus, readonly PaymentStatus[]>> = {
  pending: ['processing', 'expired', 'failed', 'cancelled'],
  processing: ['completed', 'failed', 'pending'],
  completed: [],
  expired: ['processing'],
  failed: ['processing'],
  cancelled: ['processing'],
};

/** A step from one status to another. Stops transitions that are not in the table. */
export function move(from: PaymentStatus, to: PaymentStatus): SettlementStep {
  invariant(NEXT[from].includes(to), `a payment does not go from ${from} to ${to}`);
  return { from, status: to };
}

export function stepsTo(from: PaymentStatus, goal: PaymentStatus): readonly SettlementStep[] {
  if (goal === from) return [];
  return goal === 'completed' && from !== 'processing' ? [move(from, 'processing'), move('processing', 'completed')] : [move(from, goal)];
}

/** Whether only a decision of the merchant can change the status. */
export function isFinal(status: PaymentStatus): boolean {
  switch (status) {
    case 'completed':
    case 'expired':
    case 'failed':
    case 'cancelled':
      return true;
    case 'pending':
    case 'processing':
      return false;
  }
}
