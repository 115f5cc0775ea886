/** Settings of the business and of the payment page. They hold for both modes. */

import Type, { type Static } from 'typebox';
import { ASSETS, type Asset, COIN, type Coin, leadingCoins, NATIVE_ASSETS, NATIVE_COINS } from '#core/coin';
import { FIATS, type Fiat } from '#core/fiat';
import { LOCALES } from '#core/locales';
import { formatDecimal, formatUsd, readAmountText } from '#core/money';
import { Problem } from '#core/problem';
import { literals } from '#http';
import { changeOwnSettings, getMerchant, type OwnTier, type SettingsChange, THEMES, tiersOf } from '#merchants';
import { CoinName, Done, Nullable, PlainText } from './fields.ts';
import { type DashboardRoute, memberRoute } from './route.ts';

export const Tier = Type.Object({
  below_usd: Nullable(PlainText),
  confirmations: Type.Integer(),
  /** The minimum: the default of this install. */
  minimum: Type.Integer(),
  rule: PlainText,
  /** What the default table requires where this install requires less. */
  lowered_from: Nullable(Type.Object({ confirmations: Type.Integer(), rule: PlainText })),
});
export const tierBody = (tier: OwnTier): Static<typeof Tier> => ({
  below_usd: tier.belowUsdCents === null ? null : formatUsd(tier.belowUsdCents),
  confirmations: tier.confirmations,
  minimum: tier.minimum,
  rule: tier.rule,
  lowered_from: tier.loweredFrom && { confirmations: tier.loweredFrom.confirmations, rule: tier.loweredFrom.rule },
});

const Theme = literals(THEMES);
const FiatName = literals(FIATS);
const AssetName = literals(ASSETS);
const Maybe = Type.Optional;
const Short = Type.String({ maxLength: 300 });
const CHECKOUT = {
  accent: Nullable(PlainText),
  theme: Theme,
  locale: Nullable(PlainText),
  support_contact: Nullable(PlainText),
  origins: Type.Array(PlainText),
  auto_return: Type.Boolean(),
  payer_cancel: Type.Boolean(),
  kiosk: Type.Boolean(),
  mail_receipts: Type.Boolean(),
  default_currency: Nullable(CoinName),
  /** Null: every coin with a wallet. */
  currencies: Nullable(Type.Array(CoinName)),
  window_minutes: Type.Integer(),
  rate_lock_minutes: Type.Integer(),
  tolerance_percent: PlainText,
  tolerance_cap_usd: PlainText,
  late_accept_minutes: Nullable(Type.Integer()),
  /** In percent, above zero where customers pay more than the market price. */
  adjustments: Type.Array(Type.Object({ asset: AssetName, percent: PlainText })),
  /** Null: the median of all. */
  price_source: Nullable(PlainText),
};
const Confirmations = Type.Array(Type.Object({ currency: CoinName, tiers: Type.Array(Nullable(Type.Integer()), { maxItems: 10 }) }), {
  maxItems: leadingCoins().length,
});

/** A decimal in hundredths, with the name of its field. Errors: parameter_invalid. */
const hundredths = (text: string, param: string): number => {
  const value = readAmountText(text.trim(), 2);
  if (value === null || value > 1_000_000n)
    throw new Problem('parameter_invalid', { reason: 'it must be a decimal such as 1.50' }, { param });
  return Number(value);
};
/** A percentage with a sign, in hundredths. Errors: parameter_invalid. */
const percentPoints = (text: string): number => {
  const [, sign, amount] = /^([+-]?)(.*)$/s.exec(text.trim())!;
  return (sign === '-' ? -1 : 1) * hundredths(amount!, 'adjustments') || 0;
};
/** What the merchant takes: native coins, and the assets of tokens that are on. */
const adjustableAssets = ({ tokens }: { tokens: readonly Coin[] }): Asset[] =>
  ASSETS.filter((asset) => NATIVE_ASSETS.includes(asset) || tokens.some((coin) => COIN[coin].asset === asset));
const coinsOf = (given: readonly string[]): Coin[] => NATIVE_COINS.filter((coin) => given.includes(coin));
const orNull = <T>(value: T | '' | null): T | null => (value === '' ? null : (value as T | null));

