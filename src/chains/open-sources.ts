/** Opens what the settings name: nodes, peers, Electrum servers and beacon servers, joined into one source for each chain. */

import { isBitcoinLike } from '#addresses';
import type { Outgoing } from '#connections';
import { type PeerAddress, readProxy } from '#connections';
import { type ChainId, COIN, type Coin, chainOf, isToken, leadingCoins, type Network } from '#core/coin';
import type { Clock } from '#core/dates';
import { type TrustSetting, trustOf } from '#core/guard';
import type { Log } from '#log';
import { FEE_BLOCKS, feesOf } from './bitcoin/block-fees.ts';
import { createCoreSource } from './bitcoin/core-rpc.ts';
import type { Ours } from './bitcoin/electrum/electrum-desk.ts';
import { createElectrumSource } from './bitcoin/electrum/electrum-source.ts';
import { createTurn } from './bitcoin/header-feed.ts';
import { createHeaderService, createHeaderServices, type HeaderService, MAIN_STARTS, type ProofStarts } from './bitcoin/header-service.ts';
import { createNetworkPeers, regtestProof } from './bitcoin/p2p/network-peers.ts';
import { readEndpoint } from './bitcoin/p2p/peer-book.ts';
import { proofOf, provenSource } from './bitcoin/proven-source.ts';
import { createWorkThreads, type WorkThreads } from './bitcoin/work-threads.ts';
import type { ChainSource, JoinedSource, NamedSource, SourceConnection } from './chain-source.ts';
import { checkedSource } from './checked-source.ts';
import { createAuditFacts } from './ethereum/eth-balance-audit.ts';
import { createEthereumSource } from './ethereum/ethereum.ts';
import { type BeaconNetwork, createBeaconServers, MAINNET, SEPOLIA } from './ethereum/light-client/beacon-networks.ts';
import { createLightService, type LightService } from './ethereum/light-client/light-service.ts';
import { committeeProof, syncedSource } from './ethereum/synced-source.ts';
import { createTokenNetworkSource } from './ethereum/token-network.ts';
import { joinSources, nameOfSource } from './sources.ts';
import type { ChainStore } from './store.ts';

/** What an operator sets about the sources; `config.ts` reads it. */
type SourceSettings = {
  networks: Readonly<Record<ChainId, Network>>;
  ethChainId: number;
  nodeUrls: Readonly<Record<Coin, readonly string[]>>;
  /** For each node, in order. */
  trusts: Readonly<Record<Coin, readonly TrustSetting[]>>;
  /** `headers`: the headers of peers are compared with those of the node. */
  p2p: Readonly<Record<Coin, 'on' | 'on_demand' | 'headers' | 'off'>>;
  /** As host:port; empty: peers are found by DNS. */
  peers: Readonly<Record<Coin, readonly string[]>>;
  p2pProxy: string | null;
  /** Null: not set. */
  electrumUrls: Readonly<Record<Coin, readonly string[] | null>>;
  beacon: { urls: readonly string[]; checkpoint: string | null };
};

/**
 * What tests replace: where the header chains begin, which peers bring headers beside other sources, the Electrum servers where none are
 * set, and the beacon chain. No setting changes it.
 */
export type SourceReplacements = {
  starts?: ProofStarts;
  helpers?: readonly PeerAddress[];
  unchosenServers?: readonly string[] | null;
  beacon?: BeaconNetwork;
};

type Options = SourceReplacements & {
  settings: SourceSettings;
  /** Which outputs of an address are ours: Electrum servers are never asked about those. */
  oursOf(coin: Coin): Ours;
  store: ChainStore;
  outgoing: Outgoing;
  clock: Clock;
  log: Log;
};

/** Your own node vouches for its blocks where nothing is proven. */
const vouchedBy = (source: ChainSource): ChainSource => ({
  ...source,
  fetchBlock: async (hash) => ({ ...(await source.fetchBlock(hash)), verifiedBy: 'node' }),
});

