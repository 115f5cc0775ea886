/** Columns of payments written by released versions must always remain readable. */
import assert from 'node:assert/strict';
import { globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { ALL_COINS, chainOf } from './coin.ts';
import type { Fiat } from './fiat.ts';
import type { Rules, TransferValue } from './payment.ts';
import type { PaymentRequest } from './payment-view.ts';
import {
  outputsFromJson,
  playsFromJson,
  playToJson,
  requestFromJson,
  requestToJson,
  rulesFromJson,
  rulesToJson,
  valuesFromJson,
  valuesToJson,
} from './stored-payment.ts';

const FOLDER = join(import.meta.dirname, '../../test/fixtures/stored');
const fixtures = globSync('*.json', { cwd: FOLDER }).map((file) => ({
  version: file.replace('.json', ''),
  ...JSON.parse(readFileSync(join(FOLDER, file), 'utf8')),
}));

const rules: Rules = {
  windowSeconds: 3_600,
  rateLockSeconds: 900,
  toleranceBasisPoints: 100,
  toleranceCapUsdCents: 500n,
  lateAcceptMinutes: 30,
  protectionHours: 24,
  protectionLargeHours: 2,
  protectionLargeUsdCents: 100_000n,
  adjustments: {},
  priceSource: null,
  confirmations: Object.fromEntries(ALL_COINS.map((coin) => [coin, chainOf(coin).confirmations])) as Rules['confirmations'],
};
const request: PaymentRequest = {
  returnUrl: 'https://shop.example/thanks',
  description: 'Two mugs',
  items: [{ productId: 'mug', name: 'Mug', quantity: 2n, unitPriceMinor: 1_250n }],
  taxMinor: 50n,
  locale: 'de',
  fiat: { amount: '23.50', currency: 'EUR', rateE8: 92_165_000n, source: 'coinbase, kraken', at: '2026-11-21T10:00:00.000Z' },
  asset: null,
};
const empty: PaymentRequest = { returnUrl: null, description: null, items: null, taxMinor: null, locale: null, fiat: null, asset: null };
const values: TransferValue[] = [
  { usdE8: 2_550_000_000n, at: new Date('2026-11-21T10:02:00Z'), basis: 'quote', reason: 'first_sight' },
  { usdE8: 2_400_000_000n, at: new Date('2026-11-22T11:00:00Z'), basis: 'spot', reason: 'confirmation' },
];

/** The tiers of a fixture: a later table of coins does not change agreed terms. */
const tiersOf = (stored: Record<string, [string | null, number, string][]>) =>
  Object.fromEntries(
    ALL_COINS.map((coin) => [
      coin,
      stored[coin]?.map(([below, confirmations, rule]) => ({
        belowUsdCents: below === null ? null : BigInt(below),
        confirmations,
        rule,
      })) ?? chainOf(coin).confirmations,
    ]),
  );

test('rows stored by each released version are read as they were meant', () => {
  assert.ok(fixtures.length > 0);
  for (const stored of fixtures) {
    assert.deepEqual(rulesFromJson(stored.rules), { ...rules, confirmations: tiersOf(stored.rules.confirmations) }, stored.version);
    assert.deepEqual(requestFromJson(stored.request), request, stored.version);
    assert.deepEqual(requestFromJson(stored.emptyRequest), empty, stored.version);
    assert.deepEqual(valuesFromJson(stored.values), values, stored.version);
  }
});

test('the amount that a transfer is counted with is stored with its value', () => {
  const company = { transactionUsdCents: 100_000n, merchantUsdCents: 2_500n };
  const [value] = valuesFromJson(JSON.parse(JSON.stringify(valuesToJson([{ ...values[0]!, company }]))));
  assert.deepEqual(value, { ...values[0], company });
});

test('the rate of the display currency is stored with a value, also of a currency that is no longer offered', () => {
  for (const currency of ['EUR', 'DEM'] as Fiat[]) {
    const display = { currency, rateE8: 92_165_000n };
    const [value] = valuesFromJson(JSON.parse(JSON.stringify(valuesToJson([{ ...values[0]!, display }]))));
    assert.deepEqual(value, { ...values[0], display });
  }
});

test('rows stored today have the version of their format and are read unchanged', () => {
  const again = (stored: unknown): any => JSON.parse(JSON.stringify(stored));
  for (const stored of [rulesToJson(rules), requestToJson(request), requestToJson(empty), ...valuesToJson(values)]) {
    assert.equal(again(stored).v, 1);
  }
  assert.deepEqual(rulesFromJson(again(rulesToJson(rules))), rules);
  assert.deepEqual(requestFromJson(again(requestToJson(request))), request);
  assert.deepEqual(requestFromJson(again(requestToJson(empty))), empty);
  const inLitecoin: PaymentRequest = { ...empty, asset: 'LTC' };
  assert.deepEqual(requestFromJson(again(requestToJson(inLitecoin))), inLitecoin);
  assert.deepEqual(valuesFromJson(again(valuesToJson(values))), values);
});

test('a coin or rule that was added later gets its default, and a removed one is left out', () => {
  const [stored] = fixtures;
  for (const coin of ALL_COINS) {
    const { [coin]: _, ...others } = stored.rules.confirmations;
    assert.deepEqual(rulesFromJson({ ...stored.rules, confirmations: others }).confirmations[coin], chainOf(coin).confirmations);
  }
  const older = { BTC: [[null, 9, 'confirmations']], XMR: [[null, 10, 'confirmations']] };
  const read = rulesFromJson({ ...stored.rules, confirmations: older });
  assert.deepEqual(Object.keys(read.confirmations), [...ALL_COINS]);
  assert.equal(read.confirmations.BTC[0]!.confirmations, 9);
  for (const name of Object.keys(stored.rules)) {
    const { [name]: _, ...others } = stored.rules;
    assert.deepEqual(Object.keys(rulesFromJson(others)).sort(), Object.keys(rules).sort(), name);
    for (const value of Object.values(rulesFromJson(others))) assert.notEqual(value, undefined, name);
  }
  // A default must not grant what a merchant never requested.
  assert.deepEqual([rulesFromJson({}).toleranceBasisPoints, rulesFromJson({}).lateAcceptMinutes], [0, null]);
});

test('tiers with an unreadable entry are those of the table; an unreadable value is never guessed', () => {
  for (const tiers of [
    [],
    [[null, 1, 'hope']],
    [
      ['100.5', 1, 'confirmations'],
      [null, 1, 'confirmations'],
    ],
    [[null, '1', 'confirmations']],
    'none',
  ]) {
    assert.deepEqual(
      rulesFromJson({ confirmations: { BTC: tiers } }).confirmations.BTC,
      chainOf('BTC').confirmations,
      JSON.stringify(tiers),
    );
  }
  for (const entry of [{}, { usdE8: 25.5 }, { usdE8: '25.5' }, null]) assert.throws(() => valuesFromJson([entry]), /cannot be read/);
});

test('the outputs of a transfer are read completely or not at all', () => {
  assert.equal(outputsFromJson(null), null);
  assert.deepEqual(
    outputsFromJson([
      [0, '5'],
      [3, '7'],
    ]),
    [
      { n: 0, units: 5n },
      { n: 3, units: 7n },
    ],
  );
  for (const other of [
    [],
    {},
    [[0, 5]],
    [
      [0, '5'],
      ['1', '7'],
    ],
    [null],
    'text',
  ])
    assert.equal(outputsFromJson(other), 'unreadable');
});

test('scenarios of a test payment have a version; one that cannot be read, or is unknown or `waiting`, is omitted', () => {
  const play = { coin: 'BTC', scenario: 'underpaid', units: 10n ** 20n, startedAt: new Date('2026-11-21T10:00:00Z') } as const;
  const stored = JSON.parse(JSON.stringify(playToJson(play)));
  assert.equal(stored.v, 1);
  const { v: _, ...unversioned } = stored;
  assert.deepEqual(playsFromJson([stored, unversioned]), [play, play]);
  for (const change of [
    { coin: 'XMR' },
    { scenario: 'waiting' },
    { scenario: 'hope' },
    { units: 5 },
    { units: '1.5' },
    { startedAt: 'soon' },
    { startedAt: 7 },
  ])
    assert.deepEqual(playsFromJson([{ ...stored, ...change }, stored]), [play], JSON.stringify(change));
  for (const name of Object.keys(unversioned)) {
    const { [name]: missing, ...others } = stored;
    assert.deepEqual(playsFromJson([others]), [], name);
  }
  for (const damaged of [null, undefined, 'x', 5, {}, [null], [[]], ['x']]) assert.deepEqual(playsFromJson(damaged), []);
});
