import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createPeerBook, endpointName, networkGroup, readEndpoint } from './peer-book.ts';
import { addressText } from './peers.ts';

const clockAt = () => {
  const clock = { ms: 0, now: () => new Date(0), monotonicMs: () => clock.ms };
  return clock;
};
const at = (host: string) => ({ host, port: 8333 });

for (const [text, name] of [
  ['1.2.3.4:8333', '1.2.3.4:8333'],
  ['[2001:db8::1]:8333', '[2001:db8::1]:8333'],
  ['peer.example:1', 'peer.example:1'],
  [' 1.2.3.4:8333 ', '1.2.3.4:8333'],
  ['1.2.3.4', null],
  ['1.2.3.4:0', null],
  ['1.2.3.4:65536', null],
  ['[1.2.3.4]:1', null],
  ['http://1.2.3.4:1', null],
  ['2001:db8::1:8333', null],
] as const) {
  test(`"${text}" is ${name ? 'a peer' : 'refused'}`, () => {
    const endpoint = readEndpoint(text);
    assert.equal(endpoint && endpointName(endpoint), name);
  });
}

for (const [host, group] of [
  ['1.2.3.4', '1.2'],
  ['1.2.200.1', '1.2'],
  ['2001:db8:1::1', '2001:0db8'],
  ['2001:db8:ffff::', '2001:0db8'],
  ['2001::1', '2001:0000'],
  ['::1', '0000:0000'],
  ['Peer.example', 'peer.example'],
] as const) {
  test(`${host} belongs to the network group ${group}`, () => assert.equal(networkGroup(host), group));
}

test('addresses in messages are IPv6, with IPv4 inside', () => {
  assert.equal(addressText(Buffer.from('00000000000000000000ffff01020304', 'hex')), '1.2.3.4');
  assert.equal(addressText(Buffer.from('20010db8000000000000000000000001', 'hex')), '2001:db8:0:0:0:0:0:1');
});

test('many addresses of one group, and many from one teller, do not fill the book', () => {
  const book = createPeerBook({ clock: clockAt() });
  book.add(
    Array.from({ length: 200 }, (_, n) => at(`1.2.3.${n}`)),
    { kind: 'peer', teller: '1.2' },
  );
  assert.equal(book.size(), 8);
  const many = (first: number) => Array.from({ length: 250 * 16 }, (_, n) => at(`${first + (n >> 8)}.${n & 255}.0.1`));
  book.add(many(20), { kind: 'peer', teller: '1.2' });
  assert.equal(book.size(), 128);
  for (let teller = 0; teller < 100; teller++) book.add(many(40), { kind: 'peer', teller: `teller ${teller}` });
  assert.equal(book.size(), 2_000);
});

test('peers that came first and told most cannot keep later ones, the seeds and the list of the release out of a full book', () => {
  const book = createPeerBook({ clock: clockAt() });
  const told = (first: number, count: number) => Array.from({ length: count }, (_, n) => at(`${first}.${n}.0.1`));
  const proven = told(20, 5);
  for (let liar = 0; liar < 20; liar++) {
    book.add(told(20 + liar, 128), { kind: 'peer', teller: `liar ${liar}` });
    if (liar === 0) for (const one of proven) book.worked(one);
  }
  assert.equal(book.size(), 2_000);
  const pickable = (hosts: readonly { host: string; port: number }[]) => book.pick(new Set(), { among: new Set(hosts.map(endpointName)) });
  book.add(told(90, 40), { kind: 'peer', teller: 'honest' });
  assert.equal(book.size(), 2_000);
  for (const one of told(90, 40)) assert.deepEqual(pickable([one]), one);
  book.add(told(91, 60), { kind: 'fallback', teller: 'fallback' });
  book.add(told(92, 60), { kind: 'seed', teller: 'a seed' });
  for (const one of [...told(91, 60), ...told(92, 60)]) assert.deepEqual(pickable([one]), one);
  assert.equal(pickable([at('99.1.0.1')]), null);
  // Those that worked stay.
  for (let peer = 0; peer < 10; peer++) book.add(told(100 + peer, 128), { kind: 'peer', teller: `later ${peer}` });
  assert.deepEqual(book.proven(), proven);
});

test('an address that fails six times in a row is forgotten, and makes room for another of its group', () => {
  const book = createPeerBook({ clock: clockAt() });
  const group = Array.from({ length: 8 }, (_, n) => at(`1.2.3.${n}`));
  book.add(group, { kind: 'seed', teller: 'a' });
  book.add([at('1.2.9.9')], { kind: 'seed', teller: 'a' });
  assert.equal(book.size(), 8);
  for (let i = 0; i < 6; i++) book.failed(group[0]!);
  assert.equal(book.size(), 7);
  book.add([at('1.2.9.9'), at('1.2.9.10')], { kind: 'seed', teller: 'a' });
  assert.equal(book.size(), 8);
});

test('a group with many addresses is not picked more often, and connected groups not at all', () => {
  const book = createPeerBook({ clock: clockAt() });
  book.add(
    Array.from({ length: 8 }, (_, n) => at(`1.2.3.${n}`)),
    { kind: 'seed', teller: 'a' },
  );
  book.add([at('5.6.7.8')], { kind: 'seed', teller: 'b' });
  let alone = 0;
  for (let i = 0; i < 1_000; i++) if (book.pick(new Set())!.host === '5.6.7.8') alone++;
  assert.ok(alone > 350 && alone < 650, String(alone));
  assert.equal(book.pick(new Set(['1.2']))!.host, '5.6.7.8');
  assert.equal(book.pick(new Set(['1.2', '5.6'])), null);
});

test('an address that failed waits longer each time, one that broke the rules a day, one that worked is proven', () => {
  const clock = clockAt();
  const book = createPeerBook({ clock });
  const endpoint = at('1.2.3.4');
  book.add([endpoint], { kind: 'fallback', teller: 'fallback' });
  for (const waitMs of [60_000, 120_000, 240_000]) {
    book.failed(endpoint);
    clock.ms += waitMs - 1;
    assert.equal(book.pick(new Set()), null);
    clock.ms += 1;
    assert.deepEqual(book.pick(new Set()), endpoint);
  }
  assert.deepEqual(book.proven(), []);
  book.worked(endpoint);
  assert.deepEqual(book.proven(), [endpoint]);
  assert.equal(book.pick(new Set(), { untried: true }), null);
  book.ban(endpoint);
  clock.ms += 24 * 3_600_000 - 1;
  assert.equal(book.pick(new Set()), null);
  clock.ms += 1;
  assert.deepEqual(book.pick(new Set(), { untried: true }), endpoint);
});
