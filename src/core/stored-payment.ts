/**
 * The JSON in the columns of payments: written with a format version, read field by field. A field that an older version did not
 * write, such as a coin or a rule that was added later, gets its default.
 */

import { ALL_COINS, ASSETS, COINS, COMPLETION_RULES, type Coin, type ConfirmationTier, chainOf } from './coin.ts';
import type { Fiat } from './fiat.ts';
import { adjustmentsFromJson, type CompanyWorth, type Rules, type TransferValue, UNCOUNTED_STATES, type Uncounted } from './payment.ts';
import type { PaymentItem, PaymentRequest, ShopTerms } from './payment-view.ts';
import { type Play, SCENARIOS } from './simulated.ts';
import { asBigint, asBoolean, asList, asObject, asText, asTexts, asTime, asWhole, oneOf, type StoredJson } from './stored-json.ts';

/**
 * Incremented when the meaning of a field changes. A new field needs no new version, because it has a default. Data without a version
 * has the first format.
 */
const VERSION = 1;

/** Defaults for rules that a payment's stored rules do not contain. */
const DEFAULT_RULES: Omit<Rules, 'confirmations'> = {
  windowSeconds: 3_600,
  rateLockSeconds: 900,
  toleranceBasisPoints: 0,
  toleranceCapUsdCents: 0n,
  lateAcceptMinutes: null,
  protectionHours: 24,
  protectionLargeHours: 2,
  protectionLargeUsdCents: 100_000n,
  adjustments: {},
  priceSource: null,
};

const tierToJson = ({ belowUsdCents, confirmations, rule }: ConfirmationTier): unknown => [
  belowUsdCents === null ? null : String(belowUsdCents),
  confirmations,
  rule,
];
export const rulesToJson = (rules: Rules): StoredJson => ({
  v: VERSION,
  ...rules,
  toleranceCapUsdCents: String(rules.toleranceCapUsdCents),
  protectionLargeUsdCents: String(rules.protectionLargeUsdCents),
  confirmations: Object.fromEntries(ALL_COINS.map((coin) => [coin, rules.confirmations[coin].map(tierToJson)])),
});

export function rulesFromJson(value: unknown): Rules {
  const stored = asObject(value);
  const confirmations = asObject(stored.confirmations);
  return {
    windowSeconds: asWhole(stored.windowSeconds) ?? DEFAULT_RULES.windowSeconds,
    rateLockSeconds: asWhole(stored.rateLockSeconds) ?? DEFAULT_RULES.rateLockSeconds,
    toleranceBasisPoints: asWhole(stored.toleranceBasisPoints) ?? DEFAULT_RULES.toleranceBasisPoints,
    toleranceCapUsdCents: asBigint(stored.toleranceCapUsdCents) ?? DEFAULT_RULES.toleranceCapUsdCents,
    lateAcceptMinutes: asWhole(stored.lateAcceptMinutes) ?? DEFAULT_RULES.lateAcceptMinutes,
    protectionHours: asWhole(stored.protectionHours) ?? DEFAULT_RULES.protectionHours,
    protectionLargeHours: asWhole(stored.protectionLargeHours) ?? DEFAULT_RULES.protectionLargeHours,
    protectionLargeUsdCents: asBigint(stored.protectionLargeUsdCents) ?? DEFAULT_RULES.protectionLargeUsdCents,
    adjustments: adjustmentsFromJson(stored.adjustments),
    priceSource: asText(stored.priceSource),
    confirmations: Object.fromEntries(ALL_COINS.map((coin) => [coin, tiersFromJson(coin, confirmations[coin])])) as Rules['confirmations'],
  };
}

/** The coin's default table if there are no tiers, or if one cannot be read: a partial table would require too little. */
function tiersFromJson(coin: Coin, value: unknown): readonly ConfirmationTier[] {
  const tiers = asList(value).map((entry): ConfirmationTier | null => {
    const [below, count, kind] = asList(entry);
    const [belowUsdCents, confirmations, rule] = [asBigint(below), asWhole(count), oneOf(COMPLETION_RULES, kind)];
    return (below !== null && belowUsdCents === null) || confirmations === null || rule === null
      ? null
      : { belowUsdCents, confirmations, rule };
  });
  const whole = tiers.flatMap((tier) => tier ?? []);
  return whole.length > 0 && whole.length === tiers.length ? whole : chainOf(coin).confirmations;
}

