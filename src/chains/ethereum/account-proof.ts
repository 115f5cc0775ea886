/** Answers of `eth_getProof` (EIP-1186): what an account has, proven under the state root of a header. */
import { keccak_256 } from '@noble/hashes/sha3.js';
import { fields } from '../reply.ts';
import { dataBytes, isSame, listOf, ProofError, quantityBytes } from './proof-values.ts';
import { decodeRlp } from './rlp.ts';
import { EMPTY_ROOT, PROOF_NODES, provenValue } from './trie.ts';

/** The code hash of an account without code: keccak of nothing. */
export const EMPTY_CODE = keccak_256(new Uint8Array(0));
/** No node of a state trie is larger: a branch with 16 hashes has 532 bytes. */
export const NODE_BYTES = 1024;
/** Slots asked for in one call. */
export const SLOTS = 10_000;

export type ProvenAccount = { nonce: bigint; balance: bigint; storageRoot: Uint8Array; codeHash: Uint8Array };
export type ProvenSlot = { slot: bigint; value: bigint };

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
