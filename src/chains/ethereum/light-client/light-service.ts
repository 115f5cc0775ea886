/**
 * Follows Ethereum's sync committee: from a checkpoint, through the committees of each period, to the newest block that two thirds of one
 * signed. It runs in processes that follow the chain; what it learns is stored.
 */
import type { Clock } from '../../../core/clock.ts';
import type { Db } from '../../../db/db.ts';
import { type Loop, startLoop } from '../../../db/loop.ts';
import type { Log } from '../../../log.ts';
import type { Witnesses } from '../../chain.ts';
import { type BeaconNetwork, slotOfTime } from './beacon-networks.ts';
import type { BeaconServers } from './beacon-servers.ts';
import { type ProvenHead, readUpdate } from './light-client.ts';
import { createLightRounds, dataOf, NO_CHECKPOINT } from './light-rounds.ts';
import { loadLight, saveLight } from './light-store.ts';

/** Finality comes after about 70 slots; without it for this long, nothing completes. */
const UNFINAL_SLOTS = 1_200;
/** A head comes with nearly every slot; older than this, it is not the head of the chain. */
const STALE_SECONDS = 300;
/** A head this many slots from now is a clock that is behind, and what is signed now would be refused. */
const AHEAD_SLOTS = 2;

export type LightService = {
  /** Begins to follow, the first time. Errors: those of the database. */
  open(): Promise<void>;
  /** The newest block that the committee signed, and the newest final one; null before the first. */
  heads(): { optimistic: ProvenHead; finalized: ProvenHead } | null;
  /** Why nothing may complete now, in words. */
  holds(): string[];
  /** Why there is no head, or no new one, in words; null when there is nothing to say. */
  trouble(): string | null;
  /** For the operator: asks every server, and says what is stored. It does not follow. */
  check: Witnesses['check'];
  /** Calls back when the head moved, until the returned function is called. */
  onHead(listener: () => void): () => void;
  close(): Promise<void>;
};

type Options = {
  network: BeaconNetwork;
  /** As the row of the database is named. */
  name: string;
  /** Root of a finalized beacon block; null: none is set. */
  checkpoint: string | null;
  servers: BeaconServers;
  db: Db;
  clock: Clock;
  log: Log;
};

export function createLightService({ network, name, checkpoint, servers, db, clock, log }: Options): LightService {
  const rounds = createLightRounds({ network, checkpoint, servers, clock, log });
  const { known, trouble } = rounds;
  let loop: Loop | null = null;
  let opening: Promise<void> | null = null;
  const listeners = new Set<() => void>();
  const begin = async (): Promise<void> => {
    const stored = await loadLight(db, name);
    if (stored && (checkpoint === null || stored.checkpoint === checkpoint)) rounds.resume(stored);
    loop = startLoop({
      round: async () => {
        if (!(await rounds.round())) return false;
        await saveLight(db, name, known()!);
        for (const listener of listeners) listener();
        return false;
      },
      failed: (error) => log.warn({ err: error, chain: 'ethereum' }, 'The sync committee could not be followed'),
      pollMs: network.secondsPerSlot * 1000,
    });
  };
  return {
    open: () => {
      opening ??= begin().catch((error: unknown) => {
        opening = null;
        throw error;
      });
      return opening;
    },
    heads: () => known()?.state ?? null,
    holds: () => {
      const now = known();
      if (!now) return [];
      const { halted, state } = now;
      const slot = slotOfTime(network, clock.now().getTime());
      const unfinal = slot - state.finalized.slot;
      const age = slot - state.optimistic.slot;
      const inMinutes = (slots: number): string => `${Math.ceil((slots * network.secondsPerSlot) / 60)} min`;
      const cause = rounds.cause();
      return [
        ...(halted === null ? [] : [halted]),
        ...(age < -AHEAD_SLOTS
          ? [`the clock of this machine is ${inMinutes(-age)} behind the newest block that the sync committee signed`]
          : []),
        ...(age * network.secondsPerSlot > STALE_SECONDS
          ? [`the newest block that the sync committee signed is ${inMinutes(age)} old${cause === null ? '' : `: ${cause}`}`]
          : []),
        ...(unfinal > UNFINAL_SLOTS
          ? [`no block of Ethereum has become final for ${Math.floor((unfinal * network.secondsPerSlot) / 3600)} hours`]
          : []),
      ];
    },
    trouble,
    check: async () => {
      await servers.all('finality_update', (body) => readUpdate(network, dataOf(network, body)));
      const stored = known() ?? (await loadLight(db, name));
      const at = stored && new Date((network.genesisTime + stored.state.optimistic.slot * network.secondsPerSlot) * 1000);
      return {
        servers: servers.states(),
        trouble: stored?.halted ?? trouble() ?? (checkpoint === null && !stored ? NO_CHECKPOINT : null),
        head: at && `signed up to slot ${stored.state.optimistic.slot}, ${at.toISOString()}`,
      };
    },
    onHead: (listener) => {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    close: async () => {
      await loop?.stop();
    },
  };
}
