/** The settings of a merchant as its row keeps them: written with the version of their form, read field by field with defaults. */
import { type Asset, COINS, COMPLETION_RULES, type Coin, type ConfirmationTier, isToken } from '#core/coin';
import { FIATS, type Fiat } from '#core/fiat';
import { adjustmentsFromJson } from '#core/payment';
import { asBoolean, asList, asObject, asText, asTexts, asWhole, oneOf, type StoredJson } from '#core/stored-json';

export const THEMES = ['system', 'light', 'dark'] as const;
export type MerchantSettings = {
  windowSeconds: number;
  rateLockSeconds: number;
  toleranceBasisPoints: number;
  toleranceCapUsdCents: number;
  lateAcceptMinutes: number | null;
  defaultCoin: Coin | null;
  /** Where customers get help: an https URL, email address or phone number. */
  supportContact: string | null;
  /** Accent color of the payment page, as #rrggbb. */
  accent: string | null;
  theme: (typeof THEMES)[number];
  /** Language of the page when neither the payment nor the browser sets one. */
  locale: string | null;
  /** Origins that may embed the payment page and use public keys without their own origins. */
  origins: readonly string[];
  /** Whether customers are redirected five seconds after they paid. */
  autoReturn: boolean;
  /** Whether customers can cancel a payment until a transfer arrives, and restart an unpaid one. */
  payerCancel: boolean;
  /** Whether the page runs on a point-of-sale display, which must stay on while a QR code is shown. */
  kiosk: boolean;
  /** Whether the receipt of a live payment is mailed to the customer whom it names. */
  mailReceipts: boolean;
  /** Native coins that customers can pay with; null: all with a wallet. */
  coins: readonly Coin[] | null;
  /** Tokens that customers can pay with. */
  tokens: readonly Coin[];
  /** The same of test payments, which need no wallet. */
  testTokens: readonly Coin[];
  /** Hundredths of a percent by which customers pay more in an asset than at its market price; below zero, less. */
  adjustments: Partial<Record<Asset, number>>;
  /** The price source that is used while it agrees with the others; null: the median of all. */
  priceSource: string | null;
  website: string | null;
  /** The currency that the dashboard shows beside US dollars. */
  displayCurrency: Fiat;
  /** Whose days lists, files, reports and books mean: a name of the tz database. */
  timeZone: string;
  /** Days after a payment ends until customer data is deleted; null: never. */
  retentionDays: number | null;
  /** Refunds that one member may approve alone within 24 hours, in cents; null: no limit. */
  refundLimitUsdCents: number | null;
  /** Whether requests with unknown parameters are rejected. */
  strictParameters: boolean;
  /** Raised confirmations per coin; never below the table. */
  confirmations: Partial<Record<Coin, { belowUsdCents: string | null; confirmations: number; rule: ConfirmationTier['rule'] }[]>>;
};

/** Grows when the meaning of a field changes. Rows that were written before there were versions, or never, are of the first form. */
const VERSION = 1;

const DEFAULTS: MerchantSettings = {
  windowSeconds: 3600,
  rateLockSeconds: 900,
  toleranceBasisPoints: 100,
  toleranceCapUsdCents: 500,
  lateAcceptMinutes: null,
  defaultCoin: null,
  supportContact: null,
  accent: null,
  theme: 'system',
  locale: null,
  origins: [],
  autoReturn: false,
  payerCancel: false,
  kiosk: false,
  mailReceipts: false,
  coins: null,
  tokens: [],
  testTokens: [],
  adjustments: {},
  priceSource: null,
  website: null,
  displayCurrency: 'USD',
  timeZone: 'UTC',
  retentionDays: null,
  refundLimitUsdCents: null,
  strictParameters: false,
  confirmations: {},
};

/** How customers reach the merchant: the support contact, or else the website. */
export const contactOf = ({ supportContact, website }: MerchantSettings): string | null => supportContact ?? website;

/** What is changed; the rest of a row stays as it is. */
export const settingsToJson = (settings: Partial<MerchantSettings>): StoredJson => ({ v: VERSION, ...settings });

export function settingsFromJson(value: unknown): MerchantSettings {
  const stored = asObject(value);
  return {
    windowSeconds: asWhole(stored.windowSeconds) ?? DEFAULTS.windowSeconds,
    rateLockSeconds: asWhole(stored.rateLockSeconds) ?? DEFAULTS.rateLockSeconds,
    toleranceBasisPoints: asWhole(stored.toleranceBasisPoints) ?? DEFAULTS.toleranceBasisPoints,
    toleranceCapUsdCents: asWhole(stored.toleranceCapUsdCents) ?? DEFAULTS.toleranceCapUsdCents,
    lateAcceptMinutes: asWhole(stored.lateAcceptMinutes),
    defaultCoin: oneOf(COINS, stored.defaultCoin),
    supportContact: asText(stored.supportContact),
    accent: asText(stored.accent),
    theme: oneOf(THEMES, stored.theme) ?? DEFAULTS.theme,
    locale: asText(stored.locale),
    origins: asTexts(stored.origins),
    autoReturn: asBoolean(stored.autoReturn) ?? DEFAULTS.autoReturn,
    payerCancel: asBoolean(stored.payerCancel) ?? DEFAULTS.payerCancel,
    kiosk: asBoolean(stored.kiosk) ?? DEFAULTS.kiosk,
    mailReceipts: asBoolean(stored.mailReceipts) ?? DEFAULTS.mailReceipts,
    // A choice of which nothing is left offers nothing; it does not become all coins.
    coins: Array.isArray(stored.coins) ? COINS.filter((coin) => asList(stored.coins).includes(coin)) : null,
    tokens: tokensIn(asList(stored.tokens)),
    testTokens: tokensIn(asList(stored.testTokens)),
    adjustments: adjustmentsFromJson(stored.adjustments),
    priceSource: asText(stored.priceSource),
    website: asText(stored.website),
    displayCurrency: oneOf(FIATS, stored.displayCurrency) ?? DEFAULTS.displayCurrency,
    timeZone: asText(stored.timeZone) ?? DEFAULTS.timeZone,
    retentionDays: asWhole(stored.retentionDays),
    refundLimitUsdCents: asWhole(stored.refundLimitUsdCents),
    strictParameters: asBoolean(stored.strictParameters) ?? DEFAULTS.strictParameters,
    confirmations: confirmationsFromJson(stored.confirmations),
  };
}

const tokensIn = (stored: readonly unknown[]): Coin[] => COINS.filter((coin) => isToken(coin) && stored.includes(coin));

/** Raised confirmations; a coin that is gone and a tier that cannot be read are left to the table. */
function confirmationsFromJson(value: unknown): MerchantSettings['confirmations'] {
  const stored = asObject(value);
  const known = COINS.filter((coin) => stored[coin] !== undefined);
  return Object.fromEntries(
    known.map((coin): [Coin, NonNullable<MerchantSettings['confirmations'][Coin]>] => [
      coin,
      asList(stored[coin]).flatMap((entry) => {
        const tier = asObject(entry);
        const [confirmations, rule] = [asWhole(tier.confirmations), oneOf(COMPLETION_RULES, tier.rule)];
        return confirmations === null || rule === null ? [] : { belowUsdCents: asText(tier.belowUsdCents), confirmations, rule };
      }),
    ]),
  );
}
