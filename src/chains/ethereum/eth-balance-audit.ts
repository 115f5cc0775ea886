/**
 * Proves what open addresses hold, for nodes of others: such a node may hide that an address gained ETH through a contract. What a proven
 * balance shows beyond the gains that were seen is a gain of the block at which it shows. No payment expires before that was looked at.
 */
import type { Log } from '#log';
import type { BlockRef, Matcher, OpenAddress, OpenAddresses } from '../chain-source.ts';
import { provenHeader } from './block-header.ts';
import type { ProvenBlock } from './eth-block.ts';
import { accountOfAnswer, keptAll, proofCall } from './eth-proven-gains.ts';
import { answerOrNull, type EthRpc } from './eth-rpc.ts';
import { EMPTY_CODE, type ProvenAccount } from './trie.ts';
import type { Gain } from './value-moves.ts';

/** Blocks between two proofs of an address: less than five minutes. */
const EVERY_BLOCKS = 24;
/** Addresses proven at one block, the most urgent first: 2,400 every 24 blocks. */
const AT_ONCE = 100;

/** Blocks whose facts are kept, so that a block that is read again, or that replaces another one, is compared with its parent. */
const KEPT_BLOCKS = 16;
/** No gain can be missing, whenever a payment ends. */
const FOREVER = new Date(8.64e15);
const NONE_OPEN: OpenAddresses = { listed: [], othersEnd: null };
/** What an address holds that nobody has used. */
const UNUSED: AccountHoldings = { nonce: 0n, balance: 0n, codeHash: EMPTY_CODE };

/**
 * What an address held, and what it was seen to gain since. `height`, `timeMs`: the block at which it was last proven. `isAssumed`: it was
 * not proven when the address was new, so it counts as unused.
 */
type Known = Readonly<{ height: number; timeMs: number; account: AccountHoldings; seen: bigint; isAssumed: boolean }>;
type Due = OpenAddress & { known: Known | null };

/** The nodes of a coin share it: a switch forgets nothing. */
export type AuditFacts = {
  /** What is known of addresses after each of the last blocks, by block hash. */
  readonly blocks: Map<string, ReadonlyMap<string, Known>>;
  /** Null: a restart forgets. */
  readonly store: AuditStore | null;
  newest: number;
  /** Until when no gain of an open address can be missing. */
  through: Date;
};
export const createAuditFacts = (store: AuditStore | null = null): AuditFacts => ({
  blocks: new Map(),
  store,
  newest: 0,
  through: new Date(0),
});

type BalanceAudit = {
  /** Gains of open addresses that `seen`, the gains found in this block and those before it, do not explain. Call it for each block. */
  check(block: ProvenBlock, matcher: Pick<Matcher, 'open'>, seen: readonly Gain[]): Promise<Gain[]>;
  /** The same for a block whose logs show all gains: only what earlier blocks may hide is proven, once for each address. */
  finish(block: ProvenBlock, matcher: Pick<Matcher, 'open'>, seen: readonly Gain[]): Promise<Gain[]>;
  /** Takes the gains of a block that your own node showed, which need no proof. */
  note(block: Pick<ProvenBlock, 'ref'>, seen: readonly Gain[]): Promise<void>;
  /** Whether the node proved nothing at the last block that was checked, although there was something to prove. */
  isBlind(): boolean;
  /** Until when no gain of an open address can be missing: payments that end before may expire. */
  provenThrough(): Date;
};

/**
 * One per node. A block counts only once it was checked, so a block that fails can be read again. It starts over after a block of which
 * nothing is known. Errors: ProofError for a proof that does not fit.
 */