/**
 * Peers whose headers are compared with those of your own node, and bring them where it cannot: a node on a branch that the network left
 * completes nothing. Null where they are not wanted.
 */
function openWatch({ settings, coin, headers, helpers, store, log, clock }: Opening): SourceConnection | null {
  const { family, chain } = COIN[coin];
  if (settings.p2p[coin] !== 'headers' || !headers || !isBitcoinLike(family)) return null;
  const network = settings.networks[chain];
  const proxy = settings.p2pProxy === null ? null : readProxy(settings.p2pProxy);
  return createNetworkPeers({ family, network, headers, given: helpers, proxy, watch: true, store, clock, log }).connection;
}

type Opening = {
  settings: SourceSettings;
  coin: Coin;
  headers: HeaderService | null;
  starts: ProofStarts;
  /** The peers whose headers are compared; none: they are found. */
  helpers: readonly PeerAddress[];
  /** The Electrum servers where none are set; null: on mainnet the public ones. */
  unchosenServers: readonly string[] | null;
  work: WorkThreads;
} & Pick<Options, 'store' | 'oursOf' | 'outgoing' | 'clock' | 'log'>;

/** The sources of a chain, by its leading coin, in order of preference: nodes, peers, Electrum servers. */
function sourcesOf({ watch, light, ...opening }: Opening & { watch: JoinedSource['watch']; light: LightService | null }): NamedSource[] {
  const { settings, coin, headers, work, store, outgoing, log, clock } = opening;
  const { family, chain } = COIN[coin];
  const network = settings.networks[chain];
  const trusts = [...settings.trusts[coin]];
  const sources: NamedSource[] = [];
  const turn = createTurn();
  const helped = watch !== null;
  const add = (name: string, setting: TrustSetting, source: ChainSource, follows: boolean): void => {
    const { readHeaders } = source;
    // Your own Ethereum node is believed as it is; what anybody else shows must be signed.
    const synced = light !== null && setting !== 'own' ? syncedSource({ source, name, light }) : null;
    const trust = trustOf(setting, (headers !== null && readHeaders !== undefined) || synced !== null);
    const proven =
      headers && readHeaders
        ? provenSource({ source: { ...source, readHeaders }, name, service: headers, turn, helped, locks: trust === 'own', clock, log })
        : trust === 'own'
          ? vouchedBy(source)
          : (synced ?? source);
    sources.push({ name, trust, source: checkedSource(proven, { name, clock }), follows });
  };
  const facts = createAuditFacts(trusts.every((trust) => trust === 'own') ? null : store.audit);
  for (const url of settings.nodeUrls[coin]) {
    const setting = trusts.shift()!;
    const source = isBitcoinLike(family)
      ? createCoreSource({ coin: family, network, url, outgoing, log, clock })
      : isToken(coin)
        ? createTokenNetworkSource({ coin, network, chainId: chainOf(coin).chainIds![network], url, outgoing, log })
        : createEthereumSource({ network, chainId: settings.ethChainId, url, isOwn: setting === 'own', facts, outgoing, log });
    add(nameOfSource(url), setting, source, true);
  }
  const p2p = settings.p2p[coin];
  if ((p2p === 'on' || p2p === 'on_demand') && isBitcoinLike(family)) {
    const given = settings.peers[coin].flatMap((peer) => readEndpoint(peer) ?? []);
    const proxy = settings.p2pProxy === null ? null : readProxy(settings.p2pProxy);
    // A private test network has no checkpoint, and is read again at each start.
    const own = headers ?? createHeaderService({ ...regtestProof(family), store: null, hashWork: work.hashWork, clock, log });
    const { source, connection } = createNetworkPeers({ family, network, headers: own, given, proxy, store, clock, log });
    const onDemand = p2p === 'on_demand';
    sources.push({
      name: 'peers',
      trust: 'proven',
      source: checkedSource(source, { name: 'peers', clock }),
      follows: true,
      connection,
      onDemand,
    });
  }
  const keptByFollowers = sources.some((one) => one.follows && !one.onDemand);
  const electrum = openElectrum(opening, keptByFollowers);
  return electrum ? [...sources, electrum] : sources;
}

