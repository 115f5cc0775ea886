/**
 * A coin's own network as a source. One process connects to peers, after `start`; in all others, and before, the source tells what that
 * process last reported, and cannot read blocks.
 */
import { lookup } from 'node:dns/promises';
import type { Clock } from '../../../core/clock.ts';
import { type BitcoinFamily, COIN, type Network } from '../../../core/coin.ts';
import type { Db } from '../../../db/db.ts';
import type { Log } from '../../../log.ts';
import { ChainError, type ChainSource, NO_FINALITY, type SourceConnection } from '../../chain.ts';
import { encodeHeader } from '../header.ts';
import type { HeaderService, Headers, ProofStart } from '../header-service.ts';
import { PROOF_PARAMS } from '../proof-params.ts';
import { fallbackPeers } from './fallback-peers.ts';
import { viewHeaders } from './header-view.ts';
import { createKeptTransactions } from './kept-transactions.ts';
import type { PeerLimits } from './peer.ts';
import { peerNetwork } from './peer-networks.ts';
import { createPeerService, type PeerService } from './peer-service.ts';
import { explainReport, isStale, type PeerReport, readReports, writeReport } from './peer-status.ts';
import { createPeerStore } from './peer-store.ts';
import { PEERS_LIMITS, type PeersLimits } from './peers.ts';
import type { PeerAddress, SocksProxy } from './socks5.ts';
import { blockZero, createPeerSource, feesOf, MOST_BLOCKS, noLookUps } from './source.ts';
import { createSyncProgress, type SyncState } from './sync-progress.ts';

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

export type NetworkPeersOptions = {
  family: BitcoinFamily;
  network: Network;
  headers: HeaderService;
  /** Peers that the operator named: no others are used. */
  given: readonly PeerAddress[];
  proxy: SocksProxy | null;
  /** They are compared with a node and are not a source: fewer are connected, and none announces transactions. */
  watch?: boolean;
  db: Db;
  clock: Clock;
  log: Log;
  /** Resolves the DNS seeds. */
  resolve?(name: string): Promise<readonly string[]>;
  limits?: PeersLimits;
  peerLimits?: PeerLimits;
};
export type NetworkPeers = { source: ChainSource; connection: SourceConnection };

/** Blocks and announcements come from here once it is started. */
type Live = { source: ChainSource; service: PeerService; headers: Headers; progress(): SyncState; startedAt: Date };

const resolveSeed = async (name: string): Promise<readonly string[]> => (await lookup(name, { all: true })).map(({ address }) => address);

function connect(options: NetworkPeersOptions, headers: Headers, { wake, isReady }: { wake(): void; isReady(): boolean }): Live {
  const { family, network, given, proxy, db, clock, log, resolve = resolveSeed, watch = false, peerLimits } = options;
  const limits = options.limits ?? (watch ? WATCH_LIMITS : undefined);
  const params = headers.params;
  const place = peerNetwork(family, network);
  const binding = network === 'mainnet';
  const service = createPeerService({
    ...{ network: place, view: viewHeaders(headers), given, proxy, clock, log, resolve, onHint: wake },
    ...{ fallback: fallbackPeers(family, network, place.port), store: createPeerStore(db, { coin: family, network }) },
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
      kept: createKeptTransactions(db.sql, { coin: family, network }),
    }),
  };
}

function reportOf({ family, network }: NetworkPeersOptions, { service, headers, startedAt }: Live, state: SyncState): PeerReport {
  const { connected, relaying, syncing, bytesIn, bytesOut, clockAheadSeconds, trouble } = service.status();
  const { height, hash, parent, timeSeconds } = headers.tip();
  return {
    ...{ coin: family, network, ...state, connected, relaying, syncing, trouble, bytesIn, bytesOut, clockAheadSeconds, startedAt },
    ...{ height, hash, parent, blockTime: new Date(timeSeconds * 1000) },
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

/** Tells what the connected process reported. */
function createReportedSource({ family, network, headers, db }: NetworkPeersOptions): ChainSource {
  const read = async (): Promise<PeerReport> => {
    const report = (await readReports(db.sql)).find((one) => one.coin === family && one.network === network);
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
    ...{ coin: family, network, genesis: async () => headers.params.genesis, tip, fees: async () => feesOf(family) },
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
      readTransactions: async () => {
        throw new ChainError('outage', 'only the running service is connected to peers; make the file in the dashboard');
      },
      send: elsewhere,
    },
    close: () => {},
  };
}

/** Creates the source. Nothing is connected before `start`. */
export function createNetworkPeers(options: NetworkPeersOptions): NetworkPeers {
  const { db, clock, log, family } = options;
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
    const text = JSON.stringify(rest);
    const nowMs = clock.monotonicMs();
    if (text === written.text && nowMs - written.atMs < REPORT_MS) return;
    written = { text, atMs: nowMs };
    writing = writing
      .then(() => writeReport(db.sql, report))
      .catch((error: unknown) => log.warn({ err: error, coin: family }, 'Could not record the state of the peers'));
  };
  const using = <K extends keyof ChainSource>(method: K): ChainSource[K] =>
    ((...args: unknown[]) => ((live?.source ?? reported)[method] as (...given: unknown[]) => unknown)(...args)) as ChainSource[K];
  const METHODS = [
    ...(['genesis', 'health', 'inspect', 'tip', 'blockAt', 'block', 'fetchBlock', 'fetchMempool', 'txState'] as const),
    ...(['finality', 'transaction', 'addressSummary', 'fees'] as const),
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