export function createBalanceAudit({
  rpc,
  log,
  facts = createAuditFacts(),
}: {
  rpc: Pick<EthRpc, 'batch'>;
  log: Log;
  facts?: AuditFacts;
}): BalanceAudit {
  const keep = ({ hash, height }: BlockRef, known: ReadonlyMap<string, Known>): void => {
    facts.blocks.delete(hash);
    facts.blocks.set(hash, known);
    for (const old of facts.blocks.keys()) if (facts.blocks.size > KEPT_BLOCKS) facts.blocks.delete(old);
    facts.newest = Math.max(facts.newest, height);
  };
  /** Not one of the blocks that are read back, far below the others. */
  const isCurrent = ({ height }: BlockRef): boolean => height + KEPT_BLOCKS >= facts.newest;
  let isBlind = false;
  /** `isLast`: what was proven need not be proven again, and new addresses need no proof. */
  const look = async (
    block: ProvenBlock,
    { open }: Pick<Matcher, 'open'>,
    { seen, isLast }: { seen: readonly Gain[]; isLast: boolean },
  ): Promise<Gain[]> => {
    const { ref } = block;
    const opened = (await open?.()) ?? NONE_OPEN;
    const keys = opened.listed.map(({ key }) => key);
    const known = withSeen(facts.blocks.get(ref.parent) ?? (await loadKnown(facts.store, ref, keys)), seen);
    const isOpen = new Set(keys);
    for (const key of known.keys()) if (!isOpen.has(key)) known.delete(key);
    const listed = isLast ? opened.listed.filter(({ key }) => known.has(key)) : opened.listed;
    const due = dueAt(ref, listed, known, isLast);
    const now = due.slice(0, AT_ONCE);
    const proven = now.length > 0 ? await proveNow(block, now, rpc) : [];
    const rest = (proven ? due.slice(AT_ONCE) : due).map((one): Proven => ({ ...one, before: null, after: null }));
    const { gains, bases } = judge(ref, [...(proven ?? []), ...rest], { known, seen, log });
    await facts.store?.save(ref, { bases, seen, open: opened.othersEnd === null ? keys : null });
    if (isLast && proven) for (const { key } of now) known.delete(key);
    keep(ref, known);
    if (isCurrent(ref)) {
      isBlind = proven === null;
      if (!isBlind) facts.through = isLast && known.size === 0 ? FOREVER : throughOf(ref, { ...opened, listed }, known);
    }
    return gains;
  };
  return {
    isBlind: () => isBlind,
    provenThrough: () => facts.through,
    check: (block, matcher, seen) => look(block, matcher, { seen, isLast: false }),
    finish: (block, matcher, seen) => look(block, matcher, { seen, isLast: true }),
    note: async ({ ref }, seen) => {
      const before = facts.blocks.get(ref.parent);
      await facts.store?.save(ref, { bases: [], seen, open: null });
      if (before) keep(ref, withSeen(before, seen));
    },
  };
}

const sumOf = (gains: readonly Gain[], of: string): bigint => gains.reduce((sum, { key, units }) => (key === of ? sum + units : sum), 0n);

/** What is known, with the gains that were seen in a block. */
function withSeen(before: ReadonlyMap<string, Known>, seen: readonly Gain[]): Map<string, Known> {
  const known = new Map(before);
  for (const { key, units } of seen) {
    const one = known.get(key);
    if (one) known.set(key, { ...one, seen: one.seen + units });
  }
  return known;
}
async function loadKnown(store: AuditStore | null, ref: BlockRef, keys: readonly string[]): Promise<Map<string, Known>> {
  const stored = await store?.load(ref, keys);
  return new Map([...(stored ?? [])].map(([key, { time, ...base }]) => [key, { ...base, timeMs: base.isAssumed ? 0 : time.getTime() }]));
}

/** A deadline has passed that the last proof did not reach. Gains up to the first one are on time; the second is the last moment that counts. */
const hasEnded = ({ endsAt, countsUntil }: OpenAddress, known: Known | null, atMs: number): boolean =>
  [endsAt, countsUntil].some((end) => end.getTime() < atMs && (known?.timeMs ?? 0) <= end.getTime());

/** Addresses to prove at a block: those that end, then new ones, then those that were proven longest ago. */
function dueAt({ height, time }: BlockRef, listed: readonly OpenAddress[], known: ReadonlyMap<string, Known>, isLast: boolean): Due[] {
  const isNew = (one: Due) => one.known === null || one.known.timeMs === 0;
  const order = (one: Due): number => (hasEnded(one, one.known, time.getTime()) ? -2 : isNew(one) ? -1 : one.known!.height);
  return listed
    .map((one): Due => ({ ...one, known: known.get(one.key) ?? null }))
    .filter((one) => isLast || order(one) < 0 || height - one.known!.height >= EVERY_BLOCKS)
    .toSorted((a, b) => order(a) - order(b));
}

