/**
 * Headers of beacon blocks with the execution block that they prove (LightClientHeader of Capella to Gloas). From every fork only the hash
 * of the execution block is taken: everything else about it comes from its own header, which must have that hash.
 */
import { bytesToHex } from '@noble/hashes/utils.js';
import { dataBytes, ProofError } from '../proof-values.ts';
import { type BeaconFork, type BeaconNetwork, forkAt, PLACES } from './beacon-networks.ts';
import { type BeaconFields, branchOf, fieldsOf, readBytes, readSlot, uintOf } from './beacon-values.ts';
import { chunks, isBranch, isZeroBytes, numberLeaf, rootOf, withLength } from './ssz.ts';

export type LightHeader = {
  slot: number;
  /** Of the beacon block, in hex. */
  root: string;
  stateRoot: Uint8Array;
  /** Of the execution block, in hex with 0x. Gloas: of the last one before this slot. */
  executionHash: string;
  fork: BeaconFork;
};

const COUNT_BITS = 64;

/** hash_tree_root of an ExecutionPayloadHeader of Capella (15 fields) or later (17). */
function executionRoot(fields: BeaconFields, fork: BeaconFork): Uint8Array {
  const bytes = (name: string, length: number) => rootOf(chunks(readBytes(fields[name], name, length)), length > 32 ? 3 : 0);
  const number = (name: string, bits: number) => numberLeaf(uintOf(fields[name], name, bits));
  const extra = dataBytes(fields.extra_data, { name: 'extra_data', min: 0, max: 32 });
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
export function isEmptyHeader(value: unknown): boolean {
  const { slot, stateRoot, bodyRoot } = beaconPart(fieldsOf(value, 'header').beacon);
  return slot === 0 && isZeroBytes(stateRoot) && isZeroBytes(bodyRoot);
}
