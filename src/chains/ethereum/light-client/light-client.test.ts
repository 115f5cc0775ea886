/** Recorded and official updates of light clients: real ones are accepted, and no changed bit is. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { hexToBytes } from '@noble/hashes/utils.js';
import { createBeaconChain, smallNetwork } from '../../../../test/kit/beacon-chain.ts';
import { bytesOfHex, readEthereum } from '../../../../test/kit/ethereum-data.ts';
import { ProofError } from '../../../evm/rlp.ts';
import { type BeaconFork, type BeaconNetwork, MAINNET } from './beacon-networks.ts';
import { Equivocation, type LightState, readLightHeader, readUpdate, signingRoot, startFrom, takeUpdate } from './light-client.ts';

const LATE = 20_000_000;
const FORKS: readonly BeaconFork[] = ['capella', 'deneb', 'electra', 'fulu', 'gloas'];
/** The small chain of the official tests: every fork up to one begins at once. */
const minimal = (last: BeaconFork, genesisValidatorsRoot: string, gloasVersion = '07000001'): BeaconNetwork => ({
  genesisTime: 0,
  genesisValidatorsRoot: bytesOfHex(genesisValidatorsRoot),
  secondsPerSlot: 6,
  slotsPerEpoch: 8,
  epochsPerPeriod: 8,
  committeeSize: 32,
  forks: FORKS.slice(0, FORKS.indexOf(last) + 1).map((fork, i) => ({
    fork,
    version: hexToBytes(fork === 'gloas' ? gloasVersion : `0${i + 3}000001`),
    epoch: 0,
  })),
});

const FULU_ROOT = '0x9bcb90ec3a294591b77dd2a58e973578715cdc0e6eeeb286bc06dd120057f18b';
const data = (name: string) => {
  const read = readEthereum(name);
  return Array.isArray(read) ? read.map((entry) => entry.data) : read.data;
};
const take = (network: BeaconNetwork, state: LightState, update: unknown, slot = LATE) =>
  takeUpdate(network, state, readUpdate(network, update), slot);

test('from a checkpoint of mainnet to the head that its committee signed', () => {
  let state = startFrom(MAINNET, FULU_ROOT, data('light-fulu-bootstrap'));
  assert.equal(state.finalized.executionHash, '0x701130a5329507e6521e6b18f2e1ff841afbde4ebbc4d3b624d7f3f1e2733375');
  // It attests a slot before the checkpoint, and brings the committee of the next period.
  state = take(MAINNET, state, data('light-fulu-updates')[0]);
  assert.notEqual(state.next, null);
  state = take(MAINNET, state, data('light-fulu-finality_update'));
  assert.deepEqual([state.finalized.slot, state.optimistic.slot], [14_017_952, 14_018_019]);
  assert.equal(state.finalized.executionHash, readEthereum('block-24784163-rpc').hash);
  const head = take(MAINNET, state, data('light-fulu-optimistic_update'));
  assert.ok(head.optimistic.slot >= state.optimistic.slot);
  assert.equal(take(MAINNET, head, data('light-fulu-finality_update')), head, 'what is known changes nothing');
});

test('committees hand over through six periods', () => {
  const bootstrap = data('light-capella-bootstrap');
  let state = startFrom(MAINNET, readLightHeader(MAINNET, bootstrap.header).root, bootstrap);
  const slots = data('light-capella-updates').map((update: unknown) => {
    state = take(MAINNET, state, update);
    return state.finalized.slot;
  });
  assert.equal(slots.length, 6);
  state = take(MAINNET, state, data('light-capella-finality_update'));
  state = take(MAINNET, state, data('light-capella-optimistic_update'));
  assert.deepEqual(
    slots.map((slot: number) => Math.floor(slot / 8192)),
    [862, 863, 864, 865, 866, 867],
  );
});

test('the first header of Electra proves its block', () => {
  // Recorded with numbers where servers send text.
  const asSent = JSON.parse(
    JSON.stringify(readEthereum('light-electra-header'), (_, value) => (typeof value === 'number' ? String(value) : value)),
  );
  assert.equal(readLightHeader(MAINNET, asSent).executionHash, readEthereum('block-22431084').hash);
});