/** What the merchant requested; absent keys are omitted. */
export const requestToJson = (request: PaymentRequest): StoredJson => ({
  v: VERSION,
  ...(request.returnUrl === null ? {} : { returnUrl: request.returnUrl }),
  ...(request.description === null ? {} : { description: request.description }),
  // The name is from the time when all prices were in US dollars.
  ...(request.taxMinor === null ? {} : { taxCents: String(request.taxMinor) }),
  ...(request.locale === null ? {} : { locale: request.locale }),
  ...(request.items === null
    ? {}
    : {
        items: request.items.map(({ unitPriceMinor, quantity, ...item }) => ({
          ...item,
          quantity: String(quantity),
          unitPriceCents: String(unitPriceMinor),
        })),
      }),
  ...(request.asset === null ? {} : { asset: request.asset }),
  ...(request.replaces && { replaces: request.replaces }),
  ...(request.shop && { shop: request.shop }),
  ...(request.fiat === null ? {} : { fiat: { ...request.fiat, rateE8: String(request.fiat.rateE8) } }),
});

export function requestFromJson(value: unknown): PaymentRequest {
  const stored = asObject(value);
  return {
    returnUrl: asText(stored.returnUrl),
    description: asText(stored.description),
    taxMinor: asBigint(stored.taxCents),
    locale: asText(stored.locale),
    items: Array.isArray(stored.items) ? stored.items.map(itemFromJson) : null,
    fiat: fiatFromJson(stored.fiat),
    asset: oneOf(ASSETS, stored.asset),
    ...(stored.replaces !== undefined && { replaces: asText(stored.replaces) }),
    ...(stored.shop !== undefined && { shop: shopFromJson(asObject(stored.shop)) }),
  };
}
const shopFromJson = ({ coins, autoReturn, origins, cancelUrl }: StoredJson): ShopTerms => ({
  // A choice of which nothing is left offers nothing; it does not become all coins.
  coins: Array.isArray(coins) ? COINS.filter((coin) => coins.includes(coin)) : null,
  autoReturn: asBoolean(autoReturn) ?? false,
  origins: asTexts(origins),
  cancelUrl: asText(cancelUrl),
});
function itemFromJson(value: unknown): PaymentItem {
  const stored = asObject(value);
  return {
    productId: asText(stored.productId) ?? '',
    name: asText(stored.name) ?? '',
    quantity: asBigint(stored.quantity) ?? 0n,
    unitPriceMinor: asBigint(stored.unitPriceCents) ?? 0n,
  };
}
/** Null if the price cannot be read completely: a partial price would be wrong. */
function fiatFromJson(value: unknown): PaymentRequest['fiat'] {
  const stored = asObject(value);
  const [amount, currency, rateE8] = [asText(stored.amount), asText(stored.currency), asBigint(stored.rateE8)];
  if (amount === null || currency === null || rateE8 === null) return null;
  // A currency that is no longer offered is still shown.
  return { amount, currency: currency as Fiat, rateE8, source: asText(stored.source) ?? '', at: asText(stored.at) ?? '' };
}

export const valuesToJson = (values: readonly TransferValue[]): readonly StoredJson[] =>
  values.map(({ usdE8, at, basis, reason, company, display }) => ({
    v: VERSION,
    usdE8: String(usdE8),
    at: at.toISOString(),
    basis,
    reason,
    ...(company && {
      company: { transactionUsdCents: String(company.transactionUsdCents), merchantUsdCents: String(company.merchantUsdCents) },
    }),
    ...(display && { display: { currency: display.currency, rateE8: String(display.rateE8) } }),
  }));

function companyFromJson(value: unknown): CompanyWorth {
  const stored = asObject(value);
  return { transactionUsdCents: asBigint(stored.transactionUsdCents) ?? 0n, merchantUsdCents: asBigint(stored.merchantUsdCents) ?? 0n };
}

