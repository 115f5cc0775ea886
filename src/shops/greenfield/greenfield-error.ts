/** Errors in the form of the protocol: 422 is a list of faults, everything else an object. */
import type { Problem } from '../../core/problem.ts';
import type { FieldFault } from '../shop-order.ts';

/** A reply other than 200. */
export class GreenfieldError extends Error {
  readonly status: number;
  readonly body: object;

  constructor(status: number, body: { code: string; message: string; missingPermission?: string } | readonly FieldFault[]) {
    super(`Greenfield ${status}`);
    this.status = status;
    this.body = body;
  }
}

export const unauthenticated = (): GreenfieldError =>
  new GreenfieldError(401, { code: 'unauthenticated', message: 'Authentication is required for accessing this endpoint' });
export const missingPermission = (permission: string): GreenfieldError =>
  new GreenfieldError(403, {
    missingPermission: permission,
    code: 'missing-permission',
    message: `Insufficient API Permissions. Please use an API key with permission "${permission}" for this store.`,
  });
export const invalid = (...faults: readonly [FieldFault, ...FieldFault[]]): GreenfieldError => new GreenfieldError(422, faults);
export const notSupported = (message: string): GreenfieldError => new GreenfieldError(501, { code: 'not-supported', message });

const NOT_FOUND: Readonly<Record<string, { code: string; message: string }>> = {
  payment_not_found: { code: 'invoice-not-found', message: 'The invoice was not found' },
  endpoint_not_found: { code: 'webhook-not-found', message: 'The webhook was not found' },
};
/** Problems that are faults of a field. */
const FIELDS: Readonly<Record<string, string>> = {
  fiat_unsupported: 'Currency',
  amount_invalid: 'Amount',
  amount_too_large: 'Amount',
  amount_too_small: 'Amount',
  amount_precision: 'Amount',
  refund_exceeds: 'Amount',
  url_invalid: 'Url',
  coin_not_configured: 'checkout.paymentMethods',
  payment_status_conflict: 'Status',
  payment_has_money: 'Status',
  payment_needs_attention: 'Status',
  nothing_received: 'Status',
  worth_unknown: 'Status',
  money_refunded: 'Status',
};

/** A failure of Florin in the words of the protocol. */
export function fromProblem(problem: Problem): GreenfieldError {
  const { code, status, message, param } = problem;
  if (code === 'invalid_api_key') return unauthenticated();
  const absent = NOT_FOUND[code];
  if (absent) return new GreenfieldError(404, absent);
  const field = FIELDS[code];
  if (field) return invalid({ path: field, message });
  if (status === 400 && param !== null) return invalid({ path: param, message });
  return new GreenfieldError(status, { code: code.replaceAll('_', '-'), message });
}
