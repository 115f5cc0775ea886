/** What is a network, and what is within it. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { isNetwork, matchNetworks } from './networks.ts';

test('addresses and networks of both kinds are taken, and nothing else', () => {
  for (const text of ['192.0.2.1', '192.0.2.0/24', '0.0.0.0/0', '2001:db8::1', '2001:db8::/32']) assert.ok(isNetwork(text), text);
  for (const text of [
    '',
    'shop.example',
    '192.0.2',
    '192.0.2.0/33',
    '192.0.2.0/',
    '192.0.2.0/08',
    '192.0.2.0/1/2',
    '2001:db8::/129',
    'fe80::1%eth0',
    '010.0.0.1',
  ])
    assert.ok(!isNetwork(text), text);
});

test('an address is within its networks, also when IPv4 comes written as IPv6', () => {
  const within = matchNetworks(['192.0.2.0/24', '198.51.100.7', '2001:db8::/32']);
  for (const ip of ['192.0.2.1', '192.0.2.255', '198.51.100.7', '::ffff:192.0.2.9', '2001:db8:1::1']) assert.ok(within(ip), ip);
  for (const ip of ['192.0.3.1', '198.51.100.8', '2001:db9::1', '::1', '', 'nonsense']) assert.ok(!within(ip), ip);
  assert.ok(!matchNetworks([])('192.0.2.1'));
});
