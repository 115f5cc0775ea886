/** Reads a network from peers on loopback of which most are hostile: what the honest one has is seen, and nothing identifying is sent. */
// Invariant: Seven hostile peers of eight cannot hide the chain of the honest one; what one peer alone announces does not count.
import assert from 'node:assert/strict';
import { after, afterEach, test } from 'node:test';
import { parseBlock } from '../../src/chains/bitcoin/block-proof.ts';
import { frame, type PeerMessage, type WireHeader } from '../../src/chains/bitcoin/p2p/messages.ts';
import { PEER_LIMITS, peerNetwork } from '../../src/chains/bitcoin/p2p/peer.ts';
import { createPeerService, type PeerService, type PeerServiceOptions } from '../../src/chains/bitcoin/p2p/peer-service.ts';
import { PEERS_LIMITS, type StoredPeers } from '../../src/chains/bitcoin/p2p/peers.ts';
import { createPeerMempool } from '../../src/chains/bitcoin/p2p/source.ts';
import { eventually } from '../kit/app.ts';
import { createRegtestHeaders, createServedChain, extend, forkOf, shownHash, transaction } from '../kit/regtest-chain.ts';
import { type Link, type Script, type ScriptedPeer, type ServedChain, startScriptedPeer } from '../kit/scripted-peer.ts';

const BTC = peerNetwork('BTC', 'regtest');
const closers: (() => Promise<void>)[] = [];
const closeAll = async () => {
  for (const close of closers.splice(0).reverse()) await close();
};
afterEach(closeAll);
after(closeAll);

const silent = { debug: () => {}, info: () => {}, warn: () => {}, error: (fields: object) => assert.fail(JSON.stringify(fields)) };
const peerAt = async (how: Omit<Parameters<typeof startScriptedPeer>[0], 'network'>): Promise<ScriptedPeer> => {
  const peer = await startScriptedPeer({ network: BTC, ...how });
  closers.push(peer.close);
  return peer;
};
const LIMITS = { ...PEERS_LIMITS, tickMs: 20, opening: 8, relaying: 8 };
/** Reads a network whose peers are known from a list, as discovery would find them. */
function serve(peers: readonly ScriptedPeer[], more: Partial<PeerServiceOptions> = {}) {
  const stored: { last: StoredPeers } = { last: { anchors: [], proven: [] } };
  const clock = { skippedMs: 0, now: () => new Date(), monotonicMs: () => performance.now() + clock.skippedMs };
  let hints = 0;
  const view = createRegtestHeaders();
  const service = createPeerService({
    network: BTC,
    view,
    given: [],
    fallback: peers.map(({ endpoint }) => endpoint),
    store: {
      load: async () => stored.last,
      save: async (now) => {
        stored.last = now;
      },
    },
    resolve: async () => [],
    spacingSeconds: 600,
    clock,
    log: silent,
    onHint: () => void hints++,
    nextPeerMs: 100,
    checkMs: 50,
    limits: LIMITS,
    peerLimits: { ...PEER_LIMITS, tickMs: 20 },
    ...more,
  });
  closers.push(service.close);
  return { service, view, clock, stored, hints: () => hints };
}
const blockOf = (service: PeerService, hash: string): Promise<Buffer> =>
  service.readBlock(service.view.find(hash)!, async (bytes) => {
    assert.equal(parseBlock(bytes, 'BTC').hash, hash);
    return bytes;
  });
const reaches = (service: PeerService, chain: ServedChain) =>
  eventually(
    async () => service.view.tip().hash,
    (hash) => hash === chain.headers.at(-1)!.hash,
  );
/** Starts it, and waits until it has read a chain and heard everything that so many peers have. */
async function settles(service: PeerService, chain: ServedChain, peers: number): Promise<void> {
  await service.start();
  await reaches(service, chain);
  await eventually(
    async () => service.status(),
    ({ connected, syncing }) => connected === peers && !syncing,
  );
}
const inv = (txid: string): PeerMessage => ({ command: 'inv', items: [{ type: 1, hash: txid }] });
const announceBlock = (header: WireHeader): PeerMessage => ({ command: 'headers', headers: [header] });

