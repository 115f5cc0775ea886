/** What a payment of Florin means in Medusa. */
import type { PaymentActions, PaymentSessionStatus } from '@medusajs/framework/types';
import type { PaymentException, PaymentStatus } from '../../../sdk/src/types.ts';

/** What decides. */
export type Facts = { status: PaymentStatus; exceptions: readonly PaymentException[] };

/** Money that the network took back after the payment was completed. */
export const isReversed = ({ exceptions }: Facts): boolean => exceptions.includes('reorged');

const SESSION: Readonly<Record<PaymentStatus, PaymentSessionStatus>> = {
  // The customer has to pay: the cart stays open.
  pending: 'requires_more',
  // The money is on its way: the order is placed, and is paid when the network has confirmed it.
  processing: 'pending_authorization',
  completed: 'captured',
  expired: 'canceled',
  cancelled: 'canceled',
  failed: 'error',
};
export const sessionStatusOf = (facts: Facts): PaymentSessionStatus =>
  facts.status === 'completed' && isReversed(facts) ? 'error' : SESSION[facts.status];

const ACTIONS: Readonly<Record<PaymentStatus, PaymentActions>> = {
  pending: 'pending',
  // Medusa completes the cart, and then asks for the status of the payment.
  processing: 'authorized',
  completed: 'captured',
  expired: 'canceled',
  cancelled: 'canceled',
  failed: 'failed',
};
export const actionOf = (facts: Facts): PaymentActions => (isReversed(facts) ? 'not_supported' : ACTIONS[facts.status]);