test('signing roots contain the fork of the slot before', () => {
  const { attested, signatureSlot } = readUpdate(MAINNET, data('light-fulu-finality_update'));
  const root = signingRoot(MAINNET, { root: hexToBytes(attested.root), signatureSlot });
  assert.equal(Buffer.from(root).toString('hex'), '58f31b4988e7e4085e81f602edf2031e1e6b1401ca8d57af00e3d9339e02c38c');
});

for (const fork of ['deneb', 'electra'] as const)
  for (const name of ['light-client-sync', 'supply-sync-committee-from-past-update', 'advance-finality-without-sync-committee'])
    test(`official steps: ${fork}, ${name}`, () => {
      const { meta, steps, bootstrap, updates } = readEthereum(`light-spec-${fork}-${name}`);
      const network = minimal(fork, meta.genesis_validators_root);
      let state = startFrom(network, meta.trusted_block_root, bootstrap);
      let taken = 0;
      for (const { process_update: step } of steps) {
        // Florin never takes an unfinished block for final: from here on it holds, and the rest does not apply.
        if (!step) break;
        state = take(network, state, updates[step.update], step.current_slot);
        for (const [mine, theirs] of [
          [state.finalized, step.checks.finalized_header],
          [state.optimistic, step.checks.optimistic_header],
        ])
          assert.deepEqual([mine.slot, `0x${mine.root}`], [theirs.slot, theirs.beacon_root], step.update);
        taken++;
      }
      assert.ok(taken > 0);
    });

const GLOAS = readEthereum('light-gloas');
const gloas = (slotsBefore = 0) => {
  const network = minimal('gloas', GLOAS.genesis_validators_root, GLOAS.fork_version.slice(2));
  return slotsBefore === 0 ? network : { ...network, forks: network.forks.map((fork) => ({ ...fork, epoch: slotsBefore })) };
};
test('Gloas: the beacon block proves the execution block before it', () => {
  const network = gloas();
  let state = startFrom(network, GLOAS.trusted_block_root, GLOAS.bootstrap);
  assert.equal(state.finalized.executionHash, GLOAS.execution_block_hashes.bootstrap);
  state = take(network, state, GLOAS.update, 100);
  assert.deepEqual(
    [state.finalized.executionHash, state.optimistic.executionHash],
    [GLOAS.execution_block_hashes.finalized, GLOAS.execution_block_hashes.attested],
  );
});

/** Every text of hex or digits in a JSON value, with a way to change it. */
function* leavesOf(value: any, path = ''): Generator<{ path: string; text: string; set: (text: string) => void }> {
  for (const key of Object.keys(value)) {
    const here = `${path}.${key}`;
    if (typeof value[key] === 'object' && value[key] !== null) yield* leavesOf(value[key], here);
    else if (typeof value[key] === 'string')
      yield {
        path: here,
        text: value[key],
        set: (text) => {
          value[key] = text;
        },
      };
  }
}
/** The text with one bit of one digit changed. */
function changed(text: string, seed: number): string {
  const at = text.startsWith('0x') ? 2 + (seed % (text.length - 2)) : seed % text.length;
  const digit = text.startsWith('0x')
    ? (Number.parseInt(text[at]!, 16) ^ (1 << (seed % 4))).toString(16)
    : String((Number(text[at]) + 1) % 10);
  return text.slice(0, at) + digit + text.slice(at + 1);
}

