/**
 * A source whose every block must be on the header chain of its network. Before a follower asks for proof it is the source as it is,
 * because processes that follow no chain have no headers.
 */
import { chainOf } from '#core/coin';
import { MOST_PROVEN } from '#core/confirmation';
import type { Clock } from '#core/dates';
import { invariant } from '#core/invariant';
import type { Log } from '#log';
import { type BlockRef, ChainError, type ChainSource, NO_FINALITY, type ProvenWork } from '../chain-source.ts';
import type { Proof } from '../sources.ts';
import type { WorkHold } from './chain-work.ts';
import { refOf } from './header-chain.ts';
import { createHeaderFeed, type HeaderFeed, type Turn } from './header-feed.ts';
import type { HeaderService, Headers } from './header-service.ts';

const HOLD_TEXT: Readonly<Record<WorkHold, string>> = {
  difficulty: 'the last block took less than a quarter of the usual work',
  total: 'the chain has less than a quarter of the work that the time since its checkpoint should have brought',
  recent: 'the last day brought less than a quarter of the usual work',
  fast: 'the newest blocks claim to have come more than four times as fast as usual',
};

/** What is proven about the chain that ends with a block. */
function provenWorkOf(headers: Headers, tip: string): ProvenWork {
  if (!headers.find(tip)) return { heights: [], holds: ['the last block read is not on the chain with the most work'] };
  const holds = headers.holds().map((hold) => HOLD_TEXT[hold]);
  return { heights: holds.length > 0 ? [] : headers.provenHeights(MOST_PROVEN), holds };
}

/** The proof of a chain, for its followers. */
export const proofOf = (service: HeaderService): Proof => ({
  requireProof: async () => {
    await service.open();
  },
  provenWork: (tip) => {
    const headers = service.opened();
    invariant(headers, 'a follower asks for proof before it reads');
    return provenWorkOf(headers, tip);
  },
});

type Options = {
  source: ChainSource & { readHeaders: NonNullable<ChainSource['readHeaders']> };
  /** Host and port. */
  name: string;
  service: HeaderService;
  turn: Turn;
  /** Whether peers bring the headers that this source cannot bring in reasonable time. */
  helped?: boolean;
  /** Whether the locks that it reports count, because the operator runs it. Nothing proves them. */
  locks: boolean;
  clock: Clock;
  log: Log;
};

/** The same source without the locks that it reports. */
const withoutLocks = (source: Options['source']): Options['source'] => ({
  ...source,
  txState: async (txid) => ({ ...(await source.txState(txid)), lock: null }),
  finality: async () => NO_FINALITY,
  fetchMempool: async (health) => {
    const fetched = await source.fetchMempool(health);
    return {
      ...fetched,
      scan: async (matcher) => {
        const scan = await fetched.scan(matcher);
        return { ...scan, sightings: scan.sightings.map((sighting) => ({ ...sighting, lock: null })) };
      },
    };
  },
});

/** The same source, of which only proven blocks count. */
export function provenSource({ source: given, name, service, turn, helped = false, locks, clock, log }: Options): ChainSource {
  const source = locks ? given : withoutLocks(given);
  const { coin } = source;
  const { params } = service;
  let known: { headers: Headers; feed: HeaderFeed } | null = null;
  /** The tip that this source showed last; null when it was refused. */
  let shown: BlockRef | null = null;
  const opened = async () => {
    const headers = await service.open();
    known ??= { headers, feed: createHeaderFeed({ source, name, params, headers, turn, own: locks, helped, clock, log }) };
    return known;
  };
  /** Refuses a tip that is not on the best chain. */
  const prove = async ({ headers, feed }: NonNullable<typeof known>, tip: BlockRef): Promise<BlockRef> => {
    const refusal = await feed.bring(tip);
    const behind = headers.tip().height - tip.height;
    const isBehind = behind > chainOf(coin).agreeWithin;
    shown = refusal || isBehind ? null : tip;
    if (refusal) throw new ChainError(refusal.kind === 'syncing' ? 'outage' : refusal.kind, `${name}: ${refusal.reason}`);
    if (isBehind) throw new ChainError('behind', `${name} is ${behind} blocks behind the chain with the most work`);
    return tip;
  };
  return {
    ...source,
    requireProof: async () => {
      await opened();
    },
    health: async () => {
      const health = await source.health();
      if (health.syncing) shown = null;
      if (!known || health.syncing) return health;
      const refusal = await known.feed.bring(health.tip);
      if (refusal?.kind === 'syncing') return { ...health, syncing: true, progress: refusal.reason };
      await prove(known, health.tip);
      return health;
    },
    tip: async () => {
      const tip = await source.tip();
      return known ? prove(known, tip) : tip;
    },
    blockAt: async (height) => {
      const found = await source.blockAt(height);
      const proven = known?.headers.at(height);
      if (found === null) {
        // Its tip includes every block below, so a source cannot contradict the chain by withholding one.
        const includes = shown !== null && height <= shown.height && known?.headers.find(shown.hash);
        return includes && proven ? refOf(proven) : null;
      }
      if (!proven || found.hash === proven.hash) return found;
      throw new ChainError('unproven', `${name}: block ${height} that it shows is not on the chain with the most work`);
    },
    fetchBlock: async (hash) => {
      const { headers, feed } = await opened();
      // A block that was mined a moment ago.
      if (!headers.find(hash)) {
        const told = await source.block(hash);
        if (told && told.height > headers.checkpointHeight) await feed.bring(await source.tip());
      }
      const fetched = await source.fetchBlock(hash);
      const proven = headers.find(hash);
      // Below the checkpoint, blocks are asked for by the hash that a proven one names as its parent.
      const isAbove =
        fetched.ref.height > headers.checkpointHeight || (headers.find(fetched.ref.parent)?.height ?? -1) >= headers.checkpointHeight;
      if (!proven && isAbove) throw new ChainError('unproven', `${name}: block ${hash} is not on the chain with the most work`);
      const ref = proven ? refOf(proven) : fetched.ref;
      return {
        ...fetched,
        ref,
        verifiedBy: 'proof_of_work' as const,
        scan: async (matcher) => ({ ...(await fetched.scan(matcher)), block: ref }),
      };
    },
  };
}
