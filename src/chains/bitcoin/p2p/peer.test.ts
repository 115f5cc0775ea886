import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { eventually } from '../../../../test/kit/app.ts';
import { readMergeMinedHeaders, readRecording } from '../../../../test/kit/peer-recordings.ts';
import { emptyChain, type Script, type ScriptedPeer, type ServedChain, startScriptedPeer } from '../../../../test/kit/scripted-peer.ts';
import { sha256d } from '../strict-reader.ts';
import { decodeMessage, frame, type Inventory, type PeerMessage, type WireHeader } from './messages.ts';
import { connectPeer, PEER_LIMITS, type Peer, type PeerHandlers, type PeerLimits, type PeerNetwork, peerNetwork } from './peer.ts';

const BTC = peerNetwork('BTC', 'regtest');
const closers: (() => unknown)[] = [];
after(async () => {
  for (const close of closers) await close();
});

const start = async (how: Parameters<typeof startScriptedPeer>[0]): Promise<ScriptedPeer> => {
  const peer = await startScriptedPeer(how);
  closers.push(peer.close);
  return peer;
};
type Heard = { headers: WireHeader[][]; items: Inventory[]; transactions: string[]; addresses: number; reasons: string[] };
/** Connects, with a clock that the test moves, and collects what it hears. */
async function meet(peer: ScriptedPeer, network: PeerNetwork = BTC, limits: Partial<PeerLimits> = {}) {
  const heard: Heard = { headers: [], items: [], transactions: [], addresses: 0, reasons: [] };
  const handlers: PeerHandlers = {
    onHeaders: (_, headers) => heard.headers.push([...headers]),
    onItems: (_, items) => heard.items.push(...items),
    onTransaction: (_, { txid }) => heard.transactions.push(txid),
    onAddresses: (_, addresses) => (heard.addresses += addresses.length),
    onClose: (_, reason) => heard.reasons.push(reason),
  };
  const clock = { skippedMs: 0, now: () => new Date(), monotonicMs: () => performance.now() + clock.skippedMs };
  const found = await connectPeer({
    endpoint: peer.endpoint,
    network,
    wantsTransactions: true,
    handlers,
    clock,
    limits: { ...PEER_LIMITS, tickMs: 10, ...limits },
  });
  closers.push(() => found.close('the test is over'));
  return { found, heard, clock };
}
const closes = (found: Peer) =>
  eventually(
    async () => found.closed(),
    (reason) => reason !== null,
  );
const hashOf = (bytes: Buffer): string => Buffer.from(sha256d(bytes)).reverse().toString('hex');
const block = (fill: number): { hash: string; header: Buffer; bytes: Buffer } => {
  const bytes = Buffer.alloc(200, fill);
  return { hash: hashOf(bytes.subarray(0, 80)), header: bytes.subarray(0, 80), bytes };
};

test('the handshake says nothing about who connects', async () => {
  const peer = await start({ network: BTC });
  const { found } = await meet(peer);
  assert.equal(found.version.agent, '/scripted:1.0/');
  await eventually(
    async () => peer.messages.map(({ command }) => command).join(' '),
    (commands) => commands === 'version verack sendheaders',
  );
  const [version] = peer.messages;
  assert.ok(version?.command === 'version');
  assert.deepEqual(
    { ...version, timeSeconds: 0n, nonce: 0n, tail: version.tail.toString('hex') },
    {
      command: 'version',
      version: 70_016,
      services: 0n,
      timeSeconds: 0n,
      to: { services: 0n, ip: Buffer.alloc(16), port: 0 },
      from: { services: 0n, ip: Buffer.alloc(16), port: 0 },
      nonce: 0n,
      agent: '/light-client:1.0/',
      height: 0,
      tail: '01',
    },
  );
});

