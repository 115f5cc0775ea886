/** Proofs of accounts and storage from nodes: recorded ones are accepted, and no changed byte is. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { keccak_256 } from '@noble/hashes/sha3.js';
import { concatBytes } from '@noble/hashes/utils.js';
import fc from 'fast-check';
import { bytesOfHex, flipBit, hexOfBytes, readEthereum, sampled } from '../../../test/kit/ethereum-data.ts';
import { encodeRlp, ProofError, type Rlp } from '../../evm/rlp.ts';
import { EMPTY_CODE, EMPTY_ROOT, readAccountProof } from './trie.ts';

type Answer = {
  address: string;
  accountProof: string[];
  balance: string;
  nonce: string;
  codeHash: string;
  storageHash: string;
  storageProof: { key: string; value: string; proof: string[] }[];
};
type Case = { name: string; stateRoot: string; answer: Answer };
const CASES: Case[] = [
  'dev-chain',
  'mainnet-23223655-weth',
  'mainnet-eth_call',
  'sepolia-eth_getBalance_contract',
  'sepolia-eth_getBalance_eoa',
].flatMap((name): Case[] => {
  const { stateRoot, block, proof, proofs } = readEthereum(`proof-${name}`);
  return (proofs ?? [proof]).map((answer: Answer) => ({ name, stateRoot: stateRoot ?? block.stateRoot, answer }));
});
const [DEV, WETH] = CASES as [Case, Case];

const ask = ({ stateRoot, answer }: Omit<Case, 'name'>, asked: Answer = answer) =>
  readAccountProof(answer, {
    stateRoot: bytesOfHex(stateRoot),
    address: bytesOfHex(asked.address),
    slots: asked.storageProof.map(({ key }) => BigInt(key)),
  });
const refuse = (one: Case, change: Partial<Answer>, why?: string) =>
  assert.throws(() => ask({ ...one, answer: { ...one.answer, ...change } }, one.answer), ProofError, why);

for (const [i, one] of CASES.entries())
  test(`the recorded proof ${one.name} (${i + 1}) is accepted`, () => {
    const { account, slots } = ask(one);
    const { answer } = one;
    assert.deepEqual(
      [account.nonce, account.balance, hexOfBytes(account.storageRoot), hexOfBytes(account.codeHash)],
      [BigInt(answer.nonce), BigInt(answer.balance), answer.storageHash, answer.codeHash],
    );
    assert.deepEqual(
      slots,
      answer.storageProof.map(({ key, value }) => ({ slot: BigInt(key), value: BigInt(value) })),
    );
  });

const { absent, stateRoot: DEV_ROOT } = readEthereum('proof-dev-chain') as { absent: Answer[]; stateRoot: string };
const NOTHING = { balance: '0x0', nonce: '0x0', storageHash: hexOfBytes(EMPTY_ROOT), codeHash: hexOfBytes(EMPTY_CODE), storageProof: [] };
test('an account that does not exist is proven to have nothing, in both forms that nodes send', () => {
  const zeros = `0x${'00'.repeat(32)}`;
  for (const one of absent)
    for (const form of [{}, { storageHash: zeros, codeHash: zeros }]) {
      const { account } = ask({ stateRoot: DEV_ROOT, answer: { ...one, ...NOTHING, ...form } });
      assert.deepEqual(account, { nonce: 0n, balance: 0n, storageRoot: EMPTY_ROOT, codeHash: EMPTY_CODE });
    }
  const none = { name: 'none', stateRoot: DEV_ROOT, answer: { ...absent[0]!, ...NOTHING } };
  refuse(none, { balance: '0x1' });
  refuse(none, { nonce: '0x1' });
  refuse(none, { storageHash: DEV.answer.storageHash });
  refuse(DEV, { ...NOTHING, accountProof: absent[0]!.accountProof });
  refuse(DEV, { storageHash: zeros });
});

test('a changed byte in any node of a proof is refused', () => {
  for (const one of CASES) {
    const every = one === DEV ? 2 : 61;
    for (const [n, node] of one.answer.accountProof.entries())
      for (const at of sampled([...bytesOfHex(node).keys()], every))
        refuse(
          one,
          { accountProof: one.answer.accountProof.with(n, flipBit(node, at * 8 + (at % 8))) },
          `${one.name}, node ${n}, byte ${at}`,
        );
    for (const [s, slot] of one.answer.storageProof.entries())
      for (const [n, node] of slot.proof.entries())
        for (const at of sampled([...bytesOfHex(node).keys()], every)) {
          const changed = { ...slot, proof: slot.proof.with(n, flipBit(node, at * 8 + (at % 8))) };
          refuse(one, { storageProof: one.answer.storageProof.with(s, changed) }, `${one.name}, slot ${s}, node ${n}, byte ${at}`);
        }
  }
});

test('every changed bit of what the answer says beside its proof is refused', () => {
  for (const one of sampled([DEV, WETH], 2)) {
    const { answer } = one;
    for (const name of ['balance', 'nonce'] as const)
      for (let bit = 0; bit < 64; bit++) refuse(one, { [name]: `0x${(BigInt(answer[name]) ^ (1n << BigInt(bit))).toString(16)}` }, name);
    for (const name of ['address', 'storageHash', 'codeHash'] as const)
      for (let bit = 0; bit < (answer[name].length - 2) * 4; bit++) refuse(one, { [name]: flipBit(answer[name], bit) }, `${name} ${bit}`);
    const [slot] = answer.storageProof as [Answer['storageProof'][0]];
    for (let bit = 0n; bit < 256n; bit++) {
      const flip = (value: string) => `0x${(BigInt(value) ^ (1n << bit)).toString(16)}`;
      refuse(one, { storageProof: [{ ...slot, value: flip(slot.value) }] }, `value ${bit}`);
      refuse(one, { storageProof: [{ ...slot, key: flip(slot.key) }] }, `slot ${bit}`);
    }
  }
});

test('a proof of another account, state, slot or order is refused', () => {
  const [slot] = WETH.answer.storageProof as [Answer['storageProof'][0]];
  refuse(WETH, { accountProof: DEV.answer.accountProof });
  assert.throws(() => ask({ stateRoot: DEV.stateRoot, answer: WETH.answer }), ProofError);
  assert.throws(() => ask(WETH, { ...WETH.answer, address: DEV.answer.address }), /another account/);
  refuse(WETH, { storageProof: [] });
  refuse(WETH, { storageProof: [slot, slot] });
  refuse(WETH, { storageProof: [{ ...slot, proof: DEV.answer.storageProof[0]!.proof }] });
  refuse(WETH, { storageProof: [{ ...slot, proof: [] }] });
  // The right key with a proof that ends early would show nothing.
  refuse(WETH, { storageProof: [{ ...slot, value: '0x0', proof: slot.proof.slice(0, -1) }] });
});

test('a proof of other slots than those asked for is refused', () => {
  const { answer, stateRoot } = WETH;
  const asked = { stateRoot: bytesOfHex(stateRoot), address: bytesOfHex(answer.address) };
  for (const slots of [[], [1n], [BigInt(answer.storageProof[0]!.key), 1n]])
    assert.throws(() => readAccountProof(answer, { ...asked, slots }), /other storage slots/);
});

/** A trie with one leaf, and its proof. */
function trieOf(key: Uint8Array, value: Rlp): { root: Uint8Array; proof: string[] } {
  const node = encodeRlp([concatBytes(Uint8Array.of(0x20), keccak_256(key)), encodeRlp(value)]);
  return { root: keccak_256(node), proof: [hexOfBytes(node)] };
}

