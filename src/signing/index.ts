/** Signing files: what lies on deposit addresses, files to sign offline, checks of what comes back, broadcasting, following. */
export { usedAmong } from './canceled.ts';
export { FILE_FENCE, newestFile } from './file-fence.ts';
export { FOLLOW_MS, followRehearsals, MONEY_OUT, startSweeps } from './follow-files.ts';
export { accountOfAnchor, DEFAULT_WISH, nonceIn, readEndHeight, STAY_REASONS, SWEEP_SPEEDS, type SweepWish } from './holdings.ts';
export { EXPIRED_SECONDS } from './make-accounts.ts';
export { makePayoutFile, readPayoutCoins } from './payout-files.ts';
export { makeRefundFile, readReadyCoins } from './refund-files.ts';
export { forMode } from './rehearsal.ts';
export { keyPathsOf, psbtsOf } from './signed.ts';
export {
  acceptSigned,
  cancelSweep,
  getSweep,
  listSweepable,
  listSweeps,
  makeSweep,
  readFileToSign,
  readGasPayments,
  readSigningFileOf,
  remainsBody,
  replaceSweep,
  SWEEP_STATES,
  type Sweep,
  sweepBody,
} from './signing-files.ts';
export { MAX_FEE_PERCENT } from './utxo.ts';
