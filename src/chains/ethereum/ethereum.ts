/**
 * An Ethereum node or provider over JSON-RPC. ETH also moves inside contracts, where transactions do not show it: each block is
 * read with the best method that the node offers (value logs, access lists, balances), and with that method only.
 */

import { COIN, type Network } from '../../core/coin.ts';
import type { Log } from '../../log.ts';
import type { Outgoing } from '../../outgoing.ts';
import {
  type BlockRef,
  type BlockScan,
  ChainError,
  type ChainSource,
  type ChainTransaction,
  type Conflict,
  type FeeTier,
  type Matcher,
  type Sighting,
} from '../chain.ts';
import { fields } from '../reply.ts';
import { checksumAddress } from './address.ts';
import { createGainReader, type EthBlock, type Gain } from './eth-gains.ts';
import { account, createEthRpc, failure, hash32, isPruned, quantity, rows, smallNumber, toHex } from './eth-rpc.ts';
import { type EthTransaction, readReceipt, readTransaction } from './value-moves.ts';

/** A larger mempool is not read as a whole; the pending block is read instead. */
const MAX_POOL = 5_000;
/** Depths that replace `safe` and `finalized` for providers without these tags: two epochs, and four. */
const SAFE_DEPTH = 64;
const FINALIZED_DEPTH = 128;
/** Blocks and shares of the tips paid in them, from which fees are estimated: slow, normal, fast. */
const FEE_BLOCKS = 20;
const FEE_PERCENTILES = [20, 50, 90];

