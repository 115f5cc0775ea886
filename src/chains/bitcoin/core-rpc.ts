/** A Bitcoin-Core-family node over JSON-RPC, from Litecoin 0.21 and Dogecoin 1.14 to today's Core: every key of a reply is optional. */

import { randomUUID } from 'node:crypto';
import type { Clock } from '../../core/clock.ts';
import { COIN, type Coin, type Network } from '../../core/coin.ts';
import { divideCeil } from '../../core/money.ts';
import type { Lock } from '../../core/payment.ts';
import type { Log } from '../../log.ts';
import type { Outgoing } from '../../outgoing.ts';
import {
  type BlockRef,
  ChainError,
  type ChainHealth,
  type ChainSource,
  type FeeTier,
  type Finality,
  orNull,
  type Sighting,
} from '../chain.ts';
import { createHexReader, type Fields, fields } from '../reply.ts';
import { amount, type CoreCall as Call, createCoreCalls, integer, rows, text } from './core-calls.ts';
import { createCoreTransactions } from './core-transactions.ts';
import { createMempoolIds } from './mempool-ids.ts';
import {
  type Family,
  matchBlock,
  matchInTurns,
  parseBlock,
  parseBlockInTurns,
  parseTransaction,
  type RawBlock,
  type RawTransaction,
} from './raw-block.ts';

/** Buffers kept for the next blocks: one is written while others are read. */
const MAX_ROOMS = 3;
const MAX_ROOM_BYTES = 8 << 20;
/** Transactions requested in one batch. */
const BATCH = 50;
/** New mempool transactions read in one poll; after a start the rest waits for the next poll. */
const MAX_FRESH = 20_000;
/** A mempool list that seems unchanged is read again after this many polls. */
const MAX_UNREAD_LOOKS = 20;
/** Cached headers: those of the tip and of the current block are requested repeatedly. */
const HEADERS = 4;

const NO_LOCK = { chainlock: null, tip: null };

/** DASH: flags are booleans in most replies and strings in mempool replies. */
const isTrue = (value: unknown): boolean => value === true || value === 'true';
/** After a ChainLock, `instantlock` is true for every transaction of the block. Only `instantlock_internal` distinguishes the two. */
function lockOf(tx: Fields): Lock {
  if (isTrue(tx.chainlock)) return 'chainlock';
  return isTrue(tx.instantlock_internal ?? tx.instantlock) ? 'instantsend' : null;
}
const CHAIN_OF: Readonly<Record<string, Network>> = {
  main: 'mainnet',
  test: 'testnet',
  testnet4: 'testnet',
  signet: 'testnet',
  regtest: 'regtest',
};