test('no changed digit of an update or a bootstrap is accepted', () => {
  const network = gloas();
  const start = startFrom(network, GLOAS.trusted_block_root, GLOAS.bootstrap);
  const after = take(network, start, GLOAS.update, 100);
  let tried = 0;
  for (const [i, { path }] of [...leavesOf(GLOAS.update)].entries()) {
    const update = structuredClone(GLOAS.update);
    const leaf = [...leavesOf(update)][i]!;
    leaf.set(changed(leaf.text, 7 * i + 3));
    // A later slot of the signature is signed the same, within one fork.
    if (path === '.signature_slot') continue;
    assert.throws(() => take(network, start, update, 100), ProofError, path);
    tried++;
  }
  for (const [i, { path }] of [...leavesOf(GLOAS.bootstrap)].entries()) {
    const bootstrap = structuredClone(GLOAS.bootstrap);
    const leaf = [...leavesOf(bootstrap)][i]!;
    leaf.set(changed(leaf.text, 5 * i + 1));
    assert.throws(() => startFrom(network, GLOAS.trusted_block_root, bootstrap), ProofError, path);
    tried++;
  }
  assert.equal(tried, [...leavesOf(GLOAS.update), ...leavesOf(GLOAS.bootstrap)].length - 1);
  assert.deepEqual(take(network, start, GLOAS.update, 100), after);
});

test('what a fork, a moment or a form does not allow is refused', () => {
  const network = gloas();
  const start = startFrom(network, GLOAS.trusted_block_root, GLOAS.bootstrap);
  const refused = (change: (update: any) => void, { on = network, slot = 100 } = {}) => {
    const update = structuredClone(GLOAS.update);
    change(update);
    assert.throws(() => take(on, start, update, slot), ProofError);
  };
  refused(() => {}, { slot: 88 });
  refused(() => {}, { on: minimal('fulu', GLOAS.genesis_validators_root) });
  refused(() => {}, { on: minimal('gloas', `0x${'22'.repeat(32)}`, '07000001') });
  refused(() => {}, { on: minimal('gloas', GLOAS.genesis_validators_root, '07000002') });
  refused(() => {}, { on: gloas(1000) });
  refused((update) => {
    update.signature_slot = '88';
  });
  refused(
    (update) => {
      update.signature_slot = '200';
    },
    { slot: 300 },
  );
  // Too few of them: the signature does not even matter.
  refused((update) => {
    update.sync_aggregate.sync_committee_bits = '0xffff0700';
  });
  refused((update) => {
    update.next_sync_committee.pubkeys.pop();
  });
  refused((update) => {
    update.finality_branch = update.finality_branch.slice(1);
  });
  refused((update) => {
    update.finality_branch = update.finality_branch.map(() => `0x${'00'.repeat(32)}`);
  });
  refused((update) => {
    update.next_sync_committee_branch = update.next_sync_committee_branch.map(() => `0x${'00'.repeat(32)}`);
  });
  for (const strange of [null, 7, 'text', [], { attested_header: {} }, { attested_header: { beacon: null } }])
    assert.throws(() => readUpdate(network, strange), ProofError);
});

const hash = (byte: number) => `0x${byte.toString(16).padStart(2, '0').repeat(32)}`;
/** A small chain that has been final in the present period, with the committee of the next one known or not. */
function begun(forks: Partial<Record<BeaconFork, number>> = { fulu: 0 }) {
  const chain = createBeaconChain(smallNetwork(forks));
  const first = chain.header(64, hash(1));
  const state = startFrom(chain.network, first.root, chain.bootstrap(first));
  const next = (of = state) => {
    const finalized = chain.header(72, hash(2));
    return take(chain.network, of, chain.update(chain.header(90, hash(3), { finalized }), { finalized, withNext: true }));
  };
  return { chain, first, state, next };
}

test('two thirds of the committee are enough, one less is not', () => {
  const { chain, state } = begun();
  const attested = chain.header(90, hash(3));
  const absent = (count: number) => Array.from({ length: count }, (_, i) => 3 * i);
  assert.equal(take(chain.network, state, chain.update(attested, { absent: absent(10) })).optimistic.executionHash, hash(3));
  assert.throws(() => take(chain.network, state, chain.update(attested, { absent: absent(11) })), ProofError);
  // Members whose bit is set but who did not sign.
  const forged = chain.update(attested, { absent: absent(10) });
  forged.sync_aggregate.sync_committee_bits = '0xffffffff';
  assert.throws(() => take(chain.network, state, forged), ProofError);
});

