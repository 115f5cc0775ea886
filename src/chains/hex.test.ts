import assert from 'node:assert/strict';
import { test } from 'node:test';
import { writeHex } from './reply.ts';

test('hex digits are decoded like the platform does, at every length, in both cases, at any offset', () => {
  const bytes = Buffer.from(Array.from({ length: 100_000 }, (_, i) => (i * 167 + (i >> 3)) & 0xff));
  for (const text of [bytes.toString('hex'), bytes.toString('hex').toUpperCase()]) {
    const hex = Buffer.from(text);
    for (const length of [...Array.from({ length: 70 }, (_, i) => i), 32_767, 32_768, 32_769, 99_990]) {
      const out = Buffer.alloc(length + 9, 1);
      writeHex(hex, 6, 6 + 2 * length, out, 5);
      assert.ok(out.equals(Buffer.concat([Buffer.alloc(5, 1), bytes.subarray(3, 3 + length), Buffer.alloc(4, 1)])), `${length} bytes`);
    }
  }
});
