/** The tables of assets, chains, families and coins fit together, and a row that a test adds behaves like the others. */
// Invariant: The rows of assets, chains, families and coins fit together.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ON_ETHEREUM, ON_SECOND, SECOND, TOKEN } from '../../test/kit/more-rows.ts';
import { ASSET, ASSETS, CHAIN, CHAINS, COIN, COINS, chainOf, FAMILIES, isAsset, isChain, isCoin, LIGHTNING } from './coin.ts';
import { formatUnits, parseDecimal, quoteUnits, shownUnit, worthUsdE8 } from './money.ts';

test('every row names rows that exist, and every code is used once', () => {
  for (const coin of COINS) {
    const { asset, chain, family, name, contract } = COIN[coin];
    assert.equal(COIN[coin].coin, coin);
    assert.ok(isAsset(asset) && isChain(chain), coin);
    assert.deepEqual([name, family], [ASSET[asset].name, CHAIN[chain].family]);
    // A native coin has the code of its asset; a token says where it is.
    assert.equal(coin, contract === null ? asset : `${asset}@${chain}`);
  }
  for (const chain of CHAINS) {
    const { family, code, confirmations } = CHAIN[chain];
    // No account key serves Lightning.
    assert.equal(FAMILIES.includes(family), chain !== COIN[LIGHTNING].chain, chain);
    assert.equal(confirmations.at(-1)!.belowUsdCents, null, 'the last tier has no bound');
    const native = COINS.find((coin) => COIN[coin].chain === chain && COIN[coin].contract === null);
    assert.equal(code, native ?? chain, 'chains are stored under their native coin, or under their own ID');
  }
  for (const codes of [ASSETS, CHAINS, FAMILIES, COINS, CHAINS.map((chain) => CHAIN[chain].code)])
    assert.equal(new Set<string>(codes).size, codes.length);
});

test('the five coins are the first ones, in the order that customers know', () => {
  assert.deepEqual(COINS.slice(0, 5), ['BTC', 'ETH', 'LTC', 'DASH', 'DOGE']);
  assert.deepEqual(
    COINS.slice(0, 5).map((coin) => COIN[coin].chain),
    ['bitcoin', 'ethereum', 'litecoin', 'dash', 'dogecoin'],
  );
});

test('a code is known only as it is written', () => {
  for (const text of ['BTC', 'USDX@second']) assert.ok(isCoin(text), text);
  for (const text of ['btc', 'USDX', 'toString', '__proto__', '', null, 7]) assert.ok(!isCoin(text), String(text));
});

test('a coin on a second chain has the rules of that chain', () => {
  assert.equal(chainOf(ON_SECOND), CHAIN[SECOND]);
  assert.equal(chainOf(ON_SECOND).blockSeconds, 2);
  assert.equal(chainOf(ON_ETHEREUM), CHAIN.ethereum);
  assert.deepEqual([COIN[ON_SECOND].family, COIN[ON_SECOND].asset], ['ETH', TOKEN]);
});

test('a coin of six decimals is quoted, shown and valued in them', () => {
  assert.equal(shownUnit(ON_SECOND), 1n);
  const units = quoteUnits(ON_SECOND, 2_550n, 100_000_000n);
  assert.equal(units, 25_500_000n);
  assert.equal(formatUnits(ON_SECOND, units), '25.500000');
  assert.equal(parseDecimal('25.5', COIN[ON_SECOND].decimals), units);
  assert.equal(parseDecimal('25.5000001', COIN[ON_SECOND].decimals), null);
  assert.equal(worthUsdE8(ON_SECOND, units, 100_000_000n), 2_550_000_000n);
  // At a price of 0.98 the amount is rounded up to the last decimal.
  assert.equal(formatUnits(ON_SECOND, quoteUnits(ON_SECOND, 100n, 98_000_000n)), '1.020409');
});
