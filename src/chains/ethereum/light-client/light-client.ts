/**
 * The rules of a light client of Ethereum's beacon chain (consensus-specs, altair/light-client/sync-protocol): pure, and stricter than the
 * specification. Two thirds of a sync committee must sign every head, and an update is never applied without finality: who has no finality
 * for a day holds payments instead.
 */
import { hexToBytes } from '@noble/hashes/utils.js';
import { ProofError } from '../proof-values.ts';
import { type BeaconNetwork, committeePeriod, PLACES } from './beacon-networks.ts';
import { branchOf, fieldsOf, readSlot } from './beacon-values.ts';
import { isEmptyHeader, type LightHeader, readLightHeader } from './light-header.ts';
import { isBranch, isZeroBytes } from './ssz.ts';
import {
  committeeRoot,
  isSameCommittee,
  isSignedBy,
  participants,
  readSyncAggregate,
  readSyncCommittee,
  type SyncAggregate,
  type SyncCommittee,
  signingRoot,
} from './sync-committee.ts';

/** A beacon block and the execution block that it proves. */
export type ProvenHead = { slot: number; root: string; executionHash: string };
/** What a light client knows. It is all that has to be kept: with it, no checkpoint is needed again. */
export type LightState = {
  finalized: ProvenHead;
  /** Signed by two thirds of the committee, and not final: it can be replaced. Never older than `finalized`. */
  optimistic: ProvenHead;
  /** Signs in the period of `finalized`. */
  current: SyncCommittee;
  /** Signs in the period after; null until an update brings it. */
  next: SyncCommittee | null;
};

/** A LightClientUpdate; without `next`, a finality update; without `finalized` too, an optimistic one. */
export type LightUpdate = {
  attested: LightHeader;
  next: SyncCommittee | null;
  /** Null when the attested block has no finality. */
  finalized: LightHeader | null;
  aggregate: SyncAggregate;
  signatureSlot: number;
};

const headOf = ({ slot, root, executionHash }: LightHeader): ProvenHead => ({ slot, root, executionHash });

/** An update that is signed later than now: either a lie, or the clock of this machine is behind. */
export class FutureSlot extends ProofError {}

/** The state that a checkpoint stands for: the root of a finalized beacon block. Throws ProofError. */
export function startFrom(network: BeaconNetwork, trustedRoot: string, bootstrap: unknown): LightState {
  const fields = fieldsOf(bootstrap, 'bootstrap');
  const header = readLightHeader(network, fields.header);
  if (header.root !== trustedRoot.replace(/^0x/, '').toLowerCase()) throw new ProofError('the bootstrap is for another checkpoint');
  const current = readSyncCommittee(network, fields.current_sync_committee);
  const branch = branchOf(fields.current_sync_committee_branch, 'current_sync_committee_branch');
  if (!isBranch(committeeRoot(current), branch, { gindex: PLACES[header.fork].currentCommittee, root: header.stateRoot }))
    throw new ProofError('the sync committee is not that of the checkpoint');
  return { finalized: headOf(header), optimistic: headOf(header), current, next: null };
}

/** Reads an update and checks everything in it that needs no other state. Throws ProofError. */
export function readUpdate(network: BeaconNetwork, update: unknown): LightUpdate {
  const fields = fieldsOf(update, 'update');
  const attested = readLightHeader(network, fields.attested_header);
  const places = PLACES[attested.fork];
  const isIn = (value: Uint8Array, branch: readonly Uint8Array[], gindex: number) =>
    isBranch(value, branch, { gindex, root: attested.stateRoot });

  let finalized: LightHeader | null = null;
  if (fields.finalized_header !== undefined) {
    const branch = branchOf(fields.finality_branch, 'finality_branch');
    if (branch.every(isZeroBytes)) {
      if (!isEmptyHeader(fields.finalized_header)) throw new ProofError('a finalized header comes without its branch');
    } else {
      finalized = readLightHeader(network, fields.finalized_header);
      if (!isIn(hexToBytes(finalized.root), branch, places.finalizedRoot))
        throw new ProofError('the finalized header is not that of the attested block');
    }
  }
  let next: SyncCommittee | null = null;
  if (fields.next_sync_committee !== undefined) {
    const branch = branchOf(fields.next_sync_committee_branch, 'next_sync_committee_branch');
    const committee = readSyncCommittee(network, fields.next_sync_committee);
    if (branch.every(isZeroBytes)) {
      if (!isZeroBytes(committee.aggregate) || !committee.keys.every(isZeroBytes))
        throw new ProofError('a sync committee comes without its branch');
    } else {
      next = committee;
      if (!isIn(committeeRoot(next), branch, places.nextCommittee))
        throw new ProofError('the next sync committee is not that of the attested block');
    }
  }
  return {
    attested,
    next,
    finalized,
    aggregate: readSyncAggregate(network, fields.sync_aggregate),
    signatureSlot: readSlot(fields.signature_slot, 'signature_slot'),
  };
}

