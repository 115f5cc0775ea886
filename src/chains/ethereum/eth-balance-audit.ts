/**
 * Proves what open addresses hold, for nodes of others: such a node may hide that an address gained ETH through a contract. What a proven
 * balance shows beyond the gains that were seen is a gain of the block at which it shows.
 */
import type { Log } from '../../log.ts';
import { ChainError, type Matcher } from '../chain.ts';
import type { ProvenAccount } from './account-proof.ts';
import { provenHeader } from './block-header.ts';
import type { ProvenBlock } from './eth-block.ts';
import { accountIn, keptAll, proofCall } from './eth-proven-gains.ts';
import { type EthRpc, failure } from './eth-rpc.ts';
import type { Gain } from './value-moves.ts';

/** Blocks between two proofs of an address: less than five minutes. */
const EVERY_BLOCKS = 24;
/** Addresses proven at one block, the most overdue first: 2,400 every 24 blocks. */
const AT_ONCE = 100;

/** Blocks whose facts are kept, so that a block that is read again, or that replaces another one, is compared with its parent. */
const KEPT_BLOCKS = 16;

/** What an address held when it was last proven, and what it was seen to gain since. */
type Known = Readonly<{ height: number; account: ProvenAccount; seen: bigint }>;
type Due = { key: string; known: Known | null };

/** What is known of addresses after each of the last blocks, by block hash. The nodes of a coin share it: a switch forgets nothing. */
export type AuditFacts = Map<string, ReadonlyMap<string, Known>>;

export type BalanceAudit = {
  /** Gains of open addresses that `seen`, the gains found in this block and those before it, do not explain. Call it for each block. */
  check(block: ProvenBlock, matcher: Pick<Matcher, 'open'>, seen: readonly Gain[]): Promise<Gain[]>;
  /** Takes the gains of a block that your own node showed, which need no proof. */
  note(block: Pick<ProvenBlock, 'ref'>, seen: readonly Gain[]): void;
  /** Whether the node proved nothing at the last block that was checked, although there was something to prove. */
  isBlind(): boolean;
};

/**
 * One per node. A block counts only once it was checked, so a block that fails can be read again. It starts over after a block that is
 * not known. Errors: ProofError for a proof that does not fit.
 */
export function createBalanceAudit({
  rpc,
  log,
  facts = new Map(),
}: {
  rpc: Pick<EthRpc, 'batch'>;
  log: Log;
  facts?: AuditFacts;
}): BalanceAudit {
  /** What is known before the block, with the gains that were seen in it. */
  const knownIn = ({ ref }: Pick<ProvenBlock, 'ref'>, seen: readonly Gain[]): Map<string, Known> => {
    const known = new Map(facts.get(ref.parent));
    for (const { key, units } of seen) {
      const before = known.get(key);
      if (before) known.set(key, { ...before, seen: before.seen + units });
    }
    return known;
  };
  const keep = ({ ref }: Pick<ProvenBlock, 'ref'>, known: ReadonlyMap<string, Known>): void => {
    facts.delete(ref.hash);
    facts.set(ref.hash, known);
    for (const hash of facts.keys()) if (facts.size > KEPT_BLOCKS) facts.delete(hash);
  };
  let isBlind = false;
  return {
    isBlind: () => isBlind,
    check: async (block, { open }, seen) => {
      const { ref } = block;
      const keys = (await open?.()) ?? [];
      const known = knownIn(block, seen);
      const isOpen = new Set(keys);
      for (const key of known.keys()) if (!isOpen.has(key)) known.delete(key);
      const due = keys
        .map((key): Due => ({ key, known: known.get(key) ?? null }))
        .filter((one) => one.known === null || ref.height - one.known.height >= EVERY_BLOCKS)
        .toSorted((a, b) => (a.known?.height ?? 0) - (b.known?.height ?? 0))
        .slice(0, AT_ONCE);
      const proven = due.length > 0 ? await proveNow(block, due, rpc) : null;
      isBlind = due.length > 0 && proven === null;
      const gains: Gain[] = [];
      for (const { key, before, after } of proven ?? []) {
        const explained = known.get(key)?.seen ?? sumOf(seen, key);
        const units = after.balance - before.balance - explained;
        if (keptAll(before, after) && units > 0n) {
          log.warn(
            { coin: 'ETH', height: ref.height, address: `0x${key}`, units: String(units) },
            'The node did not show a gain that it proves',
          );
          gains.push({ key, index: null, units });
        }
        known.set(key, { height: ref.height, account: after, seen: 0n });
      }
      keep(block, known);
      return gains;
    },
    note: (block, seen) => keep(block, knownIn(block, seen)),
  };
}

const sumOf = (gains: readonly Gain[], of: string): bigint => gains.reduce((sum, { key, units }) => (key === of ? sum + units : sum), 0n);

/** The accounts at the block, and at the last proof or, for new ones, at the parent. Null when the node proves nothing. */
async function proveNow({ ref, header }: ProvenBlock, due: readonly Due[], { batch }: Pick<EthRpc, 'batch'>) {
  const fresh = due.filter((one) => one.known === null);
  const [parent, ...replies] = await batch([
    ['eth_getBlockByHash', ref.parent, false],
    ...due.map(({ key }) => proofCall(key, ref.hash)),
    ...fresh.map(({ key }) => proofCall(key, ref.parent)),
  ]);
  if (parent?.error) throw failure(parent.error, 'eth_getBlockByHash');
  if (!parent || parent.result === null) throw new ChainError('outage', `the ETH node does not have block ${ref.parent}`);
  const { stateRoot } = provenHeader(parent.result, header.parentHash);
  const proven: { key: string; before: ProvenAccount; after: ProvenAccount }[] = [];
  for (const [i, { key, known }] of due.entries()) {
    const after = accountIn(replies[i], key, header.stateRoot);
    const before = known?.account ?? accountIn(replies[due.length + fresh.indexOf(due[i]!)], key, stateRoot);
    if (!after || !before) return null;
    proven.push({ key, before, after });
  }
  return proven;
}
