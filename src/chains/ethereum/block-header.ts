/** Headers of Ethereum-like blocks: the hash recomputed from the fields, so that no field can be changed. */
import { keccak_256 } from '@noble/hashes/sha3.js';
import { bytesToHex } from '@noble/hashes/utils.js';
import { dataBytes, encodeRlp, isSame, ProofError, quantityBytes } from '#evm';
import { fields } from '../reply.ts';

/** Data of an exact size, numbers up to a size, and data of any size. */
type Form = { data: number } | { number: number } | 'any';
const HASH: Form = { data: 32 };
const U64: Form = { number: 8 };
const U256: Form = { number: 32 };

/** All fields in the order in which they are hashed. Forks only append. */
const FIELDS: readonly (readonly [name: string, form: Form])[] = [
  ['parentHash', HASH],
  ['sha3Uncles', HASH],
  ['miner', { data: 20 }],
  ['stateRoot', HASH],
  ['transactionsRoot', HASH],
  ['receiptsRoot', HASH],
  ['logsBloom', { data: 256 }],
  ['difficulty', U256],
  ['number', U64],
  ['gasLimit', U64],
  ['gasUsed', U64],
  ['timestamp', U64],
  // At most 32 bytes on Ethereum; other chains keep there who signs, or which transactions depend on others.
  ['extraData', 'any'],
  ['mixHash', HASH],
  ['nonce', { data: 8 }],
  ['baseFeePerGas', U256],
  ['withdrawalsRoot', HASH],
  ['blobGasUsed', U64],
  ['excessBlobGas', U64],
  ['parentBeaconBlockRoot', HASH],
  ['requestsHash', HASH],
  ['blockAccessListHash', HASH],
  ['slotNumber', U64],
];
/** What nodes send beside the fields that are hashed. The last three are those of Arbitrum, which repeat what other fields contain. */
const NOT_HASHED = new Set([
  ...['hash', 'size', 'totalDifficulty', 'transactions', 'uncles', 'withdrawals'],
  ...['l1BlockNumber', 'sendCount', 'sendRoot'],
]);
/** How many fields a header has: first, London, Shanghai, Cancun, Prague, Amsterdam. */
const COUNTS: ReadonlySet<number> = new Set([15, 16, 17, 20, 21, 23]);

/** A header whose fields fit its hash. Hashes are bytes. */
export type ProvenHeader = {
  hash: Uint8Array;
  parentHash: Uint8Array;
  stateRoot: Uint8Array;
  transactionsRoot: Uint8Array;
  receiptsRoot: Uint8Array;
  number: bigint;
  /** In seconds. */
  timestamp: bigint;
  /** How many fields it has, which tells the fork. */
  fieldCount: number;
};

function bytesOf(value: unknown, name: string, form: Form): Uint8Array {
  if (form === 'any') return dataBytes(value, { name, min: 0 });
  return 'number' in form ? quantityBytes(value, { name, max: form.number }) : dataBytes(value, { name, min: form.data, max: form.data });
}

/** How many fields a header has; null when it has those of a fork without all those of the forks before it. */
function countFields(given: Record<string, unknown>): number | null {
  const isGiven = ([name]: readonly [string, Form]) => given[name] !== undefined && given[name] !== null;
  const count = FIELDS.filter(isGiven).length;
  return COUNTS.has(count) && FIELDS.slice(0, count).every(isGiven) ? count : null;
}

/** The fields of a header as bytes, first to last. Later forks' fields are absent or null. */
function fieldsOf(block: unknown): Uint8Array[] {
  const given = fields(block);
  const count = countFields(given);
  if (count === null) throw new ProofError('the header has fields of a fork without all those of the forks before it');
  return FIELDS.slice(0, count).map(([name, form]) => bytesOf(given[name], name, form));
}

/** Whether a block has the fields of Ethereum and no others that may be hashed too, so that they must fit its hash. */
export function isStandardHeader(block: unknown): boolean {
  const given = fields(block);
  const isKnown = (name: string) => NOT_HASHED.has(name) || FIELDS.some(([field]) => field === name);
  return (
    countFields(given) !== null && Object.entries(given).every(([name, value]) => value === undefined || value === null || isKnown(name))
  );
}

/**
 * Checks that the fields of a block, as nodes send it, hash to `hash` (32 bytes), and returns those that other proofs build on. Errors:
 * ProofError. A header of a fork that is not known here fails too: its extra fields are not hashed.
 */
export function provenHeader(block: unknown, hash: Uint8Array): ProvenHeader {
  const list = fieldsOf(block);
  if (!isSame(keccak_256(encodeRlp(list)), hash))
    throw new ProofError(
      `the header does not fit its hash ${bytesToHex(hash)}: its fields were changed, or belong to a fork that this version does not know`,
    );
  const at = (name: string): Uint8Array => list[FIELDS.findIndex(([field]) => field === name)]!;
  const numberAt = (name: string): bigint => BigInt(`0x0${bytesToHex(at(name))}`);
  return {
    hash,
    parentHash: at('parentHash'),
    stateRoot: at('stateRoot'),
    transactionsRoot: at('transactionsRoot'),
    receiptsRoot: at('receiptsRoot'),
    number: numberAt('number'),
    timestamp: numberAt('timestamp'),
    fieldCount: list.length,
  };
}
