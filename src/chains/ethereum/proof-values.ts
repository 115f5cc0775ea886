/** Reads values from the JSON of a node as the bytes that hashes cover. A value in any other form is refused. */
import { hexToBytes } from '@noble/hashes/utils.js';

/** An answer does not fit what it should prove, or has a form that nothing could prove. */
export class ProofError extends Error {
  constructor(message: string) {
    super(message);
    this.name = 'ProofError';
  }
}

export const EMPTY = new Uint8Array(0);

/**
 * DATA: an even number of hex digits, `min` to `max` bytes. Without `max`, only the size of the answer bounds it: where the rules of the chain
 * have no bound but the price of gas, one of our own would let a stranger make a block that cannot be read.
 */
export function dataBytes(value: unknown, { name, min, max = Infinity }: { name: string; min: number; max?: number }): Uint8Array {
  const refuse = () => new ProofError(`${name} is not hex${max === Infinity ? '' : ` of at most ${max} bytes`}`);
  if (typeof value !== 'string' || value.length > 2 + max * 2 || value.length % 2 !== 0 || !value.startsWith('0x')) throw refuse();
  // It stops before the first byte that is not hex.
  const { buffer, byteOffset, length } = Buffer.from(value.slice(2), 'hex');
  if (length * 2 + 2 !== value.length) throw refuse();
  const bytes = new Uint8Array(buffer, byteOffset, length);
  if (bytes.length < min) throw new ProofError(`${name} has ${bytes.length} bytes, expected ${min}`);
  return bytes;
}

/** QUANTITY: big-endian without leading zeros, so zero is empty, of at most `max` bytes. */
export function quantityBytes(value: unknown, { name, max }: { name: string; max: number }): Uint8Array {
  if (typeof value !== 'string' || !/^0x[0-9a-fA-F]{1,64}$/.test(value)) throw new ProofError(`${name} is not a number`);
  const digits = value.slice(2).replace(/^0+/, '');
  if (digits.length > max * 2) throw new ProofError(`${name} is more than ${max} bytes long`);
  return hexToBytes(digits.length % 2 === 0 ? digits : `0${digits}`);
}

export const isSame = (a: Uint8Array, b: Uint8Array): boolean => Buffer.compare(a, b) === 0;

/** A list of at most `max` items; without `max`, only the size of the answer bounds it. */
export function listOf(value: unknown, { name, max = Infinity }: { name: string; max?: number }): readonly unknown[] {
  if (!Array.isArray(value) || value.length > max)
    throw new ProofError(`${name} is not a list${max === Infinity ? '' : ` of at most ${max} items`}`);
  return value;
}
