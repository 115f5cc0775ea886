/** Tries and proofs against a second implementation: the same roots, the same values, the same absences, and the same refusals. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createMerkleProof, createMPT, verifyMerkleProof } from '@ethereumjs/mpt';
import { keccak_256 } from '@noble/hashes/sha3.js';
import fc from 'fast-check';
import { bytesOfHex, hexOfBytes } from '../../../test/kit/ethereum-data.ts';
import { stateOf } from '../../../test/kit/ethereum-state.ts';
import { encodeRlp, ProofError } from '../../evm/rlp.ts';
import { listRoot, provenValue, readAccountProof } from './trie.ts';

const keyOf = (index: number): Uint8Array =>
  encodeRlp(index === 0 ? new Uint8Array(0) : bytesOfHex(`0x${index.toString(16).length % 2 ? '0' : ''}${index.toString(16)}`));
const bytes = (min: number, max: number) => fc.uint8Array({ minLength: min, maxLength: max });
/** Values as short as one byte are inside their parents, and long ones are named by their hashes. */
const values = fc.array(fc.oneof(bytes(1, 4), bytes(28, 40), bytes(100, 300)), { maxLength: 300 });

test('lists of any length and any values have the same root', async () => {
  await fc.assert(
    fc.asyncProperty(values, async (list) => {
      const trie = await createMPT();
      for (const [i, value] of list.entries()) await trie.put(keyOf(i), value);
      assert.equal(hexOfBytes(listRoot(list)), hexOfBytes(trie.root()));
    }),
    { numRuns: 40 },
  );
});

/** What a proof shows: a value, its absence, or nothing. */
async function shown(read: () => Promise<Uint8Array | null> | Uint8Array | null): Promise<string> {
  try {
    const value = await read();
    return value === null ? 'absent' : hexOfBytes(value);
  } catch {
    return 'refused';
  }
}

test('proofs of values that are there and that are not show the same, and changed ones are refused', async () => {
  const entry = fc.tuple(bytes(1, 3), bytes(30, 80));
  await fc.assert(
    fc.asyncProperty(fc.array(entry, { minLength: 1, maxLength: 60 }), bytes(1, 3), fc.nat(), async (entries, other, bit) => {
      const trie = await createMPT({ useKeyHashing: true });
      for (const [key, value] of entries) await trie.put(key, value);
      const root = trie.root();
      for (const key of [entries[0]![0], other]) {
        const proof = await createMerkleProof(trie, key);
        const own = (nodes: readonly Uint8Array[]) => shown(() => provenValue({ root, key: keccak_256(key), proof: nodes }));
        assert.equal(await own(proof), await shown(() => trie.get(key)));
        const at = bit % proof.length;
        const changed = proof.with(at, Uint8Array.from(proof[at]!));
        changed[at]![bit % changed[at]!.length]! ^= 1 << (bit & 7);
        const theirs = await shown(() => verifyMerkleProof(key, changed, { useKeyHashing: true, root }));
        assert.deepEqual([await own(changed), theirs === 'refused' || theirs === 'absent'], ['refused', true]);
      }
    }),
    { numRuns: 60 },
  );
});

test('states of accounts have the same root, and their proofs are read by both', async () => {
  const account = fc.record({ balance: fc.bigInt({ min: 0n, max: 2n ** 100n }), nonce: fc.bigInt({ min: 0n, max: 9n }) });
  const address = bytes(20, 20).map((one) => hexOfBytes(one).slice(2));
  await fc.assert(
    fc.asyncProperty(fc.dictionary(address, account, { maxKeys: 20 }), address, async (accounts, other) => {
      const state = stateOf(accounts);
      const stateRoot = bytesOfHex(state.root);
      for (const key of [...Object.keys(accounts), other]) {
        const answer = state.prove(`0x${key}`);
        const read = readAccountProof(answer, { stateRoot, address: bytesOfHex(`0x${key}`), slots: [] });
        assert.deepEqual([read.account.balance, read.account.nonce], [accounts[key]?.balance ?? 0n, accounts[key]?.nonce ?? 0n]);
        if (answer.accountProof.length === 0) continue;
        const leaf = await verifyMerkleProof(bytesOfHex(`0x${key}`), answer.accountProof.map(bytesOfHex), {
          useKeyHashing: true,
          root: stateRoot,
        });
        assert.equal(leaf === null, !(key in accounts));
      }
      const wrong = state.prove(`0x${other}`);
      assert.throws(
        () => readAccountProof({ ...wrong, balance: '0x123' }, { stateRoot, address: bytesOfHex(`0x${other}`), slots: [] }),
        ProofError,
      );
    }),
    { numRuns: 40 },
  );
});