/** Electrum servers only answer lookups: they have no vote. Null: there are none. `keptByFollowers`: the headers are stored by followers. */
function openElectrum(
  { settings, coin, headers, starts, unchosenServers, work, store, oursOf, log, clock }: Opening,
  keptByFollowers: boolean,
): NamedSource | null {
  const { family, chain } = COIN[coin];
  const network = settings.networks[chain];
  const unchosen = settings.electrumUrls[coin] === null;
  const urls = settings.electrumUrls[coin] ?? unchosenServers ?? (network === 'mainnet' ? ['public'] : []);
  if (urls.length === 0 || !isBitcoinLike(family)) return null;
  const source = createElectrumSource({
    ...{ family, network, urls, keptByFollowers, hashWork: work.hashWork, store, clock, log },
    proof: starts(family, network) ?? regtestProof(family),
    shared: () => headers?.opened() ?? null,
    proxy: settings.p2pProxy === null ? null : readProxy(settings.p2pProxy),
    ours: oursOf(coin),
  });
  return {
    name: 'electrum',
    trust: 'claimed',
    source: checkedSource(source, { name: 'electrum', clock }),
    follows: false,
    onlyLookUps: true,
    unchosen,
  };
}

/** What proves Ethereum through servers of others; null where none are set, or the network has no beacon chain that is known. */
function openLight(
  settings: SourceSettings,
  { beacon, store, outgoing, clock, log }: { beacon: BeaconNetwork | undefined } & Pick<Opening, 'store' | 'outgoing' | 'clock' | 'log'>,
) {
  const name = settings.networks.ethereum;
  const network = beacon ?? { mainnet: MAINNET, testnet: SEPOLIA, regtest: null }[name];
  const { urls, checkpoint } = settings.beacon;
  if (urls.length === 0 || network === null) return null;
  const servers = createBeaconServers({ urls, outgoing });
  return createLightService({ network, checkpoint, servers, store: store.light(name), clock, log });
}

/** One source for each chain that has any, connected to nothing until it is asked or followed. `close` ends all connections. */
export function openSources({ starts = MAIN_STARTS, helpers = [], unchosenServers = null, beacon, settings, ...rest }: Options): {
  chains: ReadonlyMap<ChainId, JoinedSource>;
  close(): Promise<void>;
} {
  const { store, clock, log } = rest;
  const work = createWorkThreads();
  const headers = createHeaderServices({ starts, store, hashWork: work.hashWork, clock, log });
  const light = openLight(settings, { beacon, ...rest });
  const chains = new Map<ChainId, JoinedSource>();
  for (const coin of leadingCoins()) {
    const { chain: id, family } = COIN[coin];
    const network = settings.networks[id];
    const service = isBitcoinLike(family) ? headers.of(family, network) : null;
    const opening = { settings, coin, headers: service, starts, helpers, unchosenServers, work, ...rest };
    const watch = openWatch(opening);
    const lightOf = id === 'ethereum' ? light : null;
    const sources = sourcesOf({ ...opening, watch, light: lightOf });
    if (sources.length === 0) continue;
    const proof = service ? proofOf(service) : lightOf && committeeProof(lightOf);
    const paid = isBitcoinLike(family) && { paid: async () => feesOf(family, { paid: await store.paidOf(family, FEE_BLOCKS) }) };
    chains.set(id, joinSources({ coin, network, sources, proof, watch, ...paid, log, clock }));
  }
  return {
    chains,
    close: async () => {
      for (const chain of [...chains.values()].reverse()) chain.close();
      await light?.close();
      await headers.close();
      await work.close();
    },
  };
}