/** Until when no gain can be missing after a block: before the first deadline that was not proven. */
function throughOf({ time }: BlockRef, { listed, othersEnd }: OpenAddresses, known: ReadonlyMap<string, Known>): Date {
  const ends = listed.filter((one) => hasEnded(one, known.get(one.key) ?? null, time.getTime())).map(({ endsAt }) => endsAt);
  return new Date(Math.min(...[time, ...ends, othersEnd ?? time].map((end) => end.getTime() - 1)));
}

type Proven = Due & { before: AccountHoldings | null; after: AccountHoldings | null };

/** What the proofs show beyond what was seen. Updates `known`; `bases` are what is new in it. */
function judge(
  { height, hash, parent, time }: BlockRef,
  proven: readonly Proven[],
  { known, seen, log }: { known: Map<string, Known>; seen: readonly Gain[]; log: Log },
): { gains: Gain[]; bases: Base[] } {
  const gains: Gain[] = [];
  const bases: Base[] = [];
  for (const { key, countsUntil, before, after } of proven) {
    const last = known.get(key) ?? null;
    const isAssumed = last ? last.isAssumed : before === null;
    const from = last?.account ?? before ?? UNUSED;
    const explained = last?.seen ?? sumOf(seen, key);
    if (last === null && isAssumed) bases.push({ key, height: height - 1, hash: parent, time, account: UNUSED, isAssumed });
    if (!after) {
      if (last === null) known.set(key, { height, timeMs: 0, account: UNUSED, seen: explained, isAssumed });
      continue;
    }
    const units = after.balance - from.balance - explained;
    const isHidden = keptAll(from, after) && units > 0n;
    // It may have been there before the address was given, so it is shown as late, and the merchant decides.
    if (isHidden && isAssumed && time <= countsUntil) {
      known.set(key, { height, timeMs: time.getTime(), account: UNUSED, seen: explained, isAssumed });
      continue;
    }
    if (isHidden) {
      log.warn({ coin: 'ETH', height, address: `0x${key}`, units: String(units) }, 'The node did not show a gain that it proves');
      gains.push({ key, index: null, units });
    }
    known.set(key, { height, timeMs: time.getTime(), account: after, seen: 0n, isAssumed: false });
    bases.push({ key, height, hash, time, account: after, isAssumed: false });
  }
  return { gains, bases };
}

/**
 * The accounts at the block and, for new ones, at its parent, or null where the node does not have that state. Null when the node proves
 * nothing at the block.
 */
async function proveNow({ ref, header }: ProvenBlock, due: readonly Due[], { batch }: Pick<EthRpc, 'batch'>): Promise<Proven[] | null> {
  const fresh = due.filter((one) => one.known === null);
  const asked = batch([
    ['eth_getBlockByHash', ref.parent, false],
    ...due.map(({ key }) => proofCall(key, ref.hash)),
    ...fresh.map(({ key }) => proofCall(key, ref.parent)),
  ]);
  const [parent, ...replies] = (await answerOrNull(asked)) ?? [];
  if (!parent || parent.error || parent.result === null) return null;
  const { stateRoot } = provenHeader(parent.result, header.parentHash);
  const proven: Proven[] = [];
  for (const [i, one] of due.entries()) {
    const after = accountOfAnswer(replies[i], one.key, header.stateRoot);
    if (!after) return null;
    const before = one.known ? null : accountOfAnswer(replies[due.length + fresh.indexOf(one)], one.key, stateRoot);
    proven.push({ ...one, before, after });
  }
  return proven;
}

// Proven balances of open addresses in the database, so that a restart forgets none. What a block shows counts once it is recorded.

type AccountHoldings = Pick<ProvenAccount, 'nonce' | 'balance' | 'codeHash'>;
/** What an address held after a block. `isAssumed`: it could not be proven, and the address counts as unused. */
type Base = { key: string; height: number; hash: string; time: Date; account: AccountHoldings; isAssumed: boolean };
/** `seen`: what it was seen to gain since. */
type StoredBase = Pick<Base, 'height' | 'time' | 'account' | 'isAssumed'> & { seen: bigint };

export type AuditStore = {
  /** What was last known of these addresses before a block. Addresses of which nothing is known are left out. */
  load(block: BlockRef, keys: readonly string[]): Promise<Map<string, StoredBase>>;
  /** Adds what a block shows. `open`: all open addresses, if they are known; what is kept of others is deleted from time to time. */
  save(block: BlockRef, found: { bases: readonly Base[]; seen: readonly Gain[]; open: readonly string[] | null }): Promise<void>;
};
