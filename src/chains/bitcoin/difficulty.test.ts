/** Targets and difficulty rules against the recorded headers of four coins and the values that their clients' own tests state. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { ancestorsOf, headersOf, jsonOf, rowsOf, timed } from '../../../test/kit/headers.ts';
import { HeaderError } from './header.ts';
import { bitsOf, medianOf, nextBits, type Timed, targetOfBits, workOf } from './header-rules.ts';
import { PROOF_PARAMS, type ProofParams } from './proof-params.ts';

const { BTC, LTC, DOGE, DASH } = PROOF_PARAMS;
const hex = (bits: number): string => bits.toString(16).padStart(8, '0');
const isRefused = (error: unknown): boolean => error instanceof HeaderError && error.fault === 'bits';

type Step = { name: string; lastHeight: number; firstTime: number; lastTime: number; lastBits: string; nextBits: string };
type Retargets = {
  btc: Step[];
  ltc: Step[];
  dogePre: Step[];
  doge: Step[];
  dash: { headers: [number, string][]; nextBits: string }[];
  dashSlow: { rows: [number, string][] };
  compact: { bits: string; target?: string; refuse?: string }[];
};
const recorded = jsonOf<Retargets>('retargets.json');

test('bits decode to the targets of the clients, and the invalid ones are refused', () => {
  const limit = (1n << 256n) - 1n;
  for (const { bits, target, refuse } of recorded.compact) {
    if (refuse || target === '0') assert.throws(() => targetOfBits(Number.parseInt(bits, 16), limit), isRefused, bits);
    else assert.equal(targetOfBits(Number.parseInt(bits, 16), limit).toString(16), target, bits);
  }
  for (const [bits, why] of [
    [0x1d010000, 'above the limit'],
    [0x23000001, 'a size of 35'],
    [0x22000100, 'two bytes at size 34'],
    [0x21010000, 'three bytes at size 33'],
    [0x1d800001, 'negative'],
    [0x1d000000, 'no mantissa'],
  ] as const)
    assert.throws(() => targetOfBits(bits, BTC.main.powLimit), isRefused, why);
  assert.equal(targetOfBits(0x1d00ffff, BTC.main.powLimit), 0xffffn << 208n);
});

test('a target survives its encoding except for the bits that it does not keep', () => {
  fc.assert(
    fc.property(fc.bigInt({ min: 1n, max: BTC.regtest.powLimit }), (target) => {
      const decoded = targetOfBits(bitsOf(target), BTC.regtest.powLimit);
      assert.ok(decoded <= target);
      assert.equal(bitsOf(decoded), bitsOf(target));
      // At least 16 bits are kept.
      assert.ok(target - decoded <= target >> 15n);
    }),
  );
});

test('the next bits are those of the clients at every clamp', () => {
  const cases: [ProofParams, Step[], (step: Step) => number][] = [
    [BTC.main, recorded.btc, ({ lastHeight }) => lastHeight - 2015],
    [LTC.main, recorded.ltc, ({ lastHeight }) => Math.max(lastHeight - 2016, 0)],
    [DOGE.main, recorded.dogePre, ({ lastHeight }) => Math.max(lastHeight - 240, 0)],
    [DOGE.main, recorded.doge, ({ lastHeight }) => lastHeight - 1],
  ];
  for (const [params, steps, first] of cases)
    for (const step of steps) {
      const at = (height: number): Timed => {
        if (height === step.lastHeight) return { timeSeconds: step.lastTime, bits: Number.parseInt(step.lastBits, 16) };
        assert.equal(height, first(step), `${params.coin}: ${step.name}`);
        return { timeSeconds: step.firstTime, bits: 0 };
      };
      assert.equal(hex(nextBits(params, step.lastHeight + 1, step.lastTime + 1, at)), step.nextBits, `${params.coin}: ${step.name}`);
    }
  const [{ headers, nextBits: bits }] = recorded.dash as [Retargets['dash'][0]];
  const lowest = 123_433;
  const at = (height: number): Timed => {
    const [timeSeconds, encoded] = headers[height - lowest]!;
    return { timeSeconds, bits: Number.parseInt(encoded, 16) };
  };
  assert.equal(hex(nextBits(DASH.main, lowest + 24, 0, at)), bits);
  const slow = { ...DASH.testnet, powLimit: DASH.regtest.powLimit };
  for (const [time, eased] of recorded.dashSlow.rows) assert.equal(hex(nextBits(slow, lowest + 24, time, at)), eased, String(time));
});

/** Recorded headers whose bits the rule gives, from the first for which enough earlier ones are recorded. */
const CHAINS: readonly [string, ProofParams, lowest: number, from: number][] = [
  ['btc-main-822528.hex', BTC.main, 822_528, 822_529],
  ['btc-testnet3-1.hex', BTC.testnet3, 1, 2],
  ['ltc-main-1.hex', LTC.main, 1, 2],
  ['ltc-main-2859498.hex', LTC.main, 2_859_498, 2_859_499],
  ['doge-main-5610330.hex', DOGE.main, 5_610_330, 5_610_332],
  ['doge-main-5620352.hex', DOGE.main, 5_620_352, 5_620_354],
  ['doge-testnet-7654400-auxpow.hex', DOGE.testnet, 7_654_400, 7_654_402],
  ['dash-main-999900.hex', DASH.main, 999_900, 999_924],
  ['dash-testnet-10000.hex', DASH.testnet, 10_000, 10_024],
];
for (const [name, params, lowest, from] of CHAINS)
  test(`every header of ${name} has exactly the bits of its rule, and a time after the median`, () => {
    const headers = headersOf(name);
    // Retargets of Bitcoin's test network look at the genesis block.
    const genesis = { timeSeconds: 1_296_688_602, bits: 0x1d00ffff };
    const known = ancestorsOf(headers, lowest);
    const at = (height: number) => (height === 0 ? genesis : known(height));
    for (let height = from; height < lowest + headers.length; height++) {
      const { timeSeconds, bits } = at(height);
      assert.equal(hex(nextBits(params, height, timeSeconds, at)), hex(bits), `block ${height}`);
      const times = headers.slice(Math.max(height - lowest - 11, 0), height - lowest).map((header) => timed(header).timeSeconds);
      assert.ok(timeSeconds > medianOf(times), `block ${height}`);
    }
  });

