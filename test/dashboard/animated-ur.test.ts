/** Animated Uniform Resources: the fountain codes of another implementation in both directions, lost and repeated parts, and bounds. */
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { test } from 'node:test';
import { UR, URDecoder, UREncoder } from '@ngraveio/bc-ur';
import { chooseFragments } from '@ngraveio/bc-ur/dist/fountainUtils.js';
import fc from 'fast-check';
import { createUrReader, fragmentsOf, MOST_SHOWN_BYTES, splitUr, UrError } from '../../dashboard/lib/animated-ur.ts';
import { readCbor, wordsOf } from '../../dashboard/lib/uniform-resource.ts';

/** Another implementation encodes the CBOR byte string, as wallets do. */
const urOf = (psbt: Uint8Array, type = 'crypto-psbt') => {
  const head =
    psbt.length < 24 ? [0x40 | psbt.length] : psbt.length < 256 ? [0x58, psbt.length] : [0x59, psbt.length >> 8, psbt.length & 255];
  return new UR(Buffer.from([...head, ...psbt]), type);
};
const byNumber = (a: number, b: number): number => a - b;
/** The PSBT in a whole resource. */
const psbtIn = (bytes: Uint8Array | null | undefined): Uint8Array | null => (bytes ? (readCbor(bytes) as Uint8Array) : null);
const read = (codes: Iterable<string>): Uint8Array | null => {
  const reader = createUrReader();
  for (const code of codes) {
    const got = reader.add(code);
    if (got?.bytes) return psbtIn(got.bytes);
  }
  return null;
};

test('what wallets send is read from any part on, with lost parts, repeats and codes of other kinds in between', () => {
  fc.assert(
    fc.property(
      fc.uint8Array({ minLength: 1, maxLength: 6_000 }),
      fc.constantFrom('crypto-psbt', 'psbt'),
      fc.integer({ min: 30, max: 300 }),
      fc.nat(500),
      fc.infiniteStream(fc.nat(9)),
      (psbt, type, size, from, luck) => {
        const encoder = new UREncoder(urOf(psbt, type), size, 0);
        for (let i = 0; i < from; i++) encoder.nextPart();
        const reader = createUrReader();
        let found: Uint8Array | null = null;
        for (let shown = 0; found === null; shown++) {
          assert.ok(shown < 60 + 20 * encoder.fragmentsLength, `not read after ${shown} of ${encoder.fragmentsLength} parts`);
          const code = encoder.nextPart();
          if (luck.next().value! < 3) continue;
          for (const text of [code, 'https://shop.example', code.toUpperCase()]) found ??= psbtIn(reader.add(text)?.bytes);
        }
        assert.deepEqual(Buffer.from(found), Buffer.from(psbt));
      },
    ),
    { numRuns: 60 },
  );
});

test('what is shown is read by another implementation, in capital letters for the compact mode of QR codes', () => {
  for (const length of [1, 23, 24, 180, 200, 255, 256, 5_000, 70_000]) {
    const psbt = randomBytes(length);
    const codes = splitUr(psbt)!;
    const decoder = new URDecoder();
    for (const code of codes) decoder.receivePart(code.toLowerCase());
    assert.ok(decoder.isComplete() && decoder.isSuccess(), `${length} bytes: ${decoder.resultError()}`);
    assert.equal(decoder.resultUR().type, 'crypto-psbt');
    assert.ok(decoder.resultUR().cbor.subarray(-length).equals(psbt));
    assert.ok(codes.every((code) => /^[0-9A-Z:/-]+$/.test(code) && code.length < 520));
    assert.deepEqual(Buffer.from(read(codes)!), psbt);
    if (codes.length > 1) assert.equal(read(codes.slice(1)), null);
  }
  assert.equal(splitUr(new Uint8Array(0)), null);
  assert.equal(splitUr(new Uint8Array(MOST_SHOWN_BYTES + 1)), null);
});

test('mixed parts combine the fragments that another implementation chooses', () => {
  fc.assert(
    fc.property(fc.integer({ min: 1, max: 400 }), fc.nat(2_000), fc.nat(0xffffffff), (count, more, checksum) => {
      const number = count + more;
      assert.deepEqual(
        fragmentsOf({ number, count, checksum }).toSorted(byNumber),
        chooseFragments(number, count, checksum).toSorted(byNumber),
      );
    }),
    { numRuns: 300 },
  );
});

// Invariant: The same for animated UR codes.
test('another series starts over; so does another type; damaged and endless series are refused', () => {
  const [one, other] = [1, 2].map((fill) => splitUr(new Uint8Array(500).fill(fill))!) as [string[], string[]];
  const reader = createUrReader();
  assert.deepEqual(reader.add(one[0]!), { type: 'crypto-psbt', have: 1, total: 3, bytes: null });
  assert.deepEqual(reader.add(other[1]!), { type: 'crypto-psbt', have: 1, total: 3, bytes: null });
  assert.deepEqual(reader.add(other[1]!), { type: 'crypto-psbt', have: 1, total: 3, bytes: null });
  for (const code of [
    '',
    'ur:',
    'ur:crypto-psbt/',
    'ur:crypto-psbt/aeae',
    one[0]!.slice(0, -2),
    one[0]!.replace(/1-3/, '1-x'),
    'bitcoin:bc1q',
  ])
    assert.equal(reader.add(code), null, code);
  assert.deepEqual(reader.add(other[0]!), { type: 'crypto-psbt', have: 2, total: 3, bytes: null });
  assert.deepEqual(Buffer.from(psbtIn(reader.add(other[2]!)!.bytes)!), Buffer.alloc(500, 2));
  const [first, second] = [one[0]!, one[1]!.replace('CRYPTO-PSBT', 'PSBT')];
  reader.add(first);
  assert.deepEqual(reader.add(second), { type: 'psbt', have: 1, total: 3, bytes: null });
  const part = (...values: number[][]) => `ur:crypto-psbt/1-2/${wordsOf(Uint8Array.from([0x85, ...values.flat()]))}`;
  const long = [0x1a, 0xff, 0xff, 0xff, 0xff];
  assert.throws(() => reader.add(part([1], [2], long, long, [0x41, 1])), UrError);
  for (const values of [
    [[0], [2], [2], [7], [0x41, 1]],
    [[1], [0], [2], [7], [0x41, 1]],
    [[1], long, [2], [7], [0x41, 1]],
    [[1], [2], [2], [7], [0x42, 1, 1]],
    [[1], [2], [2], [7], [1]],
    [[1], [2], [2], [7]],
  ])
    assert.equal(reader.add(part(...values)), null, JSON.stringify(values));
  // A checksum that does not fit what was collected.
  reader.add(part([1], [2], [2], [7], [0x41, 1]));
  assert.throws(() => reader.add(part([2], [2], [2], [7], [0x41, 1])), /damaged/);
});
