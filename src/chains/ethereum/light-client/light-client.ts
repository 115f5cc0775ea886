/**
 * The rules of a light client of Ethereum's beacon chain (consensus-specs, altair/light-client/sync-protocol): pure, and stricter than the
 * specification. Two thirds of a sync committee must sign every head, and an update is never applied without finality: who has no finality
 * for a day holds payments instead.
 */
import { bls12_381 } from '@noble/curves/bls12-381.js';
import { bytesToHex, concatBytes, hexToBytes } from '@noble/hashes/utils.js';
import { dataBytes, isSame, listOf, ProofError } from '#evm';
import { type BeaconFork, type BeaconNetwork, committeePeriod, forkAt, PLACES } from './beacon-networks.ts';
import {
  type BeaconFields,
  branchOf,
  chunks,
  fieldsOf,
  isBranch,
  isZeroBytes,
  numberLeaf,
  readBytes,
  readSlot,
  rootOf,
  sha256,
  uintOf,
  withLength,
} from './ssz.ts';

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
type LightUpdate = {
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

// Headers of beacon blocks with the execution block that they prove (LightClientHeader of Capella to Gloas). From every fork only the hash
// of the execution block is taken: everything else about it comes from its own header, which must have that hash.

type LightHeader = {
  slot: number;
  /** Of the beacon block, in hex. */
  root: string;
  stateRoot: Uint8Array;
  /** Of the execution block, in hex with 0x. Gloas: of the last one before this slot. */
  executionHash: string;
  fork: BeaconFork;
};

const COUNT_BITS = 64;
/** `MAX_EXTRA_DATA_BYTES`. */
export const MAX_EXTRA_DATA = 32;

/** hash_tree_root of an ExecutionPayloadHeader of Capella (15 fields) or later (17). */
function executionRoot(fields: BeaconFields, fork: BeaconFork): Uint8Array {
  const bytes = (name: string, length: number) => rootOf(chunks(readBytes(fields[name], name, length)), length > 32 ? 3 : 0);
  const number = (name: string, bits: number) => numberLeaf(uintOf(fields[name], name, bits));
  const extra = dataBytes(fields.extra_data, { name: 'extra_data', min: 0, max: MAX_EXTRA_DATA });
  const leaves = [
    bytes('parent_hash', 32),
    bytes('fee_recipient', 20),
    bytes('state_root', 32),
    bytes('receipts_root', 32),
    bytes('logs_bloom', 256),
    bytes('prev_randao', 32),
    ...['block_number', 'gas_limit', 'gas_used', 'timestamp'].map((name) => number(name, COUNT_BITS)),
    withLength(rootOf(chunks(extra), 0), extra.length),
    number('base_fee_per_gas', 256),
    bytes('block_hash', 32),
    bytes('transactions_root', 32),
    bytes('withdrawals_root', 32),
    ...(fork === 'capella' ? [] : ['blob_gas_used', 'excess_blob_gas'].map((name) => number(name, COUNT_BITS))),
  ];
  return rootOf(leaves, fork === 'capella' ? 4 : 5);
}

type BeaconPart = { slot: number; root: Uint8Array; stateRoot: Uint8Array; bodyRoot: Uint8Array };
function beaconPart(value: unknown): BeaconPart {
  const fields = fieldsOf(value, 'beacon');
  const slot = readSlot(fields.slot, 'slot');
  const [parentRoot, stateRoot, bodyRoot] = ['parent_root', 'state_root', 'body_root'].map((name) => readBytes(fields[name], name, 32));
  const proposer = numberLeaf(uintOf(fields.proposer_index, 'proposer_index', COUNT_BITS));
  return {
    slot,
    root: rootOf([numberLeaf(BigInt(slot)), proposer, parentRoot!, stateRoot!, bodyRoot!], 3),
    stateRoot: stateRoot!,
    bodyRoot: bodyRoot!,
  };
}

/** Reads a header and proves that its beacon block contains the execution block. Throws ProofError. */
export function readLightHeader(network: BeaconNetwork, value: unknown): LightHeader {
  const fields = fieldsOf(value, 'header');
  const beacon = beaconPart(fields.beacon);
  const fork = forkAt(network, beacon.slot)?.fork;
  if (fork === undefined) throw new ProofError(`slot ${beacon.slot} is before the first fork that is known`);
  const hash = fork === 'gloas' ? fields.execution_block_hash : fieldsOf(fields.execution, 'execution').block_hash;
  const executionHash = readBytes(hash, 'execution block hash', 32);
  const leaf = fork === 'gloas' ? executionHash : executionRoot(fieldsOf(fields.execution, 'execution'), fork);
  const branch = branchOf(fields.execution_branch, 'execution_branch');
  if (!isBranch(leaf, branch, { gindex: PLACES[fork].execution, root: beacon.bodyRoot }))
    throw new ProofError(`the beacon block of slot ${beacon.slot} does not contain the execution block`);
  return {
    slot: beacon.slot,
    root: bytesToHex(beacon.root),
    stateRoot: beacon.stateRoot,
    executionHash: `0x${bytesToHex(executionHash)}`,
    fork,
  };
}

/** Whether a header is the one that stands for none: all of its beacon part is zero. */
function isEmptyHeader(value: unknown): boolean {
  const { slot, stateRoot, bodyRoot } = beaconPart(fieldsOf(value, 'header').beacon);
  return slot === 0 && isZeroBytes(stateRoot) && isZeroBytes(bodyRoot);
}

// Sync committees and their signatures (consensus-specs, altair/light-client/sync-protocol; BLS of draft-irtf-cfrg-bls-signature).

export type SyncCommittee = { keys: readonly Uint8Array[]; aggregate: Uint8Array };
type SyncAggregate = { bits: Uint8Array; signature: Uint8Array };

/** The one that Ethereum signs with. The library's default ends in another letter, and nothing would verify. */
const SIGNED_FOR = 'BLS_SIG_BLS12381G2_XMD:SHA-256_SSWU_RO_POP_';
const SYNC_COMMITTEE_DOMAIN = hexToBytes('07000000');
const bls = bls12_381.longSignatures;
const G1 = bls12_381.G1.Point;

function readSyncCommittee({ committeeSize }: BeaconNetwork, value: unknown): SyncCommittee {
  const fields = fieldsOf(value, 'sync committee');
  const keys = listOf(fields.pubkeys, { name: 'pubkeys', max: committeeSize });
  if (keys.length !== committeeSize) throw new ProofError(`a sync committee has ${committeeSize} keys, not ${keys.length}`);
  return {
    keys: keys.map((key, i) => readBytes(key, `pubkeys[${i}]`, 48)),
    aggregate: readBytes(fields.aggregate_pubkey, 'aggregate_pubkey', 48),
  };
}

/** hash_tree_root of a SyncCommittee. */
export function committeeRoot({ keys, aggregate }: SyncCommittee): Uint8Array {
  const keyRoot = (key: Uint8Array) => rootOf(chunks(key), 1);
  return rootOf([rootOf(keys.map(keyRoot), Math.log2(keys.length)), keyRoot(aggregate)], 1);
}
const isSameCommittee = (a: SyncCommittee, b: SyncCommittee): boolean =>
  isSame(a.aggregate, b.aggregate) && a.keys.length === b.keys.length && a.keys.every((key, i) => isSame(key, b.keys[i]!));

function readSyncAggregate({ committeeSize }: BeaconNetwork, value: unknown): SyncAggregate {
  const fields = fieldsOf(value, 'sync_aggregate');
  return {
    bits: readBytes(fields.sync_committee_bits, 'sync_committee_bits', committeeSize / 8),
    signature: readBytes(fields.sync_committee_signature, 'sync_committee_signature', 96),
  };
}
const hasSigned = (bits: Uint8Array, i: number): boolean => ((bits[i >> 3]! >> (i & 7)) & 1) === 1;
/** How many members signed. */
const participants = ({ bits }: SyncAggregate): number =>
  Array.from({ length: bits.length * 8 }, (_, i) => hasSigned(bits, i)).filter(Boolean).length;

/** What a committee signs in a slot for a beacon block root: with the fork of the slot before, and the chain. */
export function signingRoot(network: BeaconNetwork, { root, signatureSlot }: { root: Uint8Array; signatureSlot: number }): Uint8Array {
  const fork = forkAt(network, Math.max(signatureSlot, 1) - 1);
  if (!fork) throw new ProofError(`slot ${signatureSlot} is before the first fork that is known`);
  const version = new Uint8Array(32);
  version.set(fork.version);
  const forkData = sha256(concatBytes(version, network.genesisValidatorsRoot));
  return sha256(concatBytes(root, SYNC_COMMITTEE_DOMAIN, forkData.subarray(0, 28)));
}

/**
 * Whether the members that the bits name signed a message. The keys of those who are absent are taken from the sum of all keys, which is
 * part of the committee's root: two additions in place of hundreds. All points are checked to be of the right group.
 */
function isSignedBy({ keys, aggregate }: SyncCommittee, { bits, signature }: SyncAggregate, message: Uint8Array): boolean {
  try {
    const absent = keys.filter((_, i) => !hasSigned(bits, i));
    const signers = absent.reduce((sum, key) => sum.subtract(G1.fromBytes(key)), G1.fromBytes(aggregate));
    return bls.verify(bls.Signature.fromBytes(signature), bls.hash(message, SIGNED_FOR), signers);
  } catch {
    // The bytes do not encode a point of the group.
    return false;
  }
}
