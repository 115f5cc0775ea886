/** Addresses of every coin, and the account keys that they are derived from. */
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
export { accountOf, checksumAddress, isAddress } from './evm-address.ts';
export { type BitcoinScript, isBitcoinLike, PARAMS, type Params } from './params.ts';
