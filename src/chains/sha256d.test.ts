import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { test } from 'node:test';
import fc from 'fast-check';
import { sha256dInto } from './sha256d.ts';

const sha256 = (bytes: Uint8Array) => createHash('sha256').update(bytes).digest();

test('SHA-256 twice equals the platform`s at every length, wherever the bytes stand', () => {
  const bytes = Buffer.from(Array.from({ length: 1_200 }, (_, i) => (i * 167 + (i >> 3)) & 0xff));
  for (let length = 0; length < 1_100; length++) {
    const out = Buffer.alloc(40, 1);
    sha256dInto(bytes, 7, 7 + length, out, 5);
    const wanted = Buffer.concat([Buffer.alloc(5, 1), sha256(sha256(bytes.subarray(7, 7 + length))), Buffer.alloc(3, 1)]);
    assert.deepEqual(out, wanted, `${length} bytes`);
  }
});

test('SHA-256 twice equals the platform`s on random bytes, also when it overwrites what it hashes', () => {
  fc.assert(
    fc.property(fc.uint8Array({ minLength: 32, maxLength: 300 }), (bytes) => {
      const wanted = sha256(sha256(bytes));
      sha256dInto(bytes, 0, bytes.length, bytes, 0);
      assert.deepEqual(Buffer.from(bytes.subarray(0, 32)), wanted);
    }),
  );
});
