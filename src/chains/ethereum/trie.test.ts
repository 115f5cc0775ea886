/** Tries: the roots of recorded lists, and nodes that fit their hashes but that no trie contains. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { keccak_256 } from '@noble/hashes/sha3.js';
import fc from 'fast-check';
import { bytesOfHex, hexOfBytes, RECORDED_BLOCKS, readRecordedBlock } from '../../../test/kit/ethereum-data.ts';
import { encodeRlp, ProofError, quantityBytes, type Rlp } from '../../evm/rlp.ts';
import { EMPTY_ROOT, listRoot, PROOF_NODES, provenValue } from './trie.ts';

for (const number of RECORDED_BLOCKS)
  test(`the transactions and withdrawals of block ${number} fit its header`, () => {
    const { header, transactions, withdrawals } = readRecordedBlock(number);
    const values = transactions.map(bytesOfHex);
    assert.equal(hexOfBytes(listRoot(values)), header.transactionsRoot);
    if (values.length > 1) assert.notEqual(hexOfBytes(listRoot(values.slice(1))), header.transactionsRoot);
    if (!withdrawals) return assert.equal(header.withdrawalsRoot, undefined);
    const number8 = (value: string) => quantityBytes(value, { name: 'a number', max: 8 });
    const encoded = withdrawals.map(({ index, validatorIndex, address, amount }) =>
      encodeRlp([number8(index), number8(validatorIndex), bytesOfHex(address), number8(amount)]),
    );
    assert.equal(hexOfBytes(listRoot(encoded)), header.withdrawalsRoot);
  });

test('a list without values has the root of the empty trie, and none of its values is empty', () => {
  assert.equal(hexOfBytes(listRoot([])), '0x56e81f171bcc55a6ff8345e692c0f86e5b48e01b996cadc001622fb5e363b421');
  assert.throws(() => listRoot([Uint8Array.of(1), new Uint8Array(0)]), ProofError);
});

/** All nodes of a trie of two keys that differ in the first digit, with the proof of each. */
const KEY = new Uint8Array(32).fill(0x11);
const pathOf = (digits: string): Uint8Array => Uint8Array.from(Buffer.from(digits, 'hex'));
/** The rest of KEY behind its first digits, as a leaf stores it. */
const rest = (skipped: number): Uint8Array => {
  const left = 64 - skipped;
  return pathOf((left % 2 === 1 ? '3' : '20') + '1'.repeat(left));
};
const NONE = new Uint8Array(0);
const LONG = new Uint8Array(40).fill(7);
const branch = (children: Record<number, Rlp>, value: Rlp = NONE): Rlp[] => [
  ...Array.from({ length: 16 }, (_, i) => children[i] ?? NONE),
  value,
];
const hashOf = (node: Rlp): Uint8Array => keccak_256(encodeRlp(node));
const OTHER = new Uint8Array(32).fill(9);
const prove = (...nodes: Rlp[]) => provenValue({ root: hashOf(nodes[0]!), key: KEY, proof: nodes.map((node) => encodeRlp(node)) });

test('the nodes of a list are inside their parent up to 31 bytes, and hashed from 32 bytes', () => {
  // The keys of the first two values are 80 and 01, so their leaves have one digit left.
  for (const [length, isHashed] of [
    [28, false],
    [29, true],
  ] as const) {
    const value = new Uint8Array(length).fill(1);
    const [first, second] = [
      [pathOf('30'), value],
      [pathOf('31'), value],
    ] as [Rlp[], Rlp[]];
    assert.equal(encodeRlp(first).length, length + 3);
    const root = branch(isHashed ? { 8: hashOf(first), 0: hashOf(second) } : { 8: first, 0: second });
    assert.deepEqual(listRoot([value, value]), hashOf(root));
  }
});

const leaf = (skipped: number): Rlp => [rest(skipped), LONG];
const SMALL: Rlp = [pathOf('31'), Uint8Array.of(5)];
test('values and their absence are read at every kind of node', () => {
  assert.deepEqual(prove(leaf(0)), LONG);
  assert.deepEqual(prove(branch({ 1: hashOf(leaf(1)), 2: OTHER }), leaf(1)), LONG);
  const below = branch({ 1: hashOf(leaf(4)), 2: OTHER });
  assert.deepEqual(prove([pathOf('1111'), hashOf(below)], below, leaf(4)), LONG);
  assert.equal(prove(branch({ 2: OTHER, 3: OTHER })), null, 'an empty child');
  assert.equal(prove([pathOf(`20${'12'.repeat(32)}`), LONG]), null, 'the leaf of another key');
  assert.equal(prove([pathOf('12'), OTHER]), null, 'an extension to elsewhere');
  assert.equal(prove(branch({ 1: SMALL, 2: OTHER })), null, 'another leaf inside its parent');
  for (const proof of [[], [Uint8Array.of(0x80)]]) assert.equal(provenValue({ root: EMPTY_ROOT, key: KEY, proof }), null);
});

