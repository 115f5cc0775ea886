/** Outgoing payments: refunds and payouts, from the request and its approval to the transaction that paid them. */
export { weighApproval, weightOf } from './approvals.ts';
export { claimToken, claimUntil, claimUrl } from './claims.ts';
export { approveOutgoing, cancelBatch, cancelOutgoing, markOutgoingSent, proveRefund, readTxid } from './decisions.ts';
export { startOutgoing } from './follow-outgoing.ts';
export { lookForReturn } from './hand-sent.ts';
export {
  countOutgoing,
  getOutgoing,
  listOutgoing,
  type OutgoingKind,
  type Payout,
  payoutDetail,
  type Refund,
  refundDetail,
} from './outgoing-payments.ts';
export { batchBody, getBatch, importPayouts, listBatches, MOST_FILE_BYTES } from './payout-batches.ts';
export { requestPayout } from './payouts.ts';
export { readFilePulse, readOutPulse } from './pulse.ts';
export {
  type AskedRefund,
  claimRefund,
  endRefundPowers,
  getRefundsOfPayments,
  readRefundable,
  refundOfClaim,
  renewClaimLink,
  requestRefund,
} from './refunds.ts';
export { fileFence, takeBackApprovals } from './restored.ts';