test('numbers that no state contains are refused, although their roots fit', () => {
  const address = new Uint8Array(20).fill(1);
  const word = new Uint8Array(32);
  const read = ({ nonce = [1], balance = [2], stored = [3] }: { nonce?: number[]; balance?: number[]; stored?: number[] }, length = 4) => {
    const storage = trieOf(word, Uint8Array.from(stored));
    const account = trieOf(address, [Uint8Array.from(nonce), Uint8Array.from(balance), storage.root, EMPTY_CODE].slice(0, length));
    const answer = {
      address: hexOfBytes(address),
      accountProof: account.proof,
      nonce: '0x1',
      balance: '0x2',
      storageHash: hexOfBytes(storage.root),
      codeHash: hexOfBytes(EMPTY_CODE),
      storageProof: [{ key: '0x0', value: stored.every((byte) => byte === 0) ? '0x0' : '0x3', proof: storage.proof }],
    };
    return readAccountProof(answer, { stateRoot: account.root, address, slots: [0n] });
  };
  assert.deepEqual(read({}).slots, [{ slot: 0n, value: 3n }]);
  assert.throws(() => read({ nonce: [0, 1] }), /no valid form/);
  assert.throws(() => read({ balance: [0, 2] }), /no valid form/);
  assert.throws(() => read({ balance: new Array(33).fill(2) }), /no valid form/);
  assert.throws(() => read({ stored: [0, 3] }), /no valid form/);
  assert.throws(() => read({ stored: [] }), /contains zero/);
  assert.throws(() => read({}, 3), /does not have four parts/);
});

