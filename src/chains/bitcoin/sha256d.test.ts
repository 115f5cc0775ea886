import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { test } from 'node:test';
import fc from 'fast-check';
import { hashTwice } from './sha256d.ts';

const sha256 = (bytes: Uint8Array) => createHash('sha256').update(bytes).digest();
const sha256d = (bytes: Uint8Array) => sha256(sha256(bytes));

test('a hash is that of the bytes at any length and offset, and nothing beside it is written', () => {
  const bytes = Buffer.from(Array.from({ length: 1_200 }, (_, i) => (i * 167 + (i >> 3)) & 0xff));
  for (let length = 4; length < 1_100; length++) {
    const outs = Array.from({ length: 2 }, () => Buffer.alloc(40, 1));
    for (const [i, out] of outs.entries()) hashTwice(bytes, 7 + i, 11 + i, 7 + i + length, 0, 0, out, 5);
    for (const [i, out] of outs.entries()) {
      const hash = sha256d(bytes.subarray(7 + i, 7 + i + length));
      assert.deepEqual(out, Buffer.concat([Buffer.alloc(5, 1), hash, Buffer.alloc(3, 1)]), `${length} bytes, message ${i}`);
    }
  }
});

test('messages in three parts and of any length are hashed as one, also if the hash is written over its message', () => {
  const parts = fc.record({ head: fc.nat(300), from: fc.nat(300), middle: fc.nat(5_000), rest: fc.nat(300), last: fc.nat(40) });
  fc.assert(
    fc.property(fc.array(parts, { minLength: 1, maxLength: 40 }), fc.uint8Array({ minLength: 5_400, maxLength: 5_400 }), (list, random) => {
      const bytes = Buffer.from(random);
      const out = Buffer.alloc(32 * list.length);
      const wanted = list.map(({ head, from, middle, rest, last }, i) => {
        hashTwice(bytes, head, from, from + middle, rest, rest + last, out, 32 * i);
        return sha256d(
          Buffer.concat([bytes.subarray(head, head + 4), bytes.subarray(from, from + middle), bytes.subarray(rest, rest + last)]),
        );
      });
      const whole = sha256d(bytes.subarray(0, 100));
      hashTwice(bytes, 0, 4, 100, 0, 0, bytes, 0);
      assert.deepEqual(out, Buffer.concat(wanted));
      assert.deepEqual(bytes.subarray(0, 32), whole);
    }),
  );
});
