/**
 * Random beacon blocks, states and committees of every fork by a second implementation: all containers have the same roots, and its branches
 * lead to them.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { hexToBytes } from '@noble/hashes/utils.js';
import { createRandom, flipOne } from '../../../../test/kit/eth-forgeries.ts';
import { hexOfBytes } from '../../../../test/kit/ethereum-data.ts';
import { makeCase } from '../../../../test/kit/second-ssz.ts';
import { ProofError } from '../../../evm/rlp.ts';
import { BEACON_FORKS, type BeaconFork, type BeaconNetwork } from './beacon-networks.ts';
import { committeeRoot, readUpdate, signingRoot, startFrom } from './light-client.ts';

const CASES = process.env.FLORIN_LONG ? 500 : 5;

/** A network that is at one fork from its first slot on. */
const networkAt = (fork: BeaconFork, { signing, committeeSize }: ReturnType<typeof makeCase>): BeaconNetwork => ({
  ...{ genesisTime: 0, secondsPerSlot: 12, slotsPerEpoch: 32, epochsPerPeriod: 256, committeeSize },
  genesisValidatorsRoot: signing.genesis,
  forks: BEACON_FORKS.slice(0, BEACON_FORKS.indexOf(fork) + 1).map((one) => ({ fork: one, version: signing.version, epoch: 0 })),
});

for (const fork of BEACON_FORKS)
  test(`${fork}: containers, branches and signing roots are those of the second implementation, ${CASES} times`, (t) => {
    const seed = Math.floor(Math.random() * 2 ** 31);
    t.diagnostic(`seed ${seed}`);
    const random = createRandom(seed);
    for (let i = 0; i < CASES; i++) {
      const one = makeCase(fork, random);
      const network = networkAt(fork, one);
      const state = startFrom(network, one.block.root, one.bootstrap);
      assert.equal(hexOfBytes(committeeRoot(state.current)), one.currentRoot);
      const { attested, finalized, next, signatureSlot } = readUpdate(network, one.update);
      assert.deepEqual(
        [attested.root, attested.executionHash, attested.fork, attested.slot],
        [one.block.root, one.block.hash, fork, one.block.slot],
      );
      assert.deepEqual([finalized!.root, finalized!.executionHash], [one.finalized.root, one.finalized.hash]);
      assert.equal(hexOfBytes(committeeRoot(next!)), one.nextRoot);
      assert.equal(hexOfBytes(signingRoot(network, { root: hexToBytes(attested.root), signatureSlot })), one.signing.root);
      // Any changed digit leads elsewhere, or to another block than the one that is signed.
      const { sync_aggregate: _, signature_slot: __, ...covered } = one.update;
      const changed = flipOne(covered, createRandom(seed + i)) as object;
      let root: string | null = null;
      try {
        root = readUpdate(network, { ...one.update, ...changed }).attested.root;
      } catch (error) {
        assert.ok(error instanceof ProofError, String(error));
      }
      assert.notEqual(root, one.block.root);
    }
  });
