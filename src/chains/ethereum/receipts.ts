/** Receipts of a block, checked against the root in its header: none can be changed, invented, moved or left out. */
import { keccak_256 } from '@noble/hashes/sha3.js';
import { concatBytes } from '@noble/hashes/utils.js';
import { atOnce, dataBytes, encodeRlp, isSame, listOf, ProofError, quantityBytes, type Rlp, type Steps } from '#evm';
import { fields } from '../reply.ts';
import { listRootSteps } from './trie.ts';

const BLOOM_BYTES = 256;

/** OP stack: a deposit from the chain below. */
const DEPOSIT = 0x7e;
/** Arbitrum's transactions from before Nitro, whose receipts have no type byte. */
const CLASSIC = 0x78;
/** EIP-2930, 1559, 4844 and 7702; Arbitrum's own; Polygon's state sync; the OP stack's deposits. */
const TYPES: ReadonlySet<number> = new Set([0, 1, 2, 3, 4, 0x64, 0x65, 0x66, 0x68, 0x69, 0x6a, CLASSIC, 0x7f, DEPOSIT]);

/** Sets the three bits of a value in a bloom filter (Yellow Paper, section 4.3.1). */
function addToBloom(bloom: Uint8Array, value: Uint8Array): void {
  const hash = keccak_256(value);
  for (let i = 0; i < 6; i += 2) {
    const bit = ((hash[i]! << 8) | hash[i + 1]!) & 2047;
    bloom[BLOOM_BYTES - 1 - (bit >> 3)]! |= 1 << (bit & 7);
  }
}

type Log = [address: Uint8Array, topics: Uint8Array[], data: Uint8Array];

function readLog(value: unknown): Log {
  const { address, topics, data, removed } = fields(value);
  if (removed === true) throw new ProofError('a log of a block is marked as removed');
  return [
    dataBytes(address, { name: 'the address of a log', min: 20, max: 20 }),
    listOf(topics, { name: 'the topics of a log', max: 4 }).map((topic) => dataBytes(topic, { name: 'a topic', min: 32, max: 32 })),
    dataBytes(data, { name: 'the data of a log', min: 0 }),
  ];
}

function bloomOf(logs: readonly Log[]): Uint8Array {
  const bloom = new Uint8Array(BLOOM_BYTES);
  for (const [address, topics] of logs) for (const value of [address, ...topics]) addToBloom(bloom, value);
  return bloom;
}

/** Whether the transaction succeeded; before Byzantium (EIP-658), the state root after it. */
function outcomeOf(receipt: Record<string, unknown>): Uint8Array {
  if (receipt.status === undefined || receipt.status === null) return dataBytes(receipt.root, { name: 'root', min: 32, max: 32 });
  const status = quantityBytes(receipt.status, { name: 'status', max: 1 });
  if (status.length > 0 && status[0] !== 1) throw new ProofError('the status of a receipt is neither 0 nor 1');
  return status;
}

/** What deposits have besides: since Canyon their nonce and a version. Older ones have a nonce in JSON that is not under the root. */
function depositFields({ depositNonce, depositReceiptVersion }: Record<string, unknown>): Uint8Array[] {
  if (depositReceiptVersion === undefined || depositReceiptVersion === null) return [];
  return [
    quantityBytes(depositNonce, { name: 'depositNonce', max: 8 }),
    quantityBytes(depositReceiptVersion, { name: 'depositReceiptVersion', max: 8 }),
  ];
}

/** The value of a receipt in the trie (EIP-2718): its type, unless that is 0, and its RLP with the bloom filter of its logs. */
export function encodeReceipt(value: unknown): Uint8Array {
  const receipt = fields(value);
  const type = receipt.type === undefined || receipt.type === null ? 0 : (quantityBytes(receipt.type, { name: 'type', max: 1 })[0] ?? 0);
  if (!TYPES.has(type)) throw new ProofError(`this version does not know transactions of type 0x${type.toString(16)}`);
  const logs = listOf(receipt.logs, { name: 'logs' }).map(readLog);
  // It is under the root, so a wrong one is refused there. Computing it takes longer than all else, and is needed only where it is not sent.
  const { logsBloom } = receipt;
  const bloom = logsBloom === undefined ? bloomOf(logs) : dataBytes(logsBloom, { name: 'logsBloom', min: BLOOM_BYTES, max: BLOOM_BYTES });
  const list: Rlp[] = [outcomeOf(receipt), quantityBytes(receipt.cumulativeGasUsed, { name: 'cumulativeGasUsed', max: 8 }), bloom, logs];
  if (type === DEPOSIT) list.push(...depositFields(receipt));
  const encoded = encodeRlp(list);
  return type === 0 || type === CLASSIC ? encoded : concatBytes(Uint8Array.of(type), encoded);
}

/**
 * Checks that these are exactly the receipts of a block, in their order. `root` comes from its proven header. Which transaction each one
 * belongs to follows from the transactions root only. Errors: ProofError.
 */
export function* checkReceiptsSteps(receipts: unknown, root: Uint8Array): Steps<void> {
  const values: Uint8Array[] = [];
  for (const receipt of listOf(receipts, { name: 'the receipts of a block' })) {
    values.push(encodeReceipt(receipt));
    yield;
  }
  yield* checkReceiptValuesSteps(values, root);
}

/** The same for receipts that were encoded before. */
export function* checkReceiptValuesSteps(values: readonly Uint8Array[], root: Uint8Array): Steps<void> {
  if (!isSame(yield* listRootSteps(values), root)) throw new ProofError('the receipts do not fit the header of their block');
}

/** The same at once. */
export const checkReceipts = (receipts: readonly unknown[], root: Uint8Array): void => atOnce(checkReceiptsSteps(receipts, root));
