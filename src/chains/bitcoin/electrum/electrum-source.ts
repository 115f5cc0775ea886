/**
 * Electrum servers as a source that only answers lookups: of any address and transaction, without a node. What they say is proven by our
 * own headers or said by two operators; otherwise there is no answer. They are never asked about payments.
 */
import type { Clock } from '../../../core/clock.ts';
import type { BitcoinFamily, Network } from '../../../core/coin.ts';
import type { Db } from '../../../db/db.ts';
import type { Log } from '../../../log.ts';
import { type BlockRef, ChainError, type ChainSource, NO_FINALITY } from '../../chain.ts';
import { type HashWork, type HeaderReader, type KnownHeader, refOf } from '../header-chain.ts';
import type { ProofStart } from '../header-service.ts';
import { openHeaderChain } from '../header-store.ts';
import { readEndpoint } from '../p2p/peer-book.ts';
import type { SocksProxy } from '../p2p/socks5.ts';
import { lookUpBalance } from './electrum-balance.ts';
import { createCertificateStore } from './electrum-certificates.ts';
import type { ServerAddress, Waits } from './electrum-connection.ts';
import { createDesk, noteFailure, type Ours } from './electrum-desk.ts';
import { lookUpFees } from './electrum-fees.ts';
import { createElectrumHeaders, type ElectrumHeaders } from './electrum-headers.ts';
import { sendTransaction } from './electrum-send.ts';
import { createServers } from './electrum-servers.ts';
import { lookUpTransaction } from './electrum-transaction.ts';
import { PUBLIC_SERVERS } from './public-servers.ts';

/** `tls://host:port` or `tcp://host:port`; `public` stands for the list of this release. */
export function readAddresses(urls: readonly string[], family: BitcoinFamily): ServerAddress[] {
  const all = urls.flatMap((url) => (url === 'public' ? PUBLIC_SERVERS[family].map((server) => `tls://${server}`) : [url]));
  return all.flatMap((url) => {
    const [scheme, name] = url.split('://') as [string, string];
    const endpoint = readEndpoint(name);
    return endpoint ? [{ name, ...endpoint, tls: scheme === 'tls' }] : [];
  });
}

export type ElectrumOptions = {
  family: BitcoinFamily;
  network: Network;
  urls: readonly string[];
  proxy: SocksProxy | null;
  ours: Ours;
  /** The rules of the network, and where its headers begin. */
  proof: ProofStart;
  hashWork: HashWork;
  /** The headers that a follower in this process keeps; null when there is none. */
  shared(): HeaderReader | null;
  /** Whether followers keep the headers in the database up to date. */
  keptByFollowers: boolean;
  db: Db;
  clock: Clock;
  log: Log;
  waits?: Waits;
  pauseMs?: number;
};

function openHeaders({ proof: { params, start }, hashWork, shared, keptByFollowers, db, clock }: ElectrumOptions): ElectrumHeaders {
  const nowSeconds = (): number => Math.floor(clock.now().getTime() / 1000);
  const open = () => openHeaderChain({ db, params, start, hashWork, nowSeconds });
  return createElectrumHeaders({ params, checkpointHeight: start.height, shared, open, keptByFollowers });
}

/** Connects when something is looked up for the first time, and again after a pause. */
export function createElectrumSource(options: ElectrumOptions): ChainSource {
  const { family, network, urls, proxy, ours, db, clock, log, waits, pauseMs = 1_000 } = options;
  const headers = openHeaders(options);
  const { params } = headers;
  const addresses = readAddresses(urls, family);
  const servers = createServers({
    addresses,
    params,
    proxy,
    certificates: createCertificateStore(db),
    clock,
    log,
    ...(waits && { waits }),
  });
  const desk = createDesk({ family, network, servers, headers, ours, pauseMs, clock });
  const unsupported = async (): Promise<never> => {
    throw new ChainError('unsupported', `Electrum servers only answer lookups; set ${family}_NODE_URL`);
  };
  /** The tip of the best chain, and the server that showed it. */
  const readTip = async (): Promise<{ tip: BlockRef; software: string }> => {
    const failures: string[] = [];
    for await (const session of servers.sessions(failures)) {
      try {
        await headers.follow(session);
        return { tip: refOf(headers.tip()!), software: session.software };
      } catch (error) {
        noteFailure(error, session, failures);
      }
    }
    throw new ChainError('outage', `no Electrum server answers: ${failures.join('; ')}`);
  };
  const knownOr = async (found: KnownHeader | null): Promise<BlockRef | null> => (found ? refOf(found) : null);
  return {
    coin: family,
    network,
    genesis: async () => params.genesis,
    health: async () => {
      const { tip, software } = await readTip();
      return {
        ...{ tip, headers: tip.height, syncing: false, software, version: 0, network },
        ...{ pruned: false, txindex: true, peers: null, mempool: null },
      };
    },
    tip: async () => (await readTip()).tip,
    // Every server is compared with it before it is asked anything else.
    blockAt: async (height) =>
      height === 0 ? { height, hash: params.genesis, parent: '', time: new Date(0) } : knownOr(headers.at(height)),
    block: async (hash) => knownOr(headers.find(hash)),
    fetchBlock: unsupported,
    fetchMempool: unsupported,
    txState: unsupported,
    finality: async () => NO_FINALITY,
    transaction: (txid) => lookUpTransaction(desk, txid),
    addressSummary: (address) => lookUpBalance(desk, address),
    fees: () => lookUpFees(desk),
    outlet: { send: (raw) => sendTransaction(desk, raw) },
    servers: { states: servers.states, check: servers.check },
    close: servers.close,
  };
}
