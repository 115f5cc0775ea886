import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { test } from 'node:test';
import fc from 'fast-check';
import { hashRange, hashTransaction, sha256d } from './strict-reader.ts';

const sha256 = (bytes: Uint8Array) => createHash('sha256').update(bytes).digest();
const expected = (bytes: Uint8Array) => sha256(sha256(bytes));

test('a hash is that of the bytes at any length and offset, and nothing beside it is written', () => {
  const bytes = Buffer.from(Array.from({ length: 1_200 }, (_, i) => (i * 167 + (i >> 3)) & 0xff));
  for (let length = 0; length < 1_100; length++) {
    const out = Buffer.alloc(40, 1);
    hashRange(bytes, 7, 7 + length, out, 5);
    const hash = expected(bytes.subarray(7, 7 + length));
    assert.deepEqual(out, Buffer.concat([Buffer.alloc(5, 1), hash, Buffer.alloc(3, 1)]), `${length} bytes`);
    assert.deepEqual(sha256d(bytes.subarray(7, 7 + length)), hash);
  }
  const whole = expected(bytes.subarray(0, 100));
  hashRange(bytes, 0, 100, bytes, 0);
  assert.deepEqual(bytes.subarray(0, 32), whole, 'written over its message');
});

test('the id of a transaction covers version, inputs, outputs and lock time, whatever lies between them', () => {
  const lengths = fc.record({ before: fc.nat(300), marker: fc.nat(2), body: fc.nat(5_000), witness: fc.nat(300), tail: fc.nat(40) });
  fc.assert(
    fc.property(
      fc.array(lengths, { minLength: 1, maxLength: 20 }),
      fc.uint8Array({ minLength: 5_700, maxLength: 5_700 }),
      (list, random) => {
        const bytes = Buffer.from(random);
        const out = Buffer.alloc(32 * list.length);
        const wanted = list.map(({ before: from, marker, body, witness, tail }, i) => {
          const bodyFrom = from + 4 + marker;
          const bodyTo = bodyFrom + body;
          const tailFrom = bodyTo + witness;
          const to = tailFrom + tail;
          const counts = { inputs: 0, inputsAt: 0, outputs: 0, outputsAt: 0, mweb: 'none' } as const;
          hashTransaction(bytes, { from, to, bodyFrom, bodyTo, tailFrom, ...counts }, out, 32 * i);
          return expected(Buffer.concat([bytes.subarray(from, from + 4), bytes.subarray(bodyFrom, bodyTo), bytes.subarray(tailFrom, to)]));
        });
        assert.deepEqual(out, Buffer.concat(wanted));
      },
    ),
  );
});
