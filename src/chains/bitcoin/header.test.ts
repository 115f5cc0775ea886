/** Headers: decoding, and the work and links of the recorded ones. `npm run test:long` checks every one of them. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { headersOf, rowsOf, sample, sentOf, timed } from '../../../test/kit/headers.ts';
import { takeAuxpow } from './auxpow.ts';
import { decodeHeader, encodeHeader, HeaderError, idOf, meetsTarget, workHash } from './header.ts';
import { targetOfBits } from './header-rules.ts';
import { PROOF_PARAMS, type ProofParams } from './proof-params.ts';

const { BTC, LTC, DOGE, DASH } = PROOF_PARAMS;
/** Everything with `npm run test:long`; otherwise enough to notice any mistake. */
const some = <T>(list: readonly T[], every: number): T[] => sample(list, process.env.FLORIN_LONG ? 1 : every);

const hasWork = (params: ProofParams, header: Buffer, hashed = header): boolean =>
  meetsTarget(workHash(params.work, hashed), targetOfBits(timed(header).bits, params.powLimit));

const CHAINS: readonly [string, ProofParams, every: number][] = [
  ['btc-main-822528.hex', BTC.main, 1],
  ['btc-testnet3-1.hex', BTC.testnet3, 1],
  ['ltc-main-1.hex', LTC.main, 4],
  ['ltc-main-2859498.hex', LTC.main, 4],
  ['dash-main-999900.hex', DASH.main, 40],
  ['dash-testnet-10000.hex', DASH.testnet, 20],
  ['dash-main-newest.txt', DASH.main, 1],
];
for (const [name, params, every] of CHAINS)
  test(`the recorded headers of ${name} have their work, and name the one before`, () => {
    const headers = rowsOf(name).map((row) => Buffer.from(row.at(-1)!, 'hex'));
    for (const [i, header] of headers.entries()) {
      if (i % (process.env.FLORIN_LONG ? 1 : every) !== 0) continue;
      assert.ok(hasWork(params, header), `header ${i}`);
      if (i > 0) assert.equal(idOf(params, headers[i - 1]!).compare(header, 4, 36), 0, `header ${i}`);
    }
  });

for (const [name, params, every] of [
  ['doge-main-5610330-auxpow.hex', DOGE.main, 8],
  ['doge-main-974401-auxpow.hex', DOGE.main, 1],
  ['doge-main-978000-auxpow.hex', DOGE.main, 5],
  ['doge-main-2054958-auxpow.hex', DOGE.main, 1],
  ['doge-testnet-7654400-auxpow.hex', DOGE.testnet, 5],
] as const)
  test(`the parents of the recorded headers of ${name} have their work`, () => {
    for (const { bytes, auxpow } of some(sentOf(name), every))
      assert.ok(hasWork(params, bytes, auxpow ? takeAuxpow({ bytes: auxpow, at: 0 }).parent : bytes));
  });

for (const [name, params, every] of [
  ['btc-main-epochs.txt', BTC.main, 1],
  ['ltc-main-epochs-2014.txt', LTC.main, 4],
  ['dash-main-checkpoints.txt', DASH.main, 4],
] as const)
  test(`the headers of ${name} have their work, over years`, () => {
    for (const [height, , header] of some(rowsOf(name), every)) assert.ok(hasWork(params, Buffer.from(header!, 'hex')), height);
  });

test("Dogecoin's early headers have work of their own; those that are merge-mined lack it", () => {
  const rows = rowsOf('doge-main-early-checkpoints.txt').filter(([, , header]) => !(Buffer.from(header!, 'hex').readUInt32LE(0) & 0x100));
  for (const [height, , header] of some(rows, 4)) assert.ok(hasWork(DOGE.main, Buffer.from(header!, 'hex')), height);
  assert.equal(rows.length, 77);
  const [merged] = sentOf('doge-main-974401-auxpow.hex');
  assert.equal(hasWork(DOGE.main, merged!.bytes), false);
});

test('what is encoded decodes to the same', () => {
  for (const header of sample(headersOf('btc-main-822528.hex'), 50)) assert.deepEqual(encodeHeader(decodeHeader(header)), header);
  const hash = fc.uint8Array({ minLength: 32, maxLength: 32 }).map((bytes) => Buffer.from(bytes).toString('hex'));
  const u32 = fc.nat(0xffffffff);
  fc.assert(
    fc.property(
      fc.record(
        { version: fc.integer(), parent: hash, merkleRoot: hash, timeSeconds: u32, bits: u32, nonce: u32 },
        { noNullPrototype: true },
      ),
      (header) => assert.deepEqual(decodeHeader(encodeHeader(header)), header),
    ),
  );
  for (const length of [0, 79, 81]) assert.throws(() => decodeHeader(Buffer.alloc(length)), HeaderError);
});