test('nodes that are dropped, doubled, exchanged, cut or mixed never prove anything else', () => {
  const all = CASES.flatMap(({ answer }) => [...answer.accountProof, ...answer.storageProof.flatMap(({ proof }) => proof)]);
  const edit = fc.oneof(
    fc.record({ kind: fc.constantFrom('drop' as const, 'double' as const, 'cut' as const), at: fc.nat(8) }),
    fc.record({ kind: fc.constant('insert' as const), at: fc.nat(8), node: fc.constantFrom(...all) }),
    fc.record({ kind: fc.constant('replace' as const), at: fc.nat(8), node: fc.oneof(fc.constantFrom(...all), fc.anything()) }),
  );
  const apply = (nodes: unknown[], { kind, at, ...more }: { kind: string; at: number; node?: unknown }): unknown[] => {
    const i = at % Math.max(1, nodes.length);
    if (kind === 'drop') return nodes.toSpliced(i, 1);
    if (kind === 'double') return nodes.toSpliced(i, 0, nodes[i]);
    if (kind === 'cut') return nodes.with(i, String(nodes[i]).slice(0, -2));
    return nodes.toSpliced(i, kind === 'insert' ? 0 : 1, more.node);
  };
  fc.assert(
    fc.property(fc.constantFrom(...CASES), fc.array(edit, { minLength: 1, maxLength: 3 }), (one, edits) => {
      const accountProof = edits.reduce<unknown[]>(
        (nodes, next) => (nodes.length === 0 ? nodes : apply(nodes, next)),
        one.answer.accountProof,
      );
      fc.pre(JSON.stringify(accountProof) !== JSON.stringify(one.answer.accountProof));
      refuse(one, { accountProof: accountProof as string[] });
    }),
    { numRuns: 300 },
  );
});

test('an answer of any shape is refused without a crash', () => {
  const part = fc.dictionary(
    fc.constantFrom('address', 'accountProof', 'balance', 'nonce', 'codeHash', 'storageHash', 'storageProof'),
    fc.anything(),
    { minKeys: 1 },
  );
  fc.assert(
    fc.property(
      fc.oneof(
        fc.anything(),
        part.map((given) => ({ ...WETH.answer, ...given })),
      ),
      (answer) => {
        assert.throws(() => ask({ stateRoot: WETH.stateRoot, answer: answer as Answer }, WETH.answer), ProofError);
      },
    ),
    { numRuns: 500 },
  );
});
