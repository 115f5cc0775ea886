/** Which strings are networks, and which addresses they contain. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { clientNetwork, isNetwork, matchNetworks } from './networks.ts';

test('addresses and networks of both kinds are accepted, and nothing else', () => {
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

test('an address is within its networks, also when IPv4 is written as IPv6', () => {
  const within = matchNetworks(['192.0.2.0/24', '198.51.100.7', '2001:db8::/32']);
  for (const ip of ['192.0.2.1', '192.0.2.255', '198.51.100.7', '::ffff:192.0.2.9', '2001:db8:1::1']) assert.ok(within(ip), ip);
  for (const ip of ['192.0.3.1', '198.51.100.8', '2001:db9::1', '::1', '', 'nonsense']) assert.ok(!within(ip), ip);
  assert.ok(!matchNetworks([])('192.0.2.1'));
});

test('an IPv4 address counts as itself, an IPv6 address as its first 64 bits, however it is written', () => {
  for (const [ip, counts] of [
    ['198.51.100.7', '198.51.100.7'],
    ['::ffff:198.51.100.7', '198.51.100.7'],
    ['::FFFF:c633:6407', '198.51.100.7'],
    ['0:0:0:0:0:ffff:c633:6407', '198.51.100.7'],
    ['1:0:0:0:0:ffff:c633:6407', '1:0:0:0::/64'],
    ['2001:db8:1:2:3:4:5:6', '2001:db8:1:2::/64'],
    ['2001:db8:1:2::', '2001:db8:1:2::/64'],
    ['2001:0DB8:0001:0002::9', '2001:db8:1:2::/64'],
    ['2001:db8:1::9', '2001:db8:1:0::/64'],
    ['2001:db8::', '2001:db8:0:0::/64'],
    ['::1', '0:0:0:0::/64'],
    ['::', '0:0:0:0::/64'],
    // Of a translator, which has all of IPv4 in one network.
    ['64:ff9b::192.0.2.33', '192.0.2.33'],
    ['0064:FF9B:0:0:0:0:c000:0221', '192.0.2.33'],
    ['64:ff9b::9', '0.0.0.9'],
    ['64:ff9b:1::192.0.2.33', '64:ff9b:1:0::/64'],
    ['64:ff9b:0:0:1::1', '64:ff9b:0:0::/64'],
    ['1:2:3:4:5:6:192.0.2.33', '1:2:3:4::/64'],
    ['1::3:4:5:6:192.0.2.33', '1:0:3:4::/64'],
    ['fe80::1%eth0', 'fe80:0:0:0::/64'],
  ] as const)
    assert.equal(clientNetwork(ip), counts, ip);
});