test('a chain of more than 2,000 headers is read from several peers, and each block once', async () => {
  const chain = createServedChain(2_345);
  const peers = await Promise.all(['127.1.0.1', '127.2.0.1', '127.3.0.1'].map((host) => peerAt({ host, chain })));
  const { service, hints } = serve(peers);
  await settles(service, chain, 3);
  assert.ok(hints() > 0);
  for (const { hash } of chain.headers.slice(-5)) assert.deepEqual(await blockOf(service, hash), chain.blocks.get(hash));
  const asked = peers.flatMap(({ messages }) => messages.filter(({ command }) => command === 'getdata'));
  assert.equal(asked.length, 5);
  // A new block is announced by its header, and another one by its hash.
  const [one] = extend(chain, 1);
  peers[0]!.announce(announceBlock(chain.headers.at(-1)!.header));
  await reaches(service, chain);
  extend(chain, 12);
  peers[1]!.announce({ command: 'inv', items: [{ type: 2, hash: chain.headers.at(-1)!.hash }] });
  await reaches(service, chain);
  assert.deepEqual(await blockOf(service, one!.hash), one!.bytes);
});

test('after a reorganization the longer branch is read, also by a peer that only announces its last block', async () => {
  const chain = createServedChain(20);
  const longer = forkOf(chain, 15);
  const peer = await peerAt({ host: '127.1.0.1', chain });
  const { service } = serve([peer]);
  await service.start();
  await reaches(service, chain);
  extend(longer, 9);
  chain.headers.splice(0, chain.headers.length, ...longer.headers);
  for (const [hash, bytes] of longer.blocks) chain.blocks.set(hash, bytes);
  peer.announce(announceBlock(longer.headers.at(-1)!.header));
  await reaches(service, longer);
  assert.ok(await blockOf(service, longer.headers.at(-1)!.hash));
});

