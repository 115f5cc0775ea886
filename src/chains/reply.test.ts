import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { test } from 'node:test';
import fc from 'fast-check';
import { createHexReader } from './reply.ts';

const read = (reply: string, cuts: readonly number[], announced: number, room?: Buffer<ArrayBuffer>) => {
  const hex = createHexReader(room);
  const all = Buffer.from(reply);
  const ends = [...cuts.map((cut) => cut % (all.length + 1)).sort((a, b) => a - b), all.length];
  for (const [i, end] of ends.entries()) hex.take(all.subarray(ends[i - 1] ?? 0, end), announced);
  return { bytes: hex.bytes(), text: hex.text() };
};

test('a result of hex digits becomes its bytes, however the reply is split, whatever length is announced, with any buffer size', () => {
  const frames = fc.constantFrom<readonly [string, string]>(
    ['{"result":"', '","error":null,"id":7}\n'],
    ['{"id":7,"error":null,"result":"', '"}'],
    ['{"jsonrpc":"2.0","result":"', '","id":7}'],
  );
  fc.assert(
    fc.property(
      fc.uint8Array({ maxLength: 400 }),
      frames,
      fc.array(fc.nat(), { maxLength: 12 }),
      fc.constantFrom(0, 1, 100, 1_000),
      fc.option(fc.nat(600).map((size) => Buffer.alloc(size, 7))),
      (bytes, [before, after], cuts, announced, room) => {
        const found = read(`${before}${Buffer.from(bytes).toString('hex')}${after}`, cuts, announced, room ?? undefined);
        assert.deepEqual(found.bytes, Buffer.from(bytes));
        if (room && announced > 0 && room.length > Math.max(bytes.length, announced / 2)) assert.equal(found.bytes!.buffer, room.buffer);
      },
    ),
  );
  const large = randomBytes(3_000_000);
  assert.deepEqual(read(`{"result":"${large.toString('hex')}","error":null}`, [1_000_001, 3_000_000], 0).bytes, large);
});

test('every other reply stays text, however it is split', () => {
  const replies = [
    '{"result":null,"error":{"code":-5,"message":"Block not found"},"id":7}',
    `{"result":{"hash":"${'ab'.repeat(300)}"},"error":null,"id":7}`,
    `{"error":{"code":-1,"message":"${'x'.repeat(300)} \\"result\\":\\"00\\""},"id":7}`,
    '<html>401</html>',
    '',
  ];
  fc.assert(
    fc.property(fc.constantFrom(...replies), fc.array(fc.nat(), { maxLength: 12 }), (reply, cuts) => {
      assert.deepEqual(read(reply, cuts, reply.length), { bytes: null, text: reply });
    }),
  );
});

test('hex that ends before its quote, or in the middle of a byte, is not a block', () => {
  assert.equal(read('{"result":"00ff', [5, 13], 15).bytes, null);
  assert.equal(read('{"result":"00ff0","error":null}', [12], 30).bytes, null);
});
