/** BBQr: recorded codes of other implementations, lost and repeated parts, mixed series, and bounds. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { deflateRawSync } from 'node:zlib';
import { base32nopad } from '@scure/base';
import fc from 'fast-check';
import { BbqrError, createBbqrReader, MOST_SHOWN_BYTES, splitBbqr } from '../../dashboard/lib/bbqr.ts';

const read = async (codes: readonly string[], mostBytes?: number) => {
  const reader = createBbqrReader(mostBytes);
  for (const code of codes) reader.add(code);
  const { type, bytes } = await reader.file();
  return { type, bytes: Buffer.from(bytes) };
};
const FILE = fc.record({ type: fc.constantFrom('P', 'T', 'J', 'U'), bytes: fc.uint8Array({ minLength: 1, maxLength: 9_000 }) });

test('any file comes back from its codes in any order, with repeats and codes of other kinds in between', async () => {
  await fc.assert(
    fc.asyncProperty(FILE, fc.infiniteStream(fc.nat()), async ({ type, bytes }, order) => {
      const file = { type, bytes: new Uint8Array(bytes) };
      const codes = splitBbqr(file)!;
      const shuffled = codes.map((code) => [order.next().value!, code] as const).sort(([a], [b]) => a - b);
      const shown = shuffled.flatMap(([, code]) => [code, 'https://shop.example', code]);
      assert.deepEqual(await read(shown), { type, bytes: Buffer.from(bytes) });
      // The form that other readers rely on: one header, equal lengths of whole groups, only characters of the alphanumeric mode.
      assert.equal(new Set(codes.map((code) => code.slice(0, 6))).size, 1);
      assert.ok(codes.slice(0, -1).every(({ length }) => length === codes[0]!.length && (length - 8) % 8 === 0));
      assert.ok(codes.every((code) => /^[0-9A-Z$]+$/.test(code) && code.length <= 1_000));
      // Without one of them it is not complete.
      await assert.rejects(read(codes.slice(1)), BbqrError);
    }),
    { numRuns: 60 },
  );
});

test('the headers and encodings of the specification', async () => {
  // Its example of three codes in hex with 1,000, 1,000 and 150 bytes.
  const whole = Buffer.from(Array.from({ length: 2_150 }, (_, i) => i % 251));
  const hex = [0, 1, 2].map(
    (i) =>
      `B$HP030${i}${whole
        .subarray(i * 1_000, (i + 1) * 1_000)
        .toString('hex')
        .toUpperCase()}`,
  );
  assert.deepEqual(await read(hex.toReversed()), { type: 'P', bytes: whole });
  // 36 and more parts have two digits.
  const many = Array.from({ length: 37 }, (_, i) => `B$HB11${i.toString(36).toUpperCase().padStart(2, '0')}0${i % 10}`);
  assert.deepEqual((await read(many)).bytes, Buffer.from(Array.from({ length: 37 }, (_, i) => i % 10)));
  // RFC 4648, section 10, without padding.
  for (const [digits, text] of [
    ['MY', 'f'],
    ['MZXQ', 'fo'],
    ['MZXW6', 'foo'],
    ['MZXW6YQ', 'foob'],
    ['MZXW6YTB', 'fooba'],
    ['MZXW6YTBOI', 'foobar'],
  ] as const) {
    assert.deepEqual(await read([`B$2U0100${digits}`]), { type: 'U', bytes: Buffer.from(text) });
    assert.deepEqual(splitBbqr({ type: 'U', bytes: new TextEncoder().encode(text) }), [`B$2U0100${digits}`]);
  }
  const packed = deflateRawSync(whole, { windowBits: 10, level: 9 });
  const halves = [packed.subarray(0, 40), packed.subarray(40)];
  assert.deepEqual(await read(halves.map((half, i) => `B$ZP020${i}${base32nopad.encode(half)}`)), { type: 'P', bytes: whole });
});

test('another series starts over, and so does a part that differs from before', async () => {
  const [one, other] = [1, 2].map((fill) => splitBbqr({ type: 'P', bytes: new Uint8Array(1_500).fill(fill) })!) as [string[], string[]];
  const reader = createBbqrReader();
  assert.deepEqual(reader.add(one[0]!), { have: 1, total: 3 });
  assert.deepEqual(reader.add(one[1]!), { have: 2, total: 3 });
  assert.deepEqual(reader.add(one[1]!), { have: 2, total: 3 });
  assert.deepEqual(reader.add(other[1]!), { have: 1, total: 3 }, 'the same header, other content');
  assert.deepEqual(reader.add('B$2T0200MY'), { have: 1, total: 2 });
  assert.deepEqual(await read([one[0]!, one[1]!, ...other]), { type: 'P', bytes: Buffer.alloc(1_500, 2) });
});

// Invariant: Codes from a camera cannot fill the memory of the page, and damaged ones are refused.
test('damaged, oversized and endless series are refused', async () => {
  const reader = createBbqrReader();
  for (const code of [
    ...['', 'B$', 'B$2P01', 'B$2P0100', 'B$2P0000MY', 'B$2P0101MY', 'B$2P0102MY', 'b$2P0100MY', 'B$9P0100MY', 'B$2p0100MY'],
    ...['B$HP01000', 'B$HP01000G', 'B$2P0100M', 'B$2P0100M1', 'B$2P0100MZ', 'B$2P0100MY======', `B$HP0100${'00'.repeat(2_200)}`],
  ])
    assert.equal(reader.add(code), null, code.slice(0, 20));
  await assert.rejects(reader.file(), BbqrError);
  // Above the limit, whatever the header says, and after it another series can be read.
  const small = createBbqrReader(1_000);
  small.add(`B$HPZZ00${'00'.repeat(600)}`);
  assert.throws(() => small.add(`B$HPZZ01${'00'.repeat(600)}`), /too large/);
  assert.deepEqual(small.add('B$2U0100MY'), { have: 1, total: 1 });
  // A bomb: 20 MB of zeros in 20 kB.
  const bomb = deflateRawSync(Buffer.alloc(20_000_000), { level: 9 });
  const codes = Array.from({ length: Math.ceil(bomb.length / 2_000) }, (_, i) => bomb.subarray(i * 2_000, (i + 1) * 2_000));
  const [total, digits] = [
    codes.length.toString(36).toUpperCase().padStart(2, '0'),
    (i: number) => i.toString(36).toUpperCase().padStart(2, '0'),
  ];
  await assert.rejects(read(codes.map((part, i) => `B$ZP${total}${digits(i)}${base32nopad.encode(part)}`)), /too large/);
  await assert.rejects(read([`B$ZP0100${base32nopad.encode(Buffer.from('no stream at all'))}`]), /damaged/);
  assert.equal(splitBbqr({ type: 'P', bytes: new Uint8Array(MOST_SHOWN_BYTES + 1) }), null);
  assert.equal(splitBbqr({ type: 'P', bytes: new Uint8Array(0) }), null);
  assert.equal(splitBbqr({ type: 'P', bytes: new Uint8Array(MOST_SHOWN_BYTES) })!.length, 480);
});