/** Reads each next block, as a follower does, until the chain ends with this one. */
async function followTo({ view, readBlock }: PeerService, hash: string, from: number): Promise<void> {
  const at = (height: number) => {
    let known = view.tip();
    while (known.height > height) known = view.find(known.parent)!;
    return known.height === height ? known : null;
  };
  const isRead = async (next: { hash: string; height: number; bytes: Buffer; parent: string; timeSeconds: number }): Promise<boolean> =>
    readBlock(next, async (bytes) => assert.equal(parseBlock(bytes, 'BTC').hash, next.hash), { next: true }).then(
      () => true,
      () => false,
    );
  for (let height = from; ; ) {
    const next = at(height);
    if (next) {
      if ((await isRead(next)) && next.hash === hash) return;
      height = at(height)?.hash === next.hash ? height + 1 : from;
    } else
      await eventually(
        async () => view.tip(),
        (tip) => tip.height >= height || tip.hash === hash,
      );
    if (view.tip().hash === hash && height > view.tip().height) return;
  }
}
/** What a peer sends in place of the blocks of its branch. */
const WITHHELD: readonly { name: string; send: ((hash: string, link: Link, chain: ServedChain) => boolean) | null }[] = [
  { name: 'nothing', send: null },
  { name: 'that it does not have them', send: (hash, link) => link.send({ command: 'notfound', items: [{ type: 2, hash }] }) },
  {
    name: 'blocks with another merkle root',
    send: (hash, link, chain) => {
      const bytes = Buffer.from(chain.blocks.get(hash)!);
      bytes[bytes.length - 1]! ^= 1;
      return link.send({ command: 'block', bytes });
    },
  },
  {
    name: 'blocks that cannot be read',
    send: (hash, link, chain) => link.send({ command: 'block', bytes: Buffer.concat([chain.blocks.get(hash)!, Buffer.alloc(3)]) }),
  },
  {
    name: 'blocks that are too large',
    send: (hash, link, chain) => {
      const more = Array.from({ length: 20 }, () =>
        transaction(Array.from({ length: 250 }, () => ({ script: '51'.repeat(250), units: 1n }))),
      );
      const header = chain.blocks.get(hash)!.subarray(0, 80);
      return link.send({ command: 'block', bytes: Buffer.concat([header, Buffer.from([more.length]), ...more]) });
    },
  },
];
for (const { name, send } of WITHHELD)
  for (const { where, forkAt, served } of [
    { where: 'above the tip', forkAt: 30, served: 0 },
    { where: 'in place of two blocks', forkAt: 28, served: 0 },
    { where: 'of which it serves the first two', forkAt: 30, served: 2 },
  ])
    test(`a peer announces four headers ${where}, and sends ${name}: the chain of the others continues, also when it has less work`, async () => {
      const chain = createServedChain(30);
      const fork = forkOf(chain, forkAt);
      const branch = extend(fork, 4, { timeSeconds: (height) => 1_700_000_001 + height * 600 });
      const missing = new Set(branch.slice(served).map(({ hash }) => hash));
      const shown = { ...fork, headers: [...chain.headers] };
      const liar = await peerAt({
        host: '127.1.0.1',
        chain: shown,
        script: (message, link) => {
          if (message.command !== 'getdata') return false;
          const [asked] = message.items.filter(({ hash }) => missing.has(hash));
          return asked && (send ? send(asked.hash, link, fork) : true);
        },
      });
      const later = { ...chain, headers: [...chain.headers] };
      const honest = [await peerAt({ host: '127.2.0.1', chain }), await peerAt({ host: '127.3.0.1', chain: later })];
      const { service } = serve([liar, ...honest]);
      await settles(service, chain, 3);
      shown.headers.splice(0, shown.headers.length, ...fork.headers);
      const announced: PeerMessage = { command: 'headers', headers: fork.headers.slice(-6).map(({ header }) => header) };
      liar.announce(announced);
      await eventually(
        async () => service.view.knows(fork.headers.at(-1)!.hash),
        (known) => known,
      );
      for (let i = 0; i < 3; i++) {
        later.headers.push(...extend(chain, 1).map(({ hash, header }) => ({ hash, header: { bytes: header, auxpow: null } })));
        for (const peer of honest) peer.announce(announceBlock(chain.headers.at(-1)!.header));
        liar.announce(announced);
      }
      await followTo(service, chain.headers.at(-1)!.hash, 29);
      assert.deepEqual(
        honest.map((peer) => [peer.opened(), peer.links.size]),
        [
          [1, 1],
          [1, 1],
        ],
        'the honest peers stay',
      );
      // Another peer serves the branch, which has more work meanwhile.
      extend(fork, 3);
      later.headers.splice(0, later.headers.length, ...fork.headers);
      for (const [hash, bytes] of fork.blocks) later.blocks.set(hash, bytes);
      honest[1]!.announce({ command: 'headers', headers: fork.headers.slice(-8).map(({ header }) => header) });
      await reaches(service, fork);
      assert.ok(await blockOf(service, fork.headers.at(-1)!.hash));
    });

test('a peer that announces branch after branch without blocks keeps nobody from the chain of the others, and is asked for one at a time', async () => {
  const chain = createServedChain(30);
  const shown = { ...chain, headers: [...chain.headers] };
  const asked: string[] = [];
  const liar = await peerAt({
    host: '127.1.0.1',
    chain: shown,
    script: (message) => message.command === 'getdata' && asked.push(...message.items.map(({ hash }) => hash)) > 0,
  });
  const honest = await Promise.all(['127.2.0.1', '127.3.0.1'].map((host) => peerAt({ host, chain })));
  const { service } = serve([liar, ...honest]);
  await settles(service, chain, 3);
  for (let i = 0; i < 200; i++) {
    const branch = forkOf(chain, 28);
    extend(branch, 6, { timeSeconds: (height) => 1_700_000_001 + i + height * 600 });
    liar.announce({ command: 'headers', headers: branch.headers.slice(28).map(({ header }) => header) });
    if (i % 50 === 0) {
      extend(chain, 1);
      for (const peer of honest) peer.announce(announceBlock(chain.headers.at(-1)!.header));
    }
  }
  await followTo(service, chain.headers.at(-1)!.hash, 31);
  assert.ok(asked.length <= 1, `${asked.length} blocks were asked for`);
  assert.ok(honest.every((peer) => peer.opened() === 1 && peer.links.size === 1));
});