test('a small node inside its parent is read without one of its own', () => {
  const last = branch({ 1: [pathOf('20'), Uint8Array.of(5)], 2: [pathOf('20'), Uint8Array.of(6)] });
  assert.ok(encodeRlp(last).length < 32);
  assert.deepEqual(prove([pathOf(`1${'1'.repeat(63)}`), last]), Uint8Array.of(5));
  assert.throws(() => prove([pathOf(`1${'1'.repeat(63)}`), hashOf(last)], last), /small node/);
});

const FORGED: readonly [why: string, nodes: Rlp[]][] = [
  ['a branch with a value', [branch({ 2: OTHER, 3: OTHER }, LONG)]],
  ['a branch with a list as its value', [branch({ 2: OTHER, 3: OTHER }, [])]],
  ['a branch with one child', [branch({ 2: OTHER })]],
  ['an extension without a path', [[pathOf('00'), OTHER]]],
  ['an extension without a child', [[pathOf('11'), NONE]]],
  [
    'an extension in an extension',
    [
      [pathOf('11'), hashOf([pathOf('1111'), OTHER])],
      [pathOf('1111'), OTHER],
    ],
  ],
  ['a leaf in an extension', [[pathOf('11'), hashOf(leaf(1))], leaf(1)]],
  ['a leaf without a value', [[rest(0), NONE]]],
  ['a leaf with a list as its value', [[rest(0), [LONG]]]],
  ['a path with a flag above 3', [[pathOf(`40${'11'.repeat(32)}`), LONG]]],
  ['a path with a digit that must be zero', [[pathOf(`21${'11'.repeat(32)}`), LONG]]],
  ['an empty path', [[NONE, LONG]]],
  ['a list as its path', [[[], LONG]]],
  ['a child of 31 bytes', [branch({ 1: OTHER.subarray(1), 2: OTHER })]],
  ['a wrong child beside the path', [branch({ 1: hashOf(leaf(1)), 2: OTHER.subarray(1) }), leaf(1)]],
  ['a large node inside its parent', [branch({ 1: leaf(1), 2: OTHER })]],
  ['three items', [[rest(0), LONG, LONG]]],
  ['one string', [LONG]],
  ['an empty list', [[]]],
  ['a child that is missing', [branch({ 1: hashOf(leaf(1)), 2: OTHER })]],
  ['a child with another hash', [branch({ 1: OTHER, 2: OTHER }), leaf(1)]],
  ['a node too many', [leaf(0), leaf(0)]],
  ['a node behind its end', [branch({ 2: OTHER, 3: OTHER }), leaf(1)]],
];
for (const [why, nodes] of FORGED)
  test(`a proof with ${why} is refused, although its root fits`, () => {
    assert.throws(() => prove(...nodes), ProofError);
  });

test('a proof without nodes, or with more than a key has digits, is refused', () => {
  assert.throws(() => provenValue({ root: OTHER, key: KEY, proof: [] }), ProofError);
  assert.throws(() => prove(...Array.from({ length: PROOF_NODES + 1 }, () => leaf(0))), /more than 65 nodes/);
});

test('nodes of any shape are read or refused without a crash', () => {
  const { node } = fc.letrec<{ node: Rlp; list: Rlp }>((tie) => ({
    node: fc.oneof({ depthSize: 'small' }, fc.uint8Array({ maxLength: 40 }), tie('list')),
    list: fc.oneof(
      fc.tuple(fc.uint8Array({ maxLength: 4 }), tie('node')),
      fc.array(tie('node'), { maxLength: 3 }),
      fc.array(fc.oneof(tie('node'), fc.constant(OTHER)), { minLength: 17, maxLength: 17 }),
    ),
  }));
  fc.assert(
    fc.property(fc.array(node, { minLength: 1, maxLength: 3 }), (nodes) => {
      try {
        prove(...nodes);
      } catch (error) {
        assert.ok(error instanceof ProofError, String(error));
      }
    }),
    { numRuns: 1000 },
  );
});
