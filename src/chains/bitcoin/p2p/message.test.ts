import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { RECORDED_COINS, readRecording, streamOf } from '../../../../test/kit/peer-recordings.ts';
import { createFrameReader, frame, MAX_PAYLOAD, WireError } from './messages.ts';

const MAGIC = Buffer.from('fabfb5da', 'hex');
type Frame = { command: string; payload: string };
/** What a reader makes of these chunks. */
function readAll(magic: Buffer, chunks: readonly Buffer[]): Frame[] {
  const frames: Frame[] = [];
  const reader = createFrameReader({
    magic,
    onFrame: (command, payload) => frames.push({ command, payload: payload.toString('hex') }) > 0,
  });
  for (const chunk of chunks) reader.read(chunk);
  return frames;
}
/** The bytes cut at these places. */
const cut = (bytes: Buffer, places: readonly number[]): Buffer[] => {
  const at = [...new Set(places.map((place) => place % (bytes.length + 1)))].sort((a, b) => a - b);
  return [0, ...at].map((from, i) => bytes.subarray(from, at[i] ?? bytes.length));
};

for (const coin of RECORDED_COINS) {
  const recording = readRecording(coin);
  test(`every recorded ${coin} conversation is read the same in chunks of any size`, () => {
    for (const { name, messages } of recording.conversations) {
      for (const to of ['us', 'node'] as const) {
        const stream = streamOf(recording, messages, to);
        const expected = messages
          .filter((message) => message.to === to)
          .map(({ command, payload }) => ({ command, payload: payload.toString('hex') }));
        assert.deepEqual(readAll(recording.magic, [stream]), expected, name);
        const bytes = Array.from({ length: stream.length }, (_, i) => stream.subarray(i, i + 1));
        assert.deepEqual(readAll(recording.magic, bytes), expected, name);
      }
    }
  });
}

test('frames are read the same wherever the stream is cut', () => {
  const recording = readRecording('LTC');
  const { messages } = recording.conversations[0]!;
  const stream = streamOf(recording, messages, 'us');
  const whole = readAll(recording.magic, [stream]);
  fc.assert(
    fc.property(fc.array(fc.nat(), { maxLength: 40 }), (places) => {
      assert.deepEqual(readAll(recording.magic, cut(stream, places)), whole);
    }),
    { numRuns: 50 },
  );
});

const payload = Buffer.from('0102030405060708', 'hex');
const ping = frame(MAGIC, 'ping', payload);
/** A ping with some bytes of its head replaced. */
const damaged = (at: number, hex: string): Buffer => {
  const bytes = Buffer.from(ping);
  bytes.write(hex, at, 'hex');
  return bytes;
};
for (const { name, bytes, reason } of [
  { name: 'another magic', bytes: damaged(0, 'f9beb4d9'), reason: /another network/ },
  { name: 'the start of a reply over HTTP', bytes: Buffer.from('HTTP/1.1 400 Bad Request\r\n'), reason: /another network/ },
  { name: 'a wrong checksum', bytes: damaged(20, '00000000'), reason: /wrong checksum/ },
  { name: 'a payload with one bit changed', bytes: damaged(24, '00'), reason: /wrong checksum/ },
  { name: 'a ping larger than its limit', bytes: damaged(16, '01093d00'), reason: /4000001 bytes is larger than 4000000/ },
  { name: 'a command without characters', bytes: damaged(4, '00000000'), reason: /no command/ },
  { name: 'a command with characters that are not ASCII', bytes: damaged(4, 'c3bc6e67'), reason: /invalid characters/ },
  { name: 'a command with text after its zeros', bytes: damaged(15, '41'), reason: /padded/ },
]) {
  test(`a message is refused: ${name}`, () => {
    assert.throws(
      () => readAll(MAGIC, [bytes]),
      (error) => error instanceof WireError && reason.test(error.message),
    );
  });
}

test('a message of any command may be as large as the network allows, and not larger', () => {
  for (const command of ['headers', 'block', 'getdata', 'addrv2', 'tx', 'version', 'unheard']) {
    assert.equal(readAll(MAGIC, [frame(MAGIC, command, Buffer.alloc(4_000_000))]).length, 1);
    assert.throws(() => readAll(MAGIC, [frame(MAGIC, command, Buffer.alloc(4_000_001)).subarray(0, 24)]), WireError);
  }
});

test('a peer that only says how long its message is takes no memory', () => {
  const head = frame(MAGIC, 'block', Buffer.alloc(MAX_PAYLOAD)).subarray(0, 24);
  const before = process.memoryUsage().arrayBuffers;
  const readers = Array.from({ length: 500 }, () => createFrameReader({ magic: MAGIC, onFrame: () => true }));
  for (const reader of readers) reader.read(head);
  assert.ok(process.memoryUsage().arrayBuffers - before < 16_000_000);
  assert.ok(readers.every((reader) => reader.partial()?.length === MAX_PAYLOAD));
});

test('nothing is read after the receiver stops', () => {
  let frames = 0;
  const reader = createFrameReader({ magic: MAGIC, onFrame: () => ++frames < 2 });
  reader.read(Buffer.concat([ping, ping, ping]));
  reader.read(Buffer.from('this is not a message'));
  assert.equal(frames, 2);
});

test('a recorded stream with changed bytes gives frames or a WireError, nothing else', () => {
  const recording = readRecording('DOGE');
  const stream = streamOf(recording, recording.conversations[0]!.messages, 'us');
  fc.assert(
    fc.property(fc.array(fc.tuple(fc.nat(stream.length - 1), fc.nat(255)), { minLength: 1, maxLength: 8 }), (changes) => {
      const bytes = Buffer.from(stream);
      for (const [at, value] of changes) bytes[at] = value;
      try {
        readAll(recording.magic, [bytes]);
      } catch (error) {
        assert.ok(error instanceof WireError, String(error));
      }
    }),
    { numRuns: 300 },
  );
});
