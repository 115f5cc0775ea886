/** One round of following the sync committee: asks the servers for what is new, and takes what is proven. */
import type { Clock } from '../../../core/clock.ts';
import type { Log } from '../../../log.ts';
import { listOf, ProofError } from '../proof-values.ts';
import { type BeaconNetwork, committeePeriod, epochOf, slotOfTime } from './beacon-networks.ts';
import type { BeaconServers } from './beacon-servers.ts';
import { fieldsOf } from './beacon-values.ts';
import { Equivocation, FutureSlot, type LightState, readUpdate, startFrom, takeUpdate } from './light-client.ts';
import type { StoredLight } from './light-store.ts';

/** A first start from an older checkpoint could be led by keys whose owners have left (weak subjectivity). */
const OLDEST_CHECKPOINT_DAYS = 14;
/** A head older than this is asked of the other servers, too. */
const STALE_SLOTS = 3;
const MOST_UPDATES = 16;
export const NO_CHECKPOINT = 'ETH_CHECKPOINT is not set: it is the root of a finalized block, from which everything else is proven';

/** The Beacon API names the fork of what it answers. What another fork signs cannot be checked. */
class UnknownFork extends ProofError {}

/** What a server answered. Throws ProofError. */
export function dataOf(network: BeaconNetwork, body: unknown): unknown {
  const { version, data } = fieldsOf(body, 'answer');
  if (typeof version === 'string' && !network.forks.some(({ fork }) => fork === version))
    throw new UnknownFork(`it serves the fork ${version.slice(0, 20).replace(/[^\w-]/g, '?')}, which this version of Florin does not know`);
  return data;
}

type Options = { network: BeaconNetwork; checkpoint: string | null; servers: BeaconServers; clock: Clock; log: Log };
export type LightRounds = {
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

export function createLightRounds({ network, checkpoint, servers, clock, log }: Options): LightRounds {
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
        for (const entry of listOf(body, { name: 'updates', max: 128 })) accept(entry);
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
