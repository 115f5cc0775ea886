/** What chains remember between two starts, behind an interface that the service implements (`chain-store/`): chains know no database. */
import type { BitcoinFamily, Network } from '#core/coin';
import type { PeerReport, StoredReport } from './bitcoin/p2p/peer-status.ts';
import type { ProofParams } from './bitcoin/proof-params.ts';
import type { AuditStore } from './ethereum/eth-balance-audit.ts';
import type { LightState } from './ethereum/light-client/light-client.ts';

type Place = { coin: BitcoinFamily; network: Network };

/** The checked headers of one network, 80 bytes each. */
export type HeaderPages = {
  /** Calls back with consecutive headers from this height on, as far as they are stored without a gap. */
  read(from: number, take: (headers: Buffer) => void): Promise<void>;
  /** The last height that one save from this height on should write: more would be in memory twice, and less be written twice. */
  lastOfSave(from: number): number;
  /** Replaces everything from a height on. `base`: the first height that is stored. Errors: RangeError when headers below are missing. */
  save(given: { base: number; from: number; headers: Buffer }): Promise<void>;
};

/** The peers of one network that worked, as host:port. */
type KnownPeers = { anchors: readonly string[]; proven: readonly string[] };

/** A transaction without witness. */
type KeptTransaction = { txid: string; raw: Uint8Array };
/**
 * Transactions of one network that paid watched addresses, as blocks of peers had them. Files for signing need them again. A peer that is
 * asked for exactly those blocks, and then hears of the transaction that spends their money, knows whose it is.
 */
type KeptTransactions = {
  /** Leaves large ones out: they are read from their block again. No node announces them, so few payers can make them. */
  keep(transactions: readonly KeptTransaction[]): Promise<void>;
  /** Those that are kept, by ID. */
  find(txids: readonly string[]): Promise<ReadonlyMap<string, Uint8Array>>;
};

/** What a light client knows, the keys of its committees as bytes. `halted`: why nothing may complete until another checkpoint is set. */
type LightRow = {
  checkpoint: string;
  state: Pick<LightState, 'finalized' | 'optimistic'> & { current: Buffer; next: Buffer | null };
  halted: string | null;
};

/** Errors: those of the database. */
export type ChainStore = {
  /** Height of the newest block whose facts are recorded; null: none. */
  recordedHeight(coin: BitcoinFamily): Promise<number | null>;
  headers(place: Pick<ProofParams, 'coin' | 'network'>): HeaderPages;
  peers(place: Place): { load(): Promise<KnownPeers>; save(peers: KnownPeers): Promise<void> };
  transactions(place: Place): KeptTransactions;
  /** What the newest of the blocks that followers read were paid (`feeOfBlock`), at most so many. */
  paidOf(coin: BitcoinFamily, most: number): Promise<bigint[]>;
  /** The state of the connections to peers, for processes that have none. */
  reports: { read(place: Place): Promise<StoredReport | undefined>; write(report: PeerReport): Promise<void> };
  /** The certificate that each Electrum server showed at first. One that shows another later is not asked until an operator agrees. */
  certificates: {
    /**
     * Remembers who a server is, or compares: false when it is somebody else now. `identity`: `authority` when a public authority vouches
     * for the name, otherwise the fingerprint of the certificate.
     */
    isKnown(server: string, identity: string): Promise<boolean>;
  };
  light(network: string): { load(): Promise<LightRow | null>; save(row: LightRow): Promise<void> };
  audit: AuditStore;
};