/** Headers with real work above the served ones, at these times. */
const continued = (chain: ServedChain, timeSeconds: (height: number) => number): WireHeader[] => {
  const longer = forkOf(chain, chain.headers.length);
  extend(longer, 10, { timeSeconds });
  return longer.headers.slice(chain.headers.length).map(({ header }) => header);
};
const HOURS = 3_600;
/** Each block with a payment ends with it. */
const LAST = transaction([{ script: '0014'.padEnd(44, 'b'), units: 1_000n }]);

/** What seven of eight peers do. Each keeps to the handshake, so that it takes a place. */
const HOSTILE: readonly { name: string; script(chain: ServedChain, fork: ServedChain): Script }[] = [
  {
    name: 'withhold headers',
    script:
      () =>
      ({ command }) =>
        command === 'getheaders',
  },
  {
    name: 'say that there are no headers',
    script: () => (message, link) => message.command === 'getheaders' && link.send({ command: 'headers', headers: [] }),
  },
  {
    name: 'withhold blocks',
    script:
      () =>
      ({ command }) =>
        command === 'getdata',
  },
  {
    name: 'drip headers',
    script: () => (message, link) => {
      if (message.command !== 'getheaders') return false;
      const bytes = frame(BTC.magic, 'headers', Buffer.alloc(10_000));
      let at = 0;
      const timer = setInterval(() => link.write(bytes.subarray(at, ++at)), 100);
      link.socket.on('close', () => clearInterval(timer));
      return true;
    },
  },
  {
    name: 'invent headers without work',
    script: () => (message, link) => {
      const headers = Array.from({ length: 2_000 }, () => ({ bytes: Buffer.alloc(80, 0xff), auxpow: null }));
      return message.command === 'getheaders' && link.send({ command: 'headers', headers });
    },
  },
  {
    name: 'serve the blocks of a shorter fork',
    script: (_, fork) => (message, link) => {
      if (message.command !== 'getheaders') return message.command === 'getdata';
      return link.send({ command: 'headers', headers: fork.headers.map(({ header }) => header) });
    },
  },
  {
    name: 'send blocks with a changed transaction',
    script: (chain) => (message, link) => {
      if (message.command !== 'getdata') return false;
      for (const { hash } of message.items) {
        const bytes = Buffer.from(chain.blocks.get(hash) ?? Buffer.alloc(100));
        bytes[bytes.length - 1]! ^= 1;
        link.send({ command: 'block', bytes });
      }
      return true;
    },
  },
  {
    name: 'send blocks whose last transaction stands twice (CVE-2012-2459)',
    script: (chain) => (message, link) => {
      if (message.command !== 'getdata') return false;
      for (const { hash } of message.items) {
        const bytes = Buffer.concat([chain.blocks.get(hash) ?? Buffer.alloc(100), LAST]);
        bytes[80]! += 1;
        link.send({ command: 'block', bytes });
      }
      return true;
    },
  },
  {
    name: 'send blocks with a transaction of 64 bytes in place of two hashes',
    script: (chain) => (message, link) => {
      if (message.command !== 'getdata') return false;
      for (const { hash } of message.items) {
        const block = chain.blocks.get(hash) ?? Buffer.alloc(100);
        link.send({
          command: 'block',
          bytes: Buffer.concat([block.subarray(0, 80), Buffer.from([2]), block.subarray(-64), block.subarray(-64)]),
        });
      }
      return true;
    },
  },
  {
    name: 'claim times in the future',
    script: (chain) => (message, link) => {
      if (message.command !== 'getheaders') return false;
      const from = chain.headers.findLastIndex(({ hash }) => message.locator.includes(hash)) + 1;
      const known = chain.headers.slice(from).map(({ header }) => header);
      const now = Math.floor(Date.now() / 1000);
      return link.send({ command: 'headers', headers: [...known, ...continued(chain, (height) => now + 3 * HOURS + height)] });
    },
  },
  {
    name: 'claim times before the median',
    script: (chain) => (message, link) => {
      if (message.command !== 'getheaders') return false;
      return link.send({ command: 'headers', headers: continued(chain, (height) => 1_600_000_000 + height) });
    },
  },
  {
    name: 'flood with branches that have real work, but less',
    script: (chain) => (message, link) => {
      if (message.command !== 'getheaders') return false;
      for (let i = 0; i < 300; i++) {
        const fork = forkOf(chain, 100);
        extend(fork, 15);
        link.send({ command: 'headers', headers: fork.headers.slice(100).map(({ header }) => header) });
      }
      return true;
    },
  },
  {
    name: 'send malformed and oversized messages',
    script: () => (message, link) => {
      if (message.command !== 'getheaders') return false;
      const head = Buffer.alloc(24);
      BTC.magic.copy(head);
      head.write('headers', 4);
      head.writeUInt32LE(0x02000000, 16);
      return link.write(head);
    },
  },
  {
    name: 'flood with transactions that nobody sent',
    script: () => (message, link) => {
      if (message.command === 'sendheaders') {
        for (let i = 0; i < 5; i++)
          link.send({
            command: 'inv',
            items: Array.from({ length: 4_500 }, (_, n) => ({ type: 1, hash: (i * 4_500 + n).toString(16).padStart(64, '0') })),
          });
      }
      return message.command === 'getdata' && message.items.some(({ type }) => type === 1);
    },
  },
];

