/** Whether a coin can be paid now: its chain, its price, and what a merchant still lacks. */
export {
  BLOCK_FAILURES,
  catchUpOf,
  explainCatchUp,
  explainTrouble,
  readGuards,
  readTokenHolds,
  readTroubles,
  type StoredSource,
  sourcesToJson,
  type Trouble,
} from './chain-state.ts';
export { readCoinHealth, readUnreachable, type Unreachable } from './coin-health.ts';
export { adjustedPrice, askIn, marketPrice, type PaymentPrice, priceAt, priceOf, readDisplayRates } from './price.ts';
export {
  amountTooSmall,
  type CoinReadiness,
  checkLightningAmount,
  endOutages,
  isCarried,
  leastPrice,
  lightningLimit,
  MISSING,
  ONBOARDING,
  type PaymentWarning,
  readOnboarding,
  readPayableCoins,
  readReadinessOfAll,
  refuseUncarried,
  reportUnpayable,
  WEBHOOK_STATES,
  warningsFor,
} from './readiness.ts';
