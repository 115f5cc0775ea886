/** Lines of Electrum servers: every answer of every server program is read, and nothing a server sends costs more than was asked for. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import fc from 'fast-check';
import { createLineReader, decodeLine, type ElectrumMessage, encodeRequest, LineError, SPARE_BYTES } from './electrum-connection.ts';

const conversations = JSON.parse(readFileSync(join(import.meta.dirname, '../../../../test/fixtures/electrum/conversations.json'), 'utf8'));
type Exchange = { send: { id: number; method: string; params: unknown[] }; receive: { id: number; result?: unknown; error?: unknown } };
const exchanges: Exchange[] = [
  ...conversations.hello,
  ...conversations.address_lookup.exchange,
  ...conversations.transaction_lookup.exchange,
  ...conversations.headers,
  ...conversations.fees_and_broadcast,
  ...conversations.errors,
];
const line = (message: object): Buffer => Buffer.from(`${JSON.stringify(message)}\n`);
const collect = (longest = 1 << 20) => {
  const messages: ElectrumMessage[] = [];
  const reader = createLineReader({ longest, onLine: (bytes) => messages.push(decodeLine(bytes)) });
  return { messages, reader };
};

test('every request is written, and every answer of every server program read, however it is cut', () => {
  assert.ok(exchanges.length > 30);
  for (const { send } of exchanges)
    assert.deepEqual(JSON.parse(encodeRequest(send.id, send.method, send.params)), { ...send, jsonrpc: '2.0' });
  const all = Buffer.concat([...exchanges.map(({ receive }) => line(receive)), ...conversations.notifications.map(line)]);
  const expected = exchanges.map(({ receive: { id, result, error } }) =>
    error === undefined ? { kind: 'result', id, result } : { kind: 'error', id, code: (error as { code?: number }).code ?? null },
  );
  for (const size of [1, 7, 1_000, all.length]) {
    const { messages, reader } = collect();
    for (let at = 0; at < all.length; at += size) reader.take(all.subarray(at, at + size));
    assert.deepEqual(messages.slice(0, expected.length), expected);
    assert.deepEqual(
      messages.slice(expected.length).map((one) => one.kind === 'notice' && one.method),
      ['blockchain.headers.subscribe', 'blockchain.scripthash.subscribe'],
    );
  }
});

test('a batch, text that is not JSON and a message without its parts are refused', () => {
  const wrong = [
    '[]',
    JSON.stringify(conversations.batch.receive),
    'no JSON',
    '1',
    'null',
    '""',
    '{}',
    '{"id":"1","result":2}',
    '{"id":1}',
  ];
  for (const text of [...wrong, '{"id":1.5,"result":2}', '{"method":"a"}', '{"method":"a","params":{}}'])
    assert.throws(() => decodeLine(Buffer.from(text)), LineError, text);
  assert.deepEqual(decodeLine(Buffer.from('{"id":1,"error":"text"}')), { kind: 'error', id: 1, code: null });
});

test('a line that is too long and more than was asked for are refused before they are held', () => {
  const { reader } = collect(1_000);
  reader.take(Buffer.alloc(900, 0x20));
  assert.throws(() => reader.take(Buffer.alloc(200, 0x20)), /too long/);
  const flood = collect();
  const notice = line({ method: 'a', params: ['x'.repeat(50_000)] });
  const most = Math.floor(SPARE_BYTES / notice.length);
  for (let i = 0; i < most; i++) flood.reader.take(notice);
  assert.throws(() => flood.reader.take(notice), /more than was asked for/);
  const asked = collect();
  asked.reader.expect(10 * notice.length);
  for (let i = 0; i < most + 10; i++) asked.reader.take(notice);
  assert.equal(asked.messages.length, most + 10);
  // What an answer did not use cannot be used by others later.
  const settled = collect();
  settled.reader.expect(10 * notice.length);
  settled.reader.settle(0);
  for (let i = 0; i < most; i++) settled.reader.take(notice);
  assert.throws(() => settled.reader.take(notice), /more than was asked for/);
});

test('no line can do more than be refused', () => {
  fc.assert(
    fc.property(fc.oneof(fc.json(), fc.string(), fc.constant('['.repeat(20_000)), fc.constant('{"a":'.repeat(10_000))), (text) => {
      try {
        decodeLine(Buffer.from(text));
      } catch (error) {
        assert.ok(error instanceof LineError, String(error));
      }
    }),
    { numRuns: 500 },
  );
  // Recorded answers with changed bytes.
  const lines = exchanges.map(({ receive }) => line(receive));
  fc.assert(
    fc.property(fc.constantFrom(...lines), fc.nat(), fc.integer({ min: 0, max: 255 }), (recorded, at, value) => {
      const changed = Buffer.from(recorded);
      changed[at % changed.length] = value;
      const { reader } = collect();
      try {
        reader.take(changed);
      } catch (error) {
        assert.ok(error instanceof LineError, String(error));
      }
    }),
    { numRuns: 2_000 },
  );
});
