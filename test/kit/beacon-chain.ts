/**
 * A beacon chain with its own sync committees over any execution blocks, and its servers for light clients. The keys are known, so that
 * tests can sign what is true and what is not.
 */
import { bls12_381 } from '@noble/curves/bls12-381.js';
import { bytesToHex, hexToBytes } from '@noble/hashes/utils.js';
import {
  type BeaconFork,
  type BeaconNetwork,
  committeePeriod,
  forkAt,
  PLACES,
} from '../../src/chains/ethereum/light-client/beacon-networks.ts';
import { committeeRoot, readLightHeader, signingRoot } from '../../src/chains/ethereum/light-client/light-client.ts';
import { numberLeaf, rootOf, sha256 } from '../../src/chains/ethereum/light-client/ssz.ts';
import { serve } from './serve.ts';

const bls = bls12_381.longSignatures;
const { Fr } = bls12_381.fields;
const ZERO_HASH = `0x${'00'.repeat(32)}`;
const hex = (bytes: Uint8Array): string => `0x${bytesToHex(bytes)}`;

/** A small network: 32 keys, 8 slots an epoch, 8 epochs a period. `forks`: the epochs of the forks that it has. */
export const smallNetwork = (forks: Partial<Record<BeaconFork, number>>, more: Partial<BeaconNetwork> = {}): BeaconNetwork => ({
  genesisTime: 0,
  genesisValidatorsRoot: sha256(Buffer.from('a small network')),
  secondsPerSlot: 6,
  slotsPerEpoch: 8,
  epochsPerPeriod: 8,
  committeeSize: 32,
  forks: (['capella', 'deneb', 'electra', 'fulu', 'gloas'] as const).flatMap((fork, i) =>
    forks[fork] === undefined ? [] : [{ fork, version: new Uint8Array([i + 3, 0, 0, 1]), epoch: forks[fork] }],
  ),
  ...more,
});

/** A tree of which only some values are given, by generalized index; all other nodes are made up. */
function tree(values: ReadonlyMap<number, Uint8Array>) {
  const above = new Set(
    [...values.keys()].flatMap((index) => Array.from({ length: Math.floor(Math.log2(index)) }, (_, i) => index >> (i + 1))),
  );
  const node = (index: number): Uint8Array => {
    const value = values.get(index);
    if (value) return value;
    return above.has(index) ? sha256(Buffer.concat([node(2 * index), node(2 * index + 1)])) : sha256(Buffer.from(`node ${index}`));
  };
  return {
    root: node(1),
    /** Siblings from the value up to the root. */
    branch: (index: number): string[] => Array.from({ length: Math.floor(Math.log2(index)) }, (_, i) => hex(node((index >> i) ^ 1))),
  };
}

type Committee = { json: { pubkeys: string[]; aggregate_pubkey: string }; secrets: bigint[]; root: Uint8Array };
export type MadeHeader = { json: any; slot: number; root: string; tree: ReturnType<typeof tree>; fork: BeaconFork };

