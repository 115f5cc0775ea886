/** Errors in the form of the protocol. */
import type { Problem } from '../../core/problem.ts';

export class CommerceError extends Error {
  readonly status: number;
  readonly body: { error: { type: string; message: string } };

  constructor(status: number, type: string, message: string) {
    super(`Commerce ${status}`);
    this.status = status;
    this.body = { error: { type, message } };
  }
}

export const wrongKey = (): CommerceError => new CommerceError(401, 'authentication_error', 'The API key is missing or not valid.');
export const invalidCharge = (message: string): CommerceError => new CommerceError(400, 'invalid_request', message);
export const notSupportedHere = (): CommerceError =>
  new CommerceError(
    501,
    'not_supported',
    'Florin supports creating and reading charges. Use the dashboard or the API of Florin for everything else.',
  );

/** A failure of Florin in the words of the protocol. */
export function chargeError({ code, status, message }: Problem): CommerceError {
  if (code === 'invalid_api_key') return wrongKey();
  if (code === 'payment_not_found') return new CommerceError(404, 'not_found', 'The charge was not found.');
  if (status === 429) return new CommerceError(429, 'rate_limit_exceeded', message);
  return new CommerceError(status, status < 500 ? 'invalid_request' : 'internal_server_error', message);
}