/** The committee that must have signed; null if this state does not know it. */
function signersOf(network: BeaconNetwork, state: LightState, signatureSlot: number): SyncCommittee | null {
  const ahead = committeePeriod(network, signatureSlot) - committeePeriod(network, state.finalized.slot);
  return ahead === 0 ? state.current : ahead === 1 ? state.next : null;
}

/** Fails unless the update is valid for this state at this slot (validate_light_client_update). */
function checkUpdate(network: BeaconNetwork, state: LightState, update: LightUpdate, nowSlot: number): void {
  const { attested, finalized, next, aggregate, signatureSlot } = update;
  if (signatureSlot > nowSlot) throw new FutureSlot(`slot ${signatureSlot} is in the future`);
  if (signatureSlot <= attested.slot) throw new ProofError('an update is signed after the block that it attests');
  if (finalized && finalized.slot > attested.slot) throw new ProofError('the finalized block is newer than the attested one');
  const storePeriod = committeePeriod(network, state.finalized.slot);
  if (next && committeePeriod(network, attested.slot) === storePeriod && state.next && !isSameCommittee(next, state.next))
    throw new ProofError('the next sync committee differs from the one that is known');
  const signers = signersOf(network, state, signatureSlot);
  if (!signers) throw new ProofError(`the sync committee of slot ${signatureSlot} is not known`);
  if (participants(aggregate) * 3 < network.committeeSize * 2)
    throw new ProofError(`${participants(aggregate)} of ${network.committeeSize} members signed, which is not enough`);
  const message = signingRoot(network, { root: hexToBytes(attested.root), signatureSlot });
  if (!isSignedBy(signers, aggregate, message)) throw new ProofError('the signature of the sync committee is not valid');
}

/**
 * Takes an update, in the slot of now. Returns the state after it: the same one if the update says nothing new. Throws ProofError if the
 * update is not valid, and Equivocation if two finalized blocks of one slot are both signed.
 */
export function takeUpdate(network: BeaconNetwork, state: LightState, update: LightUpdate, nowSlot: number): LightState {
  const { attested, finalized } = update;
  const storePeriod = committeePeriod(network, state.finalized.slot);
  const attestedPeriod = committeePeriod(network, attested.slot);
  const isNewer = finalized !== null && finalized.slot > state.finalized.slot;
  // The committee that signs next is taken only from a block that is final in the period of the store.
  const bringsNext =
    update.next !== null &&
    state.next === null &&
    attestedPeriod === storePeriod &&
    finalized !== null &&
    committeePeriod(network, finalized.slot) === attestedPeriod;
  const conflicts = finalized !== null && finalized.slot === state.finalized.slot && finalized.root !== state.finalized.root;
  if (attested.slot <= state.optimistic.slot && !isNewer && !bringsNext && !conflicts) return state;

  checkUpdate(network, state, update, nowSlot);
  if (conflicts) throw new Equivocation(finalized!.slot);
  const finalizedPeriod = finalized === null ? storePeriod : committeePeriod(network, finalized.slot);
  let { current, next } = state;
  if (isNewer && next !== null && finalizedPeriod === storePeriod + 1) {
    current = next;
    next = attestedPeriod === finalizedPeriod ? update.next : null;
  } else if (bringsNext) next = update.next;
  else if (isNewer && finalizedPeriod > storePeriod) throw new ProofError('an update skips a period whose committee is not known');
  const nextFinalized = isNewer ? headOf(finalized) : state.finalized;
  const newest = attested.slot > state.optimistic.slot ? headOf(attested) : state.optimistic;
  return { finalized: nextFinalized, optimistic: newest.slot < nextFinalized.slot ? nextFinalized : newest, current, next };
}

/** Two blocks of one slot were both signed as final: the chain must not be used until people have looked. */
export class Equivocation extends Error {
  constructor(slot: number) {
    super(`two finalized blocks of slot ${slot} are both signed by the sync committee`);
    this.name = 'Equivocation';
  }
}
