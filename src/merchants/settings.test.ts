/** Settings of an operator who requires fewer confirmations than the default table. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { COINS, type Coin, chainOf } from '../core/coin.ts';
import { parseConfirmations } from '../core/confirmation.ts';
import { loweredFrom } from './settings.ts';

const lowered = (coin: Coin, text: string) => parseConfirmations(text).map((tier) => loweredFrom(coin, tier)?.confirmations ?? null);

test('the default table is never lowered; an operator’s tier applies where the table requires more for its largest amount', () => {
  for (const coin of COINS) for (const tier of chainOf(coin).confirmations) assert.equal(loweredFrom(coin, tier), null, coin);
  assert.deepEqual(lowered('BTC', '1'), [6]);
  assert.deepEqual(lowered('BTC', '6'), [null]);
  assert.deepEqual(lowered('BTC', '100:1,1000:1,*:6'), [null, 2, null]);
  // A tier that extends past one of the table follows the next one.
  assert.deepEqual(lowered('BTC', '5000:2,*:6'), [3, null]);
  // A block that the network calls final has as many confirmations as would make it final.
  assert.equal(loweredFrom('ETH', parseConfirmations('63')[0]!)?.rule, 'finalized');
  assert.deepEqual(lowered('ETH', '64'), [null]);
  // Where a sequencer alone makes blocks, no number of them is as good as a block that Ethereum has.
  assert.deepEqual(lowered('USDC@base', '100:50,*:9999'), [null, 0]);
  assert.equal(loweredFrom('USDC@polygon', parseConfirmations('9999')[0]!)?.rule, 'finalized');
  assert.equal(loweredFrom('DASH', parseConfirmations('5')[0]!)?.rule, 'chainlock');
  assert.deepEqual(lowered('DASH', '100:1,*:6'), [null, null]);
});
