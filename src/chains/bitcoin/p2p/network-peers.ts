/**
 * A coin's own network as a source. One process connects to peers, after `start`; in all others, and before, the source tells what that
 * process last reported, and cannot read blocks.
 */

import { lookup } from 'node:dns/promises';
import type { PeerAddress, SocksProxy } from '#connections';
import { type BitcoinFamily, COIN, type Network } from '#core/coin';
import type { Clock } from '#core/dates';
import type { Log } from '#log';
import { ChainError, type ChainSource, NO_FINALITY, type SourceConnection } from '../../chain-source.ts';
import type { ChainStore } from '../../store.ts';
import { feesOf } from '../block-fees.ts';
import { encodeHeader, HeaderError, idOf, showHash } from '../header.ts';
import type { HeaderReader } from '../header-chain.ts';
import type { HeaderService, Headers, ProofStart } from '../header-service.ts';
import { PROOF_PARAMS } from '../proof-params.ts';
import { HeaderFault, type HeaderView } from './header-sync.ts';
import { type PeerLimits, peerNetwork } from './peer.ts';
import { endpointName, readEndpoint } from './peer-book.ts';
import { createPeerService, type PeerService } from './peer-service.ts';
import { explainReport, isStale, type PeerPhase, type PeerReport } from './peer-status.ts';
import { PEERS_LIMITS, type PeerStore, type PeersLimits } from './peers.ts';
import { blockZero, createPeerSource, MOST_BLOCKS, noLookUps, readTransactions } from './source.ts';

const WATCH_LIMITS: PeersLimits = { ...PEERS_LIMITS, connections: 4, relaying: 0 };
/** How often progress is checked, and written down while nothing changes. */
const CHECK_MS = 500;
const REPORT_MS = 5_000;
/** Lines in the log while headers are read. */
const LOG_EVERY_MS = 10_000;

/** The header chain of a private test network begins at its first block. */
export function regtestProof(family: BitcoinFamily): ProofStart {
  const params = PROOF_PARAMS[family].regtest;
  const first = encodeHeader({ version: 1, parent: '0'.repeat(64), bits: 0x207fffff, ...params.firstBlock });
  return { params, start: { height: 0, headers: [first] } };
}

type NetworkPeersOptions = {
  family: BitcoinFamily;
  network: Network;
  headers: HeaderService;
  /** Peers that the operator named: no others are used. */
  given: readonly PeerAddress[];
  proxy: SocksProxy | null;
  /** They are compared with a node and are not a source: fewer are connected, and none announces transactions. */
  watch?: boolean;
  store: ChainStore;
  clock: Clock;
  log: Log;
  /** Resolves the DNS seeds. */
  resolve?(name: string): Promise<readonly string[]>;
  limits?: PeersLimits;
  peerLimits?: PeerLimits;
};
type NetworkPeers = { source: ChainSource; connection: SourceConnection };

/** Blocks and announcements come from here once it is started. */
type Live = { source: Omit<ChainSource, 'fees'>; service: PeerService; headers: Headers; progress(): SyncState; startedAt: Date };

const resolveSeed = async (name: string): Promise<readonly string[]> => (await lookup(name, { all: true })).map(({ address }) => address);

function connect(options: NetworkPeersOptions, headers: Headers, { wake, isReady }: { wake(): void; isReady(): boolean }): Live {
  const { family, network, given, proxy, store, clock, log, resolve = resolveSeed, watch = false, peerLimits } = options;
  const limits = options.limits ?? (watch ? WATCH_LIMITS : undefined);
  const params = headers.params;
  const place = peerNetwork(family, network);
  const binding = network === 'mainnet';
  const service = createPeerService({
    ...{ network: place, view: viewHeaders(headers), given, proxy, clock, log, resolve, onHint: wake },
    ...{ fallback: fallbackPeers(family, network, place.port), store: createPeerStore(store.peers({ coin: family, network })) },
    ...{ spacingSeconds: params.spacingSeconds, ...(limits && { limits }), ...(peerLimits && { peerLimits }), ...(watch && { watch }) },
  });
  const look = createSyncProgress({ startSeconds: headers.work.timeAt(headers.checkpointHeight), binding });
  return {
    service,
    headers,
    startedAt: clock.now(),
    progress: () => {
      const { connected, syncing } = service.status();
      const nowSeconds = clock.now().getTime() / 1000;
      return look({ connected, syncing, tipSeconds: headers.tip().timeSeconds, nowSeconds, nowMs: clock.monotonicMs() });
    },
    source: createPeerSource({
      ...{ family, network, chain: headers, service, clock, isReady, onHint: () => () => {}, close: () => {} },
      kept: store.transactions({ coin: family, network }),
    }),
  };
}

