/**
 * Follows Ethereum's sync committee: from a checkpoint, through the committees of each period, to the newest block that two thirds of one
 * signed. It runs in processes that follow the chain; what it learns is stored.
 */

import type { Clock } from '#core/dates';
import { listOf, ProofError } from '#evm';
import type { Log } from '#log';
import { type Loop, startLoop } from '#loop';
import type { Witnesses } from '../../chain-source.ts';
import type { ChainStore } from '../../store.ts';
import { type BeaconNetwork, type BeaconServers, committeePeriod, epochOf, slotOfTime } from './beacon-networks.ts';
import {
  Equivocation,
  FutureSlot,
  type LightState,
  type ProvenHead,
  readUpdate,
  type SyncCommittee,
  startFrom,
  takeUpdate,
} from './light-client.ts';
import { fieldsOf } from './ssz.ts';

/** Finality comes after about 70 slots; without it for this long, nothing completes. */
const UNFINAL_SLOTS = 1_200;
/** A head comes with nearly every slot; older than this, it is not the head of the chain. */
const STALE_SECONDS = 300;
/** A head this many slots from now is a clock that is behind, and what is signed now would be refused. */
const AHEAD_SLOTS = 2;

export type LightService = {
  /** Begins to follow, the first time. Errors: those of the store. */
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
  /** Root of a finalized beacon block; null: none is set. */
  checkpoint: string | null;
  servers: BeaconServers;
  store: ReturnType<ChainStore['light']>;
  clock: Clock;
  log: Log;
};