for (const { name, script } of HOSTILE) {
  test(`seven of eight peers ${name}: the chain and the blocks of the honest one are seen, and its payment`, async () => {
    const chain = createServedChain(120);
    const fork = forkOf(chain, 100);
    extend(fork, 10);
    const hosts = [1, 2, 3, 4, 5, 6, 7].map((n) => `127.${n}.0.1`);
    const hostile = await Promise.all(hosts.map((host) => peerAt({ host, chain, script: script(chain, fork) })));
    // A second honest one is needed for a payment that is not mined.
    const honest = await peerAt({ host: '127.8.0.1', chain });
    const { service, clock } = serve([...hostile, honest]);
    await service.start();
    await eventually(
      async () => honest.messages.some(({ command }) => command === 'sendheaders'),
      (connected) => connected,
    );
    // Nobody has to wait for those that answer nothing.
    let skips = 0;
    await eventually(
      async () => {
        if (skips++ < 30) clock.skippedMs += 1_000;
        return service.view.tip().hash;
      },
      (hash) => hash === chain.headers.at(-1)!.hash,
    );
    const paid = transaction([{ script: '0014'.padEnd(44, 'a'), units: 1_000n }]);
    const [block] = extend(chain, 1, { transactions: [paid, LAST] });
    // Those that lie about blocks announce it first, so that one of them is asked first.
    const liars = /blocks/.test(name) && !/fork/.test(name) ? hostile : [];
    const announced = announceBlock(chain.headers.at(-1)!.header);
    for (const peer of liars.length > 0 ? liars : [honest]) peer.announce(announced);
    await reaches(service, chain);
    const read = blockOf(service, block!.hash);
    if (liars.length > 0) honest.announce(announced);
    const bytes = await read;
    assert.ok(bytes.includes(paid));
  });
}

test('a payment counts as seen when two peers announced it, whichever of them sends it', async () => {
  const chain = createServedChain(10);
  const paid = transaction([{ script: '0014'.padEnd(44, 'b'), units: 1_000n }]);
  const txid = shownHash(paid);
  // The first announces and does not send.
  const silentOne = await peerAt({ host: '127.1.0.1', chain, script: ({ command }) => command === 'getdata' });
  const honest = await peerAt({ host: '127.2.0.1', chain: { ...chain, transactions: new Map([[txid, paid]]) } });
  const { service, hints } = serve([silentOne, honest]);
  await service.start();
  await eventually(
    async () => service.status(),
    ({ relaying, syncing }) => relaying === 2 && !syncing,
  );
  silentOne.announce(inv(txid));
  await eventually(
    async () => service.relay.size(),
    (size) => size === 1,
  );
  // It connects again and says it once more: it is still one peer.
  for (const link of silentOne.links) link.end();
  await eventually(
    async () => silentOne.links.size === 0 && service.status().connected,
    (connected) => connected === 1,
  );
  assert.deepEqual([service.relay.fresh(), service.relay.has(txid)], [[], false]);
  const before = hints();
  honest.announce(inv(txid));
  await eventually(
    async () => service.relay.fresh(),
    (fresh) => fresh.length === 1,
  );
  assert.ok(service.relay.has(txid) && hints() > before);
  assert.deepEqual(service.relay.fresh(), [{ txid, bytes: paid }]);
  service.relay.done(service.relay.fresh());
  assert.deepEqual(service.relay.fresh(), []);
  honest.announce(inv(txid));
  honest.announce(inv('ab'.repeat(32)));
  await eventually(
    async () => service.relay.size(),
    (size) => size === 2,
  );
  assert.deepEqual([service.relay.fresh(), service.relay.has('ab'.repeat(32))], [[], false]);
});

