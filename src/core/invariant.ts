/** Stops what must never happen, before a wrong value is stored or shown. It is always our mistake, never one of a caller. */

export class InvariantError extends Error {
  constructor(message: string) {
    super(`this must never happen: ${message}`);
    this.name = 'InvariantError';
  }
}

/** Throws unless the condition holds. `message` says what must be true. */
export function invariant(condition: unknown, message: string): asserts condition {
  if (!condition) throw new InvariantError(message);
}
