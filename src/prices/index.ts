/** Prices from exchanges, and what of them may be used. */
export { createOutages } from './feed.ts';
export { createFiatRates, type FiatRates } from './fiat.ts';
export type { AgreedPrice } from './price-book.ts';
export { createPrices, type Prices } from './prices.ts';
