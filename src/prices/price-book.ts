/** The prices of this moment, in memory: what each source reported, what they agree on, and how good that is for a quote. */
import { ASSET, ASSETS, type Asset } from '#core/coin';
import { addMs } from '#core/dates';
import { invariant } from '#core/invariant';
import { E8 } from '#core/money';
import { decidePrice, type EarlierPrice, type PriceAgreement, type PriceReport, priceAtPar, STALE_MS } from './agreement.ts';
import type { FiatRates } from './fiat.ts';

export type AgreedPrice = {
  asset: Asset;
  /** USD per unit with eight decimals. */
  priceE8: bigint;
  asOf: Date;
  sources: readonly string[];
  /** What each source reported that agreed; empty without any. */
  reports: ReadonlyMap<string, bigint>;
  /** Hundredths of a percent: 250n = +2.50%. Zero when `changeFrom` is none. */
  change24hBasisPoints: bigint;
  /** Where the change comes from: the sources, our own history, or nowhere. */
  changeFrom: 'sources' | 'history' | 'none';
  /** Older than 120 s: never used for a quote. */
  stale: boolean;
  /** A labelled sample for test mode, used when no feed can be reached. */
  sample: boolean;
};

const UNUSABLE_MS = 600_000;
/** How long past prices are used to detect a jump. */
export const PAST_PRICES_MS = 300_000;

export type Book = {
  /** The last report of each source. */
  readonly votes: ReadonlyMap<Asset, Map<string, PriceReport>>;
  /** The last price on which sources agreed, and when, in monotonic time. */
  readonly last: Map<Asset, { price: Omit<AgreedPrice, 'stale'>; at: number }>;
  /** Why there is no price now. */
  readonly reasons: Map<Asset, string>;
  /** Prices of the last minutes, oldest first. */
  readonly recent: Map<Asset, readonly EarlierPrice[]>;
  /** The prices of a day ago, from the history. */
  dayAgo: ReadonlyMap<Asset, bigint>;
};
export const createBook = (): Book => ({
  votes: new Map(ASSETS.map((asset) => [asset, new Map()])),
  last: new Map(),
  reasons: new Map(),
  recent: new Map(),
  dayAgo: new Map(),
});

/** The present moment, in monotonic time and as a date. */
type Now = { ms: number; date: Date };

/** What a source reported replaces its earlier report. */
export function takeVotes(
  { votes }: Book,
  { source, aggregator, at }: Pick<PriceReport, 'source' | 'aggregator' | 'at'>,
  seen: readonly ({ asset: Asset } & Pick<PriceReport, 'priceE8' | 'change24hBasisPoints'>)[],
): void {
  for (const { asset, ...observed } of seen) votes.get(asset)!.set(source, { ...observed, source, aggregator, at });
}

/** The change as reported by the sources, else from our history. */
export function priceChange(
  { priceE8, change24hBasisPoints: reported }: Pick<PriceAgreement, 'priceE8' | 'change24hBasisPoints'>,
  dayAgoE8: bigint | undefined,
): Pick<AgreedPrice, 'change24hBasisPoints' | 'changeFrom'> {
  if (reported !== null) return { change24hBasisPoints: reported, changeFrom: 'sources' };
  return dayAgoE8 === undefined
    ? { change24hBasisPoints: 0n, changeFrom: 'none' }
    : { change24hBasisPoints: ((priceE8 - dayAgoE8) * 10_000n) / dayAgoE8, changeFrom: 'history' };
}

/** Decides the price of every asset from the reports so far. An asset without a decision keeps its last price, and the reason. */
export function decidePrices(book: Book, now: Now): void {
  const { votes, last, reasons, recent, dayAgo } = book;
  for (const asset of ASSETS) {
    const past = (recent.get(asset) ?? []).filter((p) => now.ms - p.at <= PAST_PRICES_MS);
    const decision = decidePrice(asset, { votes: [...votes.get(asset)!.values()], past, now: now.ms });
    if ('reason' in decision) {
      reasons.set(asset, decision.reason);
      continue;
    }
    const { priceE8, sources, reports: reported, at } = decision;
    invariant(priceE8 > 0n && at <= now.ms, `the price of ${asset} is above zero and was reported before now`);
    reasons.delete(asset);
    recent.set(asset, [...past, { at: now.ms, priceE8 }]);
    const asOf = addMs(now.date, at - now.ms);
    last.set(asset, {
      at,
      price: { asset, priceE8, asOf, sources, reports: reported, sample: false, ...priceChange(decision, dayAgo.get(asset)) },
    });
  }
}

/** The prices on which sources agree now, for the history. */
export const agreedPrices = ({ last, reasons }: Book): { asset: Asset; priceE8: bigint; sources: readonly string[] }[] =>
  [...last.values()].flatMap(({ price }) => (reasons.has(price.asset) ? [] : [price]));

/** The last price of an asset, even if it is too old for a quote; null when there is none of the last ten minutes. */
export function lookUp({ last }: Book, asset: Asset, nowMs: number): AgreedPrice | null {
  const entry = last.get(asset);
  const ageMs = entry ? nowMs - entry.at : Number.POSITIVE_INFINITY;
  return entry && ageMs <= UNUSABLE_MS ? { ...entry.price, stale: ageMs > STALE_MS } : null;
}

type Quotable = { price: AgreedPrice } | { reason: string };

/** The price that an asset is quoted at if it should be worth a currency; other prices stay as they are. */
export function atPar(price: AgreedPrice, fiat: Pick<FiatRates, 'quotable'>): Quotable {
  const { par } = ASSET[price.asset];
  if (par === undefined) return { price };
  const found = fiat.quotable(par);
  if ('reason' in found) return { reason: `there is no ${par} rate: ${found.reason}` };
  const quoted = priceAtPar(price.priceE8, (E8 * E8) / found.rate.rateE8);
  return 'reason' in quoted ? quoted : { price: { ...price, ...quoted } };
}

/**
 * The price that money which arrived is valued at: that of a quote, and below it where the asset is too far from its currency to be quoted.
 * Money must have a value before a payment can end.
 */
export function atMostPar(price: AgreedPrice, fiat: Pick<FiatRates, 'quotable'>): AgreedPrice {
  const quoted = atPar(price, fiat);
  if ('price' in quoted) return quoted.price;
  const { par } = ASSET[price.asset];
  const found = par === undefined ? null : fiat.quotable(par);
  if (found === null || 'reason' in found) return price;
  const parE8 = (E8 * E8) / found.rate.rateE8;
  return price.priceE8 > parE8 ? { ...price, priceE8: parE8 } : price;
}

/** The price that one source reported, if it is among those that agreed; else the price as it is. */
export function preferring(price: AgreedPrice, source: string | null): AgreedPrice {
  const priceE8 = source === null ? undefined : price.reports.get(source);
  return priceE8 === undefined ? price : { ...price, priceE8, sources: [source!, ...price.sources.filter((name) => name !== source)] };
}

/** A price good enough for a live quote, or why there is none. */
export function quotableAt(book: Book, asset: Asset, nowMs: number): Quotable {
  const price = lookUp(book, asset, nowMs);
  const reason = book.reasons.get(asset);
  return price && !price.stale && reason === undefined ? { price } : { reason: reason ?? 'the last price is too old' };
}
