/** Roots and branches of SSZ trees, as far as light clients need them (consensus-specs, ssz/simple-serialize and ssz/merkle-proofs). */
import { hash } from 'node:crypto';
import { concatBytes } from '@noble/hashes/utils.js';
import { dataBytes, isSame, listOf, ProofError } from '#evm';

export const sha256 = (bytes: Uint8Array): Uint8Array => hash('sha256', bytes, 'buffer');
const pair = (left: Uint8Array, right: Uint8Array): Uint8Array => sha256(concatBytes(left, right));

const ZERO = new Uint8Array(32);
/** Roots of trees of zeros, by depth. */
const ZEROS: Uint8Array[] = [ZERO];
const zeros = (depth: number): Uint8Array => {
  while (ZEROS.length <= depth) ZEROS.push(pair(ZEROS.at(-1)!, ZEROS.at(-1)!));
  return ZEROS[depth]!;
};

/** Root of a tree with 2^depth leaves of 32 bytes, the missing ones zero. */
export function rootOf(leaves: readonly Uint8Array[], depth: number): Uint8Array {
  let layer = leaves;
  for (let level = 0; level < depth; level++)
    layer = Array.from({ length: Math.ceil(layer.length / 2) }, (_, i) => pair(layer[2 * i]!, layer[2 * i + 1] ?? zeros(level)));
  return layer[0] ?? zeros(depth);
}

/** Bytes as leaves of 32, the last one filled with zeros. */
export function chunks(bytes: Uint8Array): Uint8Array[] {
  return Array.from({ length: Math.ceil(bytes.length / 32) }, (_, i) => {
    const leaf = new Uint8Array(32);
    leaf.set(bytes.subarray(i * 32, i * 32 + 32));
    return leaf;
  });
}
/** A number as a leaf: little-endian, as SSZ writes it. */
export function numberLeaf(value: bigint): Uint8Array {
  const leaf = new Uint8Array(32);
  for (let i = 0, rest = value; rest > 0n; i++, rest >>= 8n) leaf[i] = Number(rest & 0xffn);
  return leaf;
}
/** The root of a list: that of its content, with its length. */
export const withLength = (root: Uint8Array, length: number): Uint8Array => pair(root, numberLeaf(BigInt(length)));

/**
 * Whether a branch leads from a value to a root. A branch for a deeper place than `gindex` starts with zeros, as servers send it after a
 * fork moved the place.
 */
export function isBranch(
  value: Uint8Array,
  branch: readonly Uint8Array[],
  { gindex, root }: { gindex: number; root: Uint8Array },
): boolean {
  const depth = Math.floor(Math.log2(gindex));
  const surplus = branch.length - depth;
  if (surplus < 0 || !branch.slice(0, surplus).every((entry) => isSame(entry, ZERO))) return false;
  const reached = branch
    .slice(surplus)
    .reduce((node, sibling, level) => (Math.floor(gindex / 2 ** level) % 2 === 1 ? pair(sibling, node) : pair(node, sibling)), value);
  return isSame(reached, root);
}
export const isZeroBytes = (bytes: Uint8Array): boolean => bytes.every((byte) => byte === 0);

// Reads values from the JSON of the Beacon API: bytes as hex, numbers as decimal text. Any other form is refused.

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
export const LAST_SLOT = 2 ** 48;
/** A slot: far below 2^53 for millions of years. */
export function readSlot(value: unknown, name: string): number {
  const slot = uintOf(value, name, 64);
  if (slot > LAST_SLOT) throw new ProofError(`${name} is no possible slot`);
  return Number(slot);
}
export const MAX_BRANCH = 16;
/** A merkle branch, at most as deep as those of all forks. */
export const branchOf = (value: unknown, name: string): Uint8Array[] =>
  listOf(value, { name, max: MAX_BRANCH }).map((entry, i) => readBytes(entry, `${name}[${i}]`, 32));