export const SETTINGS: readonly DashboardRoute[] = [
  memberRoute({
    method: 'GET',
    path: '/settings/checkout',
    action: 'settings.read',
    reply: Type.Object({
      success: Type.Boolean(),
      settings: Type.Object({ ...CHECKOUT, logo: Nullable(PlainText) }),
      /** By chain, each named by its first coin. */
      confirmations: Type.Array(Type.Object({ currency: CoinName, name: PlainText, has_wallet: Type.Boolean(), tiers: Type.Array(Tier) })),
      price_sources: Type.Array(PlainText),
      locales: Type.Array(Type.Object({ tag: PlainText, name: PlainText })),
      states: Type.Array(PlainText),
    }),
    handle: async (call) => {
      const { fixturesAt } = await import('../checkout/states.ts');
      const { settings, walletCoins, logo } = await getMerchant(call.ctx, { merchantId: call.member.merchantId });
      return {
        success: true,
        settings: {
          accent: settings.accent,
          theme: settings.theme,
          locale: settings.locale,
          support_contact: settings.supportContact,
          origins: settings.origins,
          auto_return: settings.autoReturn,
          payer_cancel: settings.payerCancel,
          kiosk: settings.kiosk,
          mail_receipts: settings.mailReceipts,
          default_currency: settings.defaultCoin,
          currencies: settings.coins,
          window_minutes: Math.round(settings.windowSeconds / 60),
          rate_lock_minutes: Math.round(settings.rateLockSeconds / 60),
          tolerance_percent: formatDecimal(BigInt(settings.toleranceBasisPoints), 2),
          tolerance_cap_usd: formatUsd(BigInt(settings.toleranceCapUsdCents)),
          late_accept_minutes: settings.lateAcceptMinutes,
          adjustments: adjustableAssets(settings).map((asset) => ({
            asset,
            percent: formatDecimal(BigInt(settings.adjustments[asset] ?? 0), 2),
          })),
          price_source: settings.priceSource,
          logo: logo === null ? null : `/pay/logo/${logo}`,
        },
        confirmations: leadingCoins().map((coin) => ({
          currency: coin,
          name: COIN[coin].name,
          has_wallet: walletCoins.includes(COIN[coin].family),
          tiers: tiersOf(call.ctx, settings, coin).map(tierBody),
        })),
        price_sources: [...call.ctx.prices.sources],
        locales: Object.entries(LOCALES).map(([tag, name]) => ({ tag, name })),
        states: fixturesAt(call.ctx.clock.now())
          .filter(({ fault, view }) => fault === null && !view.merchant.payerCancel)
          .map(({ name }) => name),
      };
    },
  }),
  memberRoute({
    method: 'POST',
    path: '/settings/checkout',
    action: 'settings.write',
    body: Type.Object({
      accent: Maybe(Nullable(Short)),
      theme: Maybe(Theme),
      locale: Maybe(Nullable(Short)),
      support_contact: Maybe(Nullable(Short)),
      origins: Maybe(Type.Array(Short, { maxItems: 20 })),
      auto_return: Maybe(Type.Boolean()),
      payer_cancel: Maybe(Type.Boolean()),
      kiosk: Maybe(Type.Boolean()),
      mail_receipts: Maybe(Type.Boolean()),
      default_currency: Maybe(Nullable(CoinName)),
      currencies: Maybe(Nullable(Type.Array(CoinName, { maxItems: 5 }))),
      window_minutes: Maybe(Type.Integer()),
      rate_lock_minutes: Maybe(Type.Integer()),
      tolerance_percent: Maybe(Short),
      tolerance_cap_usd: Maybe(Short),
      late_accept_minutes: Maybe(Nullable(Type.Integer())),
      adjustments: Maybe(Type.Array(Type.Object({ asset: AssetName, percent: Short }), { maxItems: ASSETS.length })),
      price_source: Maybe(Nullable(Short)),
      confirmations: Maybe(Confirmations),
      /** The file in base64; null removes it. */
      logo: Maybe(Nullable(Type.String({ maxLength: 90_000 }))),
    }),
    reply: Done,
    handle: async (call) => {
      const { body } = call;
      const change: SettingsChange = {
        ...(body.accent !== undefined && { accent: orNull(body.accent) }),
        ...(body.theme !== undefined && { theme: THEMES.find((theme) => theme === body.theme)! }),
        ...(body.locale !== undefined && { locale: orNull(body.locale) }),
        ...(body.support_contact !== undefined && { supportContact: orNull(body.support_contact) }),
        ...(body.origins !== undefined && { origins: [...new Set(body.origins)] }),
        ...(body.auto_return !== undefined && { autoReturn: body.auto_return }),
        ...(body.payer_cancel !== undefined && { payerCancel: body.payer_cancel }),
        ...(body.kiosk !== undefined && { kiosk: body.kiosk }),
        ...(body.mail_receipts !== undefined && { mailReceipts: body.mail_receipts }),
        ...(body.default_currency !== undefined && { defaultCoin: body.default_currency as Coin | null }),
        ...(body.currencies !== undefined && { coins: body.currencies === null ? null : coinsOf(body.currencies) }),
        ...(body.window_minutes !== undefined && { windowSeconds: body.window_minutes * 60 }),
        ...(body.rate_lock_minutes !== undefined && { rateLockSeconds: body.rate_lock_minutes * 60 }),
        ...(body.tolerance_percent !== undefined && { toleranceBasisPoints: hundredths(body.tolerance_percent, 'tolerance_percent') }),
        ...(body.tolerance_cap_usd !== undefined && { toleranceCapUsdCents: hundredths(body.tolerance_cap_usd, 'tolerance_cap_usd') }),
        ...(body.late_accept_minutes !== undefined && { lateAcceptMinutes: body.late_accept_minutes }),
        ...(body.adjustments !== undefined && {
          adjustments: Object.fromEntries(
            body.adjustments.map(({ asset, percent }) => [asset, percentPoints(percent)] as const).filter(([, points]) => points !== 0),
          ),
        }),
        ...(body.price_source !== undefined && { priceSource: orNull(body.price_source) }),
        ...(body.confirmations !== undefined && {
          confirmations: Object.fromEntries(body.confirmations.map(({ currency, tiers }) => [currency, tiers])),
        }),
      };
      await changeOwnSettings(call.ctx, {
        ...{ merchantId: call.member.merchantId, change, actor: call.actor, isRecent: call.signedIn.isRecent },
        ...(body.logo !== undefined && { logo: body.logo === null ? null : Buffer.from(body.logo, 'base64') }),
      });
      return { success: true };
    },
  }),
  memberRoute({
    method: 'GET',
    path: '/settings/business',
    action: 'settings.read',
    reply: Type.Object({
      success: Type.Boolean(),
      name: PlainText,
      website: Nullable(PlainText),
      support_contact: Nullable(PlainText),
      display_currency: FiatName,
      time_zone: PlainText,
      retention_days: Nullable(Type.Integer()),
      refund_limit_usd: Nullable(Type.Integer()),
      strict_parameters: Type.Boolean(),
    }),
    handle: async (call) => {
      const { name, settings } = await getMerchant(call.ctx, { merchantId: call.member.merchantId });
      return {
        success: true,
        name,
        website: settings.website,
        support_contact: settings.supportContact,
        display_currency: settings.displayCurrency,
        time_zone: settings.timeZone,
        retention_days: settings.retentionDays,
        refund_limit_usd: settings.refundLimitUsdCents === null ? null : Math.floor(settings.refundLimitUsdCents / 100),
        strict_parameters: settings.strictParameters,
      };
    },
  }),
  memberRoute({
    method: 'POST',
    path: '/settings/business',
    action: 'settings.write',
    body: Type.Object({
      name: Maybe(Type.String({ maxLength: 100 })),
      website: Maybe(Nullable(Short)),
      support_contact: Maybe(Nullable(Short)),
      display_currency: Maybe(FiatName),
      time_zone: Maybe(Type.String({ maxLength: 60 })),
      retention_days: Maybe(Nullable(Type.Integer())),
      /** Whole dollars that one member may approve alone within 24 hours. */
      refund_limit_usd: Maybe(Nullable(Type.Integer())),
      strict_parameters: Maybe(Type.Boolean()),
    }),
    reply: Done,
    handle: async (call) => {
      const { name, website, support_contact, display_currency, time_zone, retention_days, refund_limit_usd, strict_parameters } =
        call.body;
      await changeOwnSettings(call.ctx, {
        merchantId: call.member.merchantId,
        actor: call.actor,
        isRecent: call.signedIn.isRecent,
        change: {
          ...(website !== undefined && { website: orNull(website) }),
          ...(support_contact !== undefined && { supportContact: orNull(support_contact) }),
          ...(display_currency !== undefined && { displayCurrency: display_currency as Fiat }),
          ...(time_zone !== undefined && { timeZone: time_zone }),
          ...(retention_days !== undefined && { retentionDays: retention_days }),
          ...(refund_limit_usd !== undefined && { refundLimitUsdCents: refund_limit_usd === null ? null : refund_limit_usd * 100 }),
          ...(strict_parameters !== undefined && { strictParameters: strict_parameters }),
        },
        ...(name !== undefined && { name }),
      });
      return { success: true };
    },
  }),
];