test('only the committee of the period signs, and committees follow one another', () => {
  const { chain, state, next } = begun();
  const of = (slot: number, more: Parameters<typeof chain.update>[1] = {}) => chain.update(chain.header(slot, hash(4)), more);
  const strangers = chain.committee(1, 5);
  assert.throws(() => take(chain.network, state, of(91, { by: strangers })), ProofError, 'strangers');
  assert.throws(() => take(chain.network, state, of(91, { by: chain.committee(2) })), ProofError, 'that of the next period');
  assert.throws(() => take(chain.network, state, of(130)), ProofError, 'the next committee is not known yet');
  const ready = next();
  assert.equal(take(chain.network, ready, of(130)).optimistic.slot, 130);
  assert.throws(() => take(chain.network, ready, of(130, { by: chain.committee(1) })), ProofError, 'the old committee in the new period');
  assert.throws(() => take(chain.network, ready, of(200)), ProofError, 'two periods later');

  const finalized = chain.header(130, hash(5));
  const handed = take(chain.network, ready, chain.update(chain.header(150, hash(6), { finalized }), { finalized, withNext: true }));
  assert.deepEqual([handed.finalized.slot, handed.current.aggregate], [130, ready.next!.aggregate]);
  assert.equal(take(chain.network, handed, of(200)).optimistic.slot, 200);
});

test('a next committee that differs from the known one is refused', () => {
  const { chain, next } = begun();
  const ready = next();
  const finalized = chain.header(80, hash(5), { seed: 5 });
  // The state of the attested block names strangers, and the real committee signs it.
  const attested = chain.header(100, hash(6), { finalized, seed: 5 });
  assert.throws(
    () => take(chain.network, ready, chain.update(attested, { finalized, withNext: true, seed: 5, by: chain.committee(1) })),
    ProofError,
  );
});

test('a finalized block of another branch with a valid signature stops everything', () => {
  const { chain, next } = begun();
  const ready = next();
  const other = chain.header(72, hash(9));
  const attested = chain.header(100, hash(6), { finalized: other });
  assert.throws(() => take(chain.network, ready, chain.update(attested, { finalized: other })), Equivocation);
  // Without a valid signature it is only a lie.
  assert.throws(() => take(chain.network, ready, chain.update(attested, { finalized: other, by: chain.committee(1, 5) })), ProofError);
});

test('forks move the proofs and change what is signed', () => {
  const forks = { deneb: 0, electra: 10, fulu: 12, gloas: 14 };
  const { chain, next } = begun(forks);
  let state = next();
  for (const slot of [80, 95, 96, 111, 112, 113]) {
    const finalized = chain.header(slot - 7, hash(slot));
    const attested = chain.header(slot, hash(slot + 1), { finalized });
    // The fork is that of the slot before the signature, not of the attested block.
    const wrong = { ...chain.network, forks: chain.network.forks.map((fork) => ({ ...fork, epoch: fork.fork === 'deneb' ? 0 : 1_000 })) };
    if (slot >= 80)
      assert.throws(() => take(chain.network, state, chain.update(attested, { finalized, on: wrong })), ProofError, `${slot}`);
    state = take(chain.network, state, chain.update(attested, { finalized }));
    assert.equal(state.optimistic.executionHash, slot <= 90 ? hash(3) : hash(slot + 1));
  }
});

test('a branch of the depth before a fork is refused after it', () => {
  const { chain, state } = begun({ deneb: 0, electra: 11 });
  const finalized = chain.header(72, hash(2));
  const attested = chain.header(90, hash(3), { finalized });
  const update = chain.update(attested, { finalized });
  take(chain.network, state, update);
  update.finality_branch = update.finality_branch!.slice(1);
  assert.throws(() => take(chain.network, state, update), ProofError);
  update.finality_branch = [hash(0), hash(0), ...chain.update(attested, { finalized }).finality_branch!];
  take(chain.network, state, update);
  update.finality_branch[0] = hash(1);
  assert.throws(() => take(chain.network, state, update), ProofError);
});
