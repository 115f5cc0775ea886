/** Higher fees for files of Bitcoin-like coins: from what was signed, for what can pay, up to what the signer accepts. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { signFile } from '../../signer/sign.ts';
import { type PsbtRequest, signingFileText } from '../../src/core/signing-file.ts';
import { DEFAULT_WISH } from '../../src/signing/holdings.ts';
import { makePsbts } from '../../src/signing/make-utxo.ts';
import { replacePsbts, type Signed } from '../../src/signing/replace.ts';
import { MAX_FEE_PERCENT } from '../../src/signing/utxo.ts';
import { depositsOf } from '../kit/holdings.ts';
import { ROOT, refundFile, sweepFile } from '../kit/signing.ts';

const RATES = { rateE8: 100_000_000n, relayE8: 100_000_000n, leastUnits: 546n };
const of = (request: PsbtRequest, isMined = false): Signed => ({ feeUnits: request.feeUnits, size: 200n, isMined });
const raised = (requests: readonly PsbtRequest[], signed: readonly Signed[], rateE8 = RATES.rateE8) => {
  const found = replacePsbts(requests, { ...RATES, rateE8, signed });
  assert.ok(typeof found !== 'string', String(found));
  return found as PsbtRequest[];
};

test('what is mined or cannot pay more stays as it was signed, and the rest gets a higher fee', () => {
  const [one, two] = [1, 2].map((seed) => sweepFile('BTC', 'p2wpkh', 2, seed).file.requests[0] as PsbtRequest) as [
    PsbtRequest,
    PsbtRequest,
  ];
  const full = refundFile('BTC', 'p2wpkh', 1).file.requests[0] as PsbtRequest;
  const bare = { ...full, lines: full.lines.slice(0, 1) };
  const found = raised([one, two, bare], [of(one), of(two, true), of(bare)]);
  assert.ok(found[0]!.feeUnits > one.feeUnits);
  assert.deepEqual(found.slice(1), [two, bare]);
  const rows: [what: string, signed: Signed[], requests: PsbtRequest[], reason: string][] = [
    ['all is mined', [of(one, true), of(two, true)], [one, two], 'mined'],
    ['one is mined, the other has no rest', [of(one, true), of(bare)], [one, bare], 'money'],
  ];
  for (const [what, signed, requests, reason] of rows) assert.equal(replacePsbts(requests, { ...RATES, signed }), reason, what);
});

test('a fee that nobody signed is no base for the next one', () => {
  const request = sweepFile('BTC', 'p2wpkh', 2).file.requests[0] as PsbtRequest;
  const signed = [of(request)];
  const first = raised([request], signed);
  const second = raised(first, signed);
  assert.deepEqual(second, first);
  // Once it is signed, it is.
  assert.ok(raised(first, [of(first[0]!)])[0]!.feeUnits > first[0]!.feeUnits);
  // What is mined meanwhile is in the file as it was signed.
  const other = sweepFile('BTC', 'p2wpkh', 1, 2).file.requests[0] as PsbtRequest;
  assert.deepEqual(raised([first[0]!, other], [of(request, true), of(other)])[0], request);
});

test('a fee is raised to what the signer accepts, and not above', () => {
  const made = sweepFile('BTC', 'p2wpkh', 1);
  const request = made.file.requests[0] as PsbtRequest;
  const spent = request.lines[0]!.units + request.feeUnits;
  const most = (spent * BigInt(MAX_FEE_PERCENT)) / 100n;
  // At a size of 202 bytes.
  const rateFor = (fee: bigint) => (fee * 100_000_000n) / 202n;
  const [highest] = raised([request], [of(request)], rateFor(most));
  const sign = (one: PsbtRequest) => {
    const file = { ...made.file, requests: [one], totalUnits: one.lines[0]!.units, feeUnits: one.feeUnits };
    return signFile({ content: signingFileText(file), secret: ROOT, destination: made.destination }).text;
  };
  assert.ok(highest!.feeUnits > most - 1_000n);
  assert.ok(sign(highest!));
  assert.equal(replacePsbts([request], { ...RATES, rateE8: rateFor(most + 1_000n), signed: [of(request)] }), 'share');
});

test('no sweep is made whose fee the signer refuses', async () => {
  const { destination } = sweepFile('BTC', 'p2wpkh', 1);
  // At 5 units for a byte, the input costs 340 and the transaction 555 or more.
  for (const [units, stays] of [
    [1_400n, 'fee'],
    [3_000n, undefined],
  ] as const) {
    const { chain, wallet, holdings } = depositsOf('BTC', 'p2wpkh', [{ units: [units] }]);
    const wish = { ...DEFAULT_WISH, maxFeePercent: MAX_FEE_PERCENT };
    const { requests, stay } = await makePsbts(chain, { holdings, wallet, destination, wish, rateE8: 500_000_000n, reference: 'swp_0' });
    assert.deepEqual([requests.length, stay.get(holdings[0]!)], [stays === undefined ? 1 : 0, stays]);
  }
});
