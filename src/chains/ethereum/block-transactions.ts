/** Transactions of a block, checked against the root in its header, and who signed them. */
import { secp256k1 } from '@noble/curves/secp256k1.js';
import { keccak_256 } from '@noble/hashes/sha3.js';
import { bytesToHex, concatBytes } from '@noble/hashes/utils.js';
import { fields } from '../reply.ts';
import { accountOf } from './address.ts';
import { dataBytes, EMPTY, isSame, listOf, ProofError, quantityBytes } from './proof-values.ts';
import { encodeRlp, type Rlp } from './rlp.ts';
import type { Steps } from './steps.ts';
import { listRootSteps } from './trie.ts';

type Fields = Record<string, unknown>;
type Part = (tx: Fields) => Rlp;

const isAbsent = (value: unknown): boolean => value === undefined || value === null;
const number =
  (name: string, max: number): Part =>
  (tx) =>
    quantityBytes(tx[name], { name, max });
const hash = (value: unknown, name: string): Uint8Array => dataBytes(value, { name, min: 32, max: 32 });
const account = (value: unknown, name: string): Uint8Array => dataBytes(value, { name, min: 20, max: 20 });
/** No account: the transaction creates a contract. */
const to: Part = (tx) => (isAbsent(tx.to) ? EMPTY : account(tx.to, 'to'));
const input: Part = (tx) => dataBytes(tx.input, { name: 'input', min: 0 });
const accessList: Part = (tx) =>
  listOf(tx.accessList, { name: 'accessList' }).map((value): Rlp => {
    const { address, storageKeys } = fields(value);
    return [
      account(address, 'an address of an access list'),
      listOf(storageKeys, { name: 'storageKeys' }).map((key) => hash(key, 'a storage key')),
    ];
  });
const blobHashes: Part = (tx) => listOf(tx.blobVersionedHashes, { name: 'blobVersionedHashes' }).map((value) => hash(value, 'a blob hash'));
/** Of a type with a type byte: the parity of the point, which some nodes only call `v`. */
const parity: Part = (tx) => quantityBytes(tx.yParity ?? tx.v, { name: 'yParity', max: 32 });
const r = number('r', 32);
const s = number('s', 32);
/** EIP-7702. */
const authorizations: Part = (tx) =>
  listOf(tx.authorizationList, { name: 'authorizationList' }).map((value): Rlp => {
    const entry = fields(value);
    return [
      number('chainId', 32)(entry),
      account(entry.address, 'the address of an authorization'),
      number('nonce', 8)(entry),
      parity(entry),
      r(entry),
      s(entry),
    ];
  });

const chainId = number('chainId', 8);
const nonce = number('nonce', 8);
const gas = number('gas', 8);
const value = number('value', 32);
const gasPrice = number('gasPrice', 32);
const dynamic = [
  chainId,
  nonce,
  number('maxPriorityFeePerGas', 32),
  number('maxFeePerGas', 32),
  gas,
  to,
  value,
  input,
  accessList,
] as const;

/** What is signed, in order: legacy, EIP-2930, EIP-1559, EIP-4844, EIP-7702. */
const PARTS: readonly (readonly Part[])[] = [
  [nonce, gasPrice, gas, to, value, input],
  [chainId, nonce, gasPrice, gas, to, value, input, accessList],
  dynamic,
  [...dynamic, number('maxFeePerBlobGas', 32), blobHashes],
  [...dynamic, authorizations],
];

function typeOf(tx: Fields): number {
  const type = isAbsent(tx.type) ? 0 : (quantityBytes(tx.type, { name: 'type', max: 1 })[0] ?? 0);
  if (type >= PARTS.length) throw new ProofError(`this version does not know transactions of type 0x${type.toString(16)}`);
  return type;
}

const typed = (type: number, list: readonly Rlp[]): Uint8Array =>
  type === 0 ? encodeRlp(list) : concatBytes(Uint8Array.of(type), encodeRlp(list));

/** The value of a transaction in the trie (EIP-2718). Its hash is the ID of the transaction. */
export function encodeTransaction(given: unknown): Uint8Array {
  const tx = fields(given);
  const type = typeOf(tx);
  const signed = PARTS[type]!.map((part) => part(tx));
  return typed(type, [...signed, type === 0 ? number('v', 32)(tx) : parity(tx), r(tx), s(tx)]);
}

/** Checks that these are exactly the transactions of a block, in their order. `root` comes from its proven header. Errors: ProofError. */
export function* checkTransactionsSteps(transactions: unknown, root: Uint8Array): Steps<void> {
  const values: Uint8Array[] = [];
  for (const tx of listOf(transactions, { name: 'the transactions of a block' })) {
    values.push(encodeTransaction(tx));
    yield;
  }
  if (!isSame(yield* listRootSteps(values), root)) throw new ProofError('the transactions do not fit the header of their block');
}

/** What a signature covers, and which of the two points it means. Legacy ones name the chain since EIP-155. */
function signingOf(tx: Fields): { digest: Uint8Array; recovery: number } {
  const type = typeOf(tx);
  const signed = PARTS[type]!.map((part) => part(tx));
  const v = BigInt(`0x0${bytesToHex((type === 0 ? number('v', 32)(tx) : parity(tx)) as Uint8Array)}`);
  if (type !== 0) return { digest: keccak_256(typed(type, signed)), recovery: v === 0n ? 0 : v === 1n ? 1 : -1 };
  if (v === 27n || v === 28n) return { digest: keccak_256(typed(0, signed)), recovery: Number(v - 27n) };
  if (v < 35n) return { digest: EMPTY, recovery: -1 };
  const chain = quantityBytes(`0x${((v - 35n) / 2n).toString(16)}`, { name: 'v', max: 32 });
  return { digest: keccak_256(typed(0, [...signed, chain, EMPTY, EMPTY])), recovery: Number((v - 35n) % 2n) };
}

/**
 * The ID and the sender of a transaction, as 0x with 64 and as 40 hex digits, from its contents and its signature. It takes a
 * millisecond, so it is for the transactions that matter. Errors: ProofError.
 */
export function identityOf(given: unknown): { txid: string; from: string } {
  const tx = fields(given);
  const txid = `0x${bytesToHex(keccak_256(encodeTransaction(given)))}`;
  const { digest, recovery } = signingOf(tx);
  const half = (name: 'r' | 's') => BigInt(`0x0${bytesToHex(quantityBytes(tx[name], { name, max: 32 }))}`);
  try {
    if (recovery < 0) throw new Error('v has no valid value');
    const point = new secp256k1.Signature(half('r'), half('s')).addRecoveryBit(recovery).recoverPublicKey(digest);
    return { txid, from: accountOf(point.toBytes()) };
  } catch (cause) {
    throw new ProofError(`the signature of transaction ${txid} is invalid: ${(cause as Error).message}`);
  }
}
