/** Sources of chains: nodes, peers, providers and Electrum servers behind `ChainSource`. */
export type { Ours } from './bitcoin/electrum/electrum-desk.ts';
export {
  explainComparison,
  explainReport,
  isStale,
  type PeerReport,
  purposeOfPeers,
  STALE_SECONDS,
  type StoredReport,
  SYNCING_HEADERS,
} from './bitcoin/p2p/peer-status.ts';
export {
  type AddressSummary,
  type BlockRef,
  ChainError,
  type ChainHealth,
  type ChainSource,
  type ChainTransaction,
  type Conflict,
  type ContractState,
  type FeeTier,
  type GasFee,
  HOLDINGS_AT_ONCE,
  type JoinedSource,
  type Matcher,
  NATIVES_AT_ONCE,
  type NamedSource,
  type NativeReader,
  orNull,
  type RangeBlock,
  type RangeReader,
  RangeRefused,
  type Sighting,
  type SourceState,
  type Tagged,
  type Unspent,
} from './chain-source.ts';
export { postingCall } from './ethereum/fees.ts';
export { readAccountPayments } from './ethereum/value-moves.ts';
export { openSources, type SourceReplacements } from './open-sources.ts';
export { joinSources } from './sources.ts';
export type { ChainStore } from './store.ts';
