/** Headers of Electrum servers: with and without merged mining, in one string or a list, and nothing else does more than be refused. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import fc from 'fast-check';
import { headersOf, sentOf } from '../../../../test/kit/headers.ts';
import { PROOF_PARAMS } from '../proof-params.ts';
import { readHeaders } from './electrum-headers.ts';
import { ElectrumProofError } from './electrum-proof.ts';

const DOGE = PROOF_PARAMS.DOGE.main;
const conversations = JSON.parse(readFileSync(join(import.meta.dirname, '../../../../test/fixtures/electrum/conversations.json'), 'utf8'));

test('recorded headers are read as they were, with the proof of merged mining, in both versions of the protocol', () => {
  const hex = headersOf('doge-main-5610330-auxpow.hex').map((bytes) => bytes.toString('hex'));
  const sent = sentOf('doge-main-5610330-auxpow.hex');
  assert.ok(sent.some(({ auxpow }) => auxpow !== null));
  assert.deepEqual(readHeaders(DOGE, { hex: hex.join('') }, hex.length), sent);
  assert.deepEqual(readHeaders(DOGE, { headers: hex }, hex.length), sent);
  assert.deepEqual(readHeaders(DOGE, { hex: '' }, 10), []);
  for (const { send, receive } of conversations.headers) {
    if (send.method !== 'blockchain.block.headers') continue;
    const params = send.params[0] > 1_000_000 ? DOGE : PROOF_PARAMS.LTC.main;
    assert.equal(readHeaders(params, receive.result, send.params[1]).length, receive.result.count);
  }
});

test('more headers than asked for, and those that end too early, are refused', () => {
  const hex = headersOf('btc-main-822528.hex')
    .slice(0, 3)
    .map((bytes) => bytes.toString('hex'));
  const BTC = PROOF_PARAMS.BTC.main;
  assert.equal(readHeaders(BTC, { hex: hex.join('') }, 3).length, 3);
  for (const reply of [{ hex: hex.join('') }, { headers: hex }]) assert.throws(() => readHeaders(BTC, reply, 2), ElectrumProofError);
  for (const reply of [
    { hex: hex.join('').slice(2) },
    { hex: 'zz' },
    { hex: 'abc' },
    {},
    null,
    'text',
    { headers: [1] },
    { headers: [''] },
  ])
    assert.throws(() => readHeaders(BTC, reply, 3), ElectrumProofError);
});

test('recorded headers with changed bytes are refused or read, and nothing else', () => {
  const recorded = Buffer.concat(headersOf('doge-main-5610330-auxpow.hex').slice(0, 3));
  fc.assert(
    fc.property(fc.array(fc.tuple(fc.nat(), fc.nat(255)), { minLength: 1, maxLength: 6 }), fc.nat(), (changes, cut) => {
      const bytes = Buffer.from(recorded);
      for (const [at, value] of changes) bytes[at % bytes.length] = value;
      const end = cut % 3 === 0 ? cut % bytes.length : bytes.length;
      try {
        const read = readHeaders(DOGE, { hex: bytes.toString('hex', 0, end) }, 100);
        assert.equal(
          read.reduce((sum, { auxpow }) => sum + 80 + (auxpow?.length ?? 0), 0),
          end,
        );
      } catch (error) {
        assert.ok(error instanceof ElectrumProofError, String(error));
      }
    }),
    { numRuns: 1_000 },
  );
  fc.assert(
    fc.property(fc.anything(), (reply) => {
      try {
        readHeaders(DOGE, reply, 100);
      } catch (error) {
        assert.ok(error instanceof ElectrumProofError, String(error));
      }
    }),
  );
});
