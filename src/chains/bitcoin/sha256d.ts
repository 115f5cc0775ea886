/** SHA-256 twice: of bytes, of a range of them, and of a transaction without its witness (BIP-141). */
import { hash } from 'node:crypto';
import type { TransactionExtent } from './strict-reader.ts';

/** Transactions up to this length are put together here. */
const joined = Buffer.allocUnsafeSlow(4_096);
const inner = Buffer.allocUnsafeSlow(32);

/** One character for each byte. A `Buffer` for each digest would cost Node several times as much as the hash itself. */
function digestOf(message: Uint8Array): string {
  inner.write(hash('sha256', message, 'binary'), 'latin1');
  return hash('sha256', inner, 'binary');
}

export const sha256d = (message: Uint8Array): Buffer => Buffer.from(digestOf(message), 'latin1');

/** Writes the hash of the bytes in `[from, to)` to `out` at `outAt`, which may be the place of these bytes. */
export function hashRange(bytes: Buffer, from: number, to: number, out: Buffer, outAt: number): void {
  out.write(digestOf(bytes.subarray(from, to)), outAt, 'latin1');
}

/** Writes the id of a transaction to `out` at `outAt`, in the chain's byte order. */
export function hashTransaction(bytes: Buffer, extent: TransactionExtent, out: Buffer, outAt: number): void {
  out.write(digestOf(stripped(bytes, extent)), outAt, 'latin1');
}

/** A transaction without its witness; valid until the next one. */
function stripped(bytes: Buffer, { from, to, bodyFrom, bodyTo, tailFrom }: TransactionExtent): Uint8Array {
  if (bodyFrom === from + 4 && tailFrom === bodyTo) return bytes.subarray(from, to);
  const tailAt = 4 + bodyTo - bodyFrom;
  const length = tailAt + to - tailFrom;
  const message = length <= joined.length ? joined.subarray(0, length) : Buffer.allocUnsafe(length);
  bytes.copy(message, 0, from, from + 4);
  bytes.copy(message, 4, bodyFrom, bodyTo);
  bytes.copy(message, tailAt, tailFrom, to);
  return message;
}
