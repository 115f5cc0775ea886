/** Payments as they are read: one by one, listed, searched, summed, exported, and looked up on the chain. */
export { type AttentionReason, countAttention, listAttention, readAttention } from './attention-queue.ts';
export { daysOf, REASONS, readDayRows, type Totals, totalsOf } from './days.ts';
export { exportDays, exportFees, exportPayments, exportTransfers, paymentColumns } from './exports.ts';
export { type ListFilter, listFilteredPayments, listPayments } from './lists.ts';
export {
  findTransferBlock,
  getDepositBalance,
  getRecordedTransaction,
  getSimulatedTransaction,
  getTestBalance,
  oursOf,
} from './look-ups.ts';
export { getPayment, getPaymentOnChain, getPayments, listTransfers, type OnChain, readOnChain } from './payment-reads.ts';
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
