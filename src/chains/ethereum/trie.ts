/** Merkle Patricia tries: the root of a list, such as the receipts of a block, and proofs that a trie contains a value or does not. */
import { keccak_256 } from '@noble/hashes/sha3.js';
import { atOnce, dataBytes, decodeRlp, EMPTY, encodeRlp, isSame, listOf, ProofError, quantityBytes, type Rlp, type Steps } from '#evm';
import { fields } from '../reply.ts';

/** The root of a trie without values: keccak(0x80). */
export const EMPTY_ROOT = keccak_256(Uint8Array.of(0x80));

/** Nodes of a proof: one for each digit of a key of 32 bytes, and the leaf. */
export const PROOF_NODES = 65;

/** A branch has 16 children and a value that no trie here uses, because none of its keys is the start of another one. */
const BRANCH = 17;
const HASH = 32;
/** Bytes hashed in one step: less than a millisecond. */
const STEP_BYTES = 16 << 10;

function nibblesOf(key: Uint8Array): Uint8Array {
  const nibbles = new Uint8Array(key.length * 2);
  for (const [i, byte] of key.entries()) {
    nibbles[i * 2] = byte >> 4;
    nibbles[i * 2 + 1] = byte & 15;
  }
  return nibbles;
}

/** The key of an index: its RLP as a number. */
function indexKey(index: number): Uint8Array {
  const bytes: number[] = [];
  for (let rest = index; rest > 0; rest = Math.floor(rest / 256)) bytes.unshift(rest % 256);
  return encodeRlp(Uint8Array.from(bytes));
}

/** Packs digits of a path two per byte; the first digit says whether it ends at a value, and whether it is odd. */
function packPath(nibbles: Uint8Array, isLeaf: boolean): Uint8Array {
  const isOdd = nibbles.length % 2 === 1;
  const flag = (isLeaf ? 2 : 0) + (isOdd ? 1 : 0);
  const digits = isOdd ? [flag, ...nibbles] : [flag, 0, ...nibbles];
  return Uint8Array.from({ length: digits.length / 2 }, (_, i) => digits[i * 2]! * 16 + digits[i * 2 + 1]!);
}

function unpackPath(packed: Rlp): { nibbles: Uint8Array; isLeaf: boolean } {
  if (!(packed instanceof Uint8Array) || packed.length === 0) throw new ProofError('a node of the proof has no path');
  const digits = nibblesOf(packed);
  const flag = digits[0]!;
  if (flag > 3 || (flag % 2 === 0 && digits[1] !== 0)) throw new ProofError('a node of the proof has an invalid path');
  return { nibbles: digits.subarray(flag % 2 === 1 ? 1 : 2), isLeaf: flag >= 2 };
}

type Entry = { path: Uint8Array; value: Uint8Array };

/** The hash of a node, in steps because a value can have megabytes. */
function* hashOf(bytes: Uint8Array): Steps<Uint8Array> {
  yield;
  if (bytes.length <= STEP_BYTES) return keccak_256(bytes);
  const hash = keccak_256.create();
  for (let at = 0; at < bytes.length; at += STEP_BYTES, yield) hash.update(bytes.subarray(at, at + STEP_BYTES));
  return hash.digest();
}

/** How a parent contains a node: nodes under 32 bytes as they are, others by their hash. */
function* referenceTo(node: Rlp): Steps<Rlp> {
  const bytes = encodeRlp(node);
  return bytes.length < HASH ? node : yield* hashOf(bytes);
}

/** The node for entries that have the same first `depth` digits. Its depth is bounded by the digits of an index. */
function* buildNode(entries: readonly Entry[], depth: number): Steps<Rlp> {
  const [first, ...others] = entries as [Entry, ...Entry[]];
  if (others.length === 0) return [packPath(first.path.subarray(depth), true), first.value];
  let shared = depth;
  while (others.every(({ path }) => path[shared] === first.path[shared])) shared++;
  if (shared > depth) {
    const below = yield* buildNode(entries, shared);
    return [packPath(first.path.subarray(depth, shared), false), yield* referenceTo(below)];
  }
  const groups = Array.from({ length: 16 }, (): Entry[] => []);
  for (const entry of entries) groups[entry.path[depth]!]!.push(entry);
  const node: Rlp[] = [];
  for (const group of groups) node.push(group.length === 0 ? EMPTY : yield* referenceTo(yield* buildNode(group, depth + 1)));
  return [...node, EMPTY];
}