/** Creates the reader of one node. It connects on demand and does not poll. */
export function createEthereumSource({
  network,
  chainId,
  url,
  outgoing,
  log,
  retryMs,
  traceMs,
}: {
  network: Network;
  chainId: number;
  url: string;
  outgoing: Outgoing;
  log: Log;
  /** First pause after a rate limit without Retry-After. */
  retryMs?: number;
  /** Time limit for the traces of one block. */
  traceMs?: number;
}): ChainSource {
  const coin = 'ETH';
  const rpc = createEthRpc({ url, outgoing, log, ...(retryMs !== undefined && { retryMs }) });
  const { call, batch, attempt } = rpc;
  const gainReader = createGainReader({ rpc, log, ...(traceMs !== undefined && { traceMs }) });

  const header = (value: unknown): BlockRef => {
    const h = fields(value);
    return {
      height: smallNumber(h.number),
      hash: hash32(h.hash),
      parent: hash32(h.parentHash),
      time: new Date(smallNumber(h.timestamp) * 1000),
    };
  };
  const orNull = (value: unknown): BlockRef | null => (value === null ? null : header(value));
  const tip = async (): Promise<BlockRef> => header(await call('eth_getBlockByNumber', 'latest', false));

  /** Receipts of single transactions, if the node does not return those of a block. */
  const readReceipts = async (transactions: readonly EthTransaction[]): Promise<unknown[]> =>
    (await batch(transactions.map(({ txid }) => ['eth_getTransactionReceipt', txid]))).map(({ result, error }) => {
      if (error) throw failure(error, 'eth_getTransactionReceipt');
      return result;
    });
  const readBlock = async (hash: string): Promise<EthBlock> => {
    const [block, receipts] = await batch([
      ['eth_getBlockByHash', hash, true],
      ['eth_getBlockReceipts', hash],
    ]);
    if (block!.error) throw failure(block!.error, 'eth_getBlockByHash');
    // Another machine behind the same address may be a block ahead.
    if (block!.result === null) throw new ChainError('outage', `the ETH node does not have block ${hash} yet`);
    const ref = header(block!.result);
    const transactions = rows(fields(block!.result).transactions).map(readTransaction);
    if (receipts!.error && isPruned(receipts!.error)) throw failure(receipts!.error, 'eth_getBlockReceipts');
    // A provider may lack the method, or reject a reply of this size.
    const found = receipts!.error ? await readReceipts(transactions) : receipts!.result;
    const list = found === null ? [] : rows(found);
    const isOwn = (value: unknown, i: number) => {
      const receipt = fields(value);
      return hash32(receipt.blockHash) === hash && hash32(receipt.transactionHash) === transactions[i]?.txid;
    };
    if (ref.hash !== hash || list.length !== transactions.length || !list.every(isOwn))
      throw new ChainError('outage', `the receipts of block ${hash} do not fit it`);
    return { ref, transactions, receipts: list.map(readReceipt) };
  };

  const scanBlock = async (block: EthBlock, matcher: Matcher): Promise<BlockScan> => {
    const { ref, transactions } = block;
    // One transfer per transaction and address, with the same reference and sum for every method, in the mempool too.
    const sums = new Map<string, Gain>();
    for (const gain of await gainReader.read(block, matcher)) {
      const name = `${gain.key} ${gain.index}`;
      sums.set(name, { ...gain, units: gain.units + (sums.get(name)?.units ?? 0n) });
    }
    const sightings = [...sums.values()].map(({ key, index, units }): Sighting => {
      const tx = index === null ? null : transactions[index]!;
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
    const paying = new Set(sightings.map((s) => s.txid));
    const conflicts: Conflict[] = [];
    if (matcher.watchesSpends) {
      for (const tx of transactions) {
        if (matcher.spends(outpoint(tx)))
          conflicts.push({ outpoint: outpoint(tx), txid: tx.txid, ...(!paying.has(tx.txid) && { failed: true }) });
      }
    }
    return { block: ref, sightings, conflicts };
  };

  /** Waiting transactions: those that could be mined next, and the ids of all that the node lists. */
  const readPool = async (): Promise<{ ready: EthTransaction[]; known: Set<string> }> => {
    const status = fields(await attempt({ call: ['txpool_status'] }));
    const size = [status.pending, status.queued].reduce((sum: bigint, n) => sum + (typeof n === 'string' ? quantity(n) : 0n), 0n);
    const content = status.pending === undefined || size > MAX_POOL ? undefined : await attempt({ call: ['txpool_content'] });
    const listed = (section: unknown) =>
      Object.values(fields(section)).flatMap((byNonce) => Object.values(fields(byNonce)).flatMap(readable));
    if (content !== undefined) {
      // Queued transactions wait for an earlier nonce or for funds. They may never be mined, so they do not count as seen.
      const ready = listed(fields(content).pending);
      return { ready, known: new Set([...ready, ...listed(fields(content).queued)].map((tx) => tx.txid)) };
    }
    const [latest, pending] = await batch([
      ['eth_getBlockByNumber', 'latest', false],
      ['eth_getBlockByNumber', 'pending', true],
    ]);
    const next = fields(pending!.result);
    // Some answer with the latest block instead.
    const isNext = next.parentHash !== undefined && next.parentHash === fields(latest!.result).hash;
    const ready = isNext && Array.isArray(next.transactions) ? next.transactions.flatMap(readable) : [];
    return { ready, known: new Set(ready.map((tx) => tx.txid)) };
  };

  return {
    coin,
    network,
    genesis: async () => {
      const id = await call('eth_chainId');
      if (quantity(id) !== BigInt(chainId))
        throw new ChainError('wrong_network', `the ETH node is on chain ${quantity(id)}, ETH_CHAIN_ID says ${chainId}`);
      return String(chainId);
    },
    health: async () => {
      const [id, latest, syncing, peers, version] = await batch([
        ['eth_chainId'],
        ['eth_getBlockByNumber', 'latest', false],
        ['eth_syncing'],
        ['net_peerCount'],
        ['web3_clientVersion'],
      ]);
      for (const reply of [id, latest]) if (reply!.error) throw failure(reply!.error, 'eth_chainId');
      const head = header(latest!.result);
      const progress = fields(syncing!.result);
      return {
        tip: head,
        headers: progress.highestBlock === undefined ? head.height : Math.max(head.height, smallNumber(progress.highestBlock)),
        syncing: !syncing!.error && syncing!.result !== false,
        software: typeof version!.result === 'string' ? version!.result : 'unknown',
        version: 0,
        network: quantity(id!.result) === BigInt(chainId) ? network : `chain ${quantity(id!.result)}`,
        pruned: false,
        txindex: null,
        // Providers do not offer it.
        peers: peers!.error ? null : smallNumber(peers!.result),
      };
    },
    tip,
    blockAt: async (height) => orNull(await call('eth_getBlockByNumber', toHex(height), false)),
    block: async (hash) => orNull(await call('eth_getBlockByHash', hash, false)),
    fetchBlock: async (hash) => {
      const block = await readBlock(hash);
      return { ref: block.ref, scan: (matcher) => scanBlock(block, matcher) };
    },
    fetchMempool: async () => {
      const { ready, known } = await readPool();
      return {
        scan: async (matcher) => {
          const sightings: Sighting[] = ready
            .filter(({ from, to, units }) => to !== null && to !== from && units > 0n && matcher.has(to))
            .map((tx) => ({
              key: tx.to!,
              ref: `${tx.txid}:tx`,
              txid: tx.txid,
              units: tx.units,
              kind: 'direct',
              spends: [outpoint(tx)],
              lock: null,
            }));
          const conflicts = matcher.watchesSpends
            ? ready.filter((tx) => matcher.spends(outpoint(tx))).map((tx) => ({ outpoint: outpoint(tx), txid: tx.txid }))
            : [];
          // The list may be incomplete, so the relevant transactions are requested individually.
          const unlisted = matcher.waiting.filter((txid) => !known.has(txid));
          const replies = await batch(unlisted.map((txid) => ['eth_getTransactionByHash', txid]));
          for (const [i, { result, error }] of replies.entries()) {
            if (error) throw failure(error, 'eth_getTransactionByHash');
            if (result !== null) known.add(unlisted[i]!);
          }
          return { sightings, conflicts, present: known };
        },
        done: () => {},
      };
    },
    txState: async (txid) => {
      const found = fields(await call('eth_getTransactionByHash', txid));
      if (found.hash === undefined) return { state: 'unknown', blockHash: null, lock: null };
      const mined = typeof found.blockHash === 'string';
      return { state: mined ? 'mined' : 'mempool', blockHash: mined ? hash32(found.blockHash) : null, lock: null };
    },
    finality: async () => {
      // The tip last, so what is final lies below it.
      const [safe, finalized, latest] = await batch(['safe', 'finalized', 'latest'].map((tag) => ['eth_getBlockByNumber', tag, false]));
      if (latest!.error) throw failure(latest!.error, 'eth_getBlockByNumber');
      const { height: head, hash: tip } = header(latest!.result);
      const heightOf = (reply: typeof safe, depth: number) =>
        reply!.error || reply!.result === null ? (head >= depth ? head - depth : null) : header(reply!.result).height;
      return { safe: heightOf(safe, SAFE_DEPTH), finalized: heightOf(finalized, FINALIZED_DEPTH), chainlock: null, tip };
    },
    transaction: async (txid) => {
      const [transaction, receipt, latest] = await batch([
        ['eth_getTransactionByHash', txid],
        ['eth_getTransactionReceipt', txid],
        ['eth_getBlockByNumber', 'latest', false],
      ]);
      for (const reply of [transaction, receipt, latest]) if (reply!.error) throw failure(reply!.error, 'eth_getTransactionByHash');
      let found = transaction!.result;
      if (found === null && receipt!.result !== null) {
        // An index of transactions may be pruned where the block is not.
        const { blockHash, transactionIndex } = fields(receipt!.result);
        found = await call('eth_getTransactionByBlockHashAndIndex', blockHash, transactionIndex);
      }
      if (found === null) throw new ChainError('not_found', txid);
      return describe(found, receipt!.result, header(latest!.result));
    },
    addressSummary: async () => {
      throw new ChainError(
        'unsupported',
        'an ETH node knows the balance of an address but not what it received and sent in total; that needs an index',
      );
    },
    fees: async () => {
      const history = fields(await call('eth_feeHistory', toHex(FEE_BLOCKS), 'latest', FEE_PERCENTILES));
      const base = quantity(rows(history.baseFeePerGas).at(-1));
      const rewards = Array.isArray(history.reward) ? history.reward.map((row) => rows(row).map(quantity)) : [];
      let above = 0n;
      // From slow to fast, so fast is never below normal, nor normal below slow. A full block raises the base fee by an eighth.
      return (['slow', 'normal', 'fast'] as const)
        .map((speed, i): FeeTier => {
          const tips = rewards.map((row) => row[i] ?? 0n).toSorted((a, b) => (a < b ? -1 : a > b ? 1 : 0));
          const wei = (base * BigInt(8 + i)) / 8n + (tips[Math.floor(tips.length / 2)] ?? 0n);
          above = wei > above ? wei : above;
          return {
            speed,
            // Gwei with eight decimals.
            rateE8: above / 10n,
            units: above * BigInt(COIN.ETH.typicalSize),
            minutes: ['2-5', '1-2', '0-1'][i]!,
            source: tips.length > 0 ? 'estimate' : 'fallback',
          };
        })
        .toReversed();
    },
    readUnspent: async ({ address }) => ({ units: quantity(await call('eth_getBalance', address, 'latest')), leavingUnits: 0n }),
    unusable: rpc.unusable,
    close: () => rpc.close(),
  };

  async function describe(found: unknown, receipt: unknown, head: BlockRef): Promise<ChainTransaction> {
    const tx = readTransaction(found);
    const outcome = receipt === null ? null : readReceipt(receipt);
    const { blockHash, contractAddress } = fields(receipt);
    const block = outcome ? header(await call('eth_getBlockByHash', blockHash, false)) : null;
    const moved = outcome?.ok === false ? 0n : tx.units;
    const to = tx.to ?? account(contractAddress);
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
}

/** Sender and nonce: only one transaction can use them, so a replacement shares them with what it replaces. */
const outpoint = ({ from, nonce }: EthTransaction): string => `${from}:${nonce}`;

/** A waiting transaction, as far as it can be read: nodes may omit fields that they have not checked. */
function readable(value: unknown): EthTransaction[] {
  try {
    return [readTransaction(value)];
  } catch {
    // An unreadable transaction is seen when it is mined.
    return [];
  }
}
