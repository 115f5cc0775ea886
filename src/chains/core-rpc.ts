/** A Bitcoin-Core-family node over JSON-RPC, from Litecoin 0.21 and Dogecoin 1.14 to today's Core: every key of a reply is optional. */

import { addressOfScript } from '../core/address.ts';
import type { Clock } from '../core/clock.ts';
import { COIN, type Coin, type Network } from '../core/coin.ts';
import { divideCeil, parseExactJson } from '../core/money.ts';
import type { Lock } from '../core/payment.ts';
import type { Log } from '../log.ts';
import type { Outgoing } from '../outgoing.ts';
import {
  type BlockRef,
  ChainError,
  type ChainSource,
  type ChainTransaction,
  type Conflict,
  type FeeTier,
  type Finality,
  orNull,
  type Sighting,
} from './chain.ts';
import {
  type Family,
  matchTransaction,
  parseBlock,
  parseBlockInTurns,
  parseTransaction,
  type RawBlock,
  type RawTransaction,
} from './raw-block.ts';
import { createHexReader, type Fields, fields, type HexReader, requestFrom } from './reply.ts';

const TIMEOUT_MS = 30_000;
const MAX_REPLY_BYTES = 64 * 1024 * 1024;
/** Memory of blocks kept for the next ones: one is written while others are read. */
const MAX_ROOMS = 3;
const MAX_ROOM_BYTES = 8 << 20;
/** Transactions asked for in one batch. */
const BATCH = 50;
/** Inputs whose origin is looked up for a fee. */
const MAX_INPUTS = 500;
const WARMING_UP = -28;
const NOT_FOUND = -5;
const OUT_OF_RANGE = -8;

type Call = readonly [method: string, ...params: unknown[]];
type RpcError = { code: number; message: string };
type Reply = { result: unknown; error: RpcError | null };

const NO_LOCK = { chainlock: null, tip: null };

const rows = (value: unknown): unknown[] => (Array.isArray(value) ? value : []);
const text = (value: unknown): string => (typeof value === 'string' ? value : '');
const integer = (value: unknown): number => Number(text(value) || '0');
/** A coin amount in its eight decimals; nodes may write an exponent for tiny ones. */
function amount(value: unknown): bigint {
  const match = /^(-?)(\d+)(?:\.(\d+))?(?:[eE]([+-]?\d+))?$/.exec(text(value));
  if (!match) throw new ChainError('outage', 'the node answered an amount that is none');
  const shift = 8 + Number(match[4] ?? 0) - (match[3]?.length ?? 0);
  const digits = BigInt(match[2]! + (match[3] ?? ''));
  const units = shift >= 0 ? digits * 10n ** BigInt(shift) : digits / 10n ** BigInt(-shift);
  return match[1] ? -units : units;
}
/** DASH: flags are booleans in most replies and texts in those of the mempool. */
const isTrue = (value: unknown): boolean => value === true || value === 'true';
/** After a ChainLock `instantlock` is true for every transaction of the block: `instantlock_internal` alone tells the two apart. */
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