/** The root of the trie that maps RLP(index) to each value: the roots of transactions, receipts and withdrawals in a header. */
export function* listRootSteps(values: readonly Uint8Array[]): Steps<Uint8Array> {
  if (values.length === 0) return EMPTY_ROOT;
  if (values.some((value) => value.length === 0)) throw new ProofError('a trie contains no empty values');
  const entries = values.map((value, i) => ({ path: nibblesOf(indexKey(i)), value }));
  return yield* hashOf(encodeRlp(yield* buildNode(entries, 0)));
}

/** The same at once. */
export const listRoot = (values: readonly Uint8Array[]): Uint8Array => atOnce(listRootSteps(values));

/**
 * Reads the value at `key` from a proof: the nodes from the root to the value, or to where the key ends, root first. Returns null when
 * the proof shows that the trie does not contain the key. Errors: ProofError for a node that does not have the hash that its parent
 * names, one that no trie contains, and nodes that are missing or not needed.
 */
export function provenValue({ root, key, proof }: { root: Uint8Array; key: Uint8Array; proof: readonly Uint8Array[] }): Uint8Array | null {
  if (proof.length > PROOF_NODES) throw new ProofError(`a proof has more than ${PROOF_NODES} nodes`);
  // Some nodes send no nodes for an empty trie, others the empty one.
  if (isSame(root, EMPTY_ROOT) && proof.length === 0) return null;
  const path = nibblesOf(key);
  let reference: Rlp = root;
  let used = 0;
  let at = 0;
  let mustBranch = false;
  for (;;) {
    const node: Rlp = reference instanceof Uint8Array ? namedNode(reference, proof[used++], used === 1) : reference;
    const step = stepInto(node, path.subarray(at), mustBranch);
    if ('value' in step) {
      if (used !== proof.length) throw new ProofError('the proof has nodes that it does not need');
      return step.value;
    }
    mustBranch = node.length === 2;
    reference = step.child;
    at += step.digits;
  }
}

/** Decodes the node that has this hash. Only the root may be smaller than a hash. */
function namedNode(hash: Uint8Array, bytes: Uint8Array | undefined, isRoot: boolean): Rlp {
  if (bytes === undefined) throw new ProofError('the proof ends too early');
  if (!isSame(keccak_256(bytes), hash)) throw new ProofError('a node of the proof does not have the hash that its parent names');
  if (!isRoot && bytes.length < HASH) throw new ProofError('a small node of the proof is not inside its parent');
  return decodeRlp(bytes);
}

type Step = { value: Uint8Array | null } | { child: Rlp; digits: number };

/** Moves from a node along a path: to a child, to the value, or to the end, where the value is null. */
function stepInto(node: Rlp, path: Uint8Array, mustBranch: boolean): Step {
  if (node instanceof Uint8Array) {
    if (node.length === 0) return { value: null };
    throw new ProofError('a node of the proof is not a list');
  }
  if (node.length === BRANCH) return stepIntoBranch(node, path);
  if (node.length !== 2 || mustBranch) throw new ProofError('a node of the proof has no valid form');
  const { nibbles, isLeaf } = unpackPath(node[0]!);
  if (isLeaf) {
    const value = node[1]!;
    if (!(value instanceof Uint8Array) || value.length === 0) throw new ProofError('a leaf of the proof has no value');
    return { value: isSame(nibbles, path) ? value : null };
  }
  if (nibbles.length === 0) throw new ProofError('an extension of the proof has no path');
  const child = checkedChild(node[1]!);
  if (child === null) throw new ProofError('an extension of the proof has no child');
  return isSame(nibbles, path.subarray(0, nibbles.length)) ? { child, digits: nibbles.length } : { value: null };
}

function stepIntoBranch(node: readonly Rlp[], path: Uint8Array): Step {
  const value = node[16]!;
  if (!(value instanceof Uint8Array) || value.length > 0 || path.length === 0) throw new ProofError('a branch of the proof has a value');
  const children = node.slice(0, 16).map(checkedChild);
  if (children.filter((child) => child !== null).length < 2) throw new ProofError('a branch of the proof has fewer than two children');
  const child = children[path[0]!]!;
  return child === null ? { value: null } : { child, digits: 1 };
}

/** A child is empty, a hash, or a node of fewer than 32 bytes. */
function checkedChild(child: Rlp): Rlp | null {
  if (child instanceof Uint8Array) {
    if (child.length === 0) return null;
    if (child.length === HASH) return child;
  } else if (encodeRlp(child).length < HASH) return child;
  throw new ProofError('a node of the proof has an invalid child');
}

// Answers of `eth_getProof` (EIP-1186): what an account has, proven under the state root of a header.

/** The code hash of an account without code: keccak of nothing. */
export const EMPTY_CODE = keccak_256(new Uint8Array(0));
/** No node of a state trie is larger: a branch with 16 hashes has 532 bytes. */
export const NODE_BYTES = 1024;
/** Slots asked for in one call. */
const SLOTS = 10_000;

