import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { RECORDED_COINS, readMergeMinedHeaders, recordedMessages } from '../../../../test/kit/peer-recordings.ts';
import type { BitcoinFamily } from '../../../core/coin.ts';
import { createFrameReader, frame, MAX_PAYLOAD, WireError } from './message.ts';
import { commandOf, decodeMessage, encodeMessage, type Message } from './messages.ts';

const shown = (message: Message): string => encodeMessage(message).toString('hex');
/** Either refused with a WireError, or decoded to something that encodes to the same bytes. */
function isRefusedOrSame(command: string, payload: Buffer, coin: BitcoinFamily): 'refused' | 'same' {
  let message: Message;
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

/** A `headers` message of one header, with so many hashes in the two branches of its merge-mining proof. */
function provenHeader(coinbaseHashes: number, chainHashes: number): string {
  const branch = (hashes: number): string => `${count(hashes)}${'00'.repeat(hashes * 32 + 4)}`;
  // A coinbase of one input without a script, the block's hash, the branches, the parent.
  const coinbase = `0100000001${'00'.repeat(36)}00${'00'.repeat(4)}00${'00'.repeat(4)}`;
  return `0101010000${'00'.repeat(76)}${coinbase}${'00'.repeat(32)}${branch(coinbaseHashes)}${branch(chainHashes)}${'00'.repeat(80)}00`;
}
const inventory = (items: number): string => `${count(items)}${ITEM.repeat(items)}`;
const versionOf = (name: number): string => `${'00'.repeat(80)}${count(name)}${'41'.repeat(name)}00000000`;
const rejectOf = (command: number, reason: number): string =>
  `${count(command)}${'41'.repeat(command)}10${count(reason)}${'41'.repeat(reason)}`;

/** Every limit of the parsers of the wire beside the rule that it comes from. `most`: what the rule allows; null: only the message bounds it. */
const LIMITS: readonly [what: string, rule: string, most: number | null, command: string, of: (count: number) => string][] = [
  ['headers', 'MAX_HEADERS_RESULTS', 2_000, 'headers', (n) => `${count(n)}${HEADER.repeat(n)}`],
  ['hashes of the chains in a proof', 'CAuxPow::check', 30, 'headers', (n) => provenHeader(0, n)],
  ['hashes of the coinbase in a proof', 'no rule', null, 'headers', (n) => provenHeader(n, 0)],
  ['items of an inv', 'MAX_INV_SZ', 50_000, 'inv', inventory],
  ['items of a getdata', 'MAX_INV_SZ', 50_000, 'getdata', inventory],
  ['items of a notfound', 'MAX_INV_SZ', 50_000, 'notfound', inventory],
  ['hashes of a locator', 'MAX_LOCATOR_SZ', 101, 'getheaders', (n) => `80110100${count(n)}${'00'.repeat(32 * n + 32)}`],
  ['addresses', 'MAX_ADDR_TO_SEND', 1_000, 'addr', (n) => `${count(n)}${'00'.repeat(30 * n)}`],
  ['addresses of version 2', 'MAX_ADDR_TO_SEND', 1_000, 'addrv2', (n) => `${count(n)}${'0000000000060000'.concat('00').repeat(n)}`],
  ['bytes of an address', 'BIP-155', 512, 'addrv2', (n) => `01000000000004${count(n)}${'00'.repeat(n + 2)}`],
  ['bytes of a name', 'MAX_SUBVERSION_LENGTH', 256, 'version', versionOf],
  ['bytes of a refused command', 'COMMAND_SIZE', 12, 'reject', (n) => rejectOf(n, 0)],
  ['bytes of a refusal', 'MAX_REJECT_MESSAGE_LENGTH', 111, 'reject', (n) => rejectOf(0, n)],
];
for (const [what, rule, most, command, of] of LIMITS)
  test(`${what}: the limit is that of the protocol (${rule}), ${most ?? 'none of our own'}`, () => {
    const read = (n: number) => decodeMessage(command, Buffer.from(of(n), 'hex'), 'DOGE');
    if (most === null) for (const n of [30, 31, 1_000, 100_000]) assert.equal(read(n).command, command);
    else {
      assert.equal(read(most).command, command);
      refuses(command, of(most + 1), new RegExp(`${most} are allowed`), 'DOGE');
    }
  });

test('2,000 Dogecoin headers of 4 MB are read, and every larger message is refused before its bytes arrive', () => {
  const filler = Math.floor((MAX_PAYLOAD - 2_000 * 81 - 1_000) / 32);
  const large = provenHeader(filler, 0).slice(2);
  const payload = Buffer.from(`${count(2_000)}${HEADER.repeat(1_999)}${large}`, 'hex');
  assert.ok(payload.length > 3_990_000 && payload.length <= MAX_PAYLOAD);
  const frames: Message[] = [];
  const magic = Buffer.from('c0c0c0c0', 'hex');
  const reader = createFrameReader({ magic, onFrame: (command, bytes) => frames.push(decodeMessage(command, bytes, 'DOGE')) > 0 });
  reader.read(frame(magic, 'headers', payload));
  assert.equal(frames.length, 1);
});
