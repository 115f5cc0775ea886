/** What shops learn about a payment follows from this part of it. */
import type { Decision, Exception, PaymentStatus } from '../core/payment.ts';

/** What the state of an invoice or a charge follows from, as the payment is stored. */
export type Standing = {
  status: PaymentStatus;
  exceptions: readonly Exception[];
  decisions: readonly Pick<Decision, 'kind'>[];
};

/** The merchant's last decision about money that had arrived. */
export const decided = ({ decisions }: Standing): Decision['kind'] | null =>
  decisions.findLast(({ kind }) => kind !== 'cancel')?.kind ?? null;