test('a payment that one peer announces while another floods is seen as soon as that one is connected again and sends it', async () => {
  const chain = createServedChain(10);
  const paid = transaction([{ script: '0014'.padEnd(44, 'c'), units: 1_000n }]);
  const txid = shownHash(paid);
  const both = { ...chain, transactions: new Map([[txid, paid]]) };
  const [flooder, honest] = [await peerAt({ host: '127.1.0.1', chain: both }), await peerAt({ host: '127.2.0.1', chain: both })];
  const { service, clock } = serve([], { given: [flooder.endpoint, honest.endpoint] });
  const relays = () =>
    eventually(
      async () => service.status(),
      ({ relaying, syncing }) => relaying === 2 && !syncing,
    );
  await service.start();
  await relays();
  for (let sent = 0; sent < 200_000; sent += 50_000)
    flooder.announce({
      command: 'inv',
      items: Array.from({ length: 50_000 }, (_, i) => ({ type: 1, hash: (sent + i).toString(16).padStart(64, '0') })),
    });
  honest.announce(inv(txid));
  await eventually(
    async () => flooder.opened(),
    (opened) => opened === 2,
  );
  await relays();
  await eventually(
    async () => honest.messages,
    (messages) => messages.some(({ command, ...rest }) => command === 'getdata' && JSON.stringify(rest).includes(txid)),
  );
  assert.equal(service.relay.has(txid), false);
  clock.skippedMs += 5_000;
  await eventually(
    async () => service.relay.fresh(),
    (fresh) => fresh.some((one) => one.txid === txid),
  );
});

/** Polls as the follower does, an hour after peers began to announce. */
function pollOf({ service, clock }: ReturnType<typeof serve>) {
  const heardSinceMs = () => service.status().relayedSinceMs ?? clock.monotonicMs();
  const fetchMempool = createPeerMempool({ relay: service.relay, family: 'BTC', clock, heardSinceMs, settledMs: 1 });
  const matcher = { has: () => false, watchesSpends: false, spends: () => false, recent: () => [], waiting: [] };
  return async () => {
    const mempool = await fetchMempool();
    const { complete, incomplete } = await mempool.scan(matcher);
    mempool.done();
    return { complete, incomplete };
  };
}
test('two peers announce the same thousands of transactions that nobody sent: polls stay complete, and the two are left', async () => {
  const chain = createServedChain(10);
  const paid = transaction([{ script: '0014'.padEnd(44, 'd'), units: 1_000n }]);
  const txid = shownHash(paid);
  const both = { ...chain, transactions: new Map([[txid, paid]]) };
  // One sends nothing, the other one says that it does not have them.
  const silent: Script = (message) => message.command === 'getdata';
  const liars = [await peerAt({ host: '127.1.0.1', chain, script: silent }), await peerAt({ host: '127.2.0.1', chain })];
  const honest = [await peerAt({ host: '127.3.0.1', chain: both }), await peerAt({ host: '127.4.0.1', chain: both })];
  const served = serve([...liars, ...honest]);
  const { service, clock } = served;
  const poll = pollOf(served);
  await settles(service, chain, 4);
  const invented = (first: string, count: number): PeerMessage => ({
    command: 'inv',
    items: Array.from({ length: count }, (_, i) => ({ type: 1, hash: first + (i + 1).toString(16).padStart(63, '0') })),
  });
  for (const liar of liars) liar.announce(invented('0', 3_000));
  for (const peer of honest) peer.announce(inv(txid));
  // An honest peer dropped some of what it announced.
  honest[0]!.announce(invented('f', 20));
  await eventually(
    async () => [service.relay.size(), service.relay.has(txid)],
    ([size, seen]) => size === 3_021 && seen === true,
  );
  await eventually(
    async () => {
      assert.deepEqual(await poll(), { complete: true, incomplete: null });
      clock.skippedMs += 2_000;
      return liars.map(({ links }) => links.size);
    },
    (links) => links.join() === '0,0',
  );
  assert.deepEqual([service.status().connected, service.status().relaying], [2, 2]);
  assert.ok(honest.every((peer) => peer.opened() === 1 && peer.links.size === 1));
  // Nobody is left who announced what the two invented.
  assert.equal(service.relay.size(), 21);
  assert.deepEqual(await poll(), { complete: true, incomplete: null });
});