test('all 1,101 retargets of Litecoin are those of its history', () => {
  let last = { timeSeconds: 1_317_972_665, bits: 0x1e0ffff0 };
  const rows = rowsOf('ltc-main-retargets.txt');
  for (const [height, , time, next] of rows) {
    const current = { timeSeconds: Number(time), bits: last.bits };
    const bits = nextBits(LTC.main, Number(height) + 1, 0, (asked) => (asked === Number(height) ? current : last));
    assert.equal(hex(bits), next, height);
    last = { timeSeconds: Number(time), bits };
  }
  assert.equal(rows.length, 1_101);
});

test("Dogecoin's rules before DigiShield give its first retargets", () => {
  const at = new Map(
    rowsOf('doge-main-pre-digishield.txt').map(([height, header]) => [Number(height), timed(Buffer.from(header!, 'hex'))]),
  );
  let compared = 0;
  // Block 240 is compared with the client's own test: its first block is block 0.
  for (let height = 480; height <= 14_880; height += 240) {
    const block = at.get(height);
    if (!block) continue;
    assert.equal(hex(nextBits(DOGE.main, height, block.timeSeconds, (asked) => at.get(asked)!)), hex(block.bits), String(height));
    compared++;
  }
  assert.ok(compared > 50, String(compared));
});

test('work adds up over the whole history of Bitcoin', () => {
  const rows = rowsOf('btc-main-epochs.txt');
  let bits = 0x1d00ffff;
  let work = 0n;
  for (const [height, stated, header] of rows) {
    const next = timed(Buffer.from(header!, 'hex')).bits;
    work += 2016n * workOf(bits, BTC.main.powLimit);
    const total = work + workOf(next, BTC.main.powLimit);
    assert.equal(total.toString(16), stated!.replace(/^0+/, ''), height);
    bits = next;
  }
  assert.equal(rows.length, 436);
  // Recorded at both ends of the consecutive headers.
  const headers = headersOf('btc-main-822528.hex');
  const sum = headers.reduce((total, header) => total + workOf(timed(header).bits, BTC.main.powLimit), 0x624c18bf09286e431639df40n);
  assert.equal(sum.toString(16), '665c59eb16adc0cb05db7eb4');
});

test('on test networks a late block is easy, and the next one is as hard as before', () => {
  const hard = 0x1c00ffff;
  const at = (bits: readonly number[]) => (height: number) => ({ timeSeconds: 1_000 * height, bits: bits[height % bits.length]! });
  const easy = bitsOf(BTC.testnet4.powLimit);
  assert.equal(hex(nextBits(BTC.testnet4, 5, 4_000 + 1_201, at([hard]))), hex(easy));
  assert.equal(hex(nextBits(BTC.testnet4, 5, 4_000 + 1_200, at([hard]))), hex(hard));
  assert.equal(hex(nextBits(BTC.testnet4, 5, 4_000 + 1_200, (height) => at([height > 2 ? easy : hard])(height))), hex(hard));
  assert.equal(hex(nextBits(LTC.testnet, 5, 4_000 + 301, at([hard]))), hex(bitsOf(LTC.testnet.powLimit)));
  assert.equal(hex(nextBits(BTC.main, 5, 4_000 + 100_000, at([hard]))), hex(hard));
});

test('BIP-94: the period after an easy last block starts from the bits of its first block', () => {
  const hard = 0x1c00ffff;
  const easy = bitsOf(BTC.testnet4.powLimit);
  // All blocks in time, and an exception at the end of the period.
  const at = (height: number) => ({ timeSeconds: 600 * height, bits: height === 4_031 ? easy : hard });
  const scaled = (bits: number) => hex(bitsOf((targetOfBits(bits, BTC.main.powLimit) * 2_015n) / 2_016n));
  assert.equal(hex(nextBits(BTC.testnet4, 4_032, 0, at)), scaled(hard));
  assert.equal(hex(nextBits(BTC.testnet3, 4_032, 0, at)), scaled(easy));
});
