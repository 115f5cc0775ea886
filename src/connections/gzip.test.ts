/** Compressed replies: read where they are asked for, limited by what they decompress to. */
import assert from 'node:assert/strict';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { after, test } from 'node:test';
import { gzipSync } from 'node:zlib';
import { serve } from '../../test/kit/serve.ts';
import { createLog } from '../log.ts';
import { createOutgoing } from './http-client.ts';

const outgoing = createOutgoing({ allow: [], log: createLog('silent') });
let respond: (request: IncomingMessage, reply: ServerResponse) => void;
const { url, stop } = await serve((request, reply) => respond(request, reply));
after(async () => {
  await outgoing.close();
  await stop();
});
const ask = (more: { gzip?: boolean; over?: 'cut' | 'refuse'; maxReplyBytes?: number } = {}) =>
  outgoing.request({
    ...{ url, timeoutMs: 20_000, maxReplyBytes: 100_000, gzip: true },
    ...more,
  });
const sends = (body: Buffer, headers: Record<string, string> = { 'content-encoding': 'gzip' }) => {
  respond = (_, reply) => reply.writeHead(200, headers).end(body);
};

test('gzip is asked for where it is wanted, and a plain answer is read as well', async () => {
  const asked: (string | undefined)[] = [];
  respond = ({ headers }, reply) => {
    asked.push(headers['accept-encoding'] as string | undefined);
    const isWanted = headers['accept-encoding'] === 'gzip';
    reply.writeHead(200, isWanted ? { 'content-encoding': 'GZIP' } : {}).end(isWanted ? gzipSync('{"a":1}') : '{"a":1}');
  };
  for (const gzip of [true, false]) assert.equal(Buffer.from((await ask({ gzip })).body).toString(), '{"a":1}');
  assert.deepEqual(asked, ['gzip', undefined]);
  sends(Buffer.from('plain'), {});
  assert.equal(Buffer.from((await ask()).body).toString(), 'plain');
});

test('a small answer that decompresses to more than the limit is refused, or cut, at the limit', async () => {
  const bomb = gzipSync(Buffer.alloc(64 << 20));
  assert.ok(bomb.length < 100_000);
  sends(bomb);
  const before = process.memoryUsage().arrayBuffers;
  for (let i = 0; i < 3; i++) await assert.rejects(ask({ over: 'refuse' }), { class: 'too_large' });
  assert.equal((await ask({ over: 'cut' })).body.length, 100_000);
  assert.ok(process.memoryUsage().arrayBuffers - before < 32 << 20, 'memory stays small');
  // Exactly the limit fits.
  sends(gzipSync(Buffer.alloc(100_000, 7)));
  assert.equal((await ask({ over: 'refuse' })).body.length, 100_000);
});

test('an answer that is not gzip, or ends too early, is an error', async () => {
  const whole = gzipSync(Buffer.from('x'.repeat(50_000)));
  for (const body of [Buffer.from('not gzip at all'), whole.subarray(0, -9), Buffer.alloc(0)]) {
    sends(body);
    await assert.rejects(ask(), { class: 'reset' });
  }
  respond = (_, reply) => {
    reply.writeHead(200, { 'content-encoding': 'gzip', 'content-length': String(whole.length) });
    reply.write(whole.subarray(0, 20), () => reply.destroy());
  };
  await assert.rejects(ask(), { class: 'reset' });
});
