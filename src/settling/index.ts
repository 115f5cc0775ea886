/** What is known about a payment, and all that follows when it changes: its status, totals, texts, events and mail. */
export { isRefundWanted, mayOwe } from './attention.ts';
export {
  nextScenarios,
  type OwnedId,
  type PaymentRecord,
  readOwnedRecords,
  readRecords,
  readTransfers,
  testOffset,
  tipsOf,
  toView,
} from './facts.ts';
export { orderOfSight } from './many-transfers.ts';
export { dropMetadataPairs, metadataPairs, pairOf } from './metadata-pairs.ts';
export { mailReceipts } from './receipt-mails.ts';
export { eraseAgain, startHousekeeping } from './retention.ts';
export {
  type DecisionResult,
  lockAndDecide,
  lockAndSettle,
  lockAndSettleLater,
  lockAndSettleMany,
  queueProcessing,
  queueReversible,
} from './settle-payments.ts';
export { newEvent } from './settlement-writes.ts';
export { ERASE_WORK, queueShop, SHOP_WORK } from './shop-queue.ts';
export { plainText, queueTexts, readTexts, startTextIndex, type TextField, wakeTexts } from './texts.ts';
export { FUNNEL, quarterAt, type Sum } from './totals.ts';
