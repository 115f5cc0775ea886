/**
 * What watched accounts gained in a block, read with the best method that the node offers: value logs, access lists, or balances.
 * Traces only show which transaction caused a gain, because contract authors control their size.
 */
import type { Log } from '../../log.ts';
import type { BlockRef, Matcher } from '../chain.ts';
import { type EthRpc, failure, isMissing, isPruned, quantity, toHex } from './eth-rpc.ts';
import {
  type BalanceChange,
  directMoves,
  type EthReceipt,
  type EthTransaction,
  type Move,
  movesOfCallTraces,
  movesOfFlatTraces,
  movesOfLogs,
  namedIn,
  readAccessList,
  sentBy,
} from './value-moves.ts';

export type EthBlock = { ref: BlockRef; transactions: readonly EthTransaction[]; receipts: readonly EthReceipt[] };
/** What an account gained in one transaction of a block; `index` is null when the transaction is unknown. */
export type Gain = { key: string; index: number | null; units: bigint };
type Rung = 'value logs' | 'access lists' | 'balances';

/** Accounts whose balances are read in one call. */
const BALANCES = 200;
/** Limits of a trace's size, and of the time for a block: less than a block interval. Gains count even without a trace. */
const MAX_TRACE_BYTES = 32 << 20;
const TRACES_MS = 5_000;
/** The most transactions of a block that are traced individually. */
const MAX_TRACED = 8;

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

/**
 * A tracer that nodes run for us, in the JavaScript of ECMAScript 5: the callTracer's frames without call data and output, and
 * without the frames that moved nothing or were undone. What a contract calls with megabytes of memory is then a line.
 */
const MOVES_TRACER = `{
  open: [{ calls: [] }],
  fault: function () {},
  enter: function (frame) {
    var value = frame.getValue();
    this.open.push({
      type: frame.getType(), from: toHex(frame.getFrom()), to: toHex(frame.getTo()),
      value: '0x' + (value === undefined || value === null ? '0' : value.toString(16)), calls: []
    });
  },
  exit: function (result) {
    var frame = this.open.pop();
    var moves = frame.value !== '0x0' && /^(CALL|CREATE|CREATE2|SELFDESTRUCT)$/.test(frame.type);
    if (result.getError() === undefined && (moves || frame.calls.length > 0)) this.open[this.open.length - 1].calls.push(frame);
  },
  result: function () { return { type: 'CALL', calls: this.open[0].calls }; }
}`;

/** The kinds of traces, smallest first. `as`: what is missing when a node rejects it. */
const TRACERS = [
  {
    as: 'moves tracer',
    // A node that rejects custom tracers uses its own wording. A node that timed out may succeed next time.
    lacks: ({ message }: { message: string }) => !/time/i.test(message),
    ofTransaction: (txid: string) => ['debug_traceTransaction', txid, { tracer: MOVES_TRACER }] as const,
    ofBlock: ({ hash }: BlockRef) => ['debug_traceBlockByHash', hash, { tracer: MOVES_TRACER }] as const,
    read: movesOfCallTraces,
  },
  {
    as: 'callTracer',
    lacks: isMissing,
    ofTransaction: (txid: string) => ['debug_traceTransaction', txid, { tracer: 'callTracer' }] as const,
    ofBlock: ({ hash }: BlockRef) => ['debug_traceBlockByHash', hash, { tracer: 'callTracer' }] as const,
    read: movesOfCallTraces,
  },
  {
    as: 'flat traces',
    lacks: isMissing,
    ofTransaction: (txid: string) => ['trace_transaction', txid] as const,
    ofBlock: ({ height }: BlockRef) => ['trace_block', toHex(height)] as const,
    read: movesOfFlatTraces,
  },
];

