/** Blocks of Ethereum-like chains under their hash: nobody who serves one can change, invent, move or leave out anything in it. */
import { hexToBytes } from '@noble/hashes/utils.js';
import { fields } from '../reply.ts';
import { type ProvenHeader, provenHeader } from './block-header.ts';
import { checkTransactionsSteps } from './block-transactions.ts';
import { checkReceiptsSteps } from './receipts.ts';
import { inTurns } from './steps.ts';

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
export async function proveBlock(given: { block: unknown; hash: string; receipts: unknown }): Promise<ProvenHeader> {
  const header = await proveReceipts(given);
  await inTurns(checkTransactionsSteps(fields(given.block).transactions, header.transactionsRoot));
  return header;
}