/** Makes the reader of one node. It connects when asked; nothing is polled by itself. */
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
  const known = new Set<string>();
  /**
   * LTC: peg-outs of the mempool, by transaction; handed out at each look. Their mined transfer has another transaction, so that one
   * which lost its block must be shown again, also when nobody looked while it was in it.
   */
  const pegged = new Map<string, readonly Sighting[]>();
  let nextId = 0;
  /** The last header read of a height: its block is fetched next, and a hash names one header for ever. */
  let lastHeader: Fields = {};
  /** What the node's clock said with its last answer, less ours. */
  let clockAheadSeconds: number | null = null;

  /** Sends calls and reads what comes; null where `hex` takes it all. */
  const ask = async (calls: readonly Call[], hex?: HexReader): Promise<Reply[] | null> => {
    const first = nextId;
    nextId += calls.length;
    const asked = calls.map(([method, ...params], i) => ({ jsonrpc: '1.0', id: first + i, method, params }));
    const reply = await requestFrom(outgoing, `the ${coin} node`, {
      url,
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: Buffer.from(JSON.stringify(calls.length === 1 ? asked[0] : asked)),
      timeoutMs: TIMEOUT_MS,
      maxReplyBytes: MAX_REPLY_BYTES,
      ...(hex && { take: hex.take }),
    });
    if (reply.status === 401) throw new ChainError('outage', `the ${coin} node refuses user and password`);
    if (reply.status === 403) throw new ChainError('outage', `the ${coin} node does not allow this to us (rpcallowip, rpcwhitelist)`);
    const told = Date.parse(reply.headers.date ?? '');
    clockAheadSeconds = Number.isNaN(told) ? null : Math.round((told - clock.now().getTime()) / 1000);
    if (hex?.bytes()) return null;
    const body = hex?.text() ?? Buffer.from(reply.body.buffer, reply.body.byteOffset, reply.body.length).toString();
    let parsed: unknown;
    try {
      parsed = parseExactJson(body);
    } catch (cause) {
      throw new ChainError('outage', `the ${coin} node answered status ${reply.status} and no JSON`, { cause });
    }
    const answers = new Map((Array.isArray(parsed) ? parsed : [parsed]).map((answer) => [String(fields(answer).id), fields(answer)]));
    return calls.map((_, i) => {
      const answer = answers.get(String(first + i));
      if (!answer) throw new ChainError('outage', `the ${coin} node answered another request`);
      const error =
        answer.error === null || answer.error === undefined
          ? null
          : { code: integer(fields(answer.error).code), message: text(fields(answer.error).message) };
      if (error?.code === WARMING_UP) throw new ChainError('outage', `the ${coin} node is starting: ${error.message}`);
      return { result: answer.result, error };
    });
  };
  const post = async (calls: readonly Call[]): Promise<Reply[]> => (await ask(calls))!;
  const call = async (...request: Call): Promise<unknown> => {
    const [reply] = await post([request]);
    if (reply!.error) throw failure(reply!.error, request[0]);
    return reply!.result;
  };
  const failure = (error: RpcError, method: string): ChainError =>
    /pruned/i.test(error.message)
      ? new ChainError('pruned', `the ${coin} node has pruned that block`)
      : error.code === NOT_FOUND || error.code === OUT_OF_RANGE
        ? new ChainError('not_found', error.message)
        : error.code === -32601
          ? new ChainError('unsupported', `this ${coin} node has no ${method}`)
          : new ChainError('outage', `${method}: ${error.message}`);

  /** Where blocks stood that are done with: the next ones are written there. Memory of megabytes, new for each block, costs more than to read it. */
  const rooms: Buffer<ArrayBuffer>[] = [];
  const freeRoom = (room: Buffer<ArrayBuffer> | null): void => {
    if (room && room.length <= MAX_ROOM_BYTES && rooms.length < MAX_ROOMS) rooms.push(room);
  };
  /** A block as bytes, read from its hex as it comes: what came is proven by the block's own hashes. */
  const rawBlock = async (hash: string): Promise<{ bytes: Buffer; room: Buffer<ArrayBuffer> | null }> => {
    const hex = createHexReader(rooms.pop());
    const replies = await ask([['getblock', hash, 0]], hex);
    if (!replies) {
      const bytes = hex.bytes()!;
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

  return {
    coin,
    network,
    genesis: async () => text(await call('getblockhash', 0)),
    health: async () => {
      const [chain, net] = await post([['getblockchaininfo'], ['getnetworkinfo']]);
      if (chain!.error) throw failure(chain!.error, 'getblockchaininfo');
      const info = fields(chain!.result);
      const about = fields(net!.result);
      const [index] = await post([['getindexinfo']]).catch(() => [null]);
      return {
        tip: header(await call('getblockheader', text(info.bestblockhash))),
        headers: integer(info.headers),
        syncing: info.initialblockdownload === true || integer(info.headers) > integer(info.blocks) + 2,
        software: text(about.subversion).replaceAll('/', ''),
        version: integer(about.version),
        network: CHAIN_OF[text(info.chain)] ?? text(info.chain),
        pruned: info.pruned === true,
        txindex: index && !index.error ? 'txindex' in fields(index.result) : null,
        peers: integer(about.connections),
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
            // One that has left in between is no fault.
            if (txid !== undefined) await orNull(call('getrawtransaction', txid, 0));
          },
        },
        {
          capability: 'transactions',
          // No node has this one: what counts is that it may be asked for.
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
        clockAheadSeconds,
        missing,
        warnings: (Array.isArray(warnings) ? warnings : [warnings]).map(text).filter(Boolean),
      };
    },
    tip: async () => header(await call('getblockheader', text(await call('getbestblockhash')))),
    blockAt: async (height) => {
      const hash = await orNull(call('getblockhash', height));
      if (hash === null) return null;
      lastHeader = fields(await call('getblockheader', hash));
      return header(lastHeader);
    },
    block: async (hash) => {
      const found = await orNull(call('getblockheader', hash));
      return found === null ? null : header(found);
    },
    fetchBlock: async (hash) => {
      const [head, { bytes, room }] = await Promise.all([
        lastHeader.hash === hash ? lastHeader : call('getblockheader', hash),
        rawBlock(hash),
      ]);
      const ref = header(head);
      let block: RawBlock;
      try {
        block = await parseBlockInTurns(bytes, family);
      } catch (cause) {
        throw new ChainError('outage', `block ${hash} cannot be read: ${(cause as Error).message}`, { cause });
      }
      // DASH alone names its blocks by another hash (X11), for which no kept library exists: there the merkle root proves the
      // transactions, and the parent ties the block to the one recorded before it.
      if (block.hash !== hash && family !== 'DASH') throw new ChainError('outage', `the node answered another block than ${hash}`);
      if (ref.hash !== hash || ref.parent !== block.parent || text(fields(head).merkleroot) !== block.merkleRoot)
        throw new ChainError('outage', `the header of ${hash} does not fit the block`);
      return {
        ref,
        scan: (matcher) => {
          const sightings: Sighting[] = [];
          const conflicts: Conflict[] = [];
          for (const tx of block.transactions)
            matchTransaction(tx, matcher, tx.coinbase ? 'coinbase' : tx.hogEx ? 'pegout' : 'output', sightings, conflicts);
          return { block: ref, sightings, conflicts };
        },
        done: () => freeRoom(room),
      };
    },
    fetchMempool: async () => {
      const [pool, best] = await post([['getrawmempool'], ['getbestblockhash']]);
      if (pool!.error) throw failure(pool!.error, 'getrawmempool');
      const present = new Set(rows(pool!.result).map(text));
      for (const txid of known) if (!present.has(txid)) known.delete(txid);
      for (const txid of pegged.keys()) if (!present.has(txid)) pegged.delete(txid);
      const fresh = [...present].filter((txid) => !known.has(txid));
      const transactions: RawTransaction[] = [];
      const read: string[] = [];
      for (let i = 0; i < fresh.length; i += BATCH) {
        const part = fresh.slice(i, i + BATCH);
        const replies = await post(part.map((txid): Call => ['getrawtransaction', txid, 0]));
        for (const [j, reply] of replies.entries()) {
          // It may have left the mempool in between: then it is asked for again when it is back.
          if (reply.error) continue;
          try {
            const tx = parseTransaction(Buffer.from(text(reply.result), 'hex'), family);
            transactions.push({ ...tx, ids: Buffer.from(part[j]!, 'hex').reverse(), idAt: 0 });
            if (tx.mweb) pegged.set(part[j]!, (await pegouts(part[j]!)) as Sighting[]);
          } catch (error) {
            if (error instanceof ChainError) throw error;
            log.warn({ coin, txid: part[j], reason: (error as Error).message }, 'an unconfirmed transaction cannot be read');
          }
          read.push(part[j]!);
        }
      }
      const waiting = [...pegged.values()].flat();
      return {
        beside: text(best!.result),
        scan: (matcher) => {
          const sightings: Sighting[] = waiting.filter((s) => matcher.has(s.key));
          const conflicts: Conflict[] = [];
          for (const tx of transactions) matchTransaction(tx, matcher, 'output', sightings, conflicts);
          return { sightings, conflicts, present };
        },
        done: () => {
          for (const txid of read) known.add(txid);
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
    transaction: async (txid) => {
      const reply = await post([['getrawtransaction', txid, 1]]);
      const { result, error } = reply[0]!;
      if (error?.code === NOT_FOUND) {
        const [index] = await post([['getindexinfo']]).catch(() => [null]);
        if (index && !index.error && 'txindex' in fields(index.result)) throw new ChainError('not_found', txid);
        if (/txindex/i.test(error.message))
          throw new ChainError('unsupported', `the ${coin} node runs without txindex=1, so it only knows its mempool and recent blocks`);
        throw new ChainError('not_found', txid);
      }
      if (error) throw failure(error, 'getrawtransaction');
      return describe(fields(result));
    },
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
      // Slow to fast, so that fast is never under normal, nor normal under slow.
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
            // Null: spent. With the mempool, an output that a waiting transaction spends counts as spent.
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
    const [reply] = await post([['getbestchainlock']]);
    const best = fields(reply!.result);
    // An error means "none yet" (no quorums, as on a lone node) or a version before ChainLocks: depth decides instead.
    if (reply!.error || best.known_block === false || !best.blockhash) return NO_LOCK;
    const height = integer(best.height);
    const [there, tip] = await post([['getblockhash', height], ['getbestblockhash']]);
    return !there!.error && text(there!.result) === text(best.blockhash) ? { chainlock: height, tip: text(tip!.result) } : NO_LOCK;
  }

  async function describe(tx: Fields): Promise<ChainTransaction> {
    const vin = rows(tx.vin)
      .map(fields)
      .filter((i) => i.ismweb !== true);
    const kernels = rows(tx.vkern).map(fields);
    const vout = [...rows(tx.vout), ...kernels.flatMap((kernel) => rows(kernel.pegout))].map(fields).filter((o) => o.ismweb !== true);
    const typeOf = (output: Fields | undefined) => text(fields(output?.scriptPubKey).type);
    const outputs = vout.map((o) => {
      const script = fields(o.scriptPubKey);
      const type = typeOf(o);
      const told = text(script.address) || text(rows(script.addresses)[0]);
      const address = told || (!type.startsWith('witness_mweb') && addressOfScript(text(script.hex), { coin, network })) || '';
      return { address, units: amount(o.value), ...(address === '' && { type }) };
    });
    // LTC: what a HogEx spends beyond its outputs is no fee of its own; a transaction wholly in MWEB says its fee in the kernels.
    const isHogEx = typeOf(vout[0]) === 'witness_mweb_hogaddr';
    const kernelFee = kernels.length > 0 && vin.length === 0 ? kernels.reduce((sum, kernel) => sum + amount(kernel.fee), 0n) : null;
    const coinbase = vin.some((i) => i.coinbase !== undefined);
    const confirmations = integer(tx.confirmations);
    const block = tx.blockhash ? header(await call('getblockheader', tx.blockhash)) : null;
    const total = outputs.reduce((sum, o) => sum + o.units, 0n);
    const sources = coinbase || vin.length > MAX_INPUTS ? null : await prevouts(vin);
    return {
      txid: text(tx.txid),
      status: block && confirmations > 0 ? 'confirmed' : 'pending',
      confirmations: Math.max(0, confirmations),
      blockHeight: block?.height ?? null,
      blockHash: block?.hash ?? null,
      timestamp: block?.time ?? null,
      amountUnits: total,
      feeUnits: coinbase
        ? 0n
        : sources && !isHogEx && kernels.length === 0
          ? sources.reduce((sum, s) => sum + s.units, 0n) - total
          : kernelFee,
      inputs: coinbase ? [{ address: 'coinbase', units: total }] : (sources ?? []),
      outputs,
    };
  }
  async function prevouts(vin: readonly Fields[]): Promise<{ address: string; units: bigint }[] | null> {
    // DASH with `spentindex=1` says it at once.
    if (vin.every((i) => i.value !== undefined)) return vin.map((i) => ({ address: text(i.address), units: amount(i.value) }));
    const replies = await post(vin.map((i): Call => ['getrawtransaction', text(i.txid), 1]));
    const found = replies.map((reply, i) => fields(rows(fields(reply.result).vout)[integer(vin[i]!.vout)]));
    if (found.some((o) => o.value === undefined)) return null;
    return found.map((o) => {
      const script = fields(o.scriptPubKey);
      return { address: text(script.address) || text(rows(script.addresses)[0]) || '', units: amount(o.value) };
    });
  }
}

/** Usual waiting times of the three speeds. */
const MINUTES: Readonly<Record<Exclude<Coin, 'ETH'>, readonly [fast: string, normal: string, slow: string]>> = {
  BTC: ['10-20', '30-60', '120-240'],
  LTC: ['2-5', '10-15', '45-60'],
  DASH: ['0-1', '3-5', '10-15'],
  DOGE: ['1-2', '5-10', '20-30'],
};
