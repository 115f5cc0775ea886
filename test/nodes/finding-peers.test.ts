/** How peers are found without any setting: DNS seeds, the fallback list, what peers tell, and what is stored for the next start. */

import assert from 'node:assert/strict';
import { after, afterEach, before, test } from 'node:test';
import { createChainStore } from '../../src/chain-store/chain-store.ts';
import { createPeerStore, fallbackPeers } from '../../src/chains/bitcoin/p2p/network-peers.ts';
import { PEER_LIMITS, type PeerNetwork, peerNetwork } from '../../src/chains/bitcoin/p2p/peer.ts';
import { endpointName, networkGroup } from '../../src/chains/bitcoin/p2p/peer-book.ts';
import { createPeerService, type PeerService, type PeerServiceOptions } from '../../src/chains/bitcoin/p2p/peer-service.ts';
import { PEERS_LIMITS } from '../../src/chains/bitcoin/p2p/peers.ts';
import { isPublicAddress } from '../../src/connections/outgoing.ts';
import type { BitcoinFamily } from '../../src/core/coin.ts';
import { eventually } from '../kit/app.ts';
import { type TestDatabase, testDatabase } from '../kit/database.ts';
import { createRegtestHeaders, createServedChain } from '../kit/regtest-chain.ts';
import { type ScriptedPeer, startScriptedPeer } from '../kit/scripted-peer.ts';

const clock = { now: () => new Date(), monotonicMs: () => performance.now() };
const silent = { debug: () => {}, info: () => {}, warn: () => {}, error: (fields: object) => assert.fail(JSON.stringify(fields)) };
const PLACE = { coin: 'BTC', network: 'mainnet' } as const;

let database: TestDatabase;
before(async () => {
  database = await testDatabase();
});
after(() => database.drop());
const closers: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const close of closers.splice(0).reverse()) await close();
});

/** Peers on one port, as on a real network, in as many network groups. */
async function startPeers(hosts: readonly string[]): Promise<{ peers: ScriptedPeer[]; network: PeerNetwork }> {
  const regtest = peerNetwork('BTC', 'regtest');
  const chain = createServedChain(3);
  const [first, ...others] = hosts;
  const peers = [await startScriptedPeer({ network: regtest, chain, host: first! })];
  const { port } = peers[0]!.endpoint;
  for (const host of others) peers.push(await startScriptedPeer({ network: regtest, chain, host, port }));
  closers.push(...peers.map(({ close }) => close));
  return { peers, network: { ...regtest, port, seeds: ['one.seed.example', 'two.seed.example'] } };
}

async function start(
  network: PeerNetwork,
  more: Partial<PeerServiceOptions> = {},
): Promise<{ service: PeerService; asked: string[]; stop(): Promise<void> }> {
  const asked: string[] = [];
  const { resolve = async () => [], ...others } = more;
  const service = createPeerService({
    ...{
      network,
      view: createRegtestHeaders(),
      given: [],
      store: createPeerStore(createChainStore(database.db).peers(PLACE)),
      spacingSeconds: 600,
    },
    ...{ clock, log: silent, onHint: () => {}, isUsable: (host) => host.startsWith('127.'), checkMs: 50 },
    limits: { ...PEERS_LIMITS, tickMs: 20 },
    peerLimits: { ...PEER_LIMITS, tickMs: 20 },
    resolve: async (name) => {
      asked.push(name);
      return resolve(name);
    },
    ...others,
  });
  let closed = false;
  const stop = async () => {
    if (!closed) await service.close();
    closed = true;
  };
  closers.push(stop);
  await service.start();
  return { service, asked, stop };
}
const connects = (service: PeerService, wanted: number) =>
  eventually(
    async () => service.status().connected,
    (connected) => connected === wanted,
  );

test('DNS seeds give the first peers, and a restart finds them again without any seed', async () => {
  const hosts = ['127.11.0.1', '127.12.0.1', '127.13.0.1'];
  const { peers, network } = await startPeers(hosts);
  const told: Record<string, string[]> = { 'one.seed.example': [hosts[0]!, '10.0.0.1', 'nonsense'], 'two.seed.example': hosts.slice(1) };
  const first = await start(network, { resolve: async (name) => told[name]! });
  await connects(first.service, 3);
  assert.deepEqual(first.asked.sort(), ['one.seed.example', 'two.seed.example']);
  await first.stop();
  const stored = await createPeerStore(createChainStore(database.db).peers(PLACE)).load();
  assert.equal(stored.anchors.length, 2);
  assert.deepEqual(stored.proven.map(endpointName).sort(), peers.map(({ name }) => name).sort());

  const second = await start(network, { resolve: () => Promise.reject(new Error('no name server')) });
  await connects(second.service, 3);
});

test('when no seed answers, the fallback list is used', async () => {
  await database.db.sql`delete from known_peers`;
  const { peers, network } = await startPeers(['127.21.0.1', '127.22.0.1']);
  const resolve = () => Promise.reject(new Error('no name server'));
  const { service } = await start(network, { resolve, fallback: peers.map(({ endpoint }) => endpoint) });
  await connects(service, 2);
});

test('seeds and peers cannot lead into the private network', async () => {
  await database.db.sql`delete from known_peers`;
  const { peers, network } = await startPeers(['127.31.0.1']);
  const { service, asked } = await start(network, {
    resolve: async () => ['127.31.0.1', '192.168.1.1', '169.254.169.254', '::1'],
    isUsable: isPublicAddress,
  });
  await eventually(
    async () => asked.length,
    (count) => count === 2,
  );
  assert.equal(service.status().connected, 0);
  assert.equal(peers[0]!.opened(), 0);
});

test('what is stored is bounded, belongs to its network, and is not lost when no peer is connected', async () => {
  const many = Array.from({ length: 500 }, (_, i) => ({ host: `127.${i >> 8}.${i & 255}.1`, port: 8333 }));
  const store = createPeerStore(createChainStore(database.db).peers(PLACE));
  await store.save({ anchors: many.slice(0, 100), proven: many });
  const { anchors, proven } = await store.load();
  assert.deepEqual([anchors.length, proven.length], [8, 64]);
  await store.save({ anchors: [], proven: [] });
  assert.equal((await store.load()).proven.length, 64);
  assert.deepEqual(await createPeerStore(createChainStore(database.db).peers({ coin: 'LTC', network: 'mainnet' })).load(), {
    anchors: [],
    proven: [],
  });
  assert.deepEqual(await createPeerStore(createChainStore(database.db).peers({ coin: 'BTC', network: 'testnet' })).load(), {
    anchors: [],
    proven: [],
  });
  // Rows may hold anything, such as after an upgrade.
  await database.db.sql`update known_peers set anchors = '{"","nonsense:0","[::1]:8333"}'`;
  assert.deepEqual((await store.load()).anchors, [{ host: '::1', port: 8333 }]);
});

test('the fallback lists hold public addresses in distinct network groups', () => {
  for (const [family, least] of Object.entries({ BTC: 70, LTC: 64, DASH: 60, DOGE: 182 }) as [BitcoinFamily, number][]) {
    const { port } = peerNetwork(family, 'mainnet');
    const list = fallbackPeers(family, 'mainnet', port);
    assert.equal(list.length, least, family);
    for (const one of list) assert.ok(isPublicAddress(one.host), endpointName(one));
    assert.equal(new Set(list.map(({ host }) => networkGroup(host))).size, least, family);
    assert.ok(list.filter((one) => one.port === port).length > least / 2, family);
  }
  assert.deepEqual(fallbackPeers('BTC', 'regtest', 18_444), []);
});
