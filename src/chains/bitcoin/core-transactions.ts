/** Looks up one transaction on a node of the Bitcoin Core family, with or without an index. What the node does not know is null, never empty. */
import { addressOfScript } from '../../core/address.ts';
import type { Coin, Network } from '../../core/coin.ts';
import { type BlockRef, ChainError, type ChainTransaction, type TransactionHint } from '../chain.ts';
import { type Fields, fields } from '../reply.ts';
import { amount, type CoreCall, type CoreCalls, integer, isNotFound, rows, text } from './core-calls.ts';
import { parseBlock, txidOf } from './raw-block.ts';

/** The most inputs whose origin is looked up. */
const MAX_INPUTS = 500;
/** Blocks below the tip that are searched when the node has no index. */
const RECENT_BLOCKS = 12;

type Party = { address: string; units: bigint };

/** Creates the reader. `blockOf` and `bytesOf`: the header and the raw bytes of a block. */
export function createCoreTransactions({
  coin,
  network,
  calls: { post, call, failure },
  blockOf,
  bytesOf,
}: {
  coin: Exclude<Coin, 'ETH'>;
  network: Network;
  calls: CoreCalls;
  blockOf(hash: string): Promise<BlockRef>;
  bytesOf(hash: string): Promise<Buffer>;
}): { read(txid: string, hint?: TransactionHint): Promise<ChainTransaction> } {
  /** Ids of recent blocks by block hash, most recently used last. */
  const recent = new Map<string, { txids: ReadonlySet<string>; parent: string }>();

  const partyOf = (output: Fields): Party => {
    const script = fields(output.scriptPubKey);
    const type = text(script.type);
    const told = text(script.address) || text(rows(script.addresses)[0]);
    const address = told || (!type.startsWith('witness_mweb') && addressOfScript(text(script.hex), { coin, network })) || '';
    return { address, units: amount(output.value) };
  };

  /** The origins of the inputs; null when one of them is unknown. */
  const originsOf = async (vin: readonly Fields[], isWaiting: boolean): Promise<Party[] | null> => {
    if (vin.length > MAX_INPUTS) return null;
    // Core includes it in the input when the block is given, DASH with `spentindex=1`.
    if (vin.every((i) => i.prevout !== undefined)) return vin.map((i) => partyOf(fields(i.prevout)));
    if (vin.every((i) => i.value !== undefined)) return vin.map((i) => ({ address: text(i.address), units: amount(i.value) }));
    const found = await readOutputs(
      vin,
      (i): CoreCall => ['getrawtransaction', text(i.txid), 1],
      (result, i) => fields(rows(fields(result).vout)[integer(i.vout)]),
    );
    // A waiting transaction spends outputs that are unspent in the blocks, which the node knows without an index.
    const open = isWaiting ? vin.filter((_, i) => found[i]!.value === undefined) : [];
    const unspent = await readOutputs(open, (i): CoreCall => ['gettxout', text(i.txid), integer(i.vout), false], fields);
    const all = vin.map((i, n) => (open.includes(i) ? unspent[open.indexOf(i)]! : found[n]!));
    return all.some((output) => output.value === undefined) ? null : all.map(partyOf);
  };
  const readOutputs = async (
    vin: readonly Fields[],
    ask: (input: Fields) => CoreCall,
    read: (result: unknown, input: Fields) => Fields,
  ): Promise<Fields[]> => {
    const replies = await post(vin.map(ask));
    return vin.map((input, i) => (replies[i]!.error ? {} : read(replies[i]!.result, input)));
  };
  /** The fee of a waiting transaction according to the node; null when it does not report it. */
  const waitingFee = async (txid: string): Promise<bigint | null> => {
    const [reply] = await post([['getmempoolentry', txid]]);
    const entry = fields(reply!.result);
    const fee = fields(entry.fees).base ?? entry.fee;
    return reply!.error || fee === undefined ? null : amount(fee);
  };

  const describe = async (tx: Fields): Promise<ChainTransaction> => {
    const vin = rows(tx.vin)
      .map(fields)
      .filter((i) => i.ismweb !== true);
    const kernels = rows(tx.vkern).map(fields);
    const vout = [...rows(tx.vout), ...kernels.flatMap((kernel) => rows(kernel.pegout))].map(fields).filter((o) => o.ismweb !== true);
    const outputs = vout.map((o) => {
      const party = partyOf(o);
      return { ...party, ...(party.address === '' && { type: text(fields(o.scriptPubKey).type) }) };
    });
    const confirmations = integer(tx.confirmations);
    const block = tx.blockhash ? await blockOf(text(tx.blockhash)) : null;
    const total = outputs.reduce((sum, o) => sum + o.units, 0n);
    const coinbase = vin.some((i) => i.coinbase !== undefined);
    const origins = coinbase ? null : await originsOf(vin, block === null);
    return {
      txid: text(tx.txid),
      status: block && confirmations > 0 ? 'confirmed' : 'pending',
      confirmations: Math.max(0, confirmations),
      blockHeight: block?.height ?? null,
      blockHash: block?.hash ?? null,
      timestamp: block?.time ?? null,
      amountUnits: total,
      feeUnits: coinbase ? 0n : await feeOf(),
      inputs: coinbase ? [{ address: 'coinbase', units: total }] : origins,
      outputs,
    };

    async function feeOf(): Promise<bigint | null> {
      // LTC: what a HogEx spends beyond its outputs is not its fee; a transaction entirely in MWEB states its fee in the kernels.
      if (text(fields(vout[0]?.scriptPubKey).type) === 'witness_mweb_hogaddr') return null;
      if (kernels.length > 0) return vin.length === 0 ? kernels.reduce((sum, kernel) => sum + amount(kernel.fee), 0n) : null;
      if (origins) return origins.reduce((sum, s) => sum + s.units, 0n) - total;
      if (tx.fee !== undefined) return amount(tx.fee);
      return block === null ? waitingFee(text(tx.txid)) : null;
    }
  };

  /** A transaction of a block that should contain it; null when it does not, or when the node no longer has the block. */
  const inBlock = async (txid: string, hash: string): Promise<Fields | null> => {
    // Dogecoin Core does not accept a block here, so the block is read.
    if (coin !== 'DOGE') {
      // Newer nodes add fee and inputs; older ones treat 2 as 1.
      const [reply] = await post([['getrawtransaction', txid, 2, hash]]);
      return reply!.error ? null : fields(reply!.result);
    }
    const [head] = await post([['getblockheader', hash]]);
    if (head!.error) return null;
    const found = parseBlock(await bytesOf(hash), coin).transactions.find((tx) => txidOf(tx) === txid);
    if (!found) return null;
    const decoded = fields(await call('decoderawtransaction', found.bytes.toString('hex', ...found.extent)));
    return { ...decoded, blockhash: hash, confirmations: fields(head!.result).confirmations };
  };
  const txidsOf = async (hash: string): Promise<{ txids: ReadonlySet<string>; parent: string }> => {
    const known = recent.get(hash);
    const block = known ? {} : fields(await call('getblock', hash, coin === 'DOGE' ? true : 1));
    const found = known ?? { txids: new Set(rows(block.tx).map(text)), parent: text(block.previousblockhash) };
    recent.delete(hash);
    recent.set(hash, found);
    for (const oldest of recent.keys()) if (recent.size > 2 * RECENT_BLOCKS) recent.delete(oldest);
    return found;
  };
  const inRecentBlock = async (txid: string): Promise<Fields | null> => {
    const [best] = await post([['getbestblockhash']]);
    let hash = text(best!.result);
    for (let i = 0; i < RECENT_BLOCKS && hash !== ''; i++) {
      const { txids, parent } = await txidsOf(hash);
      if (txids.has(txid)) return inBlock(txid, hash);
      hash = parent;
    }
    return null;
  };

  return {
    read: async (txid, hint) => {
      // A known block gives the most detail, with or without an index.
      const told = hint ? await inBlock(txid, hint.blockHash) : null;
      if (told && integer(told.confirmations) > 0) return describe(told);
      const [reply, index] = await post([['getrawtransaction', txid, 1], ['getindexinfo']]);
      if (!reply!.error) return describe(fields(reply!.result));
      if (!isNotFound(reply!.error)) throw failure(reply!.error, 'getrawtransaction');
      if (!index!.error && 'txindex' in fields(index!.result)) throw new ChainError('not_found', txid);
      const found = await inRecentBlock(txid);
      if (found) return describe(found);
      if (/txindex/i.test(reply!.error.message)) {
        const where = `its mempool and the last ${RECENT_BLOCKS} blocks`;
        throw new ChainError('unsupported', `the ${coin} node runs without txindex=1, so it only knows ${where}`);
      }
      throw new ChainError('not_found', txid);
    },
  };
}
