/** RLP: the examples of its definition, one form for each item, and bounds for bytes from strangers. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { decodeRlp as decodeSecond } from '../../test/kit/rlp.ts';
import { decodeRlp, encodeRlp, ProofError, type Rlp } from './rlp.ts';

const text = (value: string): Uint8Array => new TextEncoder().encode(value);
const hexOf = (bytes: Uint8Array): string => Buffer.from(bytes).toString('hex');
const fromHex = (hex: string): Uint8Array => Uint8Array.from(Buffer.from(hex, 'hex'));
const plain = (item: Rlp): unknown => (item instanceof Uint8Array ? hexOf(item) : item.map(plain));

const LOREM = 'Lorem ipsum dolor sit amet, consectetur adipisicing elit';
const EXAMPLES: readonly [what: string, item: Rlp, hex: string][] = [
  ['a word', text('dog'), '83646f67'],
  ['a list', [text('cat'), text('dog')], 'c88363617483646f67'],
  ['nothing', new Uint8Array(0), '80'],
  ['an empty list', [], 'c0'],
  ['a small byte', Uint8Array.of(0), '00'],
  ['the largest single byte', Uint8Array.of(0x7f), '7f'],
  ['a byte with prefix', Uint8Array.of(0x80), '8180'],
  ['two bytes', Uint8Array.of(4, 0), '820400'],
  ['the set of three', [[], [[]], [[], [[]]]], 'c7c0c1c0c3c0c1c0'],
  ['a long string', text(LOREM), `b838${hexOf(text(LOREM))}`],
  ['a string of 256 bytes', new Uint8Array(256), `b90100${'00'.repeat(256)}`],
  ['a long list', Array.from({ length: 56 }, () => Uint8Array.of(1)), `f838${'01'.repeat(56)}`],
];
for (const [what, item, hex] of EXAMPLES)
  test(`RLP of ${what}`, () => {
    assert.equal(hexOf(encodeRlp(item)), hex);
    assert.deepEqual(plain(decodeRlp(fromHex(hex))), plain(item));
  });

const REFUSED: readonly [why: string, hex: string][] = [
  ['no bytes', ''],
  ['a small byte with a prefix', '8100'],
  ['a short string with a long prefix', 'b801ff'],
  ['a length with a leading zero', `b90038${'00'.repeat(56)}`],
  ['a short list with a long prefix', 'f801c0'],
  ['a string that ends early', '83646f'],
  ['a list that ends early', 'c88363617483646f'],
  ['a string longer than its list', 'c28301'],
  ['a length of eight bytes', 'bfffffffffffffffff'],
  ['a list of four gigabytes', 'fbffffffff'],
  ['a prefix without its length', 'b9'],
  ['bytes after the item', '8080'],
  ['nine lists inside each other', 'c8c7c6c5c4c3c2c1c0'],
  ['1,025 items', `f90401${'80'.repeat(1025)}`],
];
for (const [why, hex] of REFUSED)
  test(`RLP with ${why} is refused`, () => {
    assert.throws(() => decodeRlp(fromHex(hex)), ProofError);
  });

test('limits count the whole input: nested lists cost no more than flat ones', () => {
  const bytes = encodeRlp(Array.from({ length: 100 }, () => [[], []]));
  assert.equal((decodeRlp(bytes, { items: 301, depth: 3 }) as Rlp[]).length, 100);
  assert.throws(() => decodeRlp(bytes, { items: 300, depth: 3 }), /more than 300 items/);
  assert.throws(() => decodeRlp(bytes, { items: 301, depth: 2 }), /deeper than 2 lists/);
});

const { item } = fc.letrec<{ item: Rlp }>((tie) => ({
  item: fc.oneof({ depthSize: 'small' }, fc.uint8Array({ maxLength: 80 }), fc.array(tie('item'), { maxLength: 6 })),
}));

test('what is encoded decodes to the same, here and in a second decoder', () => {
  fc.assert(
    fc.property(item, (value) => {
      const bytes = encodeRlp(value);
      assert.deepEqual(plain(decodeRlp(bytes, { items: 100_000, depth: 100 })), plain(value));
      assert.deepEqual(plain(decodeSecond(Buffer.from(bytes)) as Rlp), plain(value));
    }),
  );
});

test('any bytes are either refused or the only form of their item', () => {
  const nearRlp = fc.tuple(item, fc.nat(), fc.integer({ min: 1, max: 255 })).map(([value, at, change]) => {
    const bytes = encodeRlp(value);
    bytes[at % bytes.length]! ^= change;
    return bytes;
  });
  let decoded = 0;
  fc.assert(
    fc.property(fc.oneof(fc.uint8Array({ maxLength: 200 }), nearRlp), (bytes) => {
      let found: Rlp;
      try {
        found = decodeRlp(bytes);
      } catch (error) {
        assert.ok(error instanceof ProofError);
        return;
      }
      decoded++;
      assert.equal(hexOf(encodeRlp(found)), hexOf(bytes));
    }),
    { numRuns: 2000 },
  );
  assert.ok(decoded > 20, `${decoded} were decoded`);
});