export function createLightService({ network, checkpoint, servers, store, clock, log }: Options): LightService {
  const rounds = createLightRounds({ network, checkpoint, servers, clock, log });
  const { known, trouble } = rounds;
  let loop: Loop | null = null;
  let opening: Promise<void> | null = null;
  const listeners = new Set<() => void>();
  const begin = async (): Promise<void> => {
    const stored = await loadLight(store);
    if (stored && (checkpoint === null || stored.checkpoint === checkpoint)) rounds.resume(stored);
    loop = startLoop({
      round: async () => {
        if (!(await rounds.round())) return false;
        await saveLight(store, known()!);
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
      const stored = known() ?? (await loadLight(store));
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

// One round of following the sync committee: asks the servers for what is new, and takes what is proven.

/** A first start from an older checkpoint could be led by keys whose owners have left (weak subjectivity). */
const OLDEST_CHECKPOINT_DAYS = 14;
/** A head older than this is asked of the other servers, too. */
const STALE_SLOTS = 3;
export const MOST_UPDATES = 16;
/** The most that a server may send, whatever was asked for (`MAX_REQUEST_LIGHT_CLIENT_UPDATES`). */
export const MOST_SENT = 128;
const NO_CHECKPOINT = 'ETH_CHECKPOINT is not set: it is the root of a finalized block, from which everything else is proven';

/** The Beacon API names the fork of what it answers. What another fork signs cannot be checked. */
class UnknownFork extends ProofError {}

/** What a server answered. Throws ProofError. */
function dataOf(network: BeaconNetwork, body: unknown): unknown {
  const { version, data } = fieldsOf(body, 'answer');
  if (typeof version === 'string' && !network.forks.some(({ fork }) => fork === version))
    throw new UnknownFork(`it serves the fork ${version.slice(0, 20).replace(/[^\w-]/g, '?')}, which this version of Florin does not know`);
  return data;
}

type RoundsOptions = { network: BeaconNetwork; checkpoint: string | null; servers: BeaconServers; clock: Clock; log: Log };
type LightRounds = {
  /** What is known; null before the checkpoint was read. */
  known(): StoredLight | null;
  /** Continues from what was stored, unless that is as old as a checkpoint must not be: old committees have left by then. */
  resume(stored: StoredLight): void;
  /** Why there is no head, or no new one, in words; null when there is nothing to say. */
  trouble(): string | null;
  /** What may keep all servers from bringing a new head, in words that name none of them; null when they said nothing of that kind. */
  cause(): string | null;
  /** Asks once for everything. True: something was learned. */
  round(): Promise<boolean>;
};

export function createLightRounds({ network, checkpoint, servers, clock, log }: RoundsOptions): LightRounds {
  let known: StoredLight | null = null;
  let note: string | null = null;
  let cause: string | null = null;
  let lastFinalityEpoch = -1;
  const nowSlot = () => slotOfTime(network, clock.now().getTime());

  const daysOld = ({ finalized }: LightState) => ((nowSlot() - finalized.slot) * network.secondsPerSlot) / 86_400;

  const take = (state: LightState, data: unknown): LightState => takeUpdate(network, state, readUpdate(network, data), nowSlot());

  /** Takes what a server sent; the answer counts only if it is valid for what is known now. */
  const accept = (body: unknown): void => {
    if (!known) return;
    try {
      known = { ...known, state: take(known.state, dataOf(network, body)) };
    } catch (error) {
      if (error instanceof FutureSlot) cause = 'beacon servers show newer ones, which are ahead of the clock of this machine';
      if (error instanceof UnknownFork) cause = 'beacon servers serve a fork that this version of Florin does not know; upgrade Florin';
      if (!(error instanceof Equivocation)) throw error;
      log.error({ chain: 'ethereum', reason: error.message }, 'No payment on Ethereum completes until its checkpoint is replaced');
      known = { ...known, halted: error.message };
    }
  };

  const begin = async (): Promise<void> => {
    if (checkpoint === null) {
      note = NO_CHECKPOINT;
      return;
    }
    const state = await servers.first(`bootstrap/${checkpoint}`, (body) => startFrom(network, checkpoint, dataOf(network, body)));
    if (!state) {
      note = `no beacon server has the checkpoint: ${servers
        .states()
        .flatMap(({ reason }) => reason ?? [])
        .join('; ')}`;
      return;
    }
    const days = daysOld(state);
    if (days > OLDEST_CHECKPOINT_DAYS) {
      note = `the checkpoint is ${Math.floor(days)} days old; set ETH_CHECKPOINT to a finalized block of the last ${OLDEST_CHECKPOINT_DAYS} days`;
      return;
    }
    known = { checkpoint, state, halted: null };
    log.info({ chain: 'ethereum', slot: state.finalized.slot }, 'Ethereum is followed from its checkpoint');
  };

  /** The committees of all periods up to now. */
  const catchUp = async (): Promise<void> => {
    for (;;) {
      const { state } = known!;
      const period = committeePeriod(network, state.finalized.slot);
      const behind = committeePeriod(network, nowSlot()) - period;
      if (behind <= 0 && state.next !== null) return;
      const path = `updates?start_period=${period}&count=${Math.max(1, Math.min(MOST_UPDATES, behind + 1))}`;
      const moved = await servers.first(path, (body) => {
        for (const entry of listOf(body, { name: 'updates', max: MOST_SENT })) accept(entry);
        // Another server may have what this one withholds.
        if (known!.state === state) throw new ProofError(`it has no update for period ${period}`);
        return true;
      });
      if (!moved) return;
    }
  };

  const round = async (): Promise<boolean> => {
    if (!known) await begin();
    if (!known) return false;
    const before = known as StoredLight;
    cause = null;
    await catchUp();
    const epoch = epochOf(network, nowSlot());
    if (epoch !== lastFinalityEpoch) {
      // All of them: two finalized blocks that are both signed must be noticed.
      const answers = await servers.all('finality_update', accept);
      if (answers.length > 0) lastFinalityEpoch = epoch;
    }
    await servers.first('optimistic_update', accept);
    if (nowSlot() - known.state.optimistic.slot > STALE_SLOTS) await servers.all('optimistic_update', accept);
    const after = known as StoredLight;
    const age = nowSlot() - after.state.optimistic.slot;
    const reasons = servers.states().flatMap(({ reason }) => reason ?? []);
    note = age > STALE_SLOTS && reasons.length > 0 ? reasons.join('; ') : null;
    return after !== before;
  };

  return {
    known: () => known,
    resume: (stored) => {
      if (daysOld(stored.state) <= OLDEST_CHECKPOINT_DAYS) known = stored;
    },
    trouble: () => note,
    cause: () => cause,
    round,
  };
}

// What a light client knows, in the store: with it, a restart needs no checkpoint. Only what was proven is stored.

/** `halted`: why nothing may complete until an operator chooses another checkpoint. */
type StoredLight = { checkpoint: string; state: LightState; halted: string | null };
const KEY_BYTES = 48;
/** All keys, and then their sum. */
const bytesOf = ({ keys, aggregate }: SyncCommittee): Buffer => Buffer.concat([...keys, aggregate]);
function committeeOf(bytes: Buffer): SyncCommittee {
  const all = Array.from(
    { length: bytes.length / KEY_BYTES },
    (_, i) => new Uint8Array(bytes.subarray(i * KEY_BYTES, (i + 1) * KEY_BYTES)),
  );
  return { keys: all.slice(0, -1), aggregate: all.at(-1)! };
}

/** Null when nothing is stored for the network. */
async function loadLight(store: Options['store']): Promise<StoredLight | null> {
  const row = await store.load();
  return (
    row && { ...row, state: { ...row.state, current: committeeOf(row.state.current), next: row.state.next && committeeOf(row.state.next) } }
  );
}

const saveLight = (store: Options['store'], { state, ...rest }: StoredLight): Promise<void> =>
  store.save({ ...rest, state: { ...state, current: bytesOf(state.current), next: state.next && bytesOf(state.next) } });
