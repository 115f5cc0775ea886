/** The double-entry books: what every payment, fee, sweep, refund and payout moved, and the files that accountants import. */
export {
  bookPeriod,
  boundsOf,
  exportCoinTracking,
  exportKoinly,
  exportStatement,
  exportXero,
  type FileWish,
  naturalSign,
} from './book-files.ts';
export {
  ACCOUNT_NAMES,
  ACCOUNTS,
  type Display,
  MOVEMENTS,
  readStatement,
  SCOPES,
  type Scope,
  type ShownLine,
  withTrialBalance,
} from './books.ts';
export { checkDatev, DATEV_CHARTS, type DatevChart, type DatevWish, datevAccountsOf, exportDatev } from './datev.ts';
