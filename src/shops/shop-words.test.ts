/** What shops ask for, in words of their own: methods, texts, addresses, and the query of the pairing page. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { COIN, COINS, isToken } from '../core/coin.ts';
import { ROLES } from '../core/roles.ts';
import { grantableTo, PERMISSIONS, PLATFORM_PERMISSIONS, PLATFORMS, packQuery, platformOf, readPairing } from './shop-keys.ts';
import { coinOfMethod, methodOf } from './shop-money.ts';
import { type FieldFault, orderIdOf, readRedirect, readText, shownNumber } from './shop-order.ts';

test('every coin has a method of its own, which is read in all spellings of plugins; an asset alone is never a token', () => {
  assert.equal(new Set(COINS.map(methodOf)).size, COINS.length);
  for (const coin of COINS) {
    const method = methodOf(coin);
    for (const spelling of [method, method.toLowerCase(), method.replace('-', '_'), method.replace(/-CHAIN$/, '-OnChain')])
      assert.equal(coinOfMethod(spelling), coin, spelling);
    if (!isToken(coin)) assert.equal(coinOfMethod(COIN[coin].asset), coin);
  }
  for (const text of ['', 'USDC', 'BTC-LightningNetwork', 'BTC-CHAIN-CHAIN', 'XMR', 'ETH-ETHEREUM'])
    assert.equal(coinOfMethod(text), null, text);
});

test('an address to return to is an http or https URL; a fault says which one is not', () => {
  const read = (given: unknown) => {
    const faults: FieldFault[] = [];
    return [readRedirect(given, { path: 'redirectURL', name: 'address to return to', faults }), faults.length];
  };
  assert.deepEqual(read(' https://shop.example/thanks?order={OrderId} '), ['https://shop.example/thanks?order={OrderId}', 0]);
  for (const nothing of ['', null, undefined, 7]) assert.deepEqual(read(nothing), [null, 0]);
  for (const bad of ['javascript:alert(1)', '//shop.example', 'ftp://shop.example', `https://shop.example/${'a'.repeat(2_000)}`])
    assert.deepEqual(read(bad), [null, 1], bad);
});

test('the number of an order is text or a whole number, and is shown when it is short enough to search for', () => {
  assert.equal(orderIdOf({ orderId: 'A-7' }, 'orderId'), 'A-7');
  assert.equal(orderIdOf({ orderId: 7 }, 'orderId'), '7');
  for (const bad of [null, [], { orderId: {} }, { orderId: '' }, { order_id: '7' }]) assert.equal(orderIdOf(bad, 'orderId'), null);
  assert.equal(orderIdOf({ orderId: 'x'.repeat(300) }, 'orderId')!.length, 200);
  assert.equal(shownNumber('x'.repeat(100))!.length, 100);
  assert.equal(shownNumber('x'.repeat(101)), null);
  assert.equal(readText('\u{1F980}'.repeat(3), 5)!.isWellFormed(), true, 'characters are not cut in half');
});

test('a pairing query keeps what a shop may have, names what nobody can give, and sends the key to no other kind of address', () => {
  const read = (query: string) => readPairing(packQuery(query));
  const [first, second] = PLATFORM_PERMISSIONS.woocommerce;
  const asked = read(
    `permissions=${first}:store_9&permissions=${first}&permissions=${second}&permissions=btcpay.server.canmodify&applicationName=My%0AShop`,
  );
  assert.deepEqual(asked.permissions, [first, second]);
  assert.deepEqual(asked.unknown, ['btcpay.server.canmodify']);
  assert.ok(!/[\n\r]/.test(asked.name));
  assert.deepEqual(read('redirect=https://shop.example:8443/wp-admin?x=1'), {
    ...{ name: 'Shop', permissions: [], unknown: [], redirect: 'https://shop.example:8443/wp-admin?x=1' },
    ...{ origin: 'https://shop.example:8443', site: 'https://shop.example:8443/wp-admin' },
  });
  for (const bad of ['javascript:alert(1)', "https://shop.example;script-src'/", 'data:text/html,x'])
    assert.equal(read(`redirect=${encodeURIComponent(bad)}`).redirect, null, bad);
  assert.equal(readPairing('not base64 at all!').permissions.length, 0);
  assert.ok(read(`permissions=${'a&permissions='.repeat(1_000)}`).unknown.length <= 50);
});

test('permissions name their platform exactly, and a role gives only what it has itself', () => {
  for (const platform of PLATFORMS) {
    const asked = PLATFORM_PERMISSIONS[platform];
    const named = platformOf([...asked].reverse());
    assert.ok(named !== 'other');
    assert.deepEqual([...PLATFORM_PERMISSIONS[named]].sort(), [...asked].sort());
  }
  assert.equal(platformOf([]), 'other');
  const all = Object.values(PERMISSIONS);
  assert.deepEqual(grantableTo('owner', all), all);
  assert.deepEqual(grantableTo('viewer', all), []);
  for (const role of ROLES)
    if (role !== 'owner' && role !== 'admin' && role !== 'finance') assert.ok(!grantableTo(role, all).includes(PERMISSIONS.refunds), role);
});
