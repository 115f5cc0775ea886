/** Account keys of merchants, the addresses derived from them, their replacement, and where swept money goes. */
export {
  confirmDestination,
  type Destination,
  dropDestination,
  endWaitingDestinations,
  listDestinations,
  readDestinations,
  setDestination,
} from './destinations.ts';
export { keepTestWallet, TEST_NETWORK, TEST_SEED_WORDS, testDeposit, testRecipient } from './test-wallets.ts';
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
