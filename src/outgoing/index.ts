/** Outgoing payments: refunds and payouts, from the request and its approval to the transaction that paid them. */
export { weighApproval, weightOf } from './approvals.ts';
export { claimToken, claimUntil, claimUrl } from './claims.ts';
export { startOutgoing } from './follow-outgoing.ts';
export { lookForReturn } from './hand-sent.ts';
export { batchBody, getBatch, importPayouts, listBatches, MOST_FILE_BYTES } from './payout-batches.ts';
export { makePayoutFile, readPayoutCoins } from './payout-files.ts';
export {
  approvePayouts,
  cancelBatch,
  cancelPayout,
  getPayout,
  listPayouts,
  markPayoutSent,
  type Payout,
  payoutDetail,
  requestPayout,
  type Which,
} from './payouts.ts';
export { readFilePulse, readOutPulse } from './pulse.ts';
export { makeRefundFile, readReadyCoins } from './refund-files.ts';
export {
  type AskedRefund,
  approveRefund,
  cancelRefund,
  claimRefund,
  countOutgoing,
  endRefundPowers,
  getRefund,
  getRefundsOfPayments,
  listRefunds,
  markRefundSent,
  type Refund,
  readRefundable,
  readTxid,
  refundDetail,
  refundOfClaim,
  renewClaimLink,
  requestRefund,
} from './refunds.ts';
export { fileFence, takeBackApprovals } from './restored.ts';