function reportOf({ family, network }: NetworkPeersOptions, { service, headers, startedAt }: Live, state: SyncState): PeerReport {
  const { connected, relaying, syncing, bytesIn, bytesOut, clockAheadSeconds, trouble } = service.status();
  const { height, hash, parent, timeSeconds } = headers.tip();
  return {
    ...{ coin: family, network, ...state, connected, relaying, syncing, trouble, bytesIn, bytesOut, clockAheadSeconds, startedAt },
    ...{ height, hash, parent, blockTime: new Date(timeSeconds * 1000), feeFloor: service.sender.floor() },
  };
}

/** Says in the log how far it is: each change, and while headers are read every few seconds. */
function createTeller({ family, clock, log }: NetworkPeersOptions): (report: PeerReport) => void {
  let last = { phase: '', atMs: 0 };
  return (report) => {
    const { phase, percent, height, connected } = report;
    const nowMs = clock.monotonicMs();
    if (phase === last.phase && (phase !== 'headers' || nowMs - last.atMs < LOG_EVERY_MS)) return;
    last = { phase, atMs: nowMs };
    const fields = { coin: family, height, peers: connected, ...(phase === 'headers' && { percent }) };
    const { name } = COIN[family];
    log.info(fields, phase === 'ready' ? `${name}: headers are complete at block ${height}` : `${name}: ${explainReport(report)}`);
  };
}

/** Tells what the connected process reported. Each process reads fees this way, so that all suggest the same. */
function createReportedSource({ family, network, headers, store }: NetworkPeersOptions): ChainSource {
  const read = async (): Promise<PeerReport> => {
    const report = await store.reports.read({ coin: family, network });
    if (!report || isStale(report)) throw new ChainError('outage', 'no running process is connected to peers');
    return report;
  };
  const elsewhere = async (): Promise<never> => {
    throw new ChainError('outage', 'this process is not connected to peers');
  };
  const tip = async () => {
    const { height, hash, parent, blockTime } = await read();
    return { height, hash, parent, time: blockTime };
  };
  return {
    ...{ coin: family, network, genesis: async () => headers.params.genesis, tip },
    fees: async () => feesOf(family, { told: (await store.reports.read({ coin: family, network }))?.feeFloor ?? 0n }),
    health: async () => {
      const { phase, height, connected } = await read();
      return {
        ...{ tip: await tip(), headers: height, syncing: phase !== 'ready', software: 'peers', version: 0, network },
        ...{ pruned: false, txindex: null, peers: connected, mempool: null },
      };
    },
    inspect: async () => ({ prunedBelow: null, clockAheadSeconds: (await read()).clockAheadSeconds, missing: [], warnings: [] }),
    blockAt: async (height) => (height === 0 ? blockZero(headers.params) : elsewhere()),
    ...{ block: elsewhere, fetchBlock: elsewhere, fetchMempool: elsewhere, txState: elsewhere },
    finality: async () => NO_FINALITY,
    transaction: async (_, hint) => (hint ? elsewhere() : noLookUps(family)),
    addressSummary: () => noLookUps(family),
    outlet: {
      readTransactions: (wanted) =>
        readTransactions(store.transactions({ coin: family, network }), wanted, async () => {
          const reason = 'this process is not connected to peers, and a deposit is in a transaction that has to be read from them';
          throw new ChainError('outage', `${reason}; make the file in the dashboard of a process that also runs the role watcher`);
        }),
      send: elsewhere,
    },
    close: () => {},
  };
}

