/** Reads values from the JSON of the Beacon API: bytes as hex, numbers as decimal text. Any other form is refused. */
import { dataBytes, listOf, ProofError } from '../proof-values.ts';

export type BeaconFields = Readonly<Record<string, unknown>>;

export function fieldsOf(value: unknown, name: string): BeaconFields {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) throw new ProofError(`${name} is not an object`);
  return value as BeaconFields;
}
export const readBytes = (value: unknown, name: string, length: number): Uint8Array => dataBytes(value, { name, min: length, max: length });

/** An unsigned number of at most `bits` bits. */
export function uintOf(value: unknown, name: string, bits: number): bigint {
  if (typeof value !== 'string' || !/^(0|[1-9]\d{0,77})$/.test(value)) throw new ProofError(`${name} is not a decimal number`);
  const number = BigInt(value);
  if (number >> BigInt(bits) !== 0n) throw new ProofError(`${name} has more than ${bits} bits`);
  return number;
}
/** A slot: far below 2^53 for millions of years. */
export function readSlot(value: unknown, name: string): number {
  const slot = uintOf(value, name, 64);
  if (slot > 2n ** 48n) throw new ProofError(`${name} is no possible slot`);
  return Number(slot);
}
/** A merkle branch, at most as deep as those of all forks. */
export const branchOf = (value: unknown, name: string): Uint8Array[] =>
  listOf(value, { name, max: 16 }).map((entry, i) => readBytes(entry, `${name}[${i}]`, 32));
