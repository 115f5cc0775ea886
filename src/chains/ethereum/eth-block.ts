/** Blocks of an Ethereum node with their receipts, and what they pay to watched accounts. */
import { invariant } from '../../core/invariant.ts';
import { type BlockRef, type BlockScan, ChainError, type Conflict, type Matcher, type Sighting } from '../chain.ts';
import { fields } from '../reply.ts';
import { type EthRpc, failure, hash32, isPruned, rows, smallNumber } from './eth-rpc.ts';
import { type Tokens, tokenSightings } from './token-logs.ts';
import { type EthReceipt, type EthTransaction, outpoint, readReceipt, readTransaction } from './value-moves.ts';

export type EthBlock = { ref: BlockRef; transactions: readonly EthTransaction[]; receipts: readonly EthReceipt[] };

export function headerOf(value: unknown): BlockRef {
  const header = fields(value);
  return {
    height: smallNumber(header.number),
    hash: hash32(header.hash),
    parent: hash32(header.parentHash),
    time: new Date(smallNumber(header.timestamp) * 1000),
  };
}
export const headerOrNull = (value: unknown): BlockRef | null => (value === null ? null : headerOf(value));

/** Receipts of single transactions, if the node does not return those of a block. */
async function readReceipts(transactions: readonly EthTransaction[], { batch }: Pick<EthRpc, 'batch'>): Promise<unknown[]> {
  const replies = await batch(transactions.map(({ txid }) => ['eth_getTransactionReceipt', txid]));
  return replies.map(({ result, error }) => {
    if (error) throw failure(error, 'eth_getTransactionReceipt');
    return result;
  });
}

export async function readBlock(hash: string, rpc: Pick<EthRpc, 'batch'>): Promise<EthBlock> {
  const [block, receipts] = await rpc.batch([
    ['eth_getBlockByHash', hash, true],
    ['eth_getBlockReceipts', hash],
  ]);
  if (block?.error) throw failure(block.error, 'eth_getBlockByHash');
  // Another machine behind the same address may be a block ahead.
  if (!block || !receipts || block.result === null) throw new ChainError('outage', `the ETH node does not have block ${hash} yet`);
  const ref = headerOf(block.result);
  const transactions = rows(fields(block.result).transactions).map(readTransaction);
  if (receipts.error && isPruned(receipts.error)) throw failure(receipts.error, 'eth_getBlockReceipts');
  // A provider may lack the method, or reject a reply of this size.
  const found = receipts.error ? await readReceipts(transactions, rpc) : receipts.result;
  const list = found === null ? [] : rows(found);
  const isOwn = (value: unknown, i: number) => {
    const receipt = fields(value);
    return hash32(receipt.blockHash) === hash && hash32(receipt.transactionHash) === transactions[i]?.txid;
  };
  if (ref.hash !== hash || list.length !== transactions.length || !list.every(isOwn))
    throw new ChainError('outage', `the receipts of block ${hash} do not fit it`);
  return { ref, transactions, receipts: list.map(readReceipt) };
}

type Gained = { key: string; index: number | null; units: bigint };

/** ETH: one transfer per transaction and account, with the same reference and sum for every method, in the mempool too. */
export function sightingsOf({ ref, transactions }: Pick<EthBlock, 'ref' | 'transactions'>, gains: readonly Gained[]): Sighting[] {
  const sums = new Map<string, Gained>();
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
  { gains, tokens, matcher }: { gains: readonly Gained[]; tokens: Tokens; matcher: Matcher },
): BlockScan {
  const sightings = [...sightingsOf(block, gains), ...tokenSightings(block, tokens, matcher)];
  const conflicts = matcher.watchesSpends
    ? block.transactions
        .filter((tx) => matcher.spends(outpoint(tx)))
        .map((tx): Conflict => ({ outpoint: outpoint(tx), txid: tx.txid, mined: true }))
    : [];
  return { block: block.ref, sightings, conflicts };
}