/** Creates the source. Nothing is connected before `start`. */
export function createNetworkPeers(options: NetworkPeersOptions): NetworkPeers {
  const { store, clock, log, family } = options;
  const listeners = new Set<() => void>();
  const wake = (): void => {
    for (const listener of listeners) listener();
  };
  const reported = createReportedSource(options);
  const tell = createTeller(options);
  let live: Live | null = null;
  let timer: NodeJS.Timeout | null = null;
  let phase: PeerReport['phase'] | null = null;
  let written = { text: '', atMs: Number.NEGATIVE_INFINITY };
  let writing: Promise<void> = Promise.resolve();
  let closed = false;

  const check = (now: Live): void => {
    const report = reportOf(options, now, now.progress());
    if (report.phase === 'ready' && phase !== 'ready') wake();
    phase = report.phase;
    tell(report);
    const { bytesIn, bytesOut, ...rest } = report;
    const text = JSON.stringify(rest, (_, value) => (typeof value === 'bigint' ? String(value) : value));
    const nowMs = clock.monotonicMs();
    if (text === written.text && nowMs - written.atMs < REPORT_MS) return;
    written = { text, atMs: nowMs };
    writing = writing
      .then(() => store.reports.write(report))
      .catch((error: unknown) => log.warn({ err: error, coin: family }, 'Could not record the state of the peers'));
  };
  const using = <K extends keyof Live['source']>(method: K): ChainSource[K] =>
    ((...args: unknown[]) => ((live?.source ?? reported)[method] as (...given: unknown[]) => unknown)(...args)) as ChainSource[K];
  const METHODS = [
    ...(['genesis', 'health', 'inspect', 'tip', 'blockAt', 'block', 'fetchBlock', 'fetchMempool', 'txState'] as const),
    ...(['finality', 'transaction', 'addressSummary'] as const),
  ];
  const start = async (): Promise<void> => {
    const headers = await options.headers.open();
    if (closed || live) return;
    const now = connect(options, headers, { wake, isReady: () => phase === 'ready' });
    live = now;
    timer = setInterval(() => check(now), CHECK_MS);
    timer.unref();
    check(now);
    await now.service.start();
  };
  const stop = async (): Promise<void> => {
    closed = true;
    if (timer) clearInterval(timer);
    await live?.service.close();
    await writing;
  };
  return {
    source: {
      ...reported,
      ...Object.fromEntries(METHODS.map((method) => [method, using(method)])),
      outlet: {
        mostBlocks: MOST_BLOCKS,
        readTransactions: (wanted) => (live?.source ?? reported).outlet!.readTransactions!(wanted),
        send: (raw) => (live?.source ?? reported).outlet!.send!(raw),
      },
      onHint: (listener) => {
        listeners.add(listener);
        return () => void listeners.delete(listener);
      },
    },
    connection: { start, isReady: () => phase === 'ready', stop },
  };
}

// The header chain as the peers' side uses it: why headers are refused decides what becomes of the peer.

/** Faults that are not the peer's: it may know a branch that we do not, or have another clock. */
const KINDS: Partial<Readonly<Record<HeaderError['fault'], HeaderFault['kind']>>> = {
  unknown_parent: 'unlinked',
  flood: 'unlinked',
  time_future: 'early',
};

export const viewHeaders = (chain: HeaderReader): HeaderView => ({
  locator: chain.locator,
  tip: chain.tip,
  find: chain.find,
  knows: chain.knows,
  waiting: chain.waiting,
  leadsTo: chain.leadsTo,
  setAside: chain.setAside,
  admit: chain.admit,
  hashOf: ({ bytes }) => showHash(idOf(chain.params, bytes)),
  add: async (headers, peer, giving) => {
    try {
      return await chain.add(headers, peer, giving);
    } catch (error) {
      throw error instanceof HeaderError ? new HeaderFault(KINDS[error.fault] ?? 'invalid', error.message) : error;
    }
  },
});

