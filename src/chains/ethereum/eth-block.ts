/** Blocks of an Ethereum node with their receipts, checked against their hash, and what they pay to watched accounts. */
import { secp256k1 } from '@noble/curves/secp256k1.js';
import { keccak_256 } from '@noble/hashes/sha3.js';
import { bytesToHex, concatBytes, hexToBytes } from '@noble/hashes/utils.js';
import { accountOf } from '#addresses';
import { invariant } from '#core/invariant';
import { dataBytes, EMPTY, encodeRlp, inTurns, isSame, listOf, ProofError, quantityBytes, type Rlp, type Steps } from '#evm';
import { type BlockRef, type BlockScan, ChainError, type Conflict, type Matcher, type Sighting } from '../chain-source.ts';
import { fields } from '../reply.ts';
import { type ProvenHeader, provenHeader } from './block-header.ts';
import {
  arrayOf,
  type EthCall,
  type EthReply,
  type EthRpc,
  failure,
  hash32,
  isPruned,
  isTooLarge,
  singleReceipts,
  smallNumber,
} from './eth-rpc.ts';
import { checkReceiptsSteps } from './receipts.ts';
import { type Tokens, tokenSightings } from './token-logs.ts';
import { listRootSteps } from './trie.ts';
import { type EthReceipt, type EthTransaction, type Gain, outpoint, readEthTransaction, readReceipt } from './value-moves.ts';

// Transactions of a block, checked against the root in its header, and who signed them.

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

export type EthBlock = { ref: BlockRef; transactions: readonly EthTransaction[]; receipts: readonly EthReceipt[] };
/** A block whose transactions and receipts are exactly those under its hash. `signed`: the transactions as the node sent them. */
export type ProvenBlock = EthBlock & { header: ProvenHeader; signed: readonly unknown[] };

/** The block of a header, as a node sends it. */
export function ethHeader(value: unknown): BlockRef {
  const header = fields(value);
  return {
    height: smallNumber(header.number),
    hash: hash32(header.hash),
    parent: hash32(header.parentHash),
    time: new Date(smallNumber(header.timestamp) * 1000),
  };
}

/** The same where the fields are those of Ethereum and fit the hash. Errors: ProofError. */
export function provenRef(value: unknown): BlockRef {
  const ref = ethHeader(value);
  provenHeader(value, hexToBytes(ref.hash.slice(2)));
  return ref;
}
export const headerOrNull = (value: unknown): BlockRef | null => (value === null ? null : ethHeader(value));
export const provenRefOrNull = (value: unknown): BlockRef | null => (value === null ? null : provenRef(value));

type Answers = { block: unknown; receipts: readonly unknown[] };

/** The block and its receipts. Somebody who fills a block with logs can make them larger than any limit: then they are asked for one by one. */
async function askWhole(hash: string, { batch }: Pick<EthRpc, 'batch'>): Promise<EthReply[]> {
  const block: EthCall = ['eth_getBlockByHash', hash, true];
  try {
    return await batch([block, ['eth_getBlockReceipts', hash]]);
  } catch (error) {
    if (!isTooLarge(error)) throw error;
    return [...(await batch([block])), { result: null, error: { code: 0, message: 'the reply is too large' } }];
  }
}

/** The answers of a node about a block, which name each other. Errors: ChainError, and ProofError when they do not. */
async function askForBlock(hash: string, rpc: Pick<EthRpc, 'batch'>): Promise<Answers> {
  const [block, receipts] = await askWhole(hash, rpc);
  if (block?.error) throw failure(block.error, 'eth_getBlockByHash');
  // Another machine behind the same address may be a block ahead.
  if (!block || !receipts || block.result === null) throw new ChainError('outage', `the source does not have block ${hash} yet`);
  if (ethHeader(block.result).hash !== hash) throw new ProofError(`the source answered another block than ${hash}`);
  const transactions = arrayOf(fields(block.result).transactions).map(readEthTransaction);
  if (receipts.error && isPruned(receipts.error)) throw failure(receipts.error, 'eth_getBlockReceipts');
  // A provider may lack the method, or reject a reply of this size.
  const found = receipts.error
    ? await singleReceipts(
        transactions.map(({ txid }) => txid),
        rpc,
      )
    : receipts.result;
  const list = found === null ? [] : arrayOf(found);
  // Some machines have a block a moment before its receipts.
  if (list.length === 0 && transactions.length > 0) throw new ChainError('outage', `the source has no receipts of block ${hash} yet`);
  const isOwn = (value: unknown, i: number) => {
    const receipt = fields(value);
    return hash32(receipt.blockHash) === hash && hash32(receipt.transactionHash) === transactions[i]?.txid;
  };
  if (list.length !== transactions.length || !list.every(isOwn)) throw new ProofError(`the receipts of block ${hash} do not fit it`);
  return { block: block.result, receipts: list };
}

/** Reads a block, as told. Errors: ChainError. */
export async function readEthBlock(hash: string, rpc: Pick<EthRpc, 'batch'>): Promise<EthBlock> {
  const { block, receipts } = await askForBlock(hash, rpc).catch((error: unknown) => {
    throw error instanceof ProofError ? new ChainError('outage', error.message, { cause: error }) : error;
  });
  return {
    ref: ethHeader(block),
    transactions: arrayOf(fields(block).transactions).map(readEthTransaction),
    receipts: receipts.map(readReceipt),
  };
}

