/**
 * The same random beacon blocks, states and committees of every fork by a second implementation (recorded from @lodestar/types 1.50.0 and
 * @chainsafe/ssz 1.9.0): all containers have the same roots, and its branches lead to them.
 */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { hexToBytes } from '@noble/hashes/utils.js';
import { createRandom, flipOne } from '../../../../test/kit/eth-forgeries.ts';
import { bytesOfHex, hexOfBytes, readEthereum } from '../../../../test/kit/ethereum-data.ts';
import { ProofError } from '../proof-values.ts';
import { BEACON_FORKS, type BeaconNetwork } from './beacon-networks.ts';
import { readUpdate, startFrom } from './light-client.ts';
import { committeeRoot, signingRoot } from './sync-committee.ts';

/** A file of the same form may have far more of them. */
const FILE = process.argv.find((one) => one.endsWith('.json'));
const { size, cases } = FILE ? JSON.parse(readFileSync(FILE, 'utf8')) : readEthereum('light-second-ssz');

/** A network that is at one fork from its first slot on. */
const networkAt = (fork: string, { version, genesis }: { version: string; genesis: string }): BeaconNetwork => ({
  ...{ genesisTime: 0, secondsPerSlot: 12, slotsPerEpoch: 32, epochsPerPeriod: 256, committeeSize: size },
  genesisValidatorsRoot: bytesOfHex(genesis),
  forks: BEACON_FORKS.slice(0, BEACON_FORKS.indexOf(fork as 'fulu') + 1).map((one) => ({
    fork: one,
    version: bytesOfHex(version),
    epoch: 0,
  })),
});

test('containers, branches and signing roots of every fork are those of the second implementation', () => {
  assert.deepEqual(new Set(cases.map((one: { fork: string }) => one.fork)), new Set(BEACON_FORKS));
  for (const [i, one] of cases.entries()) {
    const network = networkAt(one.fork, one.signing);
    const state = startFrom(network, one.root, one.bootstrap);
    assert.equal(hexOfBytes(committeeRoot(state.current)), one.current_root);
    const { attested, finalized, next, signatureSlot } = readUpdate(network, one.update);
    assert.deepEqual([attested.root, attested.executionHash, attested.fork, attested.slot], [one.root, one.hash, one.fork, one.slot]);
    assert.deepEqual([finalized!.root, finalized!.executionHash], [one.final_root, one.final_hash]);
    assert.equal(hexOfBytes(committeeRoot(next!)), one.next_root);
    assert.equal(hexOfBytes(signingRoot(network, { root: hexToBytes(attested.root), signatureSlot })), one.signing.root);
    // Any changed digit leads elsewhere, or to another block than the one that is signed.
    const { sync_aggregate: _, signature_slot: __, ...covered } = one.update;
    const changed = flipOne(covered, createRandom(i + 1)) as object;
    let root: string | null = null;
    try {
      root = readUpdate(network, { ...one.update, ...changed }).attested.root;
    } catch (error) {
      assert.ok(error instanceof ProofError, String(error));
    }
    assert.notEqual(root, one.root);
  }
});
