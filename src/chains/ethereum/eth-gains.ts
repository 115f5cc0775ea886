/**
 * What watched accounts gained in a block, read with the best method that the node offers: value logs, access lists, or balances. Logs
 * are proven with the block; access lists and balances are the word of a node. Those of others are not asked for access lists, because the
 * fork that brings these brings logs that show the same gains; their balances are proven. Traces only show which
 * transaction caused a gain, because contract authors control their size.
 */
import { invariant } from '#core/invariant';
import type { Log } from '#log';
import { type BlockRef, ChainError, type Matcher } from '../chain-source.ts';
import { type AuditFacts, createBalanceAudit } from './eth-balance-audit.ts';
import { type BalanceReader, type Balances, balancesAt, createBalanceReader } from './eth-balances.ts';
import type { EthBlock, ProvenBlock } from './eth-block.ts';
import { proveGains } from './eth-proven-gains.ts';
import { answerOrNull, type EthRpc, isMissing, toHex } from './eth-rpc.ts';
import {
  type BalanceChange,
  directMoves,
  type EthTransaction,
  type Gain,
  type Move,
  movesOfCallTraces,
  movesOfFlatTraces,
  movesOfLogs,
  namedIn,
  readAccessList,
  sentBy,
  sumsOf,
} from './value-moves.ts';

type Rung = 'value logs' | 'access lists' | 'balances';
/** The first fork whose receipts contain every move of ETH (EIP-7708); its headers have this many fields. */
const AMSTERDAM_FIELDS = 23;
type Reads = { rpc: EthRpc; isOwn: boolean; log: Log; balances: BalanceReader; traces: TraceReader };

const coin = 'ETH';
const BLIND = 'the node does not have the balances of the last blocks, so it may not show payments through contracts';
const UNPROVEN = 'the provider does not prove balances of the last blocks (eth_getProof), so it may not show payments through contracts';

/** Creates the reader for one node. It caches the last block's balances and the node's abilities. `isOwn`: its word counts. */
export function createGainReader({
  rpc,
  isOwn,
  log,
  traceMs,
  facts,
}: {
  rpc: EthRpc;
  isOwn: boolean;
  log: Log;
  traceMs?: number;
  /** What all nodes of the coin proved. */
  facts?: AuditFacts;
}): {
  /** What watched accounts gained in the block, by exactly one method: the first that the node supports for it. */
  read(block: ProvenBlock, matcher: Matcher): Promise<Gain[]>;
  /** Why gains of the last block may be missing; null when none can be. */
  trouble(): string | null;
  /** Until when no gain of an open address can be missing. Null where every block shows all gains. */
  provenThrough(): Date | null;
} {
  const balances = createBalanceReader({ rpc, log });
  const traces = createTraceReader({ rpc, log, ...(traceMs !== undefined && { traceMs }) });
  const reads: Reads = { rpc, isOwn, log, balances, traces };
  const audit = createBalanceAudit({ rpc, log, ...(facts && { facts }) });
  let rung: Rung | null = null;
  const use = (now: Rung) => {
    if (now !== rung) log.info({ coin, from: now }, 'Reading transfers inside contracts with a different node method');
    rung = now;
  };
  const complete = async (block: ProvenBlock, seen: Gain[]): Promise<Gain[]> => {
    await audit.note(block, seen);
    return seen;
  };
  let isUnproven = false;
  return {
    trouble: () => (isUnproven ? (isOwn ? BLIND : UNPROVEN) : null),
    provenThrough: () => (isOwn ? null : audit.provenThrough()),
    read: async (block, matcher) => {
      const { transactions, receipts } = block;
      const toUs = ({ to }: Move) => matcher.has(to);
      const all = directMoves(transactions, receipts);
      const direct = all.filter(toUs);
      const logged = movesOfLogs(receipts);
      // Before that fork nobody can write such logs, and a network with the fields but without the logs shows direct transfers only.
      const inForce = block.header.fieldCount >= AMSTERDAM_FIELDS && (logged.length > 0 || all.length === 0);
      const isFull = direct.every((d) =>
        logged.some((l) => l.index === d.index && l.from === d.from && l.to === d.to && l.units === d.units),
      );
      if (inForce && isFull) {
        use('value logs');
        isUnproven = false;
        const found = gains(logged.filter(toUs));
        if (isOwn) return complete(block, found);
        // What blocks before that fork hide is still to be found.
        const hidden = await audit.finish(block, matcher, found);
        isUnproven = audit.isBlind();
        return [...found, ...hidden];
      }
      const listed = isOwn ? await gainsOfAccessList(block, matcher, direct, reads) : undefined;
      if (listed) {
        use('access lists');
        isUnproven = false;
        return complete(block, listed);
      }
      use('balances');
      const { found, isBlind } = await gainsOfBalances(block, matcher, direct, reads);
      if (isOwn) {
        isUnproven = isBlind;
        return complete(block, found);
      }
      const hidden = await audit.check(block, matcher, found);
      isUnproven = isBlind || audit.isBlind();
      return [...found, ...hidden];
    },
  };
}