export type ProvenAccount = { nonce: bigint; balance: bigint; storageRoot: Uint8Array; codeHash: Uint8Array };
type ProvenSlot = { slot: bigint; value: bigint };

const numberOf = (bytes: Uint8Array): bigint => BigInt(`0x0${Buffer.from(bytes).toString('hex')}`);
const proofOf = (value: unknown): Uint8Array[] =>
  listOf(value, { name: 'a proof', max: PROOF_NODES }).map((node) =>
    dataBytes(node, { name: 'a node of a proof', min: 1, max: NODE_BYTES }),
  );

/** A number as RLP contains it, of at most `max` bytes without leading zeros. */
function scalar(item: unknown, max: number): bigint {
  if (!(item instanceof Uint8Array) || item.length > max || item[0] === 0) throw new ProofError('a proven number has no valid form');
  return numberOf(item);
}
function hashIn(item: unknown): Uint8Array {
  if (!(item instanceof Uint8Array) || item.length !== 32) throw new ProofError('a proven hash does not have 32 bytes');
  return item;
}

/** The account that a leaf of the state trie contains; an account that does not exist has nothing. */
function readAccount(leaf: Uint8Array | null): ProvenAccount {
  if (leaf === null) return { nonce: 0n, balance: 0n, storageRoot: EMPTY_ROOT, codeHash: EMPTY_CODE };
  const account = decodeRlp(leaf);
  if (account instanceof Uint8Array || account.length !== 4) throw new ProofError('a proven account does not have four parts');
  const [nonce, balance, storageRoot, codeHash] = account;
  return { nonce: scalar(nonce, 8), balance: scalar(balance, 32), storageRoot: hashIn(storageRoot), codeHash: hashIn(codeHash) };
}

/** Checks what the answer says beside its proof. For an account that does not exist, nodes send zeros or the hashes of nothing. */
function checkAnswer(answer: Record<string, unknown>, account: ProvenAccount, exists: boolean): void {
  const says = (name: string, max: number) => numberOf(quantityBytes(answer[name], { name, max }));
  const fits = (name: string, proven: Uint8Array) => {
    const told = dataBytes(answer[name], { name, min: 32, max: 32 });
    return isSame(told, proven) || (!exists && told.every((byte) => byte === 0));
  };
  if (says('nonce', 8) !== account.nonce || says('balance', 32) !== account.balance)
    throw new ProofError('the proof shows another nonce or balance than the answer says');
  if (!fits('storageHash', account.storageRoot) || !fits('codeHash', account.codeHash))
    throw new ProofError('the proof shows another storage or code than the answer says');
}

function readSlot(value: unknown, storageRoot: Uint8Array): ProvenSlot {
  const { key, value: told, proof } = fields(value);
  const slot = numberOf(quantityBytes(key, { name: 'a storage slot', max: 32 }));
  const word = Buffer.from(slot.toString(16).padStart(64, '0'), 'hex');
  const leaf = provenValue({ root: storageRoot, key: keccak_256(word), proof: proofOf(proof) });
  const proven = leaf === null ? 0n : scalar(decodeRlp(leaf), 32);
  if (leaf !== null && proven === 0n) throw new ProofError('a storage slot contains zero, which no trie does');
  if (numberOf(quantityBytes(told, { name: 'the value of a storage slot', max: 32 })) !== proven)
    throw new ProofError('the proof shows another value of a storage slot than the answer says');
  return { slot, value: proven };
}

/**
 * Reads an answer to `eth_getProof`. `stateRoot` comes from a header that is proven; `address` (20 bytes) and `slots` are what was asked
 * for, in that order. Errors: ProofError if any part of the answer does not fit.
 */
export function readAccountProof(
  answer: unknown,
  { stateRoot, address, slots }: { stateRoot: Uint8Array; address: Uint8Array; slots: readonly bigint[] },
): { account: ProvenAccount; slots: readonly ProvenSlot[] } {
  const told = fields(answer);
  if (!isSame(dataBytes(told.address, { name: 'address', min: 20, max: 20 }), address))
    throw new ProofError('the answer is about another account');
  const leaf = provenValue({ root: stateRoot, key: keccak_256(address), proof: proofOf(told.accountProof) });
  const account = readAccount(leaf);
  checkAnswer(told, account, leaf !== null);
  const proven = listOf(told.storageProof, { name: 'storageProof', max: SLOTS }).map((slot) => readSlot(slot, account.storageRoot));
  if (proven.length !== slots.length || proven.some(({ slot }, i) => slot !== slots[i]))
    throw new ProofError('the answer is about other storage slots');
  return { account, slots: proven };
}
