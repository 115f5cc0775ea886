/**
 * An Ethereum node or provider over JSON-RPC. ETH also moves inside contracts, where no transaction shows it: each block is read
 * by the best account of value moves that the node gives (value logs, access lists, traces, balances), and by that one alone.
 */
import { checksumAddress } from '../core/address.ts';
import { COIN, type Network } from '../core/coin.ts';
import type { Log } from '../log.ts';
import type { Outgoing } from '../outgoing.ts';
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
} from './chain.ts';
import { account, createEthRpc, failure, hash32, isMissing, isPruned, quantity, rows, smallNumber, toHex } from './eth-rpc.ts';
import { fields } from './reply.ts';
import {
  type BalanceChange,
  directMoves,
  type EthReceipt,
  type EthTransaction,
  type Move,
  movesOfCallTraces,
  movesOfFlatTraces,
  movesOfLogs,
  readAccessList,
  readReceipt,
  readTransaction,
  sentBy,
} from './value-moves.ts';

/** A node that lacks a method is asked for it again after this long: it may have been replaced. */
const ASK_AGAIN_MS = 600_000;
/** Accounts whose balances are read in one call. */
const BALANCES = 200;
/** A mempool larger than this is not read as a whole: the next block as the node would build it does. */
const MAX_POOL = 5_000;
/** Depths that stand for `safe` and `finalized` where a provider does not know them: two epochs, and twice that. */
const SAFE_DEPTH = 64;
const FINALIZED_DEPTH = 128;
/** Blocks and shares of the tips paid in them, from which fees are estimated: slow, normal, fast. */
const FEE_BLOCKS = 20;
const FEE_PERCENTILES = [20, 50, 90];

type Rung = 'value logs' | 'access lists' | 'traces' | 'balances';
type Block = { ref: BlockRef; transactions: readonly EthTransaction[]; receipts: readonly EthReceipt[] };
/** What an account gained by one transaction of a block; `index` is null where nothing names the transaction. */
type Gain = { key: string; index: number | null; units: bigint };

/**
 * Reads balances without a contract on the chain: as the code of a contract creation that is only simulated, followed by the
 * accounts as words. It turns each word into the balance and returns them all.
 *
 *   PUSH1 1f CODESIZE SUB DUP1 PUSH1 1f PUSH1 00 CODECOPY   size = what follows the code; copy it to memory 0
 *   DUP1                                                    i = size
 *   JUMPDEST DUP1 ISZERO PUSH1 1d JUMPI                     (0b) until i is 0:
 *   PUSH1 20 SWAP1 SUB DUP1 MLOAD BALANCE DUP2 MSTORE       i -= 32; memory[i] = balance(memory[i])
 *   PUSH1 0b JUMP
 *   JUMPDEST RETURN                                         (1d) return memory from 0 (that is i) to size
 */
const READ_BALANCES = '0x601f380380601f60003980' + '5b8015601d57' + '6020900380513181' + '52600b56' + '5bf3';

