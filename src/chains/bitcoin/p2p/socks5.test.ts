import assert from 'node:assert/strict';
import { once } from 'node:events';
import { test } from 'node:test';
import { startScriptedPeer } from '../../../../test/kit/scripted-peer.ts';
import { startSocksProxy } from '../../../../test/kit/socks-proxy.ts';
import { openSocket, readProxy } from '../../../connections/socks5.ts';
import { connectPeer, peerNetwork } from './peer.ts';

const BTC = peerNetwork('BTC', 'regtest');
const silent = { onHeaders: () => {}, onItems: () => {}, onTransaction: () => {}, onAddresses: () => {}, onClose: () => {} };
const clock = { now: () => new Date(), monotonicMs: () => performance.now() };

for (const { text, proxy } of [
  { text: 'socks5://127.0.0.1:9050', proxy: { host: '127.0.0.1', port: 9050, user: '', password: '' } },
  { text: 'socks5://me:a%20b@tor:9050', proxy: { host: 'tor', port: 9050, user: 'me', password: 'a b' } },
  { text: 'socks5://[::1]:9050/', proxy: { host: '::1', port: 9050, user: '', password: '' } },
  { text: 'socks5://127.0.0.1', proxy: null },
  { text: 'socks4://127.0.0.1:9050', proxy: null },
  { text: 'http://127.0.0.1:9050', proxy: null },
  { text: 'socks5://127.0.0.1:9050/path', proxy: null },
  { text: '127.0.0.1:9050', proxy: null },
]) {
  test(`${text} is ${proxy ? 'a proxy' : 'refused'}`, () => assert.deepEqual(readProxy(text), proxy));
}

test('a peer is reached through a proxy, which resolves its name', async () => {
  const peer = await startScriptedPeer({ network: BTC });
  const proxy = await startSocksProxy({ where: () => peer.endpoint.port });
  const found = await connectPeer({
    endpoint: { host: 'a-name-that-only-the-proxy-knows.onion', port: 8333 },
    network: BTC,
    wantsTransactions: false,
    handlers: silent,
    clock,
    proxy: readProxy(proxy.url),
  });
  assert.equal(found.version.agent, '/scripted:1.0/');
  assert.deepEqual(proxy.asked, ['a-name-that-only-the-proxy-knows.onion:8333']);
  found.close('the test is over');
  await proxy.close();
  await peer.close();
});

test('each connection has another user, so that Tor uses another circuit', async () => {
  const peer = await startScriptedPeer({ network: BTC });
  const proxy = await startSocksProxy({ method: 2 });
  for (let i = 0; i < 2; i++) {
    const socket = await openSocket({ to: peer.endpoint, proxy: readProxy(proxy.url), timeoutMs: 10_000 });
    socket.destroy();
  }
  assert.equal(new Set(proxy.users).size, 2);
  assert.deepEqual(proxy.asked, [peer.name, peer.name]);
  await proxy.close();
  await peer.close();
});

for (const { name, how, reason } of [
  { name: 'cannot reach the host', how: { failure: 4 }, reason: /the host cannot be reached/ },
  { name: 'fails with an unknown code', how: { failure: 99 }, reason: /code 99/ },
  { name: 'wants another kind of authentication', how: { method: 255 }, reason: /without authentication/ },
  {
    name: 'used an unknown kind of address',
    how: { answers: Buffer.from([5, 0, 5, 0, 0, 2, 0, 0, 0]) },
    reason: /unknown kind of address/,
  },
  { name: 'is a web server', how: { answers: Buffer.from('HTTP/1.1 200 OK\r\n\r\n') }, reason: /does not speak SOCKS5/ },
]) {
  test(`no connection through a proxy that ${name}`, async () => {
    const proxy = await startSocksProxy(how);
    await assert.rejects(openSocket({ to: { host: '127.0.0.1', port: 1 }, proxy: readProxy(proxy.url), timeoutMs: 10_000 }), reason);
    await proxy.close();
  });
}

test('a proxy that says nothing is left in time', async () => {
  const proxy = await startSocksProxy({ answers: Buffer.alloc(0) });
  await assert.rejects(
    openSocket({ to: { host: '127.0.0.1', port: 1 }, proxy: readProxy(proxy.url), timeoutMs: 50 }),
    /no connection within 0.05 s/,
  );
  await proxy.close();
});

/** The answer of a proxy that connected, with the address that it used. */
const connected = (type: number, address: Buffer) => Buffer.concat([Buffer.from([5, 0, 5, 0, 0, type]), address, Buffer.alloc(2)]);
const named = (bytes: number) => connected(3, Buffer.concat([Buffer.from([bytes]), Buffer.alloc(bytes, 0x41)]));
for (const { name, answer } of [
  { name: 'an IPv4 address', answer: connected(1, Buffer.alloc(4)) },
  { name: 'an IPv6 address', answer: connected(4, Buffer.alloc(16)) },
  { name: 'an empty name', answer: named(0) },
  { name: 'a name of 255 bytes, the longest', answer: named(255) },
]) {
  test(`an answer with ${name} is read to its last byte, and one more belongs to the peer`, async () => {
    const proxy = await startSocksProxy({ answers: Buffer.concat([answer, Buffer.from('P')]) });
    const socket = await openSocket({ to: { host: '127.0.0.1', port: 1 }, proxy: readProxy(proxy.url), timeoutMs: 10_000 });
    assert.equal(String((await once(socket, 'data'))[0]), 'P');
    socket.destroy();
    await proxy.close();
  });

  test(`an answer with ${name} that lacks its last byte is waited for`, async () => {
    const proxy = await startSocksProxy({ answers: answer.subarray(0, -1) });
    await assert.rejects(
      openSocket({ to: { host: '127.0.0.1', port: 1 }, proxy: readProxy(proxy.url), timeoutMs: 50 }),
      /no connection within 0.05 s/,
    );
    await proxy.close();
  });
}
