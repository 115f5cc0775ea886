/** Outgoing requests over real sockets: what a merchant's URL must never reach, and what a receiver cannot do to the service. */
import assert from 'node:assert/strict';
import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer as createHttpServer, type RequestListener, type Server } from 'node:http';
import { createServer as createHttpsServer } from 'node:https';
import { type AddressInfo, connect, createServer as createTcpServer, type Server as NetServer, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';
import { startSocksProxy } from '../../test/kit/socks-proxy.ts';
import { createOutgoing } from './http-client.ts';
import { isPublicAddress, OutgoingError, type OutgoingRequest } from './outgoing.ts';
import { readProxy, type SocksProxy } from './socks5.ts';

const silent = { debug() {}, info() {}, warn() {}, error() {} };
const pem = readFileSync(join(import.meta.dirname, '../../test/fixtures/hooks.example.pem'), 'utf8');
const [key, certificate, endedCertificate] = pem.match(/-----BEGIN .*?-----END [A-Z ]+-----/gs)!;

const closers: (() => unknown)[] = [];
after(async () => {
  for (const close of closers.reverse()) await close();
});
async function listen<S extends NetServer>(server: S, host = '127.0.0.1', port = 0): Promise<S & { port: number; connections: number }> {
  const listening = Object.assign(server, { port: 0, connections: 0 });
  const open = new Set<Socket>();
  server.on('connection', (socket: Socket) => {
    listening.connections++;
    open.add(socket.on('error', () => {}).on('close', () => open.delete(socket)));
  });
  server.listen(port, host);
  await once(server, 'listening');
  listening.port = (server.address() as AddressInfo).port;
  closers.push(() => {
    server.close();
    for (const socket of open) socket.destroy();
  });
  return listening;
}
const httpReceiver = (answer: RequestListener): Promise<Server & { port: number; connections: number }> => listen(createHttpServer(answer));
/** A receiver that works with bytes: `talk` gets the socket once the request has begun. */
const rawReceiver = (talk: (socket: Socket) => void) =>
  listen(createTcpServer((socket) => void socket.once('data', () => talk(socket)).on('error', () => {})));

/** A client with its own names. Each name resolves to its addresses, in turn if there are several answers. */
function wayOut(
  names: Record<string, string[][]> = {},
  { allow = [], ca, proxy = null }: { allow?: string[]; ca?: string; proxy?: SocksProxy | null } = {},
) {
  const asked: string[] = [];
  const outgoing = createOutgoing({
    allow,
    log: silent,
    ...(ca && { ca }),
    proxy,
    resolve: async (host) => {
      if (host.endsWith('onion')) asked.push(host);
      const answers = names[host];
      if (!answers) throw Object.assign(new Error(`getaddrinfo ENOTFOUND ${host}`), { code: 'ENOTFOUND' });
      const turn = asked.filter((h) => h === host).length;
      asked.push(host);
      return answers[Math.min(turn, answers.length - 1)]!.map((address) => ({ address, family: address.includes(':') ? 6 : 4 }));
    },
  });
  closers.push(() => outgoing.close());
  return { outgoing, asked };
}
const own = wayOut({ 'hooks.example': [['127.0.0.1']] }, { allow: ['127.0.0.0/8'] }).outgoing;
const fails = (kind: OutgoingError['class']) => (error: unknown) => {
  assert.ok(error instanceof OutgoingError, String(error));
  assert.equal(error.class, kind, error.message);
  return true;
};
const merchantId = 'mer_shop';
const limits = { merchantId, timeoutMs: 120_000, maxReplyBytes: 1_000 };
/** Far less than that limit, but far more than a busy machine needs for an instant response, or 300 ms. */
const FAR_LESS_MS = 60_000;
const toMerchant = (url: string, more: Partial<OutgoingRequest> = {}) => own.requestMerchantUrl({ url, ...limits, ...more });

const PRIVATE_ADDRESSES = `
0.0.0.0 0.255.255.255 10.0.0.0 10.255.255.255 100.64.0.0 100.127.255.255 127.0.0.1 127.255.255.255 169.254.0.1 169.254.169.254
172.16.0.0 172.31.255.255 192.0.0.1 192.0.2.1 192.88.99.1 192.168.0.0 192.168.255.255 198.18.0.0 198.19.255.255 198.51.100.7
203.0.113.7 224.0.0.1 239.255.255.255 240.0.0.1 255.255.255.255
:: ::1 ::127.0.0.1 ::7f00:1 ::ffff:127.0.0.1 ::ffff:7f00:1 ::ffff:0:127.0.0.1 ::ffff:8.8.8.8 64:ff9b::7f00:1 64:ff9b::8.8.8.8
64:ff9b:1::1 100::1 2001::1 2001:0:7f00:1:: 2001:20::1 2001:db8::1 2002:7f00:1:: 2002:a00:1:: 3fff::1 5f00::1 fc00::1 fd00::1
fd12:3456:789a::1 fe80::1 fec0::1 ff02::1
`;
const PUBLIC_ADDRESSES = `
1.1.1.1 8.8.8.8 9.255.255.255 11.0.0.0 100.63.255.255 100.128.0.0 126.255.255.255 128.0.0.0 169.253.255.255 169.255.0.0
172.15.255.255 172.32.0.0 192.167.255.255 192.169.0.0 198.17.255.255 198.20.0.0 223.255.255.255
2606:4700::1111 2001:4860:4860::8888 2a00:1450::1 2003::1
`;
const words = (text: string) => text.trim().split(/\s+/);

test('every address outside the public internet is recognized, including the edges', () => {
  for (const address of words(PRIVATE_ADDRESSES)) assert.equal(isPublicAddress(address), false, address);
  for (const address of words(PUBLIC_ADDRESSES)) assert.equal(isPublicAddress(address), true, address);
  for (const nonsense of ['', 'localhost', '127.1', '1.1.1.1.', 'fe80::1%eth0']) assert.equal(isPublicAddress(nonsense), false, nonsense);
});

/** Spellings of private hosts that need no name service. Full-width and circled digits and ideographic stops are IDN's own. */
const SPELLINGS = `
127.0.0.1 127.1 127.0.1 2130706433 0x7f.1 0x7f000001 0x7F.0.0.1 0177.0.0.1 017700000001 127.0.0.1. 127.1. 0 0.0.0.0 0x0
１２７.０.０.１ ①②⑦.0.0.1 127。0。0。1 127．0．0．1 %31%32%37.0.0.1 10.0.0.1 012.0.0.1 167772161 172.16.0.1 192.168.1.1 0xc0.0xa8.1.1
169.254.169.254 0xa9fea9fe 2852039166 169.254.43518 100.64.0.1 198.18.0.1 224.0.0.1 240.0.0.1 255.255.255.255 4294967295
[::] [::1] [0:0:0:0:0:0:0:1] [0000::0001] [::127.0.0.1] [::ffff:127.0.0.1] [::FFFF:7F00:1] [::ffff:7f00:1] [::ffff:a9fe:a9fe]
[64:ff9b::7f00:1] [64:ff9b::127.0.0.1] [2002:7f00:1::] [2002:7f00:0001::1] [2001:0:7f00:1::] [fe80::1] [fc00::1] [FD00::1] [ff02::1]
`;
for (const path of ['save', 'send'] as const) {
  const tryUrl = (url: string, out = wayOut().outgoing) =>
    path === 'save' ? out.vetMerchantUrl({ merchantId, url }) : out.requestMerchantUrl({ url, ...limits });

  test(`a private address is refused in every notation (${path})`, async () => {
    for (const host of words(SPELLINGS)) {
      for (const suffix of ['/hook', ':8443/hook'])
        await assert.rejects(tryUrl(`https://${host}${suffix}`), fails('refused_address'), `${host}${suffix}`);
    }
  });

  test(`names of private hosts are refused however they are written (${path})`, async () => {
    const { outgoing } = wayOut({
      localhost: [['127.0.0.1', '::1']],
      'internal.example': [['10.1.2.3']],
      'metadata.example': [['169.254.169.254']],
      'six.example': [['fd00::1']],
      'mapped.example': [['::ffff:10.0.0.1']],
      'half.example': [['93.184.216.34', '192.168.0.1']],
      'half6.example': [['93.184.216.34', '::1']],
      'nothing.example': [[]],
    });
    for (const host of [
      ...words('localhost LOCALHOST LocalHost localhost. LOCALHOST. ⓛocalhost ｌｏｃａｌｈｏｓｔ localhost:8443'),
      ...words('internal.example INTERNAL.example. metadata.example six.example mapped.example half.example half6.example'),
    ]) {
      await assert.rejects(tryUrl(`https://${host}/hook`, outgoing), fails('refused_address'), host);
    }
    for (const host of words('unknown.example nothing.example localhost.. 127.0.0.1..'))
      await assert.rejects(tryUrl(`https://${host}/`, outgoing), fails('dns'), host);
  });

  test(`anything but https without user info is refused (${path})`, async () => {
    const { outgoing } = wayOut({ 'shop.example': [['93.184.216.34']] });
    for (const url of [
      'http://shop.example/',
      'HTTP://93.184.216.34/',
      'ftp://shop.example/',
      'file:///etc/passwd',
      'gopher://shop.example/',
      'ws://shop.example/',
      'javascript:alert(1)',
      'data:text/plain,x',
      '//shop.example/',
      'shop.example',
      '',
      'https://',
      'https://./',
      'https://[fe80::1%25eth0]/',
      'https://shop.example:99999/',
      'https://user@shop.example/',
      'https://user:word@shop.example/',
      'https://:word@shop.example/',
      `https://shop.example/${'a'.repeat(2_048)}`,
    ]) {
      await assert.rejects(tryUrl(url, outgoing), fails('invalid_url'), url);
    }
    // What comes before the @ is not a host.
    await assert.rejects(tryUrl('https://shop.example@127.0.0.1/', outgoing), fails('invalid_url'));
  });

  test(`ports of services that are not web servers are refused (${path})`, async () => {
    const { outgoing } = wayOut({ 'shop.example': [['93.184.216.34']] });
    for (const port of [0, 1, 22, 25, 80, 110, 444, 1023, 2375, 3306, 5432, 6379, 9200, 11211, 27017])
      await assert.rejects(tryUrl(`https://shop.example:${port}/`, outgoing), fails('refused_address'), String(port));
  });
}

test('a public https URL can be saved with any port above 1023', async () => {
  const { outgoing } = wayOut({ 'shop.example': [['93.184.216.34', '2606:4700::1111']] });
  for (const url of [
    'https://shop.example/hook',
    'https://SHOP.example./hook?a=b#c',
    'https://shop.example:443/',
    'https://shop.example:8443/',
    'https://1.1.1.1/',
    'https://[2606:4700::1111]/',
  ])
    await outgoing.vetMerchantUrl({ merchantId, url });
});

test('a refused URL is never connected to', async () => {
  const inside = await httpReceiver((_, reply) => reply.end('secret'));
  const { outgoing } = wayOut({ 'inside.example': [['127.0.0.1']] });
  for (const url of [
    `https://127.0.0.1:${inside.port}/`,
    `https://inside.example:${inside.port}/`,
    `https://[::ffff:7f00:1]:${inside.port}/`,
  ])
    await assert.rejects(outgoing.requestMerchantUrl({ url, ...limits }), fails('refused_address'));
  assert.equal(inside.connections, 0);
});

test('WEBHOOK_ALLOW opens exactly what it names, also over http', async () => {
  const inside = await httpReceiver((_, reply) => reply.end('ok'));
  const names = { 'own.example': [['127.0.0.1']], 'other.example': [['127.0.0.1']], 'both.example': [['127.0.0.1', '10.0.0.1']] };
  const byName = wayOut(names, { allow: ['Own.Example'] }).outgoing;
  assert.equal((await byName.requestMerchantUrl({ url: `http://own.example:${inside.port}/`, ...limits })).status, 200);
  assert.equal((await byName.requestMerchantUrl({ url: `http://OWN.example.:${inside.port}/`, ...limits })).status, 200);
  await assert.rejects(byName.vetMerchantUrl({ merchantId, url: `http://other.example:${inside.port}/` }), fails('refused_address'));
  await assert.rejects(byName.vetMerchantUrl({ merchantId, url: `http://127.0.0.1:${inside.port}/` }), fails('refused_address'));
  const byNetwork = wayOut(names, { allow: ['127.0.0.0/8', 'fd00::/8'] }).outgoing;
  assert.equal((await byNetwork.requestMerchantUrl({ url: `http://127.1:${inside.port}/`, ...limits })).status, 200);
  await byNetwork.vetMerchantUrl({ merchantId, url: 'http://[fd12::1]/' });
  for (const host of ['both.example', '[::1]', '10.0.0.1', '[fe80::1]'])
    await assert.rejects(byNetwork.vetMerchantUrl({ merchantId, url: `http://${host}:${inside.port}/` }), fails('refused_address'), host);
  const byAddress = wayOut(names, { allow: ['127.0.0.1', '::1'] }).outgoing;
  await byAddress.vetMerchantUrl({ merchantId, url: 'http://127.0.0.1/' });
  await byAddress.vetMerchantUrl({ merchantId, url: 'http://[::1]/' });
  await assert.rejects(byAddress.vetMerchantUrl({ merchantId, url: 'http://127.0.0.2/' }), fails('refused_address'));
});

test('a name that was public when it was saved and leads inside later is refused', async () => {
  const inside = await httpReceiver((_, reply) => reply.end('secret'));
  const { outgoing, asked } = wayOut({ 'turns.example': [['93.184.216.34'], ['127.0.0.1']] });
  const url = `https://turns.example:${inside.port}/`;
  await outgoing.vetMerchantUrl({ merchantId, url });
  await assert.rejects(outgoing.requestMerchantUrl({ url, ...limits }), fails('refused_address'));
  assert.deepEqual([asked.length, inside.connections], [2, 0]);
});

test('the connection goes to the verified address: the name is resolved once', async () => {
  const startBoth = async () => {
    const vetted = await listen(
      createHttpServer((request, reply) => reply.end(request.headers.host)),
      '127.0.0.2',
    );
    // On the other address the port may be in use: then another one is chosen.
    const trap = await listen(createHttpServer(), '127.0.0.1', vetted.port).catch((error: NodeJS.ErrnoException) => {
      if (error.code !== 'EADDRINUSE') throw error;
      return null;
    });
    return trap && { vetted, trap };
  };
  let both = await startBoth();
  while (both === null) both = await startBoth();
  const { vetted, trap } = both;
  const { outgoing, asked } = wayOut({ 'turns.example': [['127.0.0.2'], ['127.0.0.1']] }, { allow: ['127.0.0.2'] });
  const reply = await outgoing.requestMerchantUrl({ url: `http://turns.example:${vetted.port}/`, ...limits });
  assert.equal(Buffer.from(reply.body).toString(), `turns.example:${vetted.port}`);
  assert.deepEqual([asked.length, vetted.connections, trap.connections], [1, 1, 0]);
});

test('redirects are answers, never followed', async () => {
  const target = await httpReceiver((_, reply) => reply.end('secret'));
  for (const status of [301, 302, 303, 307, 308]) {
    const receiver = await httpReceiver((_, reply) => reply.writeHead(status, { location: `http://127.0.0.1:${target.port}/` }).end());
    const url = `http://127.0.0.1:${receiver.port}/`;
    assert.equal((await toMerchant(url, { method: 'POST', body: Buffer.from('{}') })).status, status);
    assert.equal((await own.request({ url, ...limits })).status, status);
  }
  assert.equal(target.connections, 0);
});

test('the body and headers arrive as given, and the answer is returned as it was', async () => {
  const receiver = await httpReceiver(async (request, reply) => {
    const parts: Buffer[] = [];
    for await (const part of request) parts.push(part as Buffer);
    reply.writeHead(201, { 'x-seen': `${request.method} ${request.headers['x-mark']} ${request.headers['content-length']}` });
    reply.end(Buffer.concat(parts));
  });
  const body = Buffer.from([0, 255, 13, 10, 195, 169]);
  const reply = await toMerchant(`http://hooks.example:${receiver.port}/`, { method: 'POST', headers: { 'x-mark': 'm' }, body });
  assert.deepEqual([reply.status, reply.headers['x-seen'], Buffer.from(reply.body)], [201, 'POST m 6', body]);
});

test('a reply of a gigabyte is cut or refused, and its connection is closed at once', async () => {
  for (const over of ['cut', 'refuse'] as const) {
    let sent = 0;
    const letGo = Promise.withResolvers<void>();
    const receiver = await rawReceiver((socket) => {
      const chunk = Buffer.alloc(65_536, 'x');
      socket.on('close', () => letGo.resolve());
      socket.write(`HTTP/1.1 200 OK\r\nContent-Length: ${2 ** 30}\r\n\r\n`);
      const pump = () => {
        while (!socket.destroyed && sent < 2 ** 30) {
          sent += chunk.length;
          if (!socket.write(chunk)) return void socket.once('drain', pump);
        }
      };
      pump();
    });
    const url = `http://127.0.0.1:${receiver.port}/`;
    if (over === 'cut') {
      const reply = await toMerchant(url, { over });
      assert.deepEqual([reply.status, reply.body.length], [200, limits.maxReplyBytes]);
    } else await assert.rejects(toMerchant(url, { over }), fails('too_large'));
    await letGo.promise;
    assert.ok(sent < 2 ** 26, `${sent} bytes were taken`);
  }
});

test('a reply of exactly the limit is complete', async () => {
  const receiver = await httpReceiver((_, reply) => reply.end('y'.repeat(limits.maxReplyBytes)));
  const reply = await toMerchant(`http://127.0.0.1:${receiver.port}/`, { over: 'refuse' });
  assert.equal(reply.body.length, limits.maxReplyBytes);
});

/** Slow receivers, and what each withholds. */
const SLOW: Readonly<Record<string, (socket: Socket) => void>> = {
  'never answers': () => {},
  'drips its headers': (socket) => drip(socket, 'HTTP/1.1 200 OK\r\nX-Long: ', 'a'),
  'drips its body': (socket) => drip(socket, 'HTTP/1.1 200 OK\r\nContent-Length: 900\r\n\r\n', 'a'),
  'drips interim answers': (socket) => drip(socket, '', 'HTTP/1.1 103 Early Hints\r\n\r\n'),
  'drips empty-looking chunks': (socket) => drip(socket, 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n', '1\r\na\r\n'),
  'keeps the last byte': (socket) => socket.write('HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\na'),
};
function drip(socket: Socket, start: string, piece: string): void {
  socket.write(start);
  const timer = setInterval(() => socket.write(piece), 20);
  socket.on('close', () => clearInterval(timer));
}
for (const [what, talk] of Object.entries(SLOW)) {
  test(`a receiver that ${what} takes the time limit and no more`, async () => {
    const closed = Promise.withResolvers<void>();
    const receiver = await rawReceiver(talk);
    receiver.on('connection', (socket) => socket.on('close', () => closed.resolve()));
    const started = performance.now();
    await assert.rejects(toMerchant(`http://127.0.0.1:${receiver.port}/`, { timeoutMs: 300 }), fails('timeout'));
    assert.ok(performance.now() - started < FAR_LESS_MS);
    // On a slow machine the limit may be reached before the connection is made.
    if (receiver.connections > 0) await closed.promise;
  });
}

test('a reply can be read in parts with its announced length, and is still refused beyond the limit', async () => {
  const receiver = await httpReceiver((_, reply) => void reply.writeHead(200, { 'content-length': 2_000 }).end('y'.repeat(2_000)));
  const request = async (maxReplyBytes: number) => {
    let taken = 0;
    const take = (part: Buffer, announced: number) => {
      assert.equal(announced, Math.min(2_000, maxReplyBytes));
      taken += part.length;
    };
    const reply = own.request({ url: `http://127.0.0.1:${receiver.port}/`, ...limits, maxReplyBytes, over: 'refuse', take });
    return { status: (await reply).status, body: (await reply).body.length, taken };
  };
  assert.deepEqual(await request(2_000), { status: 200, body: 0, taken: 2_000 });
  await assert.rejects(request(1_999), fails('too_large'));
});

test('a receiver that never completes the handshake takes the time limit and no more', async () => {
  const receiver = await rawReceiver(() => {});
  const started = performance.now();
  await assert.rejects(toMerchant(`https://hooks.example:${receiver.port}/`, { timeoutMs: 300 }), fails('timeout'));
  assert.ok(performance.now() - started < FAR_LESS_MS);
});

test('a name server that never answers takes the time limit and no more', async () => {
  const outgoing = createOutgoing({ allow: [], log: silent, resolve: () => new Promise(() => {}) });
  const started = performance.now();
  await assert.rejects(outgoing.requestMerchantUrl({ url: 'https://slow.example/', ...limits, timeoutMs: 300 }), fails('timeout'));
  assert.ok(performance.now() - started < FAR_LESS_MS);
});

const BROKEN: Readonly<Record<string, string>> = {
  'closes without a word': '',
  'closes in its headers': 'HTTP/1.1 200 OK\r\nContent-Le',
  'closes in its body': 'HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf',
  'closes between chunks': 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n',
  'speaks another protocol': 'SSH-2.0-OpenSSH_9.9\r\n',
  'switches to another protocol': 'HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n',
  'sends a megabyte of headers': `HTTP/1.1 200 OK\r\nX-Long: ${'a'.repeat(2 ** 20)}\r\n\r\n`,
  'claims two lengths': 'HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nabc',
};
for (const [what, bytes] of Object.entries(BROKEN)) {
  test(`a receiver that ${what} is a failed connection`, async () => {
    const receiver = await rawReceiver((socket) => socket.end(bytes));
    const started = performance.now();
    await assert.rejects(toMerchant(`http://127.0.0.1:${receiver.port}/`), fails('reset'));
    assert.ok(performance.now() - started < FAR_LESS_MS);
  });
}

test('an unreachable receiver is a failed connect', async () => {
  const gone = await httpReceiver(() => {});
  const { port } = gone;
  gone.close();
  await once(gone, 'close');
  await assert.rejects(toMerchant(`http://127.0.0.1:${port}/`), fails('connect'));
});

test('a certificate must be valid, trusted and issued for the name', async () => {
  const receiver = await listen(createHttpsServer({ key: key!, cert: certificate! }, (_, reply) => reply.end('ok')));
  const ended = await listen(createHttpsServer({ key: key!, cert: endedCertificate! }, (_, reply) => reply.end('ok')));
  const names = { 'hooks.example': [['127.0.0.1']], 'other.example': [['127.0.0.1']] };
  const allow = ['127.0.0.0/8'];
  const trusting = wayOut(names, { allow, ca: `${certificate}\n${endedCertificate}` }).outgoing;
  const url = `https://hooks.example:${receiver.port}/`;
  assert.equal((await trusting.requestMerchantUrl({ url, ...limits })).status, 200);
  assert.equal((await trusting.requestMerchantUrl({ url: `https://HOOKS.example.:${receiver.port}/`, ...limits })).status, 200);
  const untrusting = wayOut(names, { allow }).outgoing;
  await assert.rejects(trusting.requestMerchantUrl({ url: `https://other.example:${receiver.port}/`, ...limits }), fails('tls'));
  await assert.rejects(trusting.requestMerchantUrl({ url: `https://127.0.0.1:${receiver.port}/`, ...limits }), fails('tls'));
  await assert.rejects(trusting.requestMerchantUrl({ url: `https://hooks.example:${ended.port}/`, ...limits }), fails('tls'));
  await assert.rejects(untrusting.requestMerchantUrl({ url, ...limits }), fails('tls'));
  const plain = await httpReceiver((_, reply) => reply.end('ok'));
  await assert.rejects(trusting.requestMerchantUrl({ url: `https://hooks.example:${plain.port}/`, ...limits }), fails('tls'));
});

/** Why a delivery to the URL fails, and the address that it names; null when it gets an answer. */
async function toldOf(outgoing: ReturnType<typeof createOutgoing>, url: string, timeoutMs = limits.timeoutMs) {
  const sent = await outgoing.requestMerchantUrl({ url, ...limits, timeoutMs }).then(
    ({ address }) => ({ reason: null, address }),
    ({ reason, address }: OutgoingError) => ({ reason, address }),
  );
  return sent;
}

test('each way in which a server cannot be reached has its own reason, when it is saved as when it is asked', async () => {
  const chain = readFileSync(join(import.meta.dirname, '../../test/fixtures/chain.example.pem'), 'utf8');
  const [leafKey, leaf, intermediate, root] = chain.match(/-----BEGIN .*?-----END [A-Z ]+-----/gs)!;
  const secure = (options: object) => listen(createHttpsServer(options, (_, reply) => reply.end('ok')));
  const [alone, whole, selfSigned, ended, demanding] = await Promise.all([
    secure({ key: leafKey, cert: leaf }),
    secure({ key: leafKey, cert: `${leaf}\n${intermediate}` }),
    secure({ key, cert: certificate }),
    secure({ key, cert: endedCertificate }),
    secure({ key: leafKey, cert: `${leaf}\n${intermediate}`, requestCert: true, rejectUnauthorized: true, ca: [root!] }),
  ]);
  const plain = await httpReceiver((_, reply) => reply.end('ok'));
  const gone = await httpReceiver(() => {});
  gone.close();
  const silentServer = await rawReceiver(() => {});
  const names = { 'hooks.example': [['127.0.0.1']], 'other.example': [['127.0.0.1']], 'none.example': [[]] };
  const allow = ['127.0.0.0/8'];
  const trusting = wayOut(names, { allow, ca: `${root}\n${endedCertificate}` }).outgoing;
  const untrusting = wayOut(names, { allow }).outgoing;
  for (const [reason, url, outgoing = trusting] of [
    [null, `https://hooks.example:${whole.port}/`],
    ['certificate_incomplete', `https://hooks.example:${alone.port}/`],
    ['certificate_unknown_authority', `https://hooks.example:${whole.port}/`, untrusting],
    ['certificate_wrong_name', `https://other.example:${whole.port}/`],
    ['certificate_expired', `https://hooks.example:${ended.port}/`],
    ['certificate_self_signed', `https://hooks.example:${selfSigned.port}/`],
    ['plain_http', `https://hooks.example:${plain.port}/`],
    ['client_certificate_required', `https://hooks.example:${demanding.port}/`],
    ['connection_refused', `https://hooks.example:${gone.port}/`],
    ['tls_timeout', `https://hooks.example:${silentServer.port}/`],
    ['name_without_address', 'https://none.example/'],
    ['name_unknown', 'https://unknown.example/'],
    ['address_private', 'https://10.0.0.1/'],
  ] as const) {
    const isNamed = reason === null || !/^name_|private/.test(reason);
    const expected = { reason, address: isNamed ? '127.0.0.1' : null };
    assert.deepEqual(await toldOf(outgoing, url, reason === 'tls_timeout' ? 1_000 : limits.timeoutMs), expected, url);
    // Without a request, TLS 1.3 never shows that a certificate was missing.
    if (reason !== 'client_certificate_required')
      assert.deepEqual(await outgoing.reachMerchantUrl({ merchantId, url }), expected, `saved: ${url}`);
  }
  const mute = await rawReceiver((socket) => socket.end('SSH-2.0-OpenSSH\r\n'));
  for (const [reason, url, timeoutMs] of [
    ['not_http', `http://127.0.0.1:${mute.port}/`, limits.timeoutMs],
    ['answer_timeout', `http://127.0.0.1:${silentServer.port}/`, 1_000],
    ['connection_lost', `http://127.0.0.1:${(await rawReceiver((socket) => socket.end())).port}/`, limits.timeoutMs],
  ] as const)
    assert.equal((await toldOf(trusting, url, timeoutMs)).reason, reason);
});

test('an authority in NODE_EXTRA_CA_CERTS is trusted for every outgoing request', async () => {
  const chain = readFileSync(join(import.meta.dirname, '../../test/fixtures/chain.example.pem'), 'utf8');
  const [leafKey, leaf, intermediate, root] = chain.match(/-----BEGIN .*?-----END [A-Z ]+-----/gs)!;
  const receiver = await listen(createHttpsServer({ key: leafKey!, cert: `${leaf}\n${intermediate}` }, (_, reply) => reply.end('ok')));
  const folder = mkdtempSync(join(tmpdir(), 'florin-authority-'));
  closers.push(() => rmSync(folder, { recursive: true }));
  writeFileSync(join(folder, 'root.pem'), root!);
  const program = `
    import { createOutgoing } from '${join(import.meta.dirname, 'http-client.ts')}';
    const log = { debug() {}, info() {}, warn() {}, error() {} };
    const out = createOutgoing({ allow: ['127.0.0.0/8'], log, resolve: async () => [{ address: '127.0.0.1', family: 4 }] });
    const sent = out.requestMerchantUrl({ url: 'https://hooks.example:${receiver.port}/', merchantId: 'm', timeoutMs: 60000, maxReplyBytes: 9 });
    console.log(await sent.then((reply) => reply.status, (error) => error.reason));`;
  const run = async (env: Record<string, string>) => {
    const args = ['--disable-warning=ExperimentalWarning', '--input-type=module', '-e', program];
    return (await promisify(execFile)(process.execPath, args, { env })).stdout.trim();
  };
  assert.deepEqual(await Promise.all([run({ NODE_EXTRA_CA_CERTS: join(folder, 'root.pem') }), run({})]), [
    '200',
    'certificate_unknown_authority',
  ]);
});

test('a host with one dead address is reached at another one, whichever comes first', async () => {
  const seen: string[] = [];
  const server = createHttpServer((request, reply) => {
    seen.push(request.socket.localAddress!);
    reply.end('ok');
  });
  const receiver = await listen(server, '127.0.0.2');
  // Nothing listens on the others: 127.0.0.3 refuses at once.
  const { outgoing, asked } = wayOut(
    {
      'first-dead.example': [['127.0.0.3', '127.0.0.2']],
      'last-dead.example': [['127.0.0.2', '127.0.0.3']],
      'six-dead.example': [['::1', '127.0.0.2']],
      'many-dead.example': [['127.0.0.3', '127.0.0.4', '127.0.0.5', '127.0.0.2']],
      'all-dead.example': [['127.0.0.3', '127.0.0.4']],
      'one-private.example': [['127.0.0.2', '10.0.0.1']],
    },
    { allow: ['127.0.0.0/8', '::1'] },
  );
  const hosts = ['first-dead', 'last-dead', 'six-dead', 'many-dead'];
  for (const host of hosts)
    assert.deepEqual(await toldOf(outgoing, `http://${host}.example:${receiver.port}/`), { reason: null, address: '127.0.0.2' }, host);
  assert.deepEqual(await toldOf(outgoing, `http://all-dead.example:${receiver.port}/`), {
    reason: 'connection_refused',
    address: '127.0.0.3, 127.0.0.4',
  });
  // All addresses are checked before the first one is tried.
  assert.equal((await toldOf(outgoing, `http://one-private.example:${receiver.port}/`)).reason, 'address_private');
  assert.deepEqual([asked.length, seen.length, receiver.connections], [6, 4, 4]);
});

/** An address of this machine that neither accepts nor refuses: its process is stopped, and its queue is full. */
async function silentAddress(host: string, port: number): Promise<void> {
  const program = `require('node:net').createServer().listen({ host: '${host}', port: ${port}, backlog: 1 }, () => console.log('ready'))`;
  const child = spawn(process.execPath, ['-e', program], { stdio: ['ignore', 'pipe', 'inherit'] });
  await once(child.stdout, 'data');
  child.kill('SIGSTOP');
  const waiting = Array.from({ length: 4 }, () => connect({ host, port }).on('error', () => {}));
  closers.push(() => {
    for (const socket of waiting) socket.destroy();
    child.kill('SIGKILL');
  });
  await Promise.all(waiting.slice(0, 2).map((socket) => once(socket, 'connect')));
}

test('an address that never answers takes nothing from the others, and is named when it is the only one', async () => {
  const receiver = await httpReceiver((_, reply) => reply.end('ok'));
  await silentAddress('127.0.0.6', receiver.port);
  const { outgoing } = wayOut(
    { 'half.example': [['127.0.0.6', '127.0.0.1']], 'silent.example': [['127.0.0.6']] },
    { allow: ['127.0.0.0/8'] },
  );
  assert.deepEqual(await toldOf(outgoing, `http://half.example:${receiver.port}/`), { reason: null, address: '127.0.0.1' });
  assert.deepEqual(await toldOf(outgoing, `http://silent.example:${receiver.port}/`, 1_000), {
    reason: 'connect_timeout',
    address: '127.0.0.6',
  });
});

test('a request that cannot be written fails alone', async () => {
  await assert.rejects(toMerchant('http://127.0.0.1:9/', { headers: { 'x-mark': 'a\nb' }, timeoutMs: 50 }));
  // Long enough for its time limit to be reached, which must have no effect.
  await sleep(100);
});

test('if the server closes a kept connection as it is reused, only a new connection is needed', async () => {
  const asked = new Map<Socket, number>();
  const server = createHttpServer((request, reply) => {
    const times = (asked.get(request.socket) ?? 0) + 1;
    asked.set(request.socket, times);
    if (times > 1) request.socket.destroy();
    else reply.end('fine');
  });
  await once(server.listen(0, '127.0.0.1'), 'listening');
  const outgoing = createOutgoing({ allow: [], log: silent });
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  for (let i = 0; i < 3; i++) {
    const reply = await outgoing.request({ url, method: 'POST', body: Buffer.from('{}'), timeoutMs: 10_000, maxReplyBytes: 100 });
    assert.equal(reply.body.toString(), 'fine');
  }
  assert.deepEqual([...asked.values()], [2, 2, 1]);
  await outgoing.close();
  server.closeAllConnections();
  server.close();
});

const ONION = `${'abcdefghijklmnopqrstuvwxyz234567'.repeat(2).slice(0, 56)}.onion`;

test('an onion service is reached through the proxy alone: by its name, without TLS, and with the same limits', async () => {
  const receiver = await httpReceiver((_request, reply) => void reply.end('hello'));
  const proxy = await startSocksProxy({ where: () => receiver.port });
  closers.push(() => proxy.close());
  const { outgoing, asked } = wayOut({}, { proxy: readProxy(proxy.url) });
  const get = (url: string, more: Partial<OutgoingRequest> = {}) => outgoing.requestMerchantUrl({ url, ...limits, ...more });
  const reply = await get(`http://${ONION}/hook`);
  assert.deepEqual([Buffer.from(reply.body).toString(), reply.address], ['hello', ONION]);
  await get(`http://www.${ONION.toUpperCase()}.:8080/hook`);
  assert.deepEqual(proxy.asked, [`${ONION}:80`, `www.${ONION}:8080`]);
  assert.deepEqual(await outgoing.reachMerchantUrl({ merchantId, url: `http://${ONION}` }), { reason: null, address: ONION });
  await assert.rejects(get(`http://${ONION}:6379`), fails('refused_address'));
  await assert.rejects(get(`ftp://${ONION}`), fails('invalid_url'));
  await assert.rejects(get('http://expyuzz4wqqyqhjn.onion'), fails('invalid_url'));
  assert.deepEqual(asked, [], 'no name server is asked');
});

test('without a proxy an onion service is refused, and with a proxy that fails it fails; no name server is asked', async () => {
  const none = wayOut();
  const get = ({ outgoing }: typeof none) => outgoing.requestMerchantUrl({ url: `http://${ONION}`, ...limits });
  await assert.rejects(get(none), /can only be reached through Tor; the operator must set P2P_PROXY/);
  await assert.rejects(none.outgoing.vetMerchantUrl({ merchantId, url: `http://${ONION}` }), fails('connect'));
  const proxy = await startSocksProxy({ failure: 4 });
  closers.push(() => proxy.close());
  const failing = wayOut({}, { proxy: readProxy(proxy.url) });
  await assert.rejects(get(failing), /the host cannot be reached/);
  const silent = await rawReceiver(() => {});
  const late = wayOut({}, { proxy: { host: '127.0.0.1', port: silent.port, user: '', password: '' } });
  await assert.rejects(late.outgoing.requestMerchantUrl({ url: `http://${ONION}`, ...limits, timeoutMs: 300 }), fails('timeout'));
  assert.deepEqual([...none.asked, ...failing.asked, ...late.asked], []);
});
