/** Agreement between price sources: pure rules on what each reported and when. */
import { ASSET, type Asset } from '#core/coin';
import { formatDecimal } from '#core/money';

/** The last report of a source. `at` is monotonic time. */
export type PriceReport = {
  source: string;
  /** An aggregator repeats exchange prices, so it only votes when there are too few exchanges. */
  aggregator: boolean;
  priceE8: bigint;
  change24hBasisPoints: bigint | null;
  at: number;
};
/** A price that was good enough, and when. */
export type EarlierPrice = { priceE8: bigint; at: number };
export type PriceAgreement = {
  priceE8: bigint;
  sources: readonly string[];
  /** What each of them reported. */
  reports: ReadonlyMap<string, bigint>;
  /** The latest time at which two sources reported it. */
  at: number;
  change24hBasisPoints: bigint | null;
};

/** Older reports do not vote and are not used for quotes. */
export const STALE_MS = 120_000;
const NEEDED = 2;
const JUMP_LOOKBACK_MS = 300_000;
/** A larger move from the price of five minutes ago needs three agreeing sources. */
const JUMP_PERCENT = 15n;
const JUMP_SOURCES = 3;
/** How far from par, in hundredths of a percent, an asset still counts as one unit of its currency, and how far it can be quoted at all. */
const AT_PAR = 50n;
const NEAR_PAR = 200n;
/**
 * The price to quote an asset at that is meant to be worth `parE8`: par while the sources say about that, and a lower price where they do.
 * A payer is not asked for less than par, because it may return before the money can be exchanged. Too far away, it is not quoted.
 */
export function priceAtPar(priceE8: bigint, parE8: bigint): { priceE8: bigint } | { reason: string } {
  const away = distance(priceE8, parE8) * 10_000n;
  if (away > parE8 * NEAR_PAR) {
    const percent = formatDecimal(away / parE8, 2);
    return { reason: `its price is ${percent}% ${priceE8 < parE8 ? 'below' : 'above'} the currency it should be worth` };
  }
  return { priceE8: away > parE8 * AT_PAR && priceE8 < parE8 ? priceE8 : parE8 };
}

/** A source further from the median than this does not agree, in percent. */
export const outlierPercent = (asset: Asset): bigint => ASSET[asset].outlierPercent;

export function median(values: readonly bigint[]): bigint {
  const sorted = values.toSorted((a, b) => (a < b ? -1 : a > b ? 1 : 0));
  const middle = sorted.length >> 1;
  return sorted.length % 2 === 1 ? sorted[middle]! : (sorted[middle - 1]! + sorted[middle]!) / 2n;
}

/**
 * The median of the votes, after dropping those further than `percent` from it until none is; null when fewer than two remain. Two
 * votes agree when they are that close to each other.
 */
export function agree<V extends { priceE8: bigint }>(percent: bigint, votes: readonly V[]): { priceE8: bigint; near: readonly V[] } | null {
  if (votes.length < NEEDED) return null;
  const prices = votes.map((v) => v.priceE8);
  // The median of two votes lies between them and would allow twice the distance, so they are measured from the lower one.
  const from = prices.length === 2 ? (prices[0]! < prices[1]! ? prices[0]! : prices[1]!) : median(prices);
  const near = votes.filter((v) => distance(v.priceE8, from) * 100n <= from * percent);
  return near.length === votes.length ? { priceE8: median(prices), near } : agree(percent, near);
}
const distance = (a: bigint, b: bigint): bigint => (a > b ? a - b : b - a);

/** The current price of an asset, or why there is none. `past` are its last prices, oldest first. */
export function decidePrice(
  asset: Asset,
  { votes, past, now }: { votes: readonly PriceReport[]; past: readonly EarlierPrice[]; now: number },
): PriceAgreement | { reason: string } {
  const fresh = votes.filter((v) => now - v.at <= STALE_MS);
  if (fresh.length === 0) return { reason: 'no price source answers' };
  const percent = outlierPercent(asset);
  const exchanges = agree(
    percent,
    fresh.filter((v) => !v.aggregator),
  );
  let agreed = exchanges ?? agree(percent, fresh);
  if (!agreed) return { reason: 'the price sources do not agree' };
  const before = past.find((p) => now - p.at <= JUMP_LOOKBACK_MS)?.priceE8 ?? agreed.priceE8;
  const jumped = (to: bigint) => distance(to, before) * 100n > before * JUMP_PERCENT;
  if (jumped(agreed.priceE8) && agreed.near.length < JUMP_SOURCES) {
    // An aggregator may be the confirming source.
    agreed = agree(percent, fresh);
    if (!agreed || agreed.near.length < JUMP_SOURCES) return { reason: 'the price jumped and too few sources confirm it' };
  }
  const changes = agreed.near.flatMap((v) => (v.change24hBasisPoints === null ? [] : [v.change24hBasisPoints]));
  return {
    priceE8: agreed.priceE8,
    sources: agreed.near.map((v) => v.source),
    reports: new Map(agreed.near.map((v) => [v.source, v.priceE8])),
    at: agreed.near.map((v) => v.at).toSorted((a, b) => b - a)[NEEDED - 1]!,
    change24hBasisPoints: changes.length > 0 ? median(changes) : null,
  };
}