function displayFromJson(value: unknown): Pick<TransferValue, 'display'> {
  const stored = asObject(value);
  const [currency, rateE8] = [asText(stored.currency), asBigint(stored.rateE8)];
  // A currency that is no longer offered stays stored.
  return currency === null || rateE8 === null ? {} : { display: { currency: currency as Fiat, rateE8 } };
}

/** Errors: the worth of a transfer cannot be read. It is never guessed. */
export const valuesFromJson = (value: unknown): TransferValue[] =>
  asList(value).map((entry) => {
    const stored = asObject(entry);
    const usdE8 = asBigint(stored.usdE8);
    if (usdE8 === null) throw new Error(`the worth of a transfer cannot be read: ${JSON.stringify(entry)}`);
    return {
      usdE8,
      at: new Date(asText(stored.at) ?? 0),
      basis: oneOf(['quote', 'spot'], stored.basis) ?? 'spot',
      reason: oneOf(['first_sight', 'confirmation'], stored.reason) ?? 'first_sight',
      ...(stored.company !== undefined && { company: companyFromJson(stored.company) }),
      ...displayFromJson(stored.display),
    };
  });

/** Null if everything counts and arrived, as in nearly every payment that ended. */
export const uncountedToJson = (uncounted: readonly Uncounted[]): readonly StoredJson[] | null =>
  uncounted.length === 0
    ? null
    : uncounted.map(({ coin, state, units, usdE8, waits }) => ({
        v: VERSION,
        coin,
        state,
        units: String(units),
        usdE8: usdE8 === null ? null : String(usdE8),
        ...(waits && { waits }),
      }));

/** Unreadable parts are omitted; the payment itself shows everything. */
export const uncountedFromJson = (value: unknown): Uncounted[] =>
  asList(value).flatMap((entry) => {
    const stored = asObject(entry);
    const [coin, state, units] = [oneOf(ALL_COINS, stored.coin), oneOf(UNCOUNTED_STATES, stored.state), asBigint(stored.units)];
    if (coin === null || state === null || units === null) return [];
    return [{ coin, state, units, usdE8: asBigint(stored.usdE8), ...(stored.waits === true && { waits: true as const }) }];
  });

/** What refunds have returned, by coin. */
export const refundedToJson = (refunded: Readonly<Partial<Record<Coin, bigint>>>): StoredJson =>
  Object.fromEntries(Object.entries(refunded).map(([coin, units]) => [coin, String(units)]));
export function refundedFromJson(value: unknown): Partial<Record<Coin, bigint>> {
  const stored = asObject(value);
  return Object.fromEntries(
    ALL_COINS.flatMap((coin) => {
      const units = asBigint(stored[coin]);
      return units === null ? [] : [[coin, units]];
    }),
  );
}

export const playToJson = ({ units, startedAt, ...play }: Play): StoredJson => ({
  v: VERSION,
  ...play,
  units: String(units),
  startedAt: startedAt.toISOString(),
});

/** The scenarios of a test payment. One that this version does not know is omitted, as is `waiting`. */
export const playsFromJson = (value: unknown): Play[] =>
  asList(value).flatMap((entry) => {
    const stored = asObject(entry);
    const [coin, scenario, units] = [oneOf(ALL_COINS, stored.coin), oneOf(SCENARIOS, stored.scenario), asBigint(stored.units)];
    const startedAt = asTime(stored.startedAt);
    return coin === null || scenario === null || units === null || startedAt === null ? [] : [{ coin, scenario, units, startedAt }];
  });

/** The outputs that a transfer covers. Null if it is one output, `unreadable` if any part cannot be read: a partial list would be wrong. */
export function outputsFromJson(value: unknown): { n: number; units: bigint }[] | 'unreadable' | null {
  if (value === null || value === undefined) return null;
  const outputs = asList(value).flatMap((entry) => {
    const [number, part] = asList(entry);
    const [n, units] = [asWhole(number), asBigint(part)];
    return n === null || units === null ? [] : [{ n, units }];
  });
  return outputs.length > 0 && outputs.length === asList(value).length ? outputs : 'unreadable';
}