// The peers that worked, in the store, so that a restart connects to them first and does not depend on the DNS seeds.

/** More are neither stored nor read, whatever the caller or the row says. */
const MAX_ANCHORS = 8;
const MAX_PROVEN = 64;

const names = (endpoints: readonly PeerAddress[], most: number): string[] => [...new Set(endpoints.map(endpointName))].slice(0, most);
const endpoints = (stored: readonly string[], most: number): PeerAddress[] =>
  stored.slice(0, most).flatMap((name) => readEndpoint(name) ?? []);

export const createPeerStore = (stored: ReturnType<ChainStore['peers']>): PeerStore => ({
  load: async () => {
    const { anchors, proven } = await stored.load();
    return { anchors: endpoints(anchors, MAX_ANCHORS), proven: endpoints(proven, MAX_PROVEN) };
  },
  // Without any peer there is nothing better than what is stored.
  save: async ({ anchors, proven }) => {
    if (anchors.length + proven.length === 0) return;
    await stored.save({ anchors: names(anchors, MAX_ANCHORS), proven: names(proven, MAX_PROVEN) });
  },
});

// How far the header chain is, by the times of its blocks: what a peer claims to have does not count.

/** On networks with real work, a tip this old is not the newest block, whatever the peers say. */
const OLD_TIP_SECONDS = 86_400;
/** Once the chain was complete, a tip younger than this does not count as syncing: each new block arrives as a header first. */
const LATE_SECONDS = 6 * 3_600;

type SyncLook = {
  connected: number;
  /** Headers arrive, or no peer has sent all of its headers yet. */
  syncing: boolean;
  tipSeconds: number;
  nowSeconds: number;
  nowMs: number;
};
type SyncState = { phase: PeerPhase; percent: number; secondsLeft: number | null };

/** `startSeconds`: the time of the checkpoint. `binding`: whether blocks have real work, and so come in time. */
export function createSyncProgress({ startSeconds, binding }: { startSeconds: number; binding: boolean }): (look: SyncLook) => SyncState {
  let wasReady = false;
  /** When the first progress of this run was seen. */
  let first: { atMs: number; share: number } | null = null;
  return ({ connected, syncing, tipSeconds, nowSeconds, nowMs }) => {
    const age = nowSeconds - tipSeconds;
    const late = binding && age > (wasReady ? LATE_SECONDS : OLD_TIP_SECONDS);
    if (wasReady ? !(late && syncing) : connected > 0 && !syncing && !late) {
      wasReady = true;
      first = null;
      return { phase: 'ready', percent: 100, secondsLeft: null };
    }
    const share = Math.min(1, Math.max(0, (tipSeconds - startSeconds) / Math.max(1, nowSeconds - startSeconds)));
    const percent = Math.min(99, Math.floor(share * 100));
    if (connected === 0) return { phase: 'connecting', percent, secondsLeft: null };
    first ??= { atMs: nowMs, share };
    const [doneShare, doneMs] = [share - first.share, nowMs - first.atMs];
    // The first second says little about the rest.
    const secondsLeft = doneShare > 0 && doneMs > 1_000 ? Math.ceil(((1 - share) * doneMs) / doneShare / 1000) : null;
    return { phase: 'headers', percent, secondsLeft };
  };
}

// Addresses of peers on the main networks, for when no DNS seed answers. One per network group, from the `contrib/seeds/nodes_main.txt` of
// Bitcoin Core (February 2026), Litecoin Core (March 2024) and Dash Core (February 2026), and from the `src/chainparamsseeds.h` of
// Dogecoin Core (1.14.7, February 2024; its `nodes_main.txt` names Bitcoin nodes). They are only a way in: what these peers say is checked
// like everything else.