for (const coin of ['BTC', 'LTC', 'DOGE'] as const) {
  test(`a peer that replays the recorded ${coin} conversation: headers, block, transaction, announcements`, async () => {
    const { conversations } = readRecording(coin);
    const [{ messages }] = conversations as [(typeof conversations)[number]];
    const said = messages.filter(({ to }) => to === 'us').map(({ command, payload }) => decodeMessage(command, payload, coin));
    const first = <C extends PeerMessage['command']>(command: C, at = 0) =>
      said.filter((message): message is Extract<PeerMessage, { command: C }> => message.command === command)[at]!;
    const script: Script = (message, link) => {
      if (message.command === 'version') {
        const end = said.findIndex(({ command }) => command === 'verack');
        for (const reply of said.slice(0, end + 1)) link.send(reply);
        return true;
      }
      if (message.command === 'getheaders') link.send(first('headers'));
      else if (message.command === 'getdata') link.send(message.items[0]!.type === 2 ? first('block') : first('tx'));
      else return false;
      return true;
    };
    const network = peerNetwork(coin, 'regtest');
    const peer = await start({ network, script });
    const { found, heard } = await meet(peer, network);
    const headers = await found.readHeaders([network.magic.toString('hex').padEnd(64, '0')]);
    assert.deepEqual(headers, first('headers').headers);
    const { bytes } = first('block') as { bytes: Buffer };
    assert.deepEqual(await found.readBlock({ hash: hashOf(bytes.subarray(0, 80)), header: bytes.subarray(0, 80) }), bytes);
    const announced = said.filter((message) => message.command === 'inv').at(-1)!;
    peer.announce(announced);
    await eventually(
      async () => heard.items,
      (items) => items.length > 0,
    );
    const wanted = heard.items.find(({ type }) => type === 1)!.hash;
    found.askTransactions([wanted]);
    await eventually(
      async () => heard.transactions,
      (txids) => txids.join() === wanted,
    );
    peer.announce(first('headers', 1));
    await eventually(
      async () => heard.headers.length,
      (count) => count === 1,
    );
    assert.deepEqual(heard.headers[0], first('headers', 1).headers);
    assert.equal(found.closed(), null);
  });
}

test('a scripted Dogecoin peer with merge-mined headers, and a scripted Dash peer with its longer version message', async () => {
  const merged = readMergeMinedHeaders();
  const chain: ServedChain = { ...emptyChain(), headers: merged.map((header) => ({ hash: hashOf(header.bytes), header })) };
  const doge = peerNetwork('DOGE', 'mainnet');
  const { found } = await meet(await start({ network: doge, chain }), doge);
  const headers = await found.readHeaders(['0'.repeat(64)]);
  assert.deepEqual(headers, merged);

  const dash = peerNetwork('DASH', 'regtest');
  const script: Script = (message, link) => {
    if (message.command !== 'version') return false;
    // 32 bytes of challenge for masternodes, and whether it is one.
    link.send({ ...message, services: 1n, version: 70_240, tail: Buffer.concat([Buffer.from([1]), Buffer.alloc(33, 5)]) });
    link.send({ command: 'verack' });
    link.send({ command: 'other', name: 'senddsq', payload: Buffer.from([1]) });
    return true;
  };
  const served = block(3);
  const other = await meet(
    await start({ network: dash, script, chain: { ...emptyChain(), blocks: new Map([['ab'.repeat(32), served.bytes]]) } }),
    dash,
  );
  // The id of a Dash block is not the hash that the others use: it is known by its header.
  assert.deepEqual(await other.found.readBlock({ hash: 'ab'.repeat(32), header: served.header }), served.bytes);
});