/** Reads a block and proves it; the IDs and senders of transactions are as told. Errors: ChainError, and ProofError if anything does not fit. */
export async function readProvenBlock(hash: string, rpc: Pick<EthRpc, 'batch'>): Promise<ProvenBlock> {
  const { block, receipts } = await askForBlock(hash, rpc);
  const header = await proveBlock({ block, hash, receipts });
  const signed = arrayOf(fields(block).transactions);
  return { ref: ethHeader(block), header, signed, transactions: signed.map(readEthTransaction), receipts: receipts.map(readReceipt) };
}

/**
 * Checks that these transactions have the IDs and senders that the node said. Neither is under the hash of a block: both are computed
 * from the contents and the signature. Errors: ProofError.
 */
export const proveIdentities = ({ transactions, signed }: Pick<ProvenBlock, 'transactions' | 'signed'>, places: Iterable<number>) =>
  inTurns(
    (function* (): Steps<void> {
      for (const place of new Set(places)) {
        yield;
        const { txid, from } = identityOf(signed[place]);
        const told = transactions[place]!;
        if (txid !== told.txid || from !== told.from) throw new ProofError(`transaction ${told.txid} has another ID or sender than told`);
      }
    })(),
  );

/** The places of transactions that pay watched accounts directly. */
export const placesPaying = ({ transactions }: Pick<EthBlock, 'transactions'>, { has }: Pick<Matcher, 'has'>): number[] =>
  transactions.flatMap(({ to, units }, place) => (to !== null && units > 0n && has(to) ? [place] : []));

/** The places of transactions that a scan names: what they pay, or whose place they take. */
export function placesNamed({ transactions }: Pick<EthBlock, 'transactions'>, { sightings, conflicts }: BlockScan): number[] {
  const named = new Set([...sightings, ...conflicts].map(({ txid }) => txid));
  return transactions.flatMap(({ txid }, place) => (named.has(txid) ? [place] : []));
}

/** ETH: one transfer per transaction and account, with the same reference and sum for every method, in the mempool too. */
export function sightingsOf({ ref, transactions }: Pick<EthBlock, 'ref' | 'transactions'>, gains: readonly Gain[]): Sighting[] {
  const sums = new Map<string, Gain>();
  for (const gain of gains) {
    const name = `${gain.key} ${gain.index}`;
    sums.set(name, { ...gain, units: gain.units + (sums.get(name)?.units ?? 0n) });
  }
  return [...sums.values()].map(({ key, index, units }): Sighting => {
    const tx = index === null ? null : transactions[index];
    invariant(tx !== undefined, 'a gain belongs to a transaction of its block');
    invariant(units > 0n, 'a gain is more than nothing');
    return {
      key,
      ref: tx === null ? `delta:${ref.height}:${key}` : tx.to === key ? `${tx.txid}:tx` : `${tx.txid}:to:${key}`,
      txid: tx?.txid ?? null,
      units,
      kind: tx === null ? 'delta' : tx.to === key && tx.units === units ? 'direct' : 'internal',
      spends: tx ? [outpoint(tx)] : [],
      lock: null,
    };
  });
}

/** What a block pays in ETH and in tokens, and which watched outpoints its transactions use. */
export function scanOf(
  block: EthBlock,
  { gains, tokens, matcher }: { gains: readonly Gain[]; tokens: Tokens; matcher: Matcher },
): BlockScan {
  // What one address of this install sends to another one pays nothing.
  const fromOthers = gains.filter(({ index }) => index === null || !matcher.has(block.transactions[index]?.from ?? ''));
  const sightings = [...sightingsOf(block, fromOthers), ...tokenSightings(block, tokens, matcher)];
  const conflicts = matcher.watchesSpends
    ? block.transactions
        .filter((tx) => matcher.spends(outpoint(tx)))
        .map((tx): Conflict => ({ outpoint: outpoint(tx), txid: tx.txid, mined: true }))
    : [];
  return { block: block.ref, sightings, conflicts };
}

// Blocks of Ethereum-like chains under their hash: nobody who serves one can change, invent, move or leave out anything in it.

/**
 * Proves that these are exactly the receipts of the block with this hash (0x and 64 digits), in their order, and returns its header. The
 * caller must know that the hash is on the chain. `block` is what a node answers to `eth_getBlockByHash`, with or without transactions;
 * `receipts` to `eth_getBlockReceipts`. For all EVM chains whose headers have Ethereum's fields.
 *
 * What it proves of each receipt: type, status, cumulativeGasUsed, and the logs with address, topics and data, in order. What it does not:
 * transactionHash (which is that of the transaction with the same index), gasUsed, effectiveGasPrice, contractAddress and logIndex.
 * Errors: ProofError.
 */
export async function proveReceipts({ block, hash, receipts }: { block: unknown; hash: string; receipts: unknown }): Promise<ProvenHeader> {
  const header = provenHeader(block, hexToBytes(hash.slice(2)));
  await inTurns(checkReceiptsSteps(receipts, header.receiptsRoot));
  return header;
}

/** The same for a block of Ethereum with its whole transactions (types 0 to 4), which are proven too. */
async function proveBlock(given: { block: unknown; hash: string; receipts: unknown }): Promise<ProvenHeader> {
  const header = await proveReceipts(given);
  await inTurns(checkTransactionsSteps(fields(given.block).transactions, header.transactionsRoot));
  return header;
}