/** The port is that of the network unless it is given. */
const MAINNET: Readonly<Record<BitcoinFamily, string>> = {
  BTC: `
    193.37.255.146 216.226.128.189 14.49.142.41 45.92.45.17 5.36.230.237 67.149.47.147 67.193.238.111 68.148.76.43 68.75.195.2
    152.230.180.115 50.213.123.122 18.167.227.198 217.123.85.163 69.164.252.35 24.113.59.144 70.171.5.85 107.13.97.236 205.144.209.54
    62.238.237.242 35.78.97.86 47.252.14.48 50.46.236.20 157.143.59.246 184.95.13.14 50.115.188.236 69.251.182.112 184.162.218.131
    24.16.202.74 66.85.228.125 188.127.226.159 195.80.233.111 24.125.98.176 212.142.98.187 104.223.21.214 66.35.84.14 64.34.84.37
    45.94.168.5 193.77.81.228 50.4.123.66 5.11.92.140 104.243.35.225 170.205.178.76 38.102.85.36 47.90.137.13 66.91.103.201 60.241.1.72
    45.55.212.100 5.128.87.126 118.208.149.193 40.160.1.232 67.176.35.116 38.180.15.3 142.171.84.171 178.166.3.225 170.39.191.16
    12.11.29.34 109.173.57.116 37.157.192.94 46.229.165.147 192.226.179.38 174.20.110.67 73.85.226.234 37.15.61.236 50.30.36.140
    46.126.216.3 103.97.241.231 104.128.64.58 185.68.251.116 220.88.50.234 162.253.155.243`,
  LTC: `
    207.246.96.81 54.211.175.39 90.127.109.104 75.119.135.155 54.37.80.7 37.187.29.140 18.193.218.8 64.227.105.219 67.21.93.74
    95.43.97.84 212.7.202.120 195.154.187.6 77.221.211.137 91.193.181.3 45.77.162.206 81.78.192.98 144.91.104.184 46.4.35.198
    86.71.47.11 178.41.11.254 207.255.193.47 93.183.72.195 174.60.186.254 149.7.16.137 34.206.199.154 85.15.179.171 84.201.173.23
    188.143.140.154 77.247.178.158 70.181.13.143 136.244.65.212 190.2.130.27 146.59.69.245 80.111.142.213 94.130.49.164 5.133.65.82
    85.214.61.209 221.216.141.193:2321 15.204.183.3 51.210.217.144 178.10.236.205 5.100.250.140 72.68.211.215 173.208.172.165
    5.149.250.76 165.227.148.108 212.92.101.189 142.132.218.251 46.19.67.66 45.135.92.41 69.165.205.142:9933 97.115.248.110
    213.129.124.50 95.211.210.38 157.161.128.57 178.196.21.241 3.68.34.196 89.19.26.211 206.189.195.1 185.26.30.134:7203 173.212.242.5
    217.182.200.177 91.228.147.153 5.199.168.101`,
  DOGE: `
    91.122.105.234 69.164.196.239 51.178.97.131 82.66.253.194 96.126.123.143 76.182.152.209 13.250.127.178 89.117.21.204 23.114.235.154
    65.108.78.104 65.21.198.103 51.79.177.13 43.225.61.37 32.221.242.241 49.12.127.111 18.182.0.8 158.69.197.191 142.44.132.221
    71.239.127.88 35.225.79.7 47.33.96.8 164.92.123.58 74.215.71.191 52.140.216.54 87.212.125.51 136.50.99.214 167.99.179.226
    202.186.199.99 37.59.32.10 99.226.184.255 168.119.95.221 93.115.26.9 161.97.154.166 72.253.185.81 77.97.81.140 185.162.8.59
    24.42.178.44 18.224.200.26 35.131.169.228 68.195.16.31 54.37.41.82 207.38.89.23 146.52.147.102 134.119.223.233 161.35.162.174
    18.135.250.118 34.82.185.38 35.197.31.249 51.89.21.233 216.209.162.53 185.161.209.6 65.109.127.212 213.202.225.122 194.163.131.91
    198.58.97.42 93.81.254.159 104.248.81.232 5.134.192.207 81.82.233.76 98.57.224.159 3.128.121.7 15.204.13.136 77.166.5.76 149.202.10.56
    173.71.73.214 88.97.7.2 180.129.75.137 185.197.160.119 185.185.168.163 98.163.242.149 108.197.178.85 84.247.132.16 109.201.168.32
    52.76.185.145 37.27.59.75 109.196.124.182 35.73.87.31 174.16.63.20 174.74.114.178 85.214.240.130 77.21.164.140 46.128.129.14
    68.127.169.55 95.217.32.30 82.211.130.137 49.13.128.120 5.161.73.151 67.219.102.18 185.177.127.160 82.65.181.253 35.72.111.38
    96.230.12.90 13.214.157.71 76.151.142.92 34.16.167.108 38.50.247.160 165.22.247.168 172.113.86.53 188.138.88.47 43.128.29.248
    75.82.185.108 54.250.174.232 159.118.235.179 104.167.241.166 141.94.193.3 146.59.118.2 173.212.229.99 91.90.175.47 162.226.61.8
    79.141.173.198 94.130.49.164 135.181.79.89 73.104.88.141 5.9.68.211 185.59.101.208 162.55.92.77 193.11.85.167 85.209.103.113
    172.86.75.168 24.170.194.76 198.244.212.142 31.220.97.89 52.11.212.199 178.254.26.47 81.187.174.12 148.251.155.143 18.183.168.82
    8.42.76.74 204.111.163.114 209.126.119.58 18.192.202.208 158.220.109.151 76.178.186.228 167.114.159.131 78.23.127.161 51.195.199.248
    13.212.96.101 87.146.146.193 157.90.110.221 5.22.219.13 91.67.29.120 159.196.79.203 122.51.34.16 194.146.127.69 178.63.9.146
    46.38.242.250 92.206.101.224 75.72.27.209 73.16.30.214 147.75.94.161 42.200.209.141 74.131.200.247 139.99.124.120 24.144.160.25
    3.227.158.118 172.89.254.31 194.213.3.203 71.237.0.217 71.125.84.164 89.22.103.225 65.32.75.149 162.19.31.20 97.111.133.86
    24.199.127.79 72.39.77.188 176.74.154.45 125.229.137.181 185.33.236.64 173.173.82.207 136.243.114.14 80.112.51.43 213.243.183.207
    104.225.216.22 96.38.102.229 208.87.134.188 135.135.197.81 54.178.111.154 220.135.89.64 136.35.186.244 73.143.101.2 212.8.251.57
    24.107.66.214`,
  DASH: `
    2.56.213.221 85.193.90.107 216.230.232.125 207.244.247.40 89.179.73.96 185.228.83.156 159.75.121.163 176.102.65.145 92.255.76.59
    134.255.182.186 151.244.85.229 194.135.84.100 130.162.233.186 212.52.0.210 89.46.42.218 83.222.9.253 139.162.215.169 83.239.99.40
    178.253.42.64 94.172.109.161 91.239.5.12 193.160.119.129 194.5.157.214 178.62.171.16 84.9.50.17 202.182.105.95 85.209.241.245
    146.59.153.204 84.247.180.201 195.26.254.228 133.18.97.226 188.244.117.12 192.175.127.198 165.22.234.135 216.238.82.108
    212.24.109.253 100.42.182.181 123.193.64.166 202.71.14.79 136.244.99.17 202.5.16.33 142.179.162.14 172.86.91.158 139.28.97.2
    212.71.239.75 107.174.204.106 91.198.108.40 185.198.234.25 168.119.87.196 185.213.24.34 185.141.216.4 115.120.238.240 142.93.149.185
    136.243.142.39 173.212.245.118 89.125.209.195 184.107.182.198 92.53.120.89 115.190.248.57 80.209.239.129`,
};

/** The fallback list of a network; only the main networks have one. */
export function fallbackPeers(family: BitcoinFamily, network: Network, port: number): readonly PeerAddress[] {
  if (network !== 'mainnet') return [];
  return MAINNET[family]
    .split(/\s+/)
    .filter(Boolean)
    .flatMap((text) => readEndpoint(text) ?? readEndpoint(`${text}:${port}`) ?? []);
}
