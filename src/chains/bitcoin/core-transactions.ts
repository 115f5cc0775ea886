/** Finds one transaction on a node of the Bitcoin Core family, with or without an index. */
import type { BitcoinFamily, Network } from '../../core/coin.ts';
import { type BlockRef, ChainError, type ChainTransaction, type TransactionHint } from '../chain.ts';
import { fields, type ReplyFields } from '../reply.ts';
import { readCoreBlock } from './core-blocks.ts';
import { type CoreCalls, integer, isNotFound, rowsOfReply, text } from './core-calls.ts';
import { describeCoreTransaction } from './core-describe.ts';
import { PARAMS } from './params.ts';
import { txidOf } from './raw-block.ts';

/** Blocks below the tip that are searched when the node has no index. */
const RECENT_BLOCKS = 12;

type Reads = {
  coin: BitcoinFamily;
  network: Network;
  calls: CoreCalls;
  /** The header and the raw bytes of a block. */
  blockOf(hash: string): Promise<BlockRef>;
  bytesOf(hash: string): Promise<Buffer>;
};

/** A transaction of a block that should contain it; null when it does not, or when the node no longer has the block. */
async function findInBlock(txid: string, hash: string, { coin, calls: { post, call }, bytesOf }: Reads): Promise<ReplyFields | null> {
  if (!PARAMS[coin].oldCalls) {
    // Newer nodes add fee and inputs; older ones treat 2 as 1.
    const [reply] = await post([['getrawtransaction', txid, 2, hash]]);
    return !reply || reply.error ? null : fields(reply.result);
  }
  // Old nodes do not accept a block here, so the block is read.
  const [head] = await post([['getblockheader', hash]]);
  if (!head || head.error) return null;
  const block = await readCoreBlock(await bytesOf(hash), { hash, coin, server: 'the node' });
  const found = block.transactions.find((tx) => txidOf(tx) === txid);
  if (!found) return null;
  const { from, to } = found.extent;
  const decoded = fields(await call('decoderawtransaction', found.bytes.toString('hex', from, to)));
  return { ...decoded, blockhash: hash, confirmations: fields(head.result).confirmations };
}

/** Searches the latest blocks, whose transaction ids are kept. */
function createRecentBlocks(reads: Reads): { find(txid: string): Promise<ReplyFields | null> } {
  const { coin, calls } = reads;
  /** Ids of recent blocks by block hash, most recently used last. */
  const recent = new Map<string, { txids: ReadonlySet<string>; parent: string }>();
  const txidsOf = async (hash: string): Promise<{ txids: ReadonlySet<string>; parent: string }> => {
    const known = recent.get(hash);
    const block = known ? {} : fields(await calls.call('getblock', hash, PARAMS[coin].oldCalls ? true : 1));
    const found = known ?? { txids: new Set(rowsOfReply(block.tx).map(text)), parent: text(block.previousblockhash) };
    recent.delete(hash);
    recent.set(hash, found);
    for (const oldest of recent.keys()) if (recent.size > 2 * RECENT_BLOCKS) recent.delete(oldest);
    return found;
  };
  return {
    find: async (txid) => {
      const [best] = await calls.post([['getbestblockhash']]);
      let hash = text(best?.result);
      for (let i = 0; i < RECENT_BLOCKS && hash !== ''; i++) {
        const { txids, parent } = await txidsOf(hash);
        if (txids.has(txid)) return findInBlock(txid, hash, reads);
        hash = parent;
      }
      return null;
    },
  };
}

export function createCoreTransactions(reads: Reads): { read(txid: string, hint?: TransactionHint): Promise<ChainTransaction> } {
  const {
    coin,
    network,
    calls: { post, failure },
    blockOf,
  } = reads;
  const recent = createRecentBlocks(reads);
  const describe = (tx: ReplyFields) => describeCoreTransaction(tx, { coin, network, post, blockOf });
  return {
    read: async (txid, hint) => {
      // A known block gives the most detail, with or without an index.
      const told = hint ? await findInBlock(txid, hint.blockHash, reads) : null;
      if (told && integer(told.confirmations) > 0) return describe(told);
      const [reply, index] = await post([['getrawtransaction', txid, 1], ['getindexinfo']]);
      if (!reply) throw new ChainError('outage', `the ${coin} node did not answer with ${txid}`);
      if (!reply.error) return describe(fields(reply.result));
      if (!isNotFound(reply.error)) throw failure(reply.error, 'getrawtransaction');
      if (index && !index.error && 'txindex' in fields(index.result)) throw new ChainError('not_found', txid);
      const found = await recent.find(txid);
      if (found) return describe(found);
      if (/txindex/i.test(reply.error.message)) {
        const where = `its mempool and the last ${RECENT_BLOCKS} blocks`;
        throw new ChainError('unsupported', `the ${coin} node runs without txindex=1, so it only knows ${where}`);
      }
      throw new ChainError('not_found', txid);
    },
  };
}
