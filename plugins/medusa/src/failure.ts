/** Errors as Medusa shows them: in the admin, and in the log for a storefront. */
import { MedusaError } from '@medusajs/framework/utils';
import { ApiError, ConnectionError, TimeoutError } from '../../../sdk/src/errors.ts';

/** What was asked for cannot be done. */
export const refuse = (message: string): MedusaError => new MedusaError(MedusaError.Types.NOT_ALLOWED, message);

/** The customer has to pay first. Medusa answers the storefront with the cart, not with an order. */
export const requireMore = (message: string): MedusaError => new MedusaError(MedusaError.Types.PAYMENT_REQUIRES_MORE_ERROR, message);
/** Nothing can be paid any more. Medusa answers the storefront with the cart, too. */
export const requireSession = (message: string): MedusaError => new MedusaError(MedusaError.Types.PAYMENT_AUTHORIZATION_ERROR, message);

/** Why a request to Florin failed. Other errors are returned as they are. */
export function failureOf(error: unknown): unknown {
  if (error instanceof ApiError) {
    const id = error.requestId === null ? '' : ` (request ${error.requestId})`;
    const type = error.status === 404 ? MedusaError.Types.NOT_FOUND : MedusaError.Types.NOT_ALLOWED;
    return new MedusaError(error.status >= 500 ? MedusaError.Types.UNEXPECTED_STATE : type, `Florin: ${error.message}${id}`);
  }
  if (error instanceof ConnectionError || error instanceof TimeoutError)
    return new MedusaError(MedusaError.Types.UNEXPECTED_STATE, `Florin does not answer: ${error.message}`);
  return error;
}