/** Creates the reader for one node. It caches the last block's balances and the node's abilities. */
export function createGainReader({ rpc: { attempt, batch }, log, traceMs = TRACES_MS }: { rpc: EthRpc; log: Log; traceMs?: number }): {
  /** What watched accounts gained in the block, by exactly one method: the first that the node supports for it. */
  read(block: EthBlock, matcher: Matcher): Promise<Gain[]>;
} {
  const coin = 'ETH';
  let logsSeen = false;
  let blind = false;
  let last: { hash: string; balances: ReadonlyMap<string, bigint> } = { hash: '', balances: new Map() };
  let rung: Rung | null = null;

  const use = (now: Rung) => {
    if (now !== rung) log.info({ coin, from: now }, 'Reading transfers inside contracts with a different node method');
    rung = now;
  };

  /** Balances at a block, by hash so a reorganization cannot mix blocks; null when the node no longer has them. */
  const balancesAt = async (blockHash: string, keys: readonly string[]): Promise<Map<string, bigint> | null> => {
    const found = new Map<string, bigint>();
    const at = { blockHash };
    for (let i = 0; i < keys.length; i += BALANCES) {
      const part = keys.slice(i, i + BALANCES);
      const data = READ_BALANCES + part.map((key) => key.padStart(64, '0')).join('');
      const words = await attempt({ call: ['eth_call', { data }, at] });
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

  /** What accounts gained in a block beyond direct transfers; null when the node no longer has the balances. */
  const unexplained = async ({ ref, transactions, receipts }: EthBlock, keys: readonly string[], direct: readonly Move[]) => {
    // The balances after one block are those before the next, so most were already read.
    const known = last.hash === ref.parent ? last.balances : new Map<string, bigint>();
    const asked = keys.filter((key) => !known.has(key));
    const fresh = await balancesAt(ref.parent, asked);
    const after = fresh && (await balancesAt(ref.hash, keys));
    if (!after) return null;
    const before = new Map([...known, ...fresh]);
    if (blind) log.warn({ coin, height: ref.height }, 'The node has balances again from this block on');
    blind = false;
    const received = sumsOf(direct);
    const rest = new Map(
      keys.map((key) => [key, after.get(key)! - before.get(key)! + sentBy(key, transactions, receipts) - (received.get(key) ?? 0n)]),
    );
    // A balance that fell without a reason is read again for the next block, because a gain must not rest on one of two differing replies.
    last = { hash: ref.hash, balances: new Map([...after].filter(([key]) => rest.get(key)! >= 0n)) };
    return rest;
  };

  /** By access list: the balance after each transaction compared with the one before. Undefined when the node has no list. */
  const gainsOfAccessList = async (
    { ref, transactions, receipts }: EthBlock,
    matcher: Matcher,
    direct: readonly Move[],
  ): Promise<Gain[] | undefined> => {
    const list = await attempt({ call: ['eth_getBlockAccessList', ref.hash] });
    if (list === undefined) return undefined;
    let changes: Map<string, BalanceChange[]>;
    try {
      changes = readAccessList(list, (key) => matcher.has(key));
      if (!direct.every(({ to }) => changes.has(to))) throw new Error('an account that was paid is not in it');
    } catch (error) {
      log.warn({ coin, height: ref.height, reason: (error as Error).message }, 'Cannot use the access list of a block');
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

  /**
   * Moves inside these transactions of a block, from the first kind of trace that is `enough`: some tracers omit the balance that a
   * self-destructing contract sends. Undefined: the node has no usable trace.
   */
  const traced = async (
    { ref }: EthBlock,
    transactions: readonly EthTransaction[],
    { of, untilMs, enough }: { of: 'transaction' | 'block'; untilMs: number; enough(moves: readonly Move[]): boolean },
  ): Promise<Move[] | undefined> => {
    let found: Move[] | undefined;
    if (transactions.length === 0) return [];
    for (const { as, lacks, read, ...calls } of TRACERS) {
      const call = of === 'block' ? calls.ofBlock(ref) : calls.ofTransaction(transactions[0]!.txid);
      const timeoutMs = Math.ceil(untilMs - performance.now());
      if (timeoutMs <= 0) break;
      const answer = await attempt({ call, as: `${as} ${call[0]}`, lacks, limits: { timeoutMs, maxReplyBytes: MAX_TRACE_BYTES } });
      if (answer === undefined) continue;
      try {
        const moves = read(of === 'transaction' && read === movesOfCallTraces ? [{ result: answer }] : answer, transactions, ref.hash);
        if (enough(moves)) return moves;
        found ??= moves;
      } catch (error) {
        log.warn({ coin, method: call[0], height: ref.height, reason: (error as Error).message }, 'Cannot use the traces of a block');
      }
    }
    return found;
  };

  /**
   * Which transactions caused the gains: transactions whose call data contains an account are traced first, and the whole block only if
   * they do not explain the gain. `untraced`: such transactions that could not be traced.
   */
  const explain = async (block: EthBlock, gained: ReadonlyMap<string, bigint>): Promise<{ moves: Move[]; untraced: Set<number> }> => {
    const { transactions, receipts } = block;
    const untilMs = performance.now() + traceMs;
    const isExplained = (moves: readonly Move[], keys: Iterable<string>): boolean => {
      const sums = sumsOf(moves);
      return [...keys].every((key) => (sums.get(key) ?? 0n) >= gained.get(key)!);
    };
    const naming = transactions.map(({ input }, i) => (receipts[i]!.ok ? [...gained.keys()].filter((key) => input.includes(key)) : []));
    const untraced = new Set(naming.flatMap((keys, index) => (keys.length > 0 ? [index] : [])));
    const moves: Move[] = [];
    for (const index of [...untraced].slice(0, MAX_TRACED)) {
      const enough = (own: readonly Move[]) => isExplained(own, naming[index]!);
      const found = await traced(block, [transactions[index]!], { of: 'transaction', untilMs, enough });
      if (!found) continue;
      untraced.delete(index);
      moves.push(...found.filter(({ to }) => gained.has(to)).map((move) => ({ ...move, index })));
    }
    if (isExplained(moves, gained.keys())) return { moves, untraced };
    const whole = await traced(block, transactions, { of: 'block', untilMs, enough: (all) => isExplained(all, gained.keys()) });
    if (!whole) return { moves, untraced };
    return { moves: whole.filter(({ to }) => gained.has(to)), untraced: new Set() };
  };

  /** By balances, which show how much; traces and call data show which transaction. */
  const gainsOfBalances = async (block: EthBlock, matcher: Matcher, direct: readonly Move[]): Promise<Gain[]> => {
    const { ref, transactions, receipts } = block;
    const keys = new Set(await matcher.recent(ref.time));
    for (const [i, { input }] of transactions.entries())
      if (receipts[i]!.ok) for (const key of namedIn(input)) if (matcher.has(key)) keys.add(key);
    const rest = await unexplained(block, [...keys], direct);
    if (!rest) return gainsUnseen(block, matcher, direct);
    const gained = new Map([...rest].filter(([, units]) => units > 0n));
    if (gained.size === 0) return gains(direct);
    const { moves, untraced } = await explain(block, gained);
    const claimed = sumsOf(moves);
    const found = [...gained].flatMap(([key, units]): Gain[] => {
      const told = claimed.get(key) ?? 0n;
      const own = gains(moves.filter(({ to }) => to === key));
      // The trace shows the transaction, and the balance proves the amount.
      if (told > units) {
        log.warn(
          { coin, height: ref.height, address: `0x${key}`, gained: String(units) },
          'Traces show a larger transfer than the balance change',
        );
        return [{ key, index: null, units }];
      }
      if (told === units) return own;
      const naming = [...untraced].filter((index) => transactions[index]!.input.includes(key));
      return [...own, { key, index: naming.length === 1 ? naming[0]! : null, units: units - told }];
    });
    return [...gains(direct), ...found];
  };

  /** Without balances, contract transfers cannot be proven. Traces can still show that there were none. */
  const gainsUnseen = async (block: EthBlock, matcher: Matcher, direct: readonly Move[]): Promise<Gain[]> => {
    const whole = await traced(block, block.transactions, { of: 'block', untilMs: performance.now() + traceMs, enough: () => true });
    if (!blind && !(whole && !whole.some(({ to }) => matcher.has(to)))) {
      log.error(
        { coin, height: block.ref.height },
        'The node no longer has balances from this block on; payments sent through contracts are not detected until it does',
      );
      blind = true;
    }
    return gains(direct);
  };

  return {
    read: async (block, matcher) => {
      const { transactions, receipts } = block;
      const toUs = ({ to }: Move) => matcher.has(to);
      const all = directMoves(transactions, receipts);
      const direct = all.filter(toUs);
      const logged = movesOfLogs(receipts);
      // Value logs are active when direct transfers appear in them; a list without those is incomplete.
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
      use('balances');
      return gainsOfBalances(block, matcher, direct);
    },
  };
}

const gains = (moves: readonly Move[]): Gain[] => moves.map(({ index, to, units }) => ({ key: to, index, units }));
const sumsOf = (moves: readonly Move[]): Map<string, bigint> => {
  const sums = new Map<string, bigint>();
  for (const { to, units } of moves) sums.set(to, (sums.get(to) ?? 0n) + units);
  return sums;
};