/** Creates the reader of one node. It connects on demand and does not poll. */
export function createCoreSource({
  coin,
  network,
  url,
  outgoing,
  log,
  clock,
}: {
  coin: Exclude<Coin, 'ETH'>;
  network: Network;
  url: string;
  outgoing: Outgoing;
  log: Log;
  clock: Clock;
}): ChainSource {
  const family: Family = coin;
  const calls = createCoreCalls({ coin, url, outgoing, log, clock });
  const { post, call, read, failure, clockAheadSeconds } = calls;
  const ids = createMempoolIds();
  /** The last mempool read: the node's summary of its state, the tip at that time, and whether all of it was read. */
  let listed: { state: string; beside: string; has(txid: string): boolean; complete: boolean } | null = null;
  let unread = 0;
  /** Another node's mempool may look the same. */
  const own = randomUUID();
  /**
   * LTC: peg-outs of the mempool, by transaction; returned by every poll. Their mined transfer is in another transaction, so one that lost
   * its block must be shown again, even if no poll happened while it was in the block.
   */
  const pegged = new Map<string, readonly Sighting[]>();
  const headers = new Map<string, Fields>();
  /** A header never changes except for its depth. */
  const readHeader = async (hash: string): Promise<Fields> => {
    const known = headers.get(hash);
    if (known) return known;
    const found = fields(await call('getblockheader', hash));
    // Any other answer is requested again.
    if (found.hash === hash) headers.set(hash, found);
    for (const oldest of headers.keys()) if (headers.size > HEADERS) headers.delete(oldest);
    return found;
  };

  /** Buffers of finished blocks, reused for the next ones, because allocating megabytes for each block costs more than reading it. */
  const rooms: Buffer<ArrayBuffer>[] = [];
  const freeRoom = (room: Buffer<ArrayBuffer> | null): void => {
    if (room && room.length <= MAX_ROOM_BYTES && rooms.length < MAX_ROOMS) rooms.push(room);
  };
  /** A block as bytes, decoded from hex as it arrives. The block's own hashes prove the content. */
  const rawBlock = async (hash: string): Promise<{ bytes: Buffer; room: Buffer<ArrayBuffer> | null }> => {
    const { replies, reader } = await read([['getblock', hash, 0]], 0, () => {
      const hex = createHexReader(rooms.pop());
      return { ...hex, taken: () => hex.bytes() !== null };
    });
    if (!replies) {
      const bytes = reader.bytes()!;
      return { bytes, room: Buffer.from(bytes.buffer) };
    }
    const [reply] = replies;
    if (reply!.error) throw failure(reply!.error, 'getblock');
    return { bytes: Buffer.from(text(reply!.result), 'hex'), room: null };
  };

  const header = (value: unknown): BlockRef => {
    const h = fields(value);
    return { height: integer(h.height), hash: text(h.hash), parent: text(h.previousblockhash), time: new Date(integer(h.time) * 1000) };
  };

  const transactions = createCoreTransactions({
    coin,
    network,
    calls,
    blockOf: async (hash) => header(await readHeader(hash)),
    bytesOf: async (hash) => (await rawBlock(hash)).bytes,
  });

  /** LTC: a payment from an MWEB wallet shows in the mempool only as a peg-out of the transaction's kernels. */
  const pegouts = async (txid: string): Promise<Omit<Sighting, 'key'>[] & { key?: string }[]> => {
    const tx = fields(await orNull(call('getrawtransaction', txid, 1)));
    return rows(tx.vkern)
      .flatMap((kernel) => rows(fields(kernel).pegout))
      .map((pegout, i) => {
        const script = fields(pegout).scriptPubKey;
        return {
          key: typeof script === 'string' ? script : text(fields(script).hex),
          ref: `${txid}:pegout:${i}`,
          txid,
          units: amount(fields(pegout).value),
          kind: 'pegout' as const,
          spends: [],
          lock: null,
        };
      });
  };

  /** A value that changes with the mempool, from the node's summary; null when two mempools may look the same (no sum of fees). */
  const stateOf = (info: unknown): string | null => {
    const { size, bytes, usage, total_fee: fees } = fields(info);
    return fees === undefined ? null : [own, size, bytes, usage, fees].join(' ');
  };
  type Listed = { beside: string; has(txid: string): boolean; fresh: string[]; more: boolean };
  /** The mempool as it was last read; null when it may have changed since. */
  const unchangedMempool = (health: ChainHealth): Listed | null => {
    if (!listed?.complete || unread >= MAX_UNREAD_LOOKS) return null;
    if (health.mempool !== listed.state || health.tip.hash !== listed.beside) return null;
    unread++;
    return { beside: listed.beside, has: listed.has, fresh: [], more: false };
  };
  /** The ids of the mempool, read as they arrive, and the tip at that time. The summary is requested first, so changes in between are seen again. */
  const readMempool = async (): Promise<Listed> => {
    unread = 0;
    const { replies, reader } = await read([['getmempoolinfo'], ['getrawmempool'], ['getbestblockhash']], 1, () =>
      ids.list({ most: MAX_FRESH }),
    );
    const [info, pool, best] = replies!;
    if (pool!.error) throw failure(pool!.error, 'getrawmempool');
    if (best!.error) throw failure(best!.error, 'getbestblockhash');
    reader.add(rows(pool!.result).map(text));
    const { has, fresh, more } = reader.commit();
    const beside = text(best!.result);
    const state = info!.error ? null : stateOf(info!.result);
    // New ids count as read once they were returned.
    listed = state === null ? null : { state, beside, has, complete: fresh.length === 0 };
    return { beside, has, fresh, more };
  };
  /** Mempool transactions by id; `txids`: those that need not be read again. */
  const readWaiting = async (fresh: readonly string[]): Promise<{ transactions: RawTransaction[]; txids: string[] }> => {
    const transactions: RawTransaction[] = [];
    const txids: string[] = [];
    for (let i = 0; i < fresh.length; i += BATCH) {
      const part = fresh.slice(i, i + BATCH);
      const replies = await post(part.map((txid): Call => ['getrawtransaction', txid, 0]));
      for (const [j, reply] of replies.entries()) {
        // It may have left the mempool in between. If it returns, it is requested again.
        if (reply.error) continue;
        try {
          const tx = parseTransaction(Buffer.from(text(reply.result), 'hex'), family);
          transactions.push({ ...tx, ids: Buffer.from(part[j]!, 'hex').reverse(), idAt: 0 });
          if (tx.mweb) pegged.set(part[j]!, (await pegouts(part[j]!)) as Sighting[]);
        } catch (error) {
          if (error instanceof ChainError) throw error;
          log.warn({ coin, txid: part[j], reason: (error as Error).message }, 'Cannot read an unconfirmed transaction');
        }
        txids.push(part[j]!);
      }
    }
    return { transactions, txids };
  };

  return {
    coin,
    network,
    genesis: async () => text(await call('getblockhash', 0)),
    health: async () => {
      const [chain, net, index, pool] = await post([['getblockchaininfo'], ['getnetworkinfo'], ['getindexinfo'], ['getmempoolinfo']]);
      if (chain!.error) throw failure(chain!.error, 'getblockchaininfo');
      const info = fields(chain!.result);
      const about = fields(net!.result);
      return {
        tip: header(await readHeader(text(info.bestblockhash))),
        headers: integer(info.headers),
        syncing: info.initialblockdownload === true || integer(info.headers) > integer(info.blocks) + 2,
        software: text(about.subversion).replaceAll('/', ''),
        version: integer(about.version),
        network: CHAIN_OF[text(info.chain)] ?? text(info.chain),
        pruned: info.pruned === true,
        txindex: !index!.error && index!.result ? 'txindex' in fields(index!.result) : null,
        // A node may reject the call.
        peers: typeof about.connections === 'string' ? integer(about.connections) : null,
        mempool: pool!.error ? null : stateOf(pool!.result),
      };
    },
    inspect: async () => {
      const info = fields(await call('getblockchaininfo'));
      const warnings = fields(await call('getnetworkinfo')).warnings;
      const needs: readonly { capability: string; need(): Promise<unknown> }[] = [
        {
          capability: 'raw blocks',
          need: async () => parseBlock(Buffer.from(text(await call('getblock', text(info.bestblockhash), 0)), 'hex'), family),
        },
        {
          capability: 'its mempool',
          need: async () => {
            const [txid] = rows(await call('getrawmempool')).map(text);
            // A transaction that left in between is not an error.
            if (txid !== undefined) await orNull(call('getrawtransaction', txid, 0));
          },
        },
        {
          capability: 'transactions',
          // No node has this transaction. The call only shows whether the user may make it.
          need: () => orNull(call('getrawtransaction', '0'.repeat(63) + '1', 1)),
        },
        { capability: 'fee estimates', need: () => call('estimatesmartfee', 6) },
        { capability: 'the state of its mempool', need: () => call('getmempoolinfo') },
      ];
      const missing: { capability: string; reason: string }[] = [];
      for (const { capability, need } of needs) {
        await need().catch((error: unknown) => missing.push({ capability, reason: (error as Error).message }));
      }
      return {
        prunedBelow: info.pruned === true ? integer(info.pruneheight) : null,
        clockAheadSeconds: clockAheadSeconds(),
        missing,
        warnings: (Array.isArray(warnings) ? warnings : [warnings]).map(text).filter(Boolean),
      };
    },
    tip: async () => header(await readHeader(text(await call('getbestblockhash')))),
    blockAt: async (height) => {
      const hash = await orNull(call('getblockhash', height));
      return hash === null ? null : header(await readHeader(text(hash)));
    },
    block: async (hash) => {
      const found = await orNull(call('getblockheader', hash));
      return found === null ? null : header(found);
    },
    fetchBlock: async (hash) => {
      const [head, { bytes, room }] = await Promise.all([readHeader(hash), rawBlock(hash)]);
      const ref = header(head);
      let block: RawBlock;
      try {
        block = await parseBlockInTurns(bytes, family);
      } catch (cause) {
        throw new ChainError('outage', `block ${hash} cannot be read: ${(cause as Error).message}`, { cause });
      }
      // Only DASH identifies blocks by another hash (X11), for which no maintained library exists. There the merkle root proves the
      // transactions, and the parent hash links the block to the previous recorded one.
      if (block.hash !== hash && family !== 'DASH') throw new ChainError('outage', `the node answered another block than ${hash}`);
      if (ref.hash !== hash || ref.parent !== block.parent || text(fields(head).merkleroot) !== block.merkleRoot) {
        headers.delete(hash);
        throw new ChainError('outage', `the header of ${hash} does not fit the block`);
      }
      return {
        ref,
        scan: async (matcher) => ({ block: ref, ...(await matchBlock(block, matcher)) }),
        done: () => freeRoom(room),
      };
    },
    fetchMempool: async (health) => {
      const { beside, has, fresh, more } = (health && unchangedMempool(health)) ?? (await readMempool());
      for (const txid of pegged.keys()) if (!has(txid)) pegged.delete(txid);
      const { transactions, txids } = await readWaiting(fresh);
      const waiting = [...pegged.values()].flat();
      const now = listed;
      return {
        beside,
        scan: async (matcher) => {
          const { sightings, conflicts } = await matchInTurns(transactions, matcher, () => 'output');
          sightings.unshift(...waiting.filter((s) => matcher.has(s.key)));
          return { sightings, conflicts, present: { has }, ...(more && { complete: false }) };
        },
        done: () => {
          ids.markRead(txids);
          if (now && txids.length === fresh.length && !more) now.complete = true;
        },
      };
    },
    txState: async (txid) => {
      const found = fields(await orNull(call('getrawtransaction', txid, 1)));
      if (!found.txid) return { state: 'unknown', blockHash: null, lock: null };
      const blockHash = found.blockhash ? text(found.blockhash) : null;
      return { state: blockHash ? 'mined' : 'mempool', blockHash, lock: coin === 'DASH' ? lockOf(found) : null };
    },
    finality: async () => ({ safe: null, finalized: null, ...(coin === 'DASH' ? await bestChainLock() : NO_LOCK) }),
    transaction: (txid, hint) => transactions.read(txid, hint),
    addressSummary: async () => {
      throw new ChainError('unsupported', `balances of any address need an address index; set ${coin}_BLOCKBOOK_URL`);
    },
    fees: async () => {
      const targets = [2, 6, 24];
      const [info, ...estimates] = await post([['getmempoolinfo'], ...targets.map((n): Call => ['estimatesmartfee', n])]);
      const floor = [fields(info!.result).mempoolminfee, fields(info!.result).minrelaytxfee]
        .map((v) => (v === undefined ? 0n : amount(v)))
        .reduce((a, b) => (b > a ? b : a), coin === 'DOGE' ? 1_000_000n : 1_000n);
      let above = 0n;
      // From slow to fast, so fast is never below normal, nor normal below slow.
      return (['slow', 'normal', 'fast'] as const)
        .map((speed): FeeTier => {
          const index = { fast: 0, normal: 1, slow: 2 }[speed];
          const given = fields(estimates[index]!.result).feerate;
          const perKilo = given === undefined || text(given).startsWith('-') ? 0n : amount(given);
          above = [perKilo, floor, above].reduce((a, b) => (b > a ? b : a));
          return {
            speed,
            rateE8: above * 100_000n,
            units: divideCeil(above * BigInt(COIN[coin].typicalSize), 1_000n),
            minutes: MINUTES[coin][index]!,
            source: perKilo > 0n ? 'estimate' : 'fallback',
          };
        })
        .toReversed();
    },
    readUnspent: async ({ outputs }) => {
      const ask = async (withMempool: boolean): Promise<bigint> => {
        let total = 0n;
        for (let i = 0; i < outputs.length; i += BATCH) {
          const part = outputs.slice(i, i + BATCH);
          const replies = await post(
            part.map(({ ref }): Call => ['gettxout', ref.split(':')[0], Number(ref.split(':').at(-1)), withMempool]),
          );
          for (const [j, reply] of replies.entries()) {
            if (reply.error) throw failure(reply.error, 'gettxout');
            // Null means spent. With the mempool included, an output that a waiting transaction spends counts as spent.
            if (reply.result !== null) total += part[j]!.units;
          }
        }
        return total;
      };
      const units = await ask(false);
      return { units, leavingUnits: units - (await ask(true)) };
    },
    close: () => {},
  };

  /** Height of the best ChainLock, when it lies on the chain that the node follows. Null: the node has none. */
  async function bestChainLock(): Promise<Pick<Finality, 'chainlock' | 'tip'>> {
    const [reply, now] = await post([['getbestchainlock'], ['getbestblockhash']]);
    const best = fields(reply!.result);
    // An error means "none yet" (no quorums, as on a single node) or a version without ChainLocks. Depth decides instead.
    if (reply!.error || best.known_block === false || !best.blockhash) return NO_LOCK;
    const height = integer(best.height);
    if (!now!.error && now!.result === best.blockhash) return { chainlock: height, tip: text(best.blockhash) };
    const [there, tip] = await post([['getblockhash', height], ['getbestblockhash']]);
    return !there!.error && text(there!.result) === text(best.blockhash) ? { chainlock: height, tip: text(tip!.result) } : NO_LOCK;
  }
}

/** Usual waiting times of the three speeds. */
const MINUTES: Readonly<Record<Exclude<Coin, 'ETH'>, readonly [fast: string, normal: string, slow: string]>> = {
  BTC: ['10-20', '30-60', '120-240'],
  LTC: ['2-5', '10-15', '45-60'],
  DASH: ['0-1', '3-5', '10-15'],
  DOGE: ['1-2', '5-10', '20-30'],
};
