/** What a payment of Florin means in Medusa. */
import type { PaymentActions, PaymentSessionStatus } from '@medusajs/framework/types';
import type { Payment, PaymentException, PaymentStatus } from '../../../sdk/src/types.ts';

/** What decides. */
export type Facts = { status: PaymentStatus; exceptions: readonly PaymentException[] };

/** Money that the network took back after the payment was completed. */
export const isReversed = ({ exceptions }: Facts): boolean => exceptions.includes('reorged');

/** Earlier versions of Florin do not name each amount. */
const isSome = (amount: string | null | undefined): boolean => /[1-9]/.test(amount ?? '');
const OF_MONEY: readonly PaymentException[] = ['underpaid', 'late', 'paid_after_cancel', 'wrong_token', 'wrong_network'];

/** Whether money came to a payment or is on its way, whether it counts or not. */
export const hasMoney = ({ status, exceptions, amount_received, amount_announced, amount_held }: Payment): boolean =>
  status === 'processing' ||
  status === 'completed' ||
  isSome(amount_received) ||
  isSome(amount_announced) ||
  isSome(amount_held) ||
  exceptions.some((exception) => OF_MONEY.includes(exception));

/** Whether all that came to it was refunded. */
export const isReturned = ({ amount_received, amount_refunded }: Payment): boolean =>
  isSome(amount_refunded) && amount_refunded === amount_received;

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
