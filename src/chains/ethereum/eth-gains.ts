/**
 * What watched accounts gained in a block, read with the best method that the node offers: value logs, access lists, or balances. Logs
 * are proven with the block; access lists and balances are the word of a node. Those of others are not asked for access lists, because the
 * fork that brings these brings logs that show the same gains; their balances are proven. Traces only show which
 * transaction caused a gain, because contract authors control their size.
 */
import { invariant } from '../../core/invariant.ts';
import type { Log } from '../../log.ts';
import { ChainError, type Matcher } from '../chain.ts';
import { type AuditFacts, createBalanceAudit } from './eth-balance-audit.ts';
import { type BalanceReader, type Balances, balancesAt, createBalanceReader } from './eth-balances.ts';
import type { EthBlock, ProvenBlock } from './eth-block.ts';
import { proveGains } from './eth-proven-gains.ts';
import { answerOrNull, type EthRpc } from './eth-rpc.ts';
import { createTraceReader, type TraceReader } from './eth-traces.ts';
import {
  type BalanceChange,
  directMoves,
  type Gain,
  type Move,
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