const gains = (moves: readonly Move[]): Gain[] => moves.map(({ index, to, units }) => ({ key: to, index, units }));

/** By access list: the balance after each transaction compared with the one before. Undefined when the node has no list. */
async function gainsOfAccessList(
  block: EthBlock,
  matcher: Matcher,
  direct: readonly Move[],
  { rpc, log }: Reads,
): Promise<Gain[] | undefined> {
  const { ref } = block;
  const list = await rpc.attempt({ call: ['eth_getBlockAccessList', ref.hash] });
  if (list === undefined) return undefined;
  let changes: Map<string, BalanceChange[]>;
  try {
    changes = readAccessList(list, (key) => matcher.has(key));
    if (!direct.every(({ to }) => changes.has(to))) throw new Error('an account that was paid is not in it');
  } catch (error) {
    log.warn({ coin, height: ref.height, reason: (error as Error).message }, 'Cannot use the access list of a block');
    return undefined;
  }
  const before = await balancesAt(ref.parent, [...changes.keys()], rpc);
  return before ? gainsOfChanges(block, changes, before) : undefined;
}

/** What accounts gained, from their balances after each place in the block and before it. */
export function gainsOfChanges(
  { transactions, receipts }: Pick<EthBlock, 'transactions' | 'receipts'>,
  changes: ReadonlyMap<string, readonly BalanceChange[]>,
  before: Balances,
): Gain[] {
  return [...changes].flatMap(([key, steps]) => {
    let balance = before.get(key);
    invariant(balance !== undefined, 'the balance before the block was read');
    return steps.flatMap(({ place, units }): Gain[] => {
      const index = place >= 1 && place <= transactions.length ? place - 1 : null;
      const gained = units - (balance ?? 0n) + (index === null ? 0n : sentBy(key, transactions, receipts, index));
      balance = units;
      return gained > 0n ? [{ key, index, units: gained }] : [];
    });
  });
}

/** By balances, which show how much; traces and call data show which transaction. `isBlind`: the node has no balances or no proofs. */
async function gainsOfBalances(
  block: ProvenBlock,
  matcher: Matcher,
  direct: readonly Move[],
  reads: Reads,
): Promise<{ found: Gain[]; isBlind: boolean }> {
  const { ref, transactions, receipts } = block;
  const keys = new Set(await matcher.recent(ref.time));
  for (const [i, { input }] of transactions.entries())
    if (receipts[i]?.ok) for (const key of namedIn(input)) if (matcher.has(key)) keys.add(key);
  const rest = await reads.balances.unexplained(block, [...keys], direct);
  const told = rest && new Map([...rest].filter(([, units]) => units > 0n));
  const gained = told && !reads.isOwn ? await proveGains(block, told, { log: reads.log, direct }, reads.rpc) : told;
  if (!gained) return gainsUnseen(block, matcher, direct, reads);
  if (gained.size === 0) return { found: gains(direct), isBlind: false };
  const inside = attribute(block, gained, await reads.traces.explain(block, gained), reads.log);
  return { found: [...gains(direct), ...inside], isBlind: false };
}

/** The gains of accounts by transaction: as traces show it, else by the only transaction that names the account, else unknown. */
function attribute(
  { ref, transactions }: EthBlock,
  gained: ReadonlyMap<string, bigint>,
  { moves, untraced }: Awaited<ReturnType<TraceReader['explain']>>,
  log: Log,
): Gain[] {
  const claimed = sumsOf(moves);
  return [...gained].flatMap(([key, units]): Gain[] => {
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
    const [index, ...others] = [...untraced].filter((one) => transactions[one]?.input.includes(key));
    return [...own, { key, index: others.length === 0 ? (index ?? null) : null, units: units - told }];
  });
}

/** Without balances, contract transfers cannot be proven. Traces can still show that there were none. */
async function gainsUnseen(
  block: EthBlock,
  matcher: Matcher,
  direct: readonly Move[],
  { balances, traces, isOwn, rpc }: Reads,
): Promise<{ found: Gain[]; isBlind: boolean }> {
  const whole = await traces.whole(block);
  const mayHide = !whole || whole.some(({ to }) => matcher.has(to));
  if (mayHide) {
    const [reply] = (await answerOrNull(rpc.batch([['eth_getBlockByHash', block.ref.hash, false]]))) ?? [];
    if (reply?.result === null) throw new ChainError('outage', `the source no longer has block ${block.ref.hash}`);
    balances.missing(block);
  }
  // The traces of others prove nothing.
  return { found: gains(direct), isBlind: mayHide || !isOwn };
}

// Traces of a block: which transactions moved value inside contracts.

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
type TraceReader = {
  /**
   * Which transactions caused the gains: transactions whose call data contains an account are traced first, and the whole block only if
   * they do not explain the gain. `untraced`: such transactions that could not be traced.
   */
  explain(block: EthBlock, gained: ReadonlyMap<string, bigint>): Promise<{ moves: Move[]; untraced: Set<number> }>;
  /** All moves of a block; undefined: the node has no usable trace. */
  whole(block: EthBlock): Promise<Move[] | undefined>;
};

function createTraceReader({
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