test('while peers that leave are replaced, an announcement is missed only if nobody is left who hears it', async () => {
  const chain = createServedChain(10);
  const peers = await Promise.all([1, 2, 3, 4, 5].map((n) => peerAt({ host: `127.${n}.0.1`, chain })));
  const served = serve(peers, { limits: { ...LIMITS, connections: 3, relaying: 3 } });
  const { service } = served;
  await settles(service, chain, 3);
  const since = service.status().relayedSinceMs;
  assert.notEqual(since, null);
  const used = peers.filter(({ links }) => links.size > 0);
  for (const { links } of used.slice(1)) for (const link of links) link.end();
  await eventually(
    async () => peers.filter((peer) => !used.includes(peer) && peer.links.size > 0).length === 2 && service.status().relaying,
    (relaying) => relaying === 3,
  );
  assert.equal(service.status().relayedSinceMs, since);
  for (const { links } of peers) for (const link of links) link.end();
  await eventually(
    async () => service.status().relayedSinceMs,
    (now) => now === null,
  );
});

test('when all eight peers are stale, they are exchanged until an honest one is found', async () => {
  const chain = createServedChain(50);
  const stale = { ...chain, headers: chain.headers.slice(0, 40) };
  const hosts = Array.from({ length: 8 }, (_, n) => `127.${n + 1}.0.1`);
  const surrounding = await Promise.all(hosts.map((host) => peerAt({ host, chain: stale })));
  const fast = { limits: { ...LIMITS, rotateMs: 200 } };
  const { service, stored } = serve(surrounding, fast);
  await service.start();
  await eventually(
    async () => service.status().connected,
    (connected) => connected === 8,
  );
  await reaches(service, stale);
  await service.close();
  assert.equal(stored.last.anchors.length, 2);
  assert.ok(stored.last.proven.length >= 8);
  // After a restart it is still surrounded; one more address is known.
  const honest = await peerAt({ host: '127.77.0.1', chain });
  const again = serve([...surrounding, honest], fast);
  again.stored.last = stored.last;
  await again.service.start();
  await reaches(again.service, chain);
});

test('when the seeds name only liars, and all that is stored is theirs, a peer of the list in the release is connected all the same', async () => {
  const chain = createServedChain(50);
  const shorter = { ...chain, headers: chain.headers.slice(0, 40) };
  const hosts = Array.from({ length: 40 }, (_, n) => `127.${n + 1}.0.1`);
  const [first, ...others] = await Promise.all(hosts.map((host) => peerAt({ host, chain: shorter })));
  const { port } = first!.endpoint;
  const liars = [first!, ...others].map(({ endpoint }) => endpoint);
  const honest = await peerAt({ host: '127.77.0.1', chain });
  // No chance decides: nobody is exchanged in this time.
  const limits = { ...LIMITS, rotateMs: 3_600_000, feelerMs: 3_600_000 };
  const { service, stored } = serve([], {
    ...{ network: { ...BTC, port, seeds: ['a seed'] }, fallback: [honest.endpoint], limits, isUsable: () => true },
    resolve: async () => hosts,
  });
  stored.last = { anchors: liars.slice(0, 2), proven: liars };
  await service.start();
  await reaches(service, chain);
  assert.equal(honest.opened(), 1);
  // When it leaves and no other one of the list is there, its place is not left empty.
  for (const link of honest.links) link.end();
  await eventually(
    async () => service.status().connected,
    (connected) => connected === 8,
  );
});

