import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { RECORDED_COINS, readMergeMinedHeaders, recordedMessages } from '../../../../test/kit/peer-recordings.ts';
import type { BitcoinFamily } from '../../../core/coin.ts';
import { commandOf, decodeMessage, encodeMessage, type PeerMessage, WireError } from './messages.ts';

const shown = (message: PeerMessage): string => encodeMessage(message).toString('hex');
/** Either refused with a WireError, or decoded to something that encodes to the same bytes. */
function isRefusedOrSame(command: string, payload: Buffer, coin: BitcoinFamily): 'refused' | 'same' {
  let message: PeerMessage;
  try {
    message = decodeMessage(command, payload, coin);
  } catch (error) {
    assert.ok(error instanceof WireError, `${command}: ${String(error)}`);
    return 'refused';
  }
  assert.equal(shown(message), payload.toString('hex'), command);
  return 'same';
}
const refuses = (command: string, hex: string, reason: RegExp, coin: BitcoinFamily = 'BTC') =>
  assert.throws(
    () => decodeMessage(command, Buffer.from(hex, 'hex'), coin),
    (error) => error instanceof WireError && reason.test(error.message),
  );

for (const coin of RECORDED_COINS) {
  test(`every recorded ${coin} message decodes, and encodes to the same bytes`, () => {
    const messages = recordedMessages(coin);
    assert.ok(messages.length > 50);
    for (const { command, payload } of messages) {
      const message = decodeMessage(command, payload, coin);
      assert.equal(commandOf(message), command);
      assert.equal(shown(message), payload.toString('hex'), command);
    }
  });

  test(`recorded ${coin} messages that are cut, extended or changed are refused or encode to what arrived`, () => {
    const messages = recordedMessages(coin);
    const counts = { refused: 0, same: 0 };
    for (const { command, payload } of messages) {
      counts[isRefusedOrSame(command, payload.subarray(0, -1), coin)]++;
      counts[isRefusedOrSame(command, Buffer.concat([payload, Buffer.alloc(1)]), coin)]++;
    }
    fc.assert(
      fc.property(
        fc.nat(messages.length - 1),
        fc.array(fc.tuple(fc.nat(), fc.nat(255)), { maxLength: 6 }),
        fc.nat(),
        (which, changes, end) => {
          const { command, payload } = messages[which]!;
          const bytes = Buffer.from(end % 3 === 0 ? payload.subarray(0, end % (payload.length + 1)) : payload);
          for (const [at, value] of changes) if (bytes.length > 0) bytes[at % Math.min(bytes.length, 200)] = value;
          counts[isRefusedOrSame(command, bytes, coin)]++;
        },
      ),
      { numRuns: 1_000 },
    );
    assert.ok(counts.refused > 100 && counts.same > 100, JSON.stringify(counts));
  });
}

test('arbitrary bytes under every command are refused or encode to what arrived', () => {
  const commands = [
    ...['version', 'ping', 'getheaders', 'headers', 'inv', 'getdata', 'notfound', 'addr', 'addrv2', 'feefilter'],
    ...['sendcmpct', 'reject', 'verack', 'block', 'tx', 'toString', '__proto__'],
  ];
  fc.assert(
    fc.property(
      fc.constantFrom(...commands),
      fc.constantFrom('BTC', 'DOGE' as const),
      fc.uint8Array({ maxLength: 300 }),
      (command, coin, bytes) => {
        isRefusedOrSame(command, Buffer.from(bytes), coin as BitcoinFamily);
      },
    ),
    { numRuns: 3_000 },
  );
});

test('merge-mined headers are separated from their proofs', () => {
  const headers = readMergeMinedHeaders();
  const message = decodeMessage('headers', encodeMessage({ command: 'headers', headers }), 'DOGE');
  assert.ok(message.command === 'headers');
  assert.deepEqual(message.headers, headers);
  assert.equal(message.headers[0]!.auxpow!.length, headers[0]!.auxpow!.length);
  // Without the proofs the same headers are cut off where the proof should be.
  const plain = headers.map(({ bytes }) => ({ bytes, auxpow: null }));
  refuses('headers', shown({ command: 'headers', headers: plain }), /end|fewer|says/, 'DOGE');
  // Only Dogecoin has them.
  refuses('headers', shown({ command: 'headers', headers }), /fewer|says|end|too many/);
});

const ITEM = `01000000${'ab'.repeat(32)}`;
const HEADER = '00'.repeat(81);
function count(value: number): string {
  if (value < 0xfd) return Buffer.from([value]).toString('hex');
  const bytes = Buffer.alloc(value <= 0xffff ? 3 : 5);
  bytes[0] = value <= 0xffff ? 0xfd : 0xfe;
  bytes.writeUIntLE(value, 1, bytes.length - 1);
  return bytes.toString('hex');
}
for (const [name, command, hex, reason] of [
  ['a count that is not in its shortest form', 'inv', `fd0100${ITEM}`, /shortest/],
  ['a four-byte count of a small number', 'inv', `fe01000000${ITEM}`, /shortest/],
  ['an eight-byte count of a small number', 'inv', `ff0100000000000000${ITEM}`, /shortest/],
  ['an eight-byte count', 'inv', `ffffffffffffffffff${ITEM}`, /50000 are allowed/],
  ['50,001 items', 'inv', `${count(50_001)}${ITEM}`, /50001 items; 50000/],
  ['more items than bytes', 'inv', `02${ITEM}`, /fewer items/],
  ['2,001 headers', 'headers', `${count(2_001)}${HEADER.repeat(2_001)}`, /2001 headers; 2000/],
  ['a header with transactions', 'headers', `01${'00'.repeat(80)}01`, /transactions follow/],
  ['102 hashes in a locator', 'getheaders', `8011010066${'00'.repeat(33 * 32)}`, /102 hashes; 101/],
  ['1,001 addresses', 'addr', `${count(1_001)}${'00'.repeat(30 * 1_001)}`, /1001 addresses; 1000/],
  ['an address of 513 bytes', 'addrv2', `01000000000004${count(513)}${'00'.repeat(515)}`, /513 bytes in an address; 512/],
  ['a long name', 'version', `${'00'.repeat(80)}${count(257)}${'41'.repeat(257)}0000000000`, /257 bytes of its name; 256/],
  ['a name longer than the message', 'version', `${'00'.repeat(80)}fc4141`, /fewer/],
  ['a byte too many', 'verack', '00', /1 bytes too many/],
  ['a short ping', 'ping', '00000000', /too early/],
] as const) {
  test(`a ${command} message is refused: ${name}`, () => refuses(command, hex, reason));
}
