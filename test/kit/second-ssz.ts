/**
 * Random beacon blocks, states and committees, with the roots and branches that a second implementation of SSZ computes: @lodestar/types and
 * @chainsafe/ssz, in the sizes of its minimal preset.
 */
import { bytesToHex } from '@noble/hashes/utils.js';
import type { BeaconFork } from '../../src/chains/ethereum/light-client/beacon-networks.ts';

// Read once, when the types are loaded.
process.env.LODESTAR_PRESET = 'minimal';
const { ssz } = await import('@lodestar/types');

/** What all types of the package have in common here. */
type Type = {
  typeName: string;
  fields?: Record<string, Type>;
  elementType?: Type;
  length?: number;
  lengthBytes?: number;
  lengthBits?: number;
  limit?: number;
  limitBits?: number;
  limitBytes?: number;
  byteLength?: number;
  defaultValue(): unknown;
  hashTreeRoot(value: unknown): Uint8Array;
  toJson(value: unknown): unknown;
  toView(value: unknown): { node: Node };
  getPathInfo(path: readonly string[]): { gindex: bigint };
};
type Node = { root: Uint8Array; left: Node; right: Node };
type Value = Record<string, unknown>;
type Random = (below: number) => number;
const typesOf = (fork: BeaconFork) => ssz[fork] as unknown as Record<string, Type>;

const bytes = (random: Random, length: number): Uint8Array => Uint8Array.from({ length }, () => random(256));

/** A random value of a type; lists are short. */
function randomOf(type: Type, random: Random): unknown {
  const kind = type.constructor.name;
  const several = (count: number) => Array.from({ length: count }, () => randomOf(type.elementType!, random));
  if (type.fields) return Object.fromEntries(Object.entries(type.fields).map(([name, field]) => [name, randomOf(field, random)]));
  if (kind === 'ByteVectorType' || kind === 'ExecutionAddressType') return bytes(random, type.lengthBytes ?? 20);
  if (kind.startsWith('ByteList')) return bytes(random, random(Math.min(40, type.limitBytes ?? 32)));
  if (kind === 'BooleanType') return random(2) === 1;
  if (kind === 'UintNumberType') return random(2 ** Math.min(31, 8 * type.byteLength!));
  if (kind === 'UintBigintType') return BigInt(`0x${bytesToHex(bytes(random, type.byteLength!))}`);
  if (kind.startsWith('Vector')) return several(type.length!);
  if (/^(Progressive)?List/.test(kind)) return several(random(Math.min(3, (type.limit ?? 3) + 1)));
  // Sets of bits have a class of their own, which is hard to fill.
  return type.defaultValue();
}

/** The siblings on the way from a node up to the root, lowest first. */
function branchTo(node: Node, gindex: bigint): string[] {
  const branch: string[] = [];
  let at = node;
  for (const step of gindex.toString(2).slice(1)) {
    const [next, sibling] = step === '0' ? [at.left, at.right] : [at.right, at.left];
    branch.unshift(`0x${bytesToHex(sibling.root)}`);
    at = next;
  }
  return branch;
}
const branchOf = (type: Type, value: unknown, path: readonly string[]): string[] =>
  branchTo(type.toView(value).node, type.getPathInfo(path).gindex);

/** A block and its state, and the header that light clients get of it. */
function makeBlock(fork: BeaconFork, state: Value, random: Random) {
  const types = typesOf(fork);
  const body = randomOf(types.BeaconBlockBody!, random) as Value;
  const header = {
    slot: random(2 ** 31) + 1_000,
    proposerIndex: random(2 ** 31),
    parentRoot: bytes(random, 32),
    stateRoot: types.BeaconState!.hashTreeRoot(state),
    bodyRoot: types.BeaconBlockBody!.hashTreeRoot(body),
  };
  const beaconType = types.LightClientHeader!.fields!.beacon!;
  const beacon = beaconType.toJson(header);
  const root = bytesToHex(beaconType.hashTreeRoot(header));
  if (fork === 'gloas') {
    const path = ['signedExecutionPayloadBid', 'message', 'parentBlockHash'];
    const { message } = body.signedExecutionPayloadBid as { message: { parentBlockHash: Uint8Array } };
    const hash = `0x${bytesToHex(message.parentBlockHash)}`;
    const shown = { beacon, execution_branch: branchOf(types.BeaconBlockBody!, body, path), execution_block_hash: hash };
    return { root, hash, slot: header.slot, shown };
  }
  const payload = body.executionPayload as Value;
  const { transactions, withdrawals } = types.ExecutionPayload!.fields!;
  const execution = types.ExecutionPayloadHeader!.toJson({
    ...payload,
    transactionsRoot: transactions!.hashTreeRoot(payload.transactions),
    withdrawalsRoot: withdrawals!.hashTreeRoot(payload.withdrawals),
  });
  const hash = `0x${bytesToHex(payload.blockHash as Uint8Array)}`;
  const shown = { beacon, execution_branch: branchOf(types.BeaconBlockBody!, body, ['executionPayload']), execution };
  return { root, hash, slot: header.slot, shown };
}

/** What a beacon server of a fork answers to light clients about random blocks, and every root of it. */
export function makeCase(fork: BeaconFork, random: Random) {
  const types = typesOf(fork);
  const stateType = types.BeaconState!;
  const finalized = makeBlock(fork, randomOf(stateType, random) as Value, random);
  const state = randomOf(stateType, random) as Value;
  state.finalizedCheckpoint = { epoch: random(2 ** 31), root: Uint8Array.from(Buffer.from(finalized.root, 'hex')) };
  const block = makeBlock(fork, state, random);
  const committee = types.SyncCommittee!;
  const [version, genesis, domainType] = [bytes(random, 4), bytes(random, 32), Uint8Array.of(7, 0, 0, 0)];
  const forkData = ssz.phase0.ForkData.hashTreeRoot({ currentVersion: version, genesisValidatorsRoot: genesis });
  const domain = Uint8Array.from([...domainType, ...forkData.subarray(0, 28)]);
  const signed = ssz.phase0.SigningData.hashTreeRoot({ objectRoot: Uint8Array.from(Buffer.from(block.root, 'hex')), domain });
  const hex = (value: Uint8Array) => `0x${bytesToHex(value)}`;
  return {
    block,
    finalized,
    currentRoot: hex(committee.hashTreeRoot(state.currentSyncCommittee)),
    nextRoot: hex(committee.hashTreeRoot(state.nextSyncCommittee)),
    signing: { version, genesis, root: hex(signed) },
    committeeSize: ssz.altair.SyncCommittee.fields.pubkeys.length,
    bootstrap: {
      header: block.shown,
      current_sync_committee: committee.toJson(state.currentSyncCommittee),
      current_sync_committee_branch: branchOf(stateType, state, ['currentSyncCommittee']),
    },
    update: {
      attested_header: block.shown,
      next_sync_committee: committee.toJson(state.nextSyncCommittee),
      next_sync_committee_branch: branchOf(stateType, state, ['nextSyncCommittee']),
      finalized_header: finalized.shown,
      finality_branch: branchOf(stateType, state, ['finalizedCheckpoint', 'root']),
      sync_aggregate: { sync_committee_bits: hex(bytes(random, 4)), sync_committee_signature: hex(bytes(random, 96)) },
      signature_slot: String(block.slot + 1),
    },
  };
}