test('while no block arrives, new peers are tried one by one, and those of long standing stay', async () => {
  const chain = createServedChain(40);
  const hosts = Array.from({ length: 14 }, (_, n) => `127.${n + 1}.0.1`);
  const all = await Promise.all(hosts.map((host) => peerAt({ host, chain })));
  const { service } = serve(all, { limits: { ...LIMITS, relaying: 3, rotateMs: 50 } });
  await service.start();
  await eventually(
    async () => service.status().connected,
    (connected) => connected >= 8,
  );
  const first = all.filter(({ links }) => links.size > 0).slice(0, 8);
  const tried = () => all.reduce((sum, peer) => sum + peer.opened(), 0);
  await eventually(
    async () => tried(),
    (count) => count >= 14,
  );
  const stayed = first.filter((peer) => peer.opened() === 1 && peer.links.size === 1);
  assert.ok(stayed.length >= 7, `${stayed.length} of the first peers stayed`);
  const { relaying, relayedSinceMs } = service.status();
  assert.ok(relaying >= 2 && relayedSinceMs !== null, 'what is announced was heard without a gap');
});

test('when every peer sends what cannot be read, operators learn the reason', async () => {
  const chain = createServedChain(20);
  const bad: Script = (message, link) =>
    message.command === 'getheaders' && link.write(frame(BTC.magic, 'headers', Buffer.from('fd0100', 'hex')));
  const hosts = Array.from({ length: 5 }, (_, n) => `127.${n + 1}.0.1`);
  const peers = await Promise.all(hosts.map((host) => peerAt({ host, chain, script: bad })));
  const { service } = serve(peers);
  await service.start();
  const { trouble } = await eventually(
    async () => service.status(),
    (status) => /^[3-5] peers were lost for the same reason/.test(status.trouble ?? ''),
  );
  assert.match(
    trouble!,
    /: a count is not in its shortest form\. If this does not end, check the connection and install the newest release$/,
  );
});

test('nothing that identifies a payment leaves, over all bytes that peers got', async () => {
  const chain = createServedChain(30);
  const script = '0014'.padEnd(44, 'c');
  const paid = transaction([{ script, units: 123_456n }]);
  const transactions = new Map([[shownHash(paid), paid]]);
  const peers = await Promise.all(
    ['127.1.0.1', '127.2.0.1', '127.3.0.1'].map((host) => peerAt({ host, chain: { ...chain, transactions } })),
  );
  const { service } = serve(peers);
  await service.start();
  await reaches(service, chain);
  for (const peer of peers) peer.announce(inv(shownHash(paid)));
  await eventually(
    async () => service.relay.fresh().length,
    (count) => count === 1,
  );
  const [block] = extend(chain, 1, { transactions: [paid] });
  for (const peer of peers) peer.announce(announceBlock(chain.headers.at(-1)!.header));
  await reaches(service, chain);
  assert.ok((await blockOf(service, block!.hash)).includes(paid));
  const kinds = new Set(peers.flatMap(({ messages }) => messages.map(({ command }) => command)));
  assert.deepEqual([...kinds].sort(), ['getaddr', 'getdata', 'getheaders', 'sendheaders', 'verack', 'version']);
  for (const { received, messages } of peers) {
    const bytes = received().toString('hex');
    assert.ok(!bytes.includes(script) && !bytes.includes(script.slice(4)));
    // Only what peers announced or have in their headers is asked for.
    const known = new Set([shownHash(paid), ...chain.headers.map(({ hash }) => hash)]);
    for (const message of messages) if (message.command === 'getdata') assert.ok(message.items.every(({ hash }) => known.has(hash)));
  }
});
