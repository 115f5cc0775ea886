/**
 * Merged mining as Dogecoin checks it: a block of another scrypt chain, the parent, carries the work, and its coinbase commits to our
 * header. Nothing else of the parent's chain is checked.
 */
import { HeaderError } from './header.ts';
import type { ProofParams } from './proof-params.ts';
import { hashTransaction, type StrictReader, sha256d, skip, take, takeCount, takeTransaction, takeU32 } from './strict-reader.ts';

/** The bit of a header's version that says that such a proof follows. */
export const AUXPOW_BIT = 0x100;
/** Stands before the commitment in the parent's coinbase. */
const MARKER = Buffer.from('fabe6d6d', 'hex');
/** Without the marker, the commitment begins within this many bytes of the script. */
export const UNMARKED_WITHIN = 20;
/** Dogecoin limits the branch of chains to this (CAuxPow::check), and that of the coinbase only by the size of a message. */
export const MAX_CHAIN_BRANCH = 30;

type Branch = { hashes: readonly Buffer[]; index: number };
export type Auxpow = {
  /** The id of the parent's coinbase transaction, and the script of its first input. */
  coinbaseId: Buffer;
  script: Buffer;
  /** From the coinbase to the parent's merkle root. */
  coinbaseBranch: Branch;
  /** From our header to the root in the coinbase. */
  chainBranch: Branch;
  /** 80 bytes. */
  parent: Buffer;
};

export const auxChainId = (header: Buffer): number => header.readInt32LE(0) >> 16;

function takeBranch(reader: StrictReader, most = Number.POSITIVE_INFINITY): Branch {
  const count = takeCount(reader, 32);
  if (count > most) throw new RangeError(`a branch has ${count} hashes; ${most} are allowed`);
  return { hashes: Array.from({ length: count }, () => take(reader, 32)), index: takeU32(reader) };
}

/** Decodes what follows a header in a `headers` message or in a block. Errors: RangeError. */
export function takeAuxpow(reader: StrictReader): Auxpow {
  const { bytes } = reader;
  const coinbase = takeTransaction(reader, { witness: true, mweb: 'none', extra: false });
  if (coinbase.inputs === 0) throw new RangeError("the parent's coinbase has no input");
  const coinbaseId = Buffer.alloc(32);
  hashTransaction(bytes, coinbase, coinbaseId, 0);
  const scriptReader = { bytes, at: coinbase.inputsAt + 36 };
  const script = take(scriptReader, takeCount(scriptReader, 1));
  // The hash of the parent, which no client compares with anything.
  skip(reader, 32);
  const coinbaseBranch = takeBranch(reader);
  const chainBranch = takeBranch(reader, MAX_CHAIN_BRANCH);
  return { coinbaseId, script, coinbaseBranch, chainBranch, parent: take(reader, 80) };
}

/** The root that a leaf and its branch give. */
function rootOf(leaf: Buffer, { hashes, index }: Branch): Buffer {
  let root = leaf;
  for (const [level, sibling] of hashes.entries()) root = sha256d(Buffer.concat((index >>> level) & 1 ? [sibling, root] : [root, sibling]));
  return root;
}

/** Where a chain's commitment must stand among those of others, so that a parent cannot commit to two blocks of one chain. */
export function auxSlot(nonce: number, chainId: number, levels: number): number {
  const step = (value: number) => (Math.imul(value, 1_103_515_245) + 12_345) >>> 0;
  return step((step(nonce) + chainId) >>> 0) % 2 ** levels;
}

/** The bytes of the script behind the commitment to this root. */
function afterCommitment(script: Buffer, root: Buffer): Buffer {
  const refuse = (why: string) => new HeaderError('auxpow', `the parent's coinbase ${why}`);
  const at = script.indexOf(root);
  if (at < 0) throw refuse('does not commit to this block');
  const marker = script.indexOf(MARKER);
  if (marker < 0) {
    if (at > UNMARKED_WITHIN) throw refuse('has its commitment too far from the start');
  } else {
    if (script.indexOf(MARKER, marker + 1) >= 0) throw refuse('has two merged mining markers');
    if (marker + MARKER.length !== at) throw refuse('has its marker in another place than before the commitment');
  }
  const after = script.subarray(at + root.length);
  if (after.length < 8) throw refuse('ends in its commitment');
  return after;
}

/**
 * Checks all rules but the work, and returns the header whose scrypt hash must meet the target. `id` and `auxpow` belong to `header`; its
 * bytes must be all there are. Errors: HeaderError.
 */
export function checkAuxpow(
  rules: NonNullable<ProofParams['auxpow']>,
  { header, id, auxpow: bytes }: { header: Buffer; id: Buffer; auxpow: Buffer },
): Buffer {
  const refuse = (why: string) => new HeaderError('auxpow', why);
  let auxpow: Auxpow;
  try {
    const reader = { bytes, at: 0 };
    auxpow = takeAuxpow(reader);
    if (reader.at !== bytes.length) throw new RangeError('bytes follow the proof');
  } catch (error) {
    throw error instanceof RangeError ? refuse(error.message) : error;
  }
  const { coinbaseId, script, coinbaseBranch, chainBranch, parent } = auxpow;
  const chainId = auxChainId(header);
  if (coinbaseBranch.index !== 0) throw refuse('the commitment is not in the coinbase');
  if (rules.strict && auxChainId(parent) === chainId) throw refuse('the parent is a block of this chain');
  if (!rootOf(coinbaseId, coinbaseBranch).equals(parent.subarray(36, 68))) throw refuse('the coinbase is not in the parent');
  const after = afterCommitment(script, Buffer.from(rootOf(id, chainBranch)).reverse());
  const levels = chainBranch.hashes.length;
  if (after.readUInt32LE(0) !== 2 ** levels) throw refuse('the number of chains is not that of the branch');
  if (chainBranch.index !== auxSlot(after.readUInt32LE(4), chainId, levels)) throw refuse('the chain is at the place of another');
  return parent;
}