const refusals: readonly { name: string; how: Partial<Parameters<typeof startScriptedPeer>[0]>; reason: RegExp }[] = [
  { name: 'speaks an old version', how: { version: 70_001 }, reason: /version 70001; 70012/ },
  { name: 'does not serve blocks', how: { services: 8n }, reason: /does not serve blocks/ },
  { name: 'knows no witnesses', how: { services: 1n }, reason: /current rules/ },
  {
    name: 'speaks another network',
    how: { script: (_, link) => link.write(frame(peerNetwork('LTC', 'mainnet').magic, 'verack', Buffer.alloc(0))) },
    reason: /wrong magic/,
  },
  {
    name: 'answers like a web server',
    how: { script: (_, link) => link.write(Buffer.from('HTTP/1.1 400 Bad Request\r\n\r\n')) },
    reason: /wrong magic/,
  },
  { name: 'begins with verack', how: { script: (_, link) => link.send({ command: 'verack' }) }, reason: /out of turn/ },
  { name: 'hangs up', how: { script: (_, link) => link.end() }, reason: /closed the connection|ECONNRESET/ },
  {
    name: 'refuses us',
    how: {
      script: (_, link) => link.send({ command: 'reject', message: 'version', code: 17, reason: 'too \u0007old', rest: Buffer.alloc(0) }),
    },
    reason: /refuses the connection: too \?old/,
  },
  {
    name: 'sends its version twice',
    how: {
      script: (message, link) =>
        message.command === 'version' && link.send({ ...message, services: 9n }) && link.send({ ...message, services: 9n }),
    },
    reason: /twice/,
  },
];
for (const { name, how, reason } of refusals) {
  test(`no connection to a peer that ${name}`, async () => {
    const peer = await start({ network: BTC, ...how });
    await assert.rejects(meet(peer), reason);
  });
}

test('a peer that says nothing is left after the time for the handshake, and one that does not exist at once', async () => {
  const silent = await start({ network: BTC, script: () => true });
  await assert.rejects(meet(silent, BTC, { handshakeMs: 50 }), /did not complete the handshake in time/);
  const gone = await start({ network: BTC });
  await gone.close();
  closers.pop();
  await assert.rejects(meet(gone), /ECONNREFUSED/);
});

/** Deadlines of an established connection. The clock is moved, so no machine is too slow. */
const lates: readonly { name: string; script: Script; ask?: (found: Peer) => Promise<unknown>; skipMs: number; reason: RegExp }[] = [
  {
    name: 'withholds headers',
    script: ({ command }) => command === 'getheaders',
    ask: (found) => found.readHeaders([]),
    skipMs: PEER_LIMITS.headersMs + 1,
    reason: /did not send headers in time/,
  },
  {
    name: 'withholds a block',
    script: ({ command }) => command === 'getdata',
    ask: (found) => found.readBlock(block(1)),
    skipMs: PEER_LIMITS.blockMs + 1,
    reason: /did not send block [0-9a-f]{64} in time/,
  },
  {
    name: 'sends another block',
    script: (message, link) => message.command === 'getdata' && link.send({ command: 'block', bytes: block(2).bytes }),
    ask: (found) => found.readBlock(block(1)),
    skipMs: PEER_LIMITS.blockMs + 1,
    reason: /did not send block/,
  },
  {
    name: 'drips a message',
    script: ({ command }, link) => command === 'sendheaders' && link.write(frame(BTC.magic, 'inv', Buffer.alloc(1_000)).subarray(0, 100)),
    skipMs: PEER_LIMITS.messageMs + 1,
    reason: /sends a inv message too slowly/,
  },
];
for (const { name, script, ask, skipMs, reason } of lates) {
  test(`a peer that ${name} is closed`, async () => {
    const peer = await start({ network: BTC, script });
    const { found, clock, heard } = await meet(peer);
    const asked = ask && assert.rejects(ask(found), reason);
    await eventually(
      async () => (ask ? peer.messages.some(({ command }) => /^get(headers|data)$/.test(command)) : found.stats().bytesIn > 220),
      (heard) => heard,
    );
    clock.skippedMs += skipMs;
    assert.match((await closes(found))!, reason);
    await asked;
    assert.deepEqual(heard.reasons, [found.closed()]);
  });
}

