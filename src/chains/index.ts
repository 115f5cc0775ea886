/** Sources of chains: nodes, peers, providers and Electrum servers behind `ChainSource`, addresses, account keys and transactions. */
export { containsPrivateKey, internalKeyOf, parseAccountKey, policyOf, type Signer, signersOf } from './account-key.ts';
export {
  addressOfScript,
  decodeAddress,
  deriveAddress,
  isTransactionId,
  keysOf,
  type OutputLock,
  outputLockOf,
  outputScript,
  paymentUri,
  type Script,
  walletRequest,
} from './address.ts';
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
export { type BitcoinScript, isBitcoinLike, PARAMS } from './bitcoin/params.ts';
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
  type Output,
  orNull,
  type RangeBlock,
  type RangeReader,
  RangeRefused,
  type Sighting,
  type SourceState,
  type Tagged,
  type Unspent,
  type Witnesses,
} from './chain-source.ts';
export { accountOf, checksumAddress } from './ethereum/address.ts';
export { postingCall } from './ethereum/fees.ts';
export {
  authorizationHash,
  domainOf,
  domainSeparator,
  feeOf,
  mostFunded,
  readSignedTransaction,
  type Signature,
  selector,
  signaturesIn,
  signedBytes,
  signerOf,
  signingHash,
  TRANSFER_TOPIC,
  transactionId,
  transactionOf,
  transferData,
  transfersOf,
  word,
} from './ethereum/transaction.ts';
export { readAccountPayments } from './ethereum/value-moves.ts';
export { openSources, type SourceReplacements } from './open-sources.ts';
export { fields } from './reply.ts';
export { joinSources } from './sources.ts';
export type { ChainStore } from './store.ts';