/** Makes the reader of one node. It connects when asked; nothing is polled by itself. */
export function createEthereumSource({
  network,
  chainId,
  url,
  outgoing,
  log,
  retryMs,
}: {
  network: Network;
  chainId: number;
  url: string;
  outgoing: Outgoing;
  log: Log;
  /** First pause after a limit of the provider that names no other. */
  retryMs?: number;
}): ChainSource {
  const coin = 'ETH';
  const rpc = createEthRpc({ url, outgoing, ...(retryMs !== undefined && { retryMs }) });
  const { call, batch } = rpc;
  const missing = new Map<string, number>();
  let logsSeen = false;
  let blind = false;
  let last: { hash: string; balances: ReadonlyMap<string, bigint> } = { hash: '', balances: new Map() };
  let rung: Rung | null = null;

  const use = (now: Rung) => {
    if (now !== rung) log.info({ coin, from: now }, 'value moves inside contracts are read from another answer of the node');
    rung = now;
  };
  /** The answer to a method that not every node has; undefined where this one gives none. */
  const attempt = async (method: string, ...params: unknown[]): Promise<unknown> => {
    const since = missing.get(method);
    if (since !== undefined && performance.now() - since < ASK_AGAIN_MS) return undefined;
    const [reply] = await batch([[method, ...params]]);
    if (!reply!.error) {
      missing.delete(method);
      return reply!.result ?? undefined;
    }
    if (isMissing(reply!.error)) missing.set(method, performance.now());
    else log.debug({ coin, method, reason: reply!.error.message }, 'the node could not answer for this block');
    return undefined;
  };

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

  const readBlock = async (hash: string): Promise<Block> => {
    const [block, receipts] = await batch([
      ['eth_getBlockByHash', hash, true],
      ['eth_getBlockReceipts', hash],
    ]);
    if (block!.error) throw failure(block!.error, 'eth_getBlockByHash');
    // Another machine behind the same address may be a block ahead.
    if (block!.result === null) throw new ChainError('outage', `the ETH node does not have block ${hash} yet`);
    const ref = header(block!.result);
    const transactions = rows(fields(block!.result).transactions).map(readTransaction);
    let found = receipts!.result;
    if (receipts!.error) {
      if (!isMissing(receipts!.error)) throw failure(receipts!.error, 'eth_getBlockReceipts');
      const replies = await batch(transactions.map(({ txid }) => ['eth_getTransactionReceipt', txid]));
      found = replies.map(({ result, error }) => {
        if (error) throw failure(error, 'eth_getTransactionReceipt');
        return result;
      });
    }
    const list = found === null ? [] : rows(found);
    const isOwn = (value: unknown, i: number) => {
      const receipt = fields(value);
      return hash32(receipt.blockHash) === hash && hash32(receipt.transactionHash) === transactions[i]?.txid;
    };
    if (ref.hash !== hash || list.length !== transactions.length || !list.every(isOwn))
      throw new ChainError('outage', `the receipts of block ${hash} do not fit it`);
    return { ref, transactions, receipts: list.map(readReceipt) };
  };

  /** Balances at a block, by hash so that no reorganisation comes between; null where the node no longer has them. */
  const balancesAt = async (blockHash: string, keys: readonly string[]): Promise<Map<string, bigint> | null> => {
    const found = new Map<string, bigint>();
    const at = { blockHash };
    for (let i = 0; i < keys.length; i += BALANCES) {
      const part = keys.slice(i, i + BALANCES);
      const words = await attempt('eth_call', { data: READ_BALANCES + part.map((key) => key.padStart(64, '0')).join('') }, at);
      if (typeof words === 'string' && words.length === 2 + 64 * part.length) {
        for (const [n, key] of part.entries()) found.set(key, quantity(`0x${words.slice(2 + 64 * n, 66 + 64 * n)}`));
        continue;
      }
      const replies = await batch(part.map((key) => ['eth_getBalance', `0x${key}`, at]));
      for (const [n, { result, error }] of replies.entries()) {
        if (error && isPruned(error)) return null;
        if (error) throw failure(error, 'eth_getBalance');
        found.set(part[n]!, quantity(result));
      }
    }
    return found;
  };

  /** What accounts gained in a block beyond what its transactions sent them directly; null where the node has dropped the balances. */
  const unexplained = async ({ ref, transactions, receipts }: Block, keys: readonly string[], direct: readonly Move[]) => {
    // What one block ended with the next begins with: most balances were read already.
    const known = last.hash === ref.parent ? last.balances : new Map<string, bigint>();
    const asked = keys.filter((key) => !known.has(key));
    const fresh = await balancesAt(ref.parent, asked);
    const after = fresh && (await balancesAt(ref.hash, keys));
    if (!after) return null;
    const before = new Map([...known, ...fresh]);
    last = { hash: ref.hash, balances: after };
    if (blind) log.warn({ coin, height: ref.height }, 'the node has the balances again from this block on');
    blind = false;
    const received = sumsOf(direct);
    return new Map(
      keys.map((key) => [key, after.get(key)! - before.get(key)! + sentBy(key, transactions, receipts) - (received.get(key) ?? 0n)]),
    );
  };

  /** By access list: the balance after each transaction against the one before it. Undefined where the node gives no list. */
  const gainsOfAccessList = async (
    { ref, transactions, receipts }: Block,
    matcher: Matcher,
    direct: readonly Move[],
  ): Promise<Gain[] | undefined> => {
    const list = await attempt('eth_getBlockAccessList', ref.hash);
    if (list === undefined) return undefined;
    let changes: Map<string, BalanceChange[]>;
    try {
      changes = readAccessList(list, (key) => matcher.has(key));
      if (!direct.every(({ to }) => changes.has(to))) throw new Error('an account that was paid is not in it');
    } catch (error) {
      log.warn({ coin, height: ref.height, reason: (error as Error).message }, 'the access list of a block cannot be used');
      return undefined;
    }
    const before = await balancesAt(ref.parent, [...changes.keys()]);
    if (!before) return undefined;
    return [...changes].flatMap(([key, steps]) => {
      let balance = before.get(key)!;
      return steps.flatMap(({ place, units }): Gain[] => {
        const index = place >= 1 && place <= transactions.length ? place - 1 : null;
        const gained = units - balance + (index === null ? 0n : sentBy(key, transactions, receipts, index));
        balance = units;
        return gained > 0n ? [{ key, index, units: gained }] : [];
      });
    });
  };

  /** Moves inside the transactions, from whichever kind of traces the node has. */
  const traced = async ({ ref, transactions }: Block): Promise<Move[] | undefined> => {
    if (transactions.length === 0) return [];
    for (const [method, params, read] of [
      ['debug_traceBlockByHash', [ref.hash, { tracer: 'callTracer' }], movesOfCallTraces],
      ['trace_block', [toHex(ref.height)], movesOfFlatTraces],
    ] as const) {
      const answer = await attempt(method, ...params);
      if (answer === undefined) continue;
      try {
        return read(answer, transactions, ref.hash);
      } catch (error) {
        log.warn({ coin, method, height: ref.height, reason: (error as Error).message }, 'the traces of a block cannot be used');
      }
    }
    return undefined;
  };

  /** What watched accounts gained in the block, by exactly one rung: the first that the node can answer for it. */
  const gainsOf = async (block: Block, matcher: Matcher): Promise<Gain[]> => {
    const { ref, transactions, receipts } = block;
    const toUs = ({ to }: Move) => matcher.has(to);
    const all = directMoves(transactions, receipts);
    const direct = all.filter(toUs);
    const logged = movesOfLogs(receipts);
    // Logs are in force when value moves leave them; a list without what the transactions moved themselves is not one of all moves.
    const inForce = logged.length > 0 || (logsSeen && all.length === 0);
    const isFull = direct.every((d) =>
      logged.some((l) => l.index === d.index && l.from === d.from && l.to === d.to && l.units === d.units),
    );
    logsSeen = inForce;
    if (inForce && isFull) {
      use('value logs');
      return gains(logged.filter(toUs));
    }
    const listed = await gainsOfAccessList(block, matcher, direct);
    if (listed) {
      use('access lists');
      return listed;
    }
    const inner = (await traced(block))?.filter(toUs);
    if (inner) {
      use('traces');
      if (inner.length === 0) return gains(direct);
      const claimed = sumsOf(inner);
      const rest = await unexplained(block, [...claimed.keys()], direct);
      if (rest) {
        // A trace says which transaction, the balance whether it is true.
        const proven = inner.filter(({ to }) => rest.get(to)! >= claimed.get(to)!);
        const doubted = [...rest].filter(([key, units]) => units < claimed.get(key)!);
        for (const [key, units] of doubted)
          log.warn({ coin, height: ref.height, address: `0x${key}`, gained: String(units) }, 'traces claim more than the balance shows');
        return [
          ...gains([...direct, ...proven]),
          ...doubted.filter(([, units]) => units > 0n).map(([key, units]) => ({ key, index: null, units })),
        ];
      }
    } else {
      use('balances');
      const rest = await unexplained(block, await matcher.recent(ref.time), direct);
      if (rest) {
        const found = [...rest].filter(([, units]) => units > 0n);
        return [...gains(direct), ...found.map(([key, units]) => ({ key, index: namedBy(key, block), units }))];
      }
    }
    if (!blind)
      log.error(
        { coin, height: ref.height },
        'the node has dropped the balances from this block on: until it has them again, payments made through contracts are not seen',
      );
    blind = true;
    return gains(direct);
  };

  const scanBlock = async (block: Block, matcher: Matcher): Promise<BlockScan> => {
    const { ref, transactions } = block;
    // One transfer for each transaction and address: the same name and sum whichever rung tells of it, in the mempool too.
    const sums = new Map<string, Gain>();
    for (const gain of await gainsOf(block, matcher)) {
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

  /** Transactions that wait: those that could be mined next, and the ids of all that the node names. */
  const readPool = async (): Promise<{ ready: EthTransaction[]; known: Set<string> }> => {
    const status = fields(await attempt('txpool_status'));
    const size = [status.pending, status.queued].reduce((sum: bigint, n) => sum + (typeof n === 'string' ? quantity(n) : 0n), 0n);
    const content = status.pending === undefined || size > MAX_POOL ? undefined : await attempt('txpool_content');
    const listed = (section: unknown) =>
      Object.values(fields(section)).flatMap((byNonce) => Object.values(fields(byNonce)).flatMap(readable));
    if (content !== undefined) {
      // What is queued waits for an earlier nonce or for funds: it may never come, so it is no sight of a payment.
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
        // Providers keep it to themselves.
        peers: peers!.error ? -1 : smallNumber(peers!.result),
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
          // The list may be a part of what the node has: it is asked for those that matter.
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
      // The tip last: what is final below it was final before.
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
      // Slow to fast, so that fast is never under normal, nor normal under slow. A full block raises the base fee by an eighth.
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

/** The place that only one transaction can take: what a replacement shares with what it replaces. */
const outpoint = ({ from, nonce }: EthTransaction): string => `${from}:${nonce}`;
const gains = (moves: readonly Move[]): Gain[] => moves.map(({ index, to, units }) => ({ key: to, index, units }));
const sumsOf = (moves: readonly Move[]): Map<string, bigint> => {
  const sums = new Map<string, bigint>();
  for (const { to, units } of moves) sums.set(to, (sums.get(to) ?? 0n) + units);
  return sums;
};

/** The one transaction of the block that names the account in its call data; null when none or several do. */
function namedBy(key: string, { transactions, receipts }: Block): number | null {
  const found = transactions.flatMap(({ input }, i) => (receipts[i]!.ok && input.includes(key) ? [i] : []));
  return found.length === 1 ? found[0]! : null;
}

/** A waiting transaction as far as it can be read: nodes may leave out what they have not checked. */
function readable(value: unknown): EthTransaction[] {
  try {
    return [readTransaction(value)];
  } catch {
    // What cannot be read is seen when it is mined.
    return [];
  }
}
