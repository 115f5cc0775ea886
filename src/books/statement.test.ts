/** The lines of a statement and the settings of a DATEV export, without a database. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Problem } from '../core/problem.ts';
import { isZeroAmount, naturalSign } from './book-files.ts';
import { ACCOUNTS, withTrialBalance } from './books.ts';
import { checkDatev, type DatevWish, datevAccountsOf } from './datev.ts';

const none = { units: 0n, cents: 0n };
const NOTHING = { received: none, settled: none, refunded: none, paid_out: none, swept: none, fees: none, reversed: none };
type Line = Parameters<typeof withTrialBalance>[0][number];
const line = (coin: Line['coin'], account: Line['account'], units: bigint): Line => ({
  ...{ coin, account, ...NOTHING },
  ...{ opening: none, received: { units, cents: units * 2n }, closing: { units, cents: units * 2n } },
});

test('each coin ends with its sum, which is zero, and a statement that does not balance is not written', () => {
  const lines = [
    line('BTC', 'deposit_addresses', 5n),
    line('BTC', 'refunds', -5n),
    line('ETH', 'deposit_addresses', 7n),
    line('ETH', 'sales', -7n),
  ];
  const shown = withTrialBalance(lines);
  assert.deepEqual(
    shown.map(({ coin, account }) => `${coin} ${account}`),
    ['BTC deposit_addresses', 'BTC refunds', 'BTC trial_balance', 'ETH deposit_addresses', 'ETH sales', 'ETH trial_balance'],
  );
  for (const { account, received, closing } of shown) if (account === 'trial_balance') assert.deepEqual([received, closing], [none, none]);
  assert.throws(() => withTrialBalance([...lines, line('BTC', 'sales', 1n)]), /add up to zero/);
  const cents = { ...line('BTC', 'sales', 0n), closing: { units: 0n, cents: 1n } };
  assert.throws(() => withTrialBalance([...lines, cents]), /add up to zero/, 'a cent is enough');
});

test('an amount is on the side where its account usually has money', () => {
  assert.equal(naturalSign('deposit_addresses', 5n), 5n);
  assert.equal(naturalSign('sales', -5n), 5n);
  assert.equal(naturalSign('trial_balance', 0n), 0n);
  for (const zero of ['0', '0.00', '0.00000000']) assert.equal(isZeroAmount(zero), true);
  for (const some of ['0.01', '-0.10', '10']) assert.equal(isZeroAmount(some), false);
});

const period = (from: string, until: string) =>
  ({ period: { from, until, timeZone: 'Europe/Berlin' }, display: { currency: 'EUR', rateE8: 1n } }) as Parameters<typeof checkDatev>[0];
const wish: DatevWish = { chart: 'SKR03', consultant: 1_001, client: 1, fiscalYear: '2026-01-01', accounts: {} } as DatevWish;
const refused = (param: string) => (error: Problem) =>
  error instanceof Problem && error.code === 'parameter_invalid' && error.param === param;

test('a DATEV export is in euros, inside one fiscal year, with accounts of one length', () => {
  const year = period('2026-01-01', '2026-12-31');
  assert.deepEqual(Object.keys(checkDatev(year, wish)).sort(), [...ACCOUNTS].sort());
  assert.throws(() => checkDatev({ ...year, display: null }, wish), refused('currency'));
  assert.throws(() => checkDatev({ ...year, display: { currency: 'CHF', rateE8: 1n } }, wish), refused('currency'));
  for (const consultant of [1_000, 10_000_000, 1_001.5])
    assert.throws(() => checkDatev(year, { ...wish, consultant }), refused('consultant'));
  for (const client of [0, 100_000]) assert.throws(() => checkDatev(year, { ...wish, client }), refused('client'));
  for (const fiscalYear of ['2026-01-02', '2026-13-01', '01.01.2026'])
    assert.throws(() => checkDatev(year, { ...wish, fiscalYear }), refused('fiscal_year'));
  assert.throws(() => checkDatev(period('2025-12-31', '2026-12-30'), wish), refused('fiscal_year'));
  assert.throws(() => checkDatev(period('2026-01-01', '2027-01-01'), wish), refused('fiscal_year'));
  checkDatev(period('2026-04-01', '2027-03-31'), { ...wish, fiscalYear: '2026-04-01' });
  assert.throws(() => checkDatev(year, { ...wish, accounts: { sales: '84000' } }), refused('accounts'));
});

test('account numbers are read as name and number, and nothing else', () => {
  assert.deepEqual(datevAccountsOf('sales=8400, refunds = 8720,'), { sales: '8400', refunds: '8720' });
  assert.deepEqual(datevAccountsOf(''), {});
  for (const bad of ['sales', 'sales=', 'sales=84', 'sales=840000000', 'sales=84a0', 'constructor=8400', 'sales=8400;refunds=8720'])
    assert.throws(() => datevAccountsOf(bad), refused('accounts'), bad);
});
