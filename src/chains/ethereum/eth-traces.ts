/** Traces of a block: which transactions moved value inside contracts. */
import type { Log } from '../../log.ts';
import type { BlockRef } from '../chain.ts';
import type { EthBlock } from './eth-block.ts';
import { type EthRpc, isMissing, toHex } from './eth-rpc.ts';
import { type EthTransaction, type Move, movesOfCallTraces, movesOfFlatTraces, sumsOf } from './value-moves.ts';

/** Limits of a trace's size, and of the time for a block: less than a block interval. Gains count even without a trace. */
const MAX_TRACE_BYTES = 32 << 20;
const TRACES_MS = 5_000;
/** The most transactions of a block that are traced individually. */
const MAX_TRACED = 8;

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

/** Whether these moves explain what each of the accounts gained. */
export function isExplained(moves: readonly Move[], keys: Iterable<string>, gained: ReadonlyMap<string, bigint>): boolean {
  const sums = sumsOf(moves);
  return [...keys].every((key) => (sums.get(key) ?? 0n) >= (gained.get(key) ?? 0n));
}

type Traced = { of: 'transaction' | 'block'; untilMs: number; enough(moves: readonly Move[]): boolean };
export type TraceReader = {
  /**
   * Which transactions caused the gains: transactions whose call data contains an account are traced first, and the whole block only if
   * they do not explain the gain. `untraced`: such transactions that could not be traced.
   */
  explain(block: EthBlock, gained: ReadonlyMap<string, bigint>): Promise<{ moves: Move[]; untraced: Set<number> }>;
  /** All moves of a block; undefined: the node has no usable trace. */
  whole(block: EthBlock): Promise<Move[] | undefined>;
};

export function createTraceReader({
  rpc: { attempt },
  log,
  traceMs = TRACES_MS,
}: {
  rpc: Pick<EthRpc, 'attempt'>;
  log: Log;
  traceMs?: number;
}): TraceReader {
  const coin = 'ETH';
  /**
   * Moves inside these transactions of a block, from the first kind of trace that is `enough`: some tracers omit the balance that a
   * self-destructing contract sends. Undefined: the node has no usable trace.
   */
  const traced = async (
    { ref }: EthBlock,
    transactions: readonly EthTransaction[],
    { of, untilMs, enough }: Traced,
  ): Promise<Move[] | undefined> => {
    let found: Move[] | undefined;
    const [first] = transactions;
    if (!first) return [];
    for (const { as, lacks, read, ...calls } of TRACERS) {
      const call = of === 'block' ? calls.ofBlock(ref) : calls.ofTransaction(first.txid);
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
  return {
    whole: (block) => traced(block, block.transactions, { of: 'block', untilMs: performance.now() + traceMs, enough: () => true }),
    explain: async (block, gained) => {
      const { transactions, receipts } = block;
      const untilMs = performance.now() + traceMs;
      const naming = transactions.map(({ input }, i) => (receipts[i]?.ok ? [...gained.keys()].filter((key) => input.includes(key)) : []));
      const untraced = new Set(naming.flatMap((keys, index) => (keys.length > 0 ? [index] : [])));
      const moves: Move[] = [];
      for (const index of [...untraced].slice(0, MAX_TRACED)) {
        const enough = (own: readonly Move[]) => isExplained(own, naming[index] ?? [], gained);
        const found = await traced(block, transactions.slice(index, index + 1), { of: 'transaction', untilMs, enough });
        if (!found) continue;
        untraced.delete(index);
        moves.push(...found.filter(({ to }) => gained.has(to)).map((move) => ({ ...move, index })));
      }
      if (isExplained(moves, gained.keys(), gained)) return { moves, untraced };
      const enough = (all: readonly Move[]) => isExplained(all, gained.keys(), gained);
      const whole = await traced(block, transactions, { of: 'block', untilMs, enough });
      if (!whole) return { moves, untraced };
      return { moves: whole.filter(({ to }) => gained.has(to)), untraced: new Set() };
    },
  };
}
