/** Sync committees and their signatures (consensus-specs, altair/light-client/sync-protocol; BLS of draft-irtf-cfrg-bls-signature). */
import { bls12_381 } from '@noble/curves/bls12-381.js';
import { concatBytes, hexToBytes } from '@noble/hashes/utils.js';
import { isSame, listOf, ProofError } from '../proof-values.ts';
import { type BeaconNetwork, forkAt } from './beacon-networks.ts';
import { fieldsOf, readBytes } from './beacon-values.ts';
import { chunks, rootOf, sha256 } from './ssz.ts';

export type SyncCommittee = { keys: readonly Uint8Array[]; aggregate: Uint8Array };
export type SyncAggregate = { bits: Uint8Array; signature: Uint8Array };

/** The one that Ethereum signs with. The library's default ends in another letter, and nothing would verify. */
const SIGNED_FOR = 'BLS_SIG_BLS12381G2_XMD:SHA-256_SSWU_RO_POP_';
const SYNC_COMMITTEE_DOMAIN = hexToBytes('07000000');
const bls = bls12_381.longSignatures;
const G1 = bls12_381.G1.Point;

export function readSyncCommittee({ committeeSize }: BeaconNetwork, value: unknown): SyncCommittee {
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
export const isSameCommittee = (a: SyncCommittee, b: SyncCommittee): boolean =>
  isSame(a.aggregate, b.aggregate) && a.keys.length === b.keys.length && a.keys.every((key, i) => isSame(key, b.keys[i]!));

export function readSyncAggregate({ committeeSize }: BeaconNetwork, value: unknown): SyncAggregate {
  const fields = fieldsOf(value, 'sync_aggregate');
  return {
    bits: readBytes(fields.sync_committee_bits, 'sync_committee_bits', committeeSize / 8),
    signature: readBytes(fields.sync_committee_signature, 'sync_committee_signature', 96),
  };
}
const hasSigned = (bits: Uint8Array, i: number): boolean => ((bits[i >> 3]! >> (i & 7)) & 1) === 1;
/** How many members signed. */
export const participants = ({ bits }: SyncAggregate): number =>
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
export function isSignedBy({ keys, aggregate }: SyncCommittee, { bits, signature }: SyncAggregate, message: Uint8Array): boolean {
  try {
    const absent = keys.filter((_, i) => !hasSigned(bits, i));
    const signers = absent.reduce((sum, key) => sum.subtract(G1.fromBytes(key)), G1.fromBytes(aggregate));
    return bls.verify(bls.Signature.fromBytes(signature), bls.hash(message, SIGNED_FOR), signers);
  } catch {
    // The bytes do not encode a point of the group.
    return false;
  }
}
