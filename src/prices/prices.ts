/** Prices: the median of the fresh exchanges. */
import type { Coin } from '../core/coin.ts';

export type Price = {
  coin: Coin;
  /** USD per coin with eight decimals. */
  priceE8: bigint;
  asOf: Date;
  sources: readonly string[];
  /** Percent with two decimals, as hundredths: 250n = +2.50 %. */
  change24hBasisPoints: bigint;
  /** Older than 120 s: never used for a quote. */
  stale: boolean;
  /** A labelled sample for test mode, used when no feed can be reached. */
  sample: boolean;
};
export type Prices = {
  /** The last good price, however old (null: none, or older than 10 min). */
  look(coin: Coin): Price | null;
  /** A price good enough for a live quote (<= 120 s, two agreeing sources or one static), or why not. Synchronous, from memory. */
  quotable(coin: Coin): { price: Price } | { reason: string };
  /** For test mode: the feed's price, else a labelled sample. Never fails. */
  forTest(coin: Coin): Price;
  start(): Promise<void>;
  stop(): Promise<void>;
};
