/** Payments: created, quoted, settled, searched, listed and exported. */
export {
  type AttentionReason,
  countAttention,
  isRefundWanted,
  listAttention,
  ORDER_MISSING,
  REFUND_REQUEST,
  readAttention,
} from './attention.ts';
export type { PaymentDraft } from './create-payments.ts';
export { daysOf, FUNNEL, markOpened, REASONS, readDayRows, type Totals, totalsOf } from './days.ts';
export { exportDays, exportFees, exportPayments, exportTransfers, paymentColumns } from './exports.ts';
export { type PaymentRecord, readOwnedRecords, tipsOf } from './facts.ts';
export {
  changeLink,
  createLink,
  getLink,
  getLinkForPayer,
  LINK_STATES,
  type LinkTerms,
  listLinks,
  lookAtLink,
  type PaymentLink,
  payLink,
} from './links.ts';
export { type ListFilter, listFilteredPayments } from './lists.ts';
export { findTransferBlock, getDepositBalance, getRecordedTransaction, getTestBalance, oursOf } from './look-ups.ts';
export {
  advanceClock,
  archivePayment,
  cancelByPayer,
  cancelPayment,
  checkRefundAddress,
  checkShop,
  chooseCoin,
  createPayment,
  leaveRefundAddress,
  mayRepeat,
  metadataFault,
  repeatPayment,
  resolvePayment,
  reviewPayment,
  setInvoiceId,
  setMetadata,
  simulateOnPage,
  simulatePayment,
  visitPayment,
} from './payments.ts';
export {
  costsOf,
  feeCentsOf,
  getMoment,
  getNewVersions,
  getPayment,
  getPaymentForCustomer,
  getPaymentOnChain,
  getPayments,
  getSimulatedTransaction,
  getTimes,
  listPayments,
  listTransfers,
  type OnChain,
  readLiveFees,
  readOnChain,
} from './queries.ts';
export { eraseAgain, startHousekeeping } from './retention.ts';
export {
  countByStatus,
  type Filter,
  type FoundItem,
  findPayments,
  listMoments,
  NO_FILTER,
  newestKeyOf,
  readChainPulse,
  readPulse,
  type SearchMoment,
  type ShopFilter,
} from './search.ts';
export {
  lockAndDecide,
  lockAndSettle,
  lockAndSettleLater,
  lockAndSettleMany,
  queueProcessing,
  queueReversible,
} from './settle-payments.ts';
export { ERASE_WORK, queueShop, SHOP_WORK } from './shop-queue.ts';
export { outputsFromJson, uncountedFromJson } from './stored.ts';
export { issueTestAddresses } from './test-deposits.ts';
export { startTextIndex } from './texts.ts';