test('a peer is asked whether it is there, and closed when it does not answer', async () => {
  const there = await meet(await start({ network: BTC }));
  there.clock.skippedMs += PEER_LIMITS.pingEveryMs;
  await eventually(
    async () => there.found.stats().pingMs,
    (ms) => ms !== null,
  );
  const gone = await start({ network: BTC, script: ({ command }) => command === 'ping' });
  const { found, clock } = await meet(gone);
  clock.skippedMs += PEER_LIMITS.pingEveryMs;
  await eventually(
    async () => gone.messages.some(({ command }) => command === 'ping'),
    (asked) => asked,
  );
  clock.skippedMs += PEER_LIMITS.pongMs + 1;
  assert.match((await closes(found))!, /does not answer/);
});

const floods: readonly { name: string; message: PeerMessage; times: number; reason: RegExp }[] = [
  {
    name: 'headers',
    message: { command: 'headers', headers: [{ bytes: Buffer.alloc(80), auxpow: null }] },
    times: 6_001,
    reason: /too much/,
  },
  { name: 'blocks', message: { command: 'block', bytes: Buffer.alloc(3_000_000) }, times: 3, reason: /too much/ },
  { name: 'transactions', message: { command: 'tx', bytes: Buffer.alloc(300_000) }, times: 30, reason: /too much/ },
  {
    name: 'messages that nobody knows',
    message: { command: 'other', name: 'unheard', payload: Buffer.alloc(99_000) },
    times: 90,
    reason: /too much/,
  },
  { name: 'empty messages', message: { command: 'verack' }, times: 1, reason: /out of turn/ },
];
for (const { name, message, times, reason } of floods) {
  test(`a peer that floods us with ${name} is closed`, async () => {
    const peer = await start({ network: BTC });
    const { found } = await meet(peer);
    for (let i = 0; i < times; i++) peer.announce(message);
    assert.match((await closes(found))!, reason);
  });
}

test('a peer that asks and never reads is closed', async () => {
  const peer = await start({ network: BTC });
  const { found } = await meet(peer, BTC, { unaskedMessages: Number.MAX_SAFE_INTEGER, unaskedBytes: Number.MAX_SAFE_INTEGER });
  const [link] = peer.links;
  link!.socket.pause();
  const pings = Buffer.concat(Array.from({ length: 5_000 }, () => frame(BTC.magic, 'ping', Buffer.alloc(8))));
  for (let i = 0; i < 1_000 && found.closed() === null; i++) {
    link!.write(pings);
    await new Promise((resolve) => setImmediate(resolve));
  }
  assert.match((await closes(found))!, /does not read/);
});

test('a fault in what listens to a peer closes this peer and nothing else', async () => {
  const peer = await start({ network: BTC });
  const { found, heard } = await meet(peer);
  Object.defineProperty(heard, 'items', { get: () => assert.fail('this listener is broken') });
  peer.announce({ command: 'inv', items: [{ type: 1, hash: 'cd'.repeat(32) }] });
  assert.match((await closes(found))!, /cannot be handled: this listener is broken/);
});

test('a transaction that was not asked for is not taken, and headers of an answer that is too late are not either', async () => {
  const transaction = Buffer.from('it only needs a hash');
  const peer = await start({ network: BTC });
  const { found, heard } = await meet(peer);
  peer.announce({ command: 'tx', bytes: transaction });
  const headers = Array.from({ length: 9 }, () => ({ bytes: Buffer.alloc(80), auxpow: null }));
  peer.announce({ command: 'headers', headers });
  peer.announce({ command: 'inv', items: [{ type: 1, hash: hashOf(transaction) }] });
  await eventually(
    async () => heard.items.length,
    (count) => count === 1,
  );
  assert.deepEqual([heard.transactions, heard.headers], [[], []]);
  found.askTransactions([hashOf(transaction)]);
  peer.announce({ command: 'tx', bytes: transaction });
  peer.announce({ command: 'tx', bytes: transaction });
  await eventually(
    async () => heard.transactions.length,
    (count) => count > 0,
  );
  peer.announce({ command: 'headers', headers: headers.slice(0, 8) });
  await eventually(
    async () => heard.headers.length,
    (count) => count === 1,
  );
  assert.deepEqual(heard.transactions, [hashOf(transaction)]);
});
