/** Blocks of an Ethereum node with their receipts, checked against their hash, and what they pay to watched accounts. */
import { hexToBytes } from '@noble/hashes/utils.js';
import { invariant } from '../../core/invariant.ts';
import { type BlockRef, type BlockScan, ChainError, type Conflict, type Matcher, type Sighting } from '../chain.ts';
import { fields } from '../reply.ts';
import { type ProvenHeader, provenHeader } from './block-header.ts';
import { identityOf } from './block-transactions.ts';
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
import { ProofError } from './proof-values.ts';
import { proveBlock } from './proven-block.ts';
import { inTurns, type Steps } from './steps.ts';
import { type Tokens, tokenSightings } from './token-logs.ts';
import { type EthReceipt, type EthTransaction, type Gain, outpoint, readEthTransaction, readReceipt } from './value-moves.ts';

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
