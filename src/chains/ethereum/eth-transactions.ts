/** Looks up one transaction on an Ethereum node. */

import { checksumAddress } from '#addresses';
import { type BlockRef, ChainError, type ChainSource, type ChainTransaction } from '../chain-source.ts';
import { fields } from '../reply.ts';
import { ethHeader } from './eth-block.ts';
import { account, type EthRpc, failure, hash32, transactionOrNull } from './eth-rpc.ts';
import { readEthTransaction, readReceipt } from './value-moves.ts';

export async function readState(txid: string, { call }: Pick<EthRpc, 'call'>): ReturnType<ChainSource['txState']> {
  const found = transactionOrNull(await call('eth_getTransactionByHash', txid), txid);
  if (found === null) return { state: 'unknown', blockHash: null, lock: null };
  const mined = typeof found.blockHash === 'string';
  return { state: mined ? 'mined' : 'mempool', blockHash: mined ? hash32(found.blockHash) : null, lock: null };
}

export async function findTransaction(txid: string, { call, batch }: Pick<EthRpc, 'call' | 'batch'>): Promise<ChainTransaction> {
  const [transaction, receipt, latest] = await batch([
    ['eth_getTransactionByHash', txid],
    ['eth_getTransactionReceipt', txid],
    ['eth_getBlockByNumber', 'latest', false],
  ]);
  for (const reply of [transaction, receipt, latest]) if (reply?.error) throw failure(reply.error, 'eth_getTransactionByHash');
  const outcome = receipt?.result ?? null;
  let found: unknown = transaction?.result ?? null;
  const { blockHash, transactionIndex } = fields(outcome);
  // An index of transactions may be pruned where the block is not.
  if (found === null && outcome !== null) found = await call('eth_getTransactionByBlockHashAndIndex', blockHash, transactionIndex);
  if (found === null) throw new ChainError('not_found', txid);
  const block = outcome === null ? null : ethHeader(await call('eth_getBlockByHash', blockHash, false));
  return describeEthTransaction(found, { receipt: outcome, block, head: ethHeader(latest?.result) });
}

/** `block`: the block of the receipt; both are null for a waiting transaction. */
export function describeEthTransaction(
  found: unknown,
  { receipt, block, head }: { receipt: unknown; block: BlockRef | null; head: BlockRef },
): ChainTransaction {
  const tx = readEthTransaction(found);
  const outcome = receipt === null ? null : readReceipt(receipt);
  const moved = outcome?.ok === false ? 0n : tx.units;
  const to = tx.to ?? account(fields(receipt).contractAddress);
  return {
    txid: tx.txid,
    status: outcome === null ? 'pending' : outcome.ok ? 'confirmed' : 'failed',
    confirmations: block ? Math.max(0, head.height - block.height + 1) : 0,
    blockHeight: block?.height ?? null,
    blockHash: block?.hash ?? null,
    timestamp: block?.time ?? null,
    amountUnits: moved,
    feeUnits: outcome?.feeUnits ?? null,
    inputs: [{ address: checksumAddress(tx.from), units: moved }],
    outputs: [{ address: to === null ? '' : checksumAddress(to), units: moved, ...(to === null && { type: 'create' }) }],
  };
}
