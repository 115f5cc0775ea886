/** Account keys of merchants, the addresses derived from them, and their replacement. */

export {
  keepTestWallet,
  TEST_NETWORK,
  TEST_SEED_WORDS,
  testDeposit,
  testDestination,
  testRecipient,
} from './test-wallets.ts';
export {
  applyDueChanges,
  CHANGE_WAIT_HOURS,
  checkAsker,
  checkSecondOwner,
  confirmChange,
  confirmWaitOff,
  dropChange,
  endWaitingChanges,
  GAP_LIMIT,
  hasLiveWallet,
  importAccountKey,
  inEffect,
  listWallets,
  lockMerchant,
  pauseWallet,
  previewAccountKey,
  readWaitOff,
  readWalletPolicy,
  setWait,
} from './wallet-changes.ts';
export { keepNumber, readWalletIndexes, serverRun } from './wallet-indexes.ts';
export { burnIndexes, type CounterJump, type Fence, jumpRestored, nextAddress, setWallet, startAddressFence } from './wallets.ts';
