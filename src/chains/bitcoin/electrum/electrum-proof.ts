/** What proves an answer of an Electrum server: bytes whose hash was asked for, and branches that lead to the header of a block. */
import { hash } from 'node:crypto';
import type { BitcoinFamily } from '#core/coin';
import { hashBytes, showHash } from '../header.ts';
import { inputsOf, outputsOfTransaction, parseTransaction, type RawOutput, txidOf } from '../raw-block.ts';
import { sha256d, strippedSize } from '../strict-reader.ts';

/** The answer is not what it should be: the server is at fault, or another chain than ours is its best one. */
export class ElectrumProofError extends Error {
  constructor(message: string) {
    super(message);
    this.name = 'ProofError';
  }
}

/** An inner node of the merkle tree has this many bytes. */
const NODE_BYTES = 64;
/** No block has more than 2^30 transactions. */
export const MAX_DEPTH = 30;
const HASH = /^[0-9a-f]{64}$/;
export const isHash = (value: unknown): value is string => typeof value === 'string' && HASH.test(value);
export const isHex = (value: unknown): value is string =>
  typeof value === 'string' && value.length % 2 === 0 && value.length > 0 && !/[^0-9a-f]/.test(value);
export const isHeight = (value: unknown): value is number => Number.isSafeInteger(value) && (value as number) >= 0;

/** How servers name an output script: by its hash, in reversed bytes. */
export const scriptHashOf = (script: string): string => showHash(hash('sha256', Buffer.from(script, 'hex'), 'buffer'));

export type ProvenTransaction = {
  txid: string;
  /** As `txid:n`. */
  spends: readonly string[];
  outputs: readonly RawOutput[];
  isCoinbase: boolean;
  /** What it spends and pays in the open gives its fee; not so where coins are created, or enter or leave an extension block. */
  hasFee: boolean;
  bytes: number;
};

const NO_OUTPOINT = `${'0'.repeat(64)}:4294967295`;

/** Reads a transaction that must have this ID. Errors: ProofError. */
export function readProvenTransaction(hex: unknown, txid: string, family: BitcoinFamily): ProvenTransaction {
  if (!isHex(hex)) throw new ElectrumProofError('the bytes of a transaction are not hex');
  const bytes = Buffer.from(hex, 'hex');
  try {
    const raw = parseTransaction(bytes, family);
    const { extent } = raw;
    if (extent.to !== bytes.length) throw new ElectrumProofError('bytes follow a transaction');
    if (extent.mweb === 'part') throw new ElectrumProofError('a transaction has an MWEB part');
    // CVE-2017-12842: the hash of such bytes may be that of an inner node.
    if (strippedSize(extent) === NODE_BYTES)
      throw new ElectrumProofError(`a transaction has ${NODE_BYTES} bytes, like a node of the merkle tree`);
    if (txidOf(raw) !== txid) throw new ElectrumProofError('another transaction than the one asked for');
    // The bytes are not kept: a script is a part of them.
    const outputs = outputsOfTransaction(raw).map((output) => ({ ...output, script: Uint8Array.from(output.script) }));
    if (outputs.some(({ units }) => units < 0n)) throw new ElectrumProofError('a transaction pays a negative amount');
    const spends = inputsOf(raw);
    const isCoinbase = spends.length === 1 && spends[0] === NO_OUTPOINT;
    return { txid, spends, outputs, isCoinbase, hasFee: spends.length > 0 && !isCoinbase && !raw.hogEx && !raw.mweb, bytes: bytes.length };
  } catch (error) {
    throw error instanceof RangeError ? new ElectrumProofError(error.message) : error;
  }
}

type Branch = { siblings: readonly string[]; position: number };

/** Checks the form of a branch. Errors: ProofError. */
export function readBranch(siblings: unknown, position: unknown): Branch {
  if (!Array.isArray(siblings) || siblings.length > MAX_DEPTH || !siblings.every(isHash))
    throw new ElectrumProofError('a branch has another form');
  if (!isHeight(position) || position >= 2 ** siblings.length) throw new ElectrumProofError('a branch has an impossible position');
  return { siblings, position };
}

/** The root that a leaf and its branch give. Errors: ProofError. */
export function rootOfBranch(leaf: string, { siblings, position }: Branch): string {
  let node = hashBytes(leaf);
  let place = position;
  for (const shown of siblings) {
    const sibling = hashBytes(shown);
    const isLeft = place % 2 === 1;
    // CVE-2012-2459: only the last node of a level is paired with itself, and then it is the left one.
    if (isLeft && sibling.equals(node)) throw new ElectrumProofError('a branch pairs a node with itself from the left');
    node = sha256d(Buffer.concat(isLeft ? [sibling, node] : [node, sibling]));
    place = Math.floor(place / 2);
  }
  return showHash(node);
}

/** Checks that a transaction is in the block of a header of 80 bytes. Errors: ProofError. */
export function checkBranch(txid: string, branch: Branch, header: Buffer): void {
  if (rootOfBranch(txid, branch) !== showHash(header.subarray(36, 68))) throw new ElectrumProofError('a branch does not lead to the block');
}
