/** SHA-256 twice, of messages that are in up to three places, as a transaction's ID skips its witness (BIP-141). */
import { hash } from 'node:crypto';

/** Messages up to this length are put together here. */
const joined = Buffer.allocUnsafe(4_096);

/**
 * Writes the hash of a message to `out` at `outAt`: the four bytes at `head`, then those in `[from, to)`, then those in `[rest, end)`.
 * The hash may be written over the message.
 */
export function hashTwice(
  bytes: Buffer,
  head: number,
  from: number,
  to: number,
  rest: number,
  end: number,
  out: Buffer,
  outAt: number,
): void {
  const length = 4 + (to - from) + (end - rest);
  const message = length <= joined.length ? joined.subarray(0, length) : Buffer.allocUnsafe(length);
  bytes.copy(message, 0, head, head + 4);
  bytes.copy(message, 4, from, to);
  bytes.copy(message, 4 + to - from, rest, end);
  out.set(hash('sha256', hash('sha256', message, 'buffer'), 'buffer'), outAt);
}