export function createBeaconChain(network: BeaconNetwork) {
  const committees = new Map<number, Committee>();
  /** The committee of a period. Those of other seeds are strangers. */
  const committee = (period: number, seed = 0): Committee => {
    const id = seed * 1_000 + period;
    const known = committees.get(id);
    if (known) return known;
    const secrets = Array.from({ length: network.committeeSize }, (_, i) => BigInt(id * network.committeeSize + i + 1));
    const points = secrets.map((secret) => bls12_381.G1.Point.BASE.multiply(secret));
    const keys = points.map((point) => point.toBytes(true));
    const aggregate = points.reduce((sum, point) => sum.add(point)).toBytes(true);
    const made = {
      json: { pubkeys: keys.map(hex), aggregate_pubkey: hex(aggregate) },
      secrets,
      root: committeeRoot({ keys, aggregate }),
    };
    committees.set(id, made);
    return made;
  };

  /** A beacon block over an execution block. `finalized`: the block that it calls final. */
  const header = (
    slot: number,
    executionHash: string,
    { finalized, seed = 0 }: { finalized?: MadeHeader; seed?: number } = {},
  ): MadeHeader => {
    const { fork } = forkAt(network, slot)!;
    const places = PLACES[fork];
    const period = committeePeriod(network, slot);
    const state = tree(
      new Map([
        [places.currentCommittee, committee(period, seed).root],
        [places.nextCommittee, committee(period + 1, seed).root],
        [places.finalizedRoot, finalized ? hexToBytes(finalized.root) : new Uint8Array(32)],
      ]),
    );
    const execution = {
      ...Object.fromEntries(
        ['parent_hash', 'state_root', 'receipts_root', 'prev_randao', 'transactions_root', 'withdrawals_root'].map((name) => [
          name,
          ZERO_HASH,
        ]),
      ),
      ...Object.fromEntries(
        ['block_number', 'gas_limit', 'gas_used', 'timestamp', 'base_fee_per_gas', 'blob_gas_used', 'excess_blob_gas'].map((name) => [
          name,
          '0',
        ]),
      ),
      fee_recipient: `0x${'00'.repeat(20)}`,
      logs_bloom: `0x${'00'.repeat(256)}`,
      extra_data: '0x',
      block_hash: executionHash,
    };
    const leaf = fork === 'gloas' ? hexToBytes(executionHash.slice(2)) : executionLeaf(executionHash, fork);
    const body = tree(new Map([[places.execution, leaf]]));
    const beacon = {
      slot: String(slot),
      proposer_index: '7',
      parent_root: ZERO_HASH,
      state_root: hex(state.root),
      body_root: hex(body.root),
    };
    const json = {
      beacon,
      ...(fork === 'gloas' ? { execution_block_hash: executionHash } : { execution }),
      execution_branch: body.branch(places.execution),
    };
    return { json, slot, root: readLightHeader(network, json).root, tree: state, fork };
  };

  /** A signed update. `absent`: members that did not sign; `by`: the committee that signs. */
  const update = (
    attested: MadeHeader,
    {
      finalized,
      withNext = false,
      signatureSlot = attested.slot + 1,
      absent = [],
      seed = 0,
      by = committee(committeePeriod(network, signatureSlot), seed),
      on = network,
    }: {
      finalized?: MadeHeader;
      withNext?: boolean;
      signatureSlot?: number;
      absent?: number[];
      seed?: number;
      by?: Committee;
      on?: BeaconNetwork;
    } = {},
  ) => {
    const places = PLACES[attested.fork];
    const bits = new Uint8Array(network.committeeSize / 8);
    const signers = by.secrets.filter((_, i) => !absent.includes(i));
    for (const i of by.secrets.keys()) if (!absent.includes(i)) bits[i >> 3]! |= 1 << (i & 7);
    const secret = signers.reduce((sum, one) => Fr.add(sum, one), 0n);
    const message = bls.hash(
      signingRoot(on, { root: hexToBytes(attested.root), signatureSlot }),
      'BLS_SIG_BLS12381G2_XMD:SHA-256_SSWU_RO_POP_',
    );
    return {
      attested_header: attested.json,
      ...(withNext && {
        next_sync_committee: committee(committeePeriod(network, attested.slot) + 1, seed).json,
        next_sync_committee_branch: attested.tree.branch(places.nextCommittee),
      }),
      ...(finalized && { finalized_header: finalized.json, finality_branch: attested.tree.branch(places.finalizedRoot) }),
      sync_aggregate: { sync_committee_bits: hex(bits), sync_committee_signature: hex(message.multiply(secret).toBytes(true)) },
      signature_slot: String(signatureSlot),
    };
  };
  const bootstrap = (at: MadeHeader, seed = 0) => ({
    header: at.json,
    current_sync_committee: committee(committeePeriod(network, at.slot), seed).json,
    current_sync_committee_branch: at.tree.branch(PLACES[at.fork].currentCommittee),
  });
  return { network, committee, header, update, bootstrap };
}
export type BeaconChain = ReturnType<typeof createBeaconChain>;

/** hash_tree_root of an execution header that is zero except for its hash. */
function executionLeaf(executionHash: string, fork: BeaconFork): Uint8Array {
  const zero: Uint8Array = new Uint8Array(32);
  const leaves = Array.from({ length: fork === 'capella' ? 15 : 17 }, () => zero);
  leaves[4] = rootOf([], 3);
  leaves[10] = rootOf([zero, numberLeaf(0n)], 1);
  leaves[12] = hexToBytes(executionHash.slice(2));
  return rootOf(leaves, fork === 'capella' ? 4 : 5);
}

export type BeaconAnswers = { bootstrap?: unknown; updates?: unknown[]; finality?: unknown; optimistic?: unknown; version?: string };
export type BeaconServer = { url: string; asked: string[]; serve(answers: BeaconAnswers): void; stop(): Promise<void> };

/** A server of the Beacon API. What it has not, it answers with 404. */
export async function startBeaconServer(): Promise<BeaconServer> {
  let answers: BeaconAnswers = {};
  const asked: string[] = [];
  const { url, stop } = await serve((request, reply) => {
    const path = new URL(request.url!, 'http://localhost').pathname.replace('/eth/v1/beacon/light_client/', '');
    asked.push(path);
    const found = path.startsWith('bootstrap/')
      ? answers.bootstrap
      : { updates: answers.updates, finality_update: answers.finality, optimistic_update: answers.optimistic }[path];
    if (found === undefined) return void reply.writeHead(404).end('{}');
    const { version = 'fulu' } = answers;
    const body = path === 'updates' ? (found as unknown[]).map((data) => ({ version, data })) : { version, data: found };
    reply.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(body));
  });
  return {
    url,
    asked,
    serve: (next) => {
      answers = next;
    },
    stop,
  };
}
