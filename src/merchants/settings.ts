/** Settings that a merchant changes: validated, stored and written to the audit log in one transaction. */
import { createHash } from 'node:crypto';
import { isDeepStrictEqual } from 'node:util';
import type { Context } from '#context';
import {
  COIN,
  COINS,
  type Coin,
  type CompletionRule,
  type ConfirmationTier,
  chainOf,
  coinText,
  contractOf,
  isCoin,
  isToken,
  leadingCoins,
} from '#core/coin';
import { checkTimeZone } from '#core/dates';
import { formatUsd } from '#core/money';
import { Problem } from '#core/problem';
import { parseWebUrl, readName } from '#core/text';
import type { Tx } from '#db';
import { isOrigin } from '#keys';
import { notifyMembers } from '#notices';
import { type Actor, checkStanding, writeAudit } from '#people';
import { changeSettings, getMerchant } from './merchants.ts';
import { type MerchantSettings, THEMES } from './stored-settings.ts';

export type SettingsChange = Branding &
  Partial<
    Pick<
      MerchantSettings,
      | 'windowSeconds'
      | 'rateLockSeconds'
      | 'toleranceBasisPoints'
      | 'toleranceCapUsdCents'
      | 'lateAcceptMinutes'
      | 'defaultCoin'
      | 'payerCancel'
      | 'coins'
      | 'tokens'
      | 'testTokens'
      | 'adjustments'
      | 'priceSource'
      | 'website'
      | 'displayCurrency'
      | 'timeZone'
      | 'retentionDays'
      | 'refundLimitUsdCents'
      | 'strictParameters'
    >
  > & {
    /** Confirmations for each tier of a coin, in the order of its table. Null keeps the default. Never below it. */
    confirmations?: Partial<Record<Coin, readonly (number | null)[]>>;
  };

/** Limits of numbers, with the name that members see. */
const BOUNDS = {
  windowSeconds: ['window_minutes', 600, 86_400, 'from 10 to 1440 minutes'],
  rateLockSeconds: ['rate_lock_minutes', 300, 3_600, 'from 5 to 60 minutes'],
  toleranceBasisPoints: ['tolerance_percent', 0, 500, 'from 0 to 5 percent'],
  toleranceCapUsdCents: ['tolerance_cap_usd', 0, 10_000, 'from 0.00 to 100.00'],
  lateAcceptMinutes: ['late_accept_minutes', 1, 1_440, 'from 1 to 1440 minutes'],
  retentionDays: ['retention_days', 30, 3_650, 'from 30 to 3650 days'],
  refundLimitUsdCents: ['refund_limit_usd', 0, 100_000_000, 'of dollars from 0 to 1000000'],
} as const;

/** More than any cost of a coin, and so little that the confirmations that a payment needs still fit its price. */
const MOST_ADJUSTMENT = 2_000;

/** Risky settings: when a payment counts as received, which sites may embed the payment page, what customers see and open, what is deleted. */
const RISKY = [
  'toleranceBasisPoints',
  'toleranceCapUsdCents',
  'lateAcceptMinutes',
  'adjustments',
  'confirmations',
  'origins',
  'supportContact',
  'website',
  'retentionDays',
  'refundLimitUsdCents',
] as const satisfies readonly (keyof MerchantSettings)[];

const limitText = (cents: number | null): string => (cents === null ? 'any amount' : `up to $${formatUsd(BigInt(cents))} a day`);

/** The tiers without the merchant's own: the operator's, else the default table. */
export const baseTiers = (ctx: Context, coin: Coin): readonly ConfirmationTier[] =>
  ctx.settings.confirmations[coin] ?? chainOf(coin).confirmations;

/** How many confirmations a finality signal of the network is worth. Where a sequencer alone makes blocks, no number replaces it. */
const STAND_IN: Readonly<Record<CompletionRule, number>> = {
  confirmations: 0,
  instantsend: 1,
  instantsend_or_chainlock: 1,
  chainlock: 6,
  safe: 32,
  finalized: 64,
  preimage: 0,
};
/** The confirmations of the default table where the operator lowered them; else null. */
export function loweredFrom(coin: Coin, { belowUsdCents, confirmations, rule }: ConfirmationTier): ConfirmationTier | null {
  const usual = chainOf(coin).confirmations.find(
    (tier) => tier.belowUsdCents === null || (belowUsdCents !== null && tier.belowUsdCents >= belowUsdCents),
  )!;
  const isReplaceable = chainOf(coin).ranges === undefined;
  const worth = (tier: Pick<ConfirmationTier, 'rule' | 'confirmations'>) =>
    tier.rule === 'confirmations' || isReplaceable ? Math.max(STAND_IN[tier.rule], tier.confirmations) : Number.POSITIVE_INFINITY;
  return worth({ rule, confirmations }) < worth(usual) ? usual : null;
}

export type OwnTier = ConfirmationTier & { minimum: number; loweredFrom: ConfirmationTier | null };
/** The confirmations of each tier of a coin for a merchant, and the lowest allowed. */
export const tiersOf = (ctx: Context, settings: MerchantSettings, coin: Coin): OwnTier[] =>
  baseTiers(ctx, coin).map((tier) => {
    const own = settings.confirmations[coin]?.find(({ belowUsdCents }) => belowUsdCents === (tier.belowUsdCents?.toString() ?? null));
    const confirmations = Math.max(tier.confirmations, own?.confirmations ?? 0);
    return { ...tier, confirmations, minimum: tier.confirmations, loweredFrom: loweredFrom(coin, tier) };
  });

/** The tokens with a contract on the network of their chain. */
export const tokensFor = (ctx: Context): Coin[] =>
  COINS.filter((coin) => isToken(coin) && contractOf(coin, ctx.settings.networks[COIN[coin].chain]) !== null);

/** Tokens to turn on, by name, in the order of the table. Errors: parameter_invalid (tokens). */
export function readTokens(ctx: Context, names: readonly string[]): Coin[] {
  const tokens = tokensFor(ctx).filter((coin) => names.includes(coin));
  if (tokens.length !== new Set(names).size)
    throw new Problem(
      'parameter_invalid',
      { reason: `it must list tokens that can be turned on: ${tokensFor(ctx).join(', ')}` },
      { param: 'tokens' },
    );
  return tokens;
}

/**
 * Changes the given settings; others stay. `isRecent`: the member recently confirmed their identity, which risky settings require, and the
 * name and logo that customers see. The limit of approvals is changed by owners only. Errors: parameter_invalid with the setting,
 * merchant_not_found, recent_authentication_required, member_not_found, action_not_permitted.
 */
export async function changeOwnSettings(
  ctx: Context,
  {
    merchantId,
    change,
    name: givenName,
    logo,
    actor,
    isRecent,
  }: { merchantId: string; change: SettingsChange; name?: string; logo?: Uint8Array | null; actor: Actor; isRecent: boolean },
): Promise<void> {
  const refuse = (param: string, reason: string): never => {
    throw new Problem('parameter_invalid', { reason }, { param });
  };
  checkBranding(change);
  for (const [key, [param, low, high, range]] of Object.entries(BOUNDS)) {
    const value = change[key as keyof typeof BOUNDS];
    if (value != null && (!Number.isInteger(value) || value < low || value > high)) refuse(param, `it must be a whole number ${range}`);
  }
  if (change.timeZone !== undefined) checkTimeZone(change.timeZone);
  const website = change.website ? parseWebUrl(change.website) : null;
  if (change.website && website?.url.protocol !== 'https:') refuse('website', 'it must be an https URL');
  for (const list of [change.tokens, change.testTokens])
    if (list && !list.every((coin) => isCoin(coin) && isToken(coin))) refuse('tokens', 'it must list tokens');
  if (change.coins && (change.coins.length === 0 || !change.coins.every(isCoin))) refuse('currencies', 'it must name at least one coin');
  for (const points of Object.values(change.adjustments ?? {}))
    if (!Number.isInteger(points) || Math.abs(points) > MOST_ADJUSTMENT)
      refuse('adjustments', 'each must be a percentage from -20.00 to 20.00');
  if (change.priceSource && !ctx.prices.sources.includes(change.priceSource))
    refuse('price_source', `it must be one of ${ctx.prices.sources.join(', ')}`);
  const { settings, name: nameBefore } = await getMerchant(ctx, { merchantId });
  // A form sends the name with every change, and an older name may be longer.
  const name = givenName === undefined || givenName === nameBefore ? undefined : readName(givenName, 'name');
  const { confirmations: given, ...others } = change;
  const plain = website === null ? others : { ...others, website: website.text };
  const confirmations = given && { ...settings.confirmations };
  for (const coin of leadingCoins()) {
    const wished = given?.[coin];
    if (!wished || !confirmations) continue;
    const base = baseTiers(ctx, coin);
    const raised = base.flatMap((tier, i) => {
      const wish = wished[i] ?? null;
      if (wish === null || wish === tier.confirmations) return [];
      if (!Number.isInteger(wish) || wish > 1_000 || tier.rule !== 'confirmations')
        refuse('confirmations', `for ${coinText(coin)} it must be a whole number of up to 1000`);
      if (wish < tier.confirmations)
        refuse('confirmations', `for ${coinText(coin)} it must be at least ${tier.confirmations} for this amount`);
      return [{ belowUsdCents: tier.belowUsdCents?.toString() ?? null, confirmations: wish, rule: tier.rule }];
    });
    // Tiers that follow the table lie between those that do not, so none takes the number of its neighbor.
    confirmations[coin] =
      raised.length === 0
        ? []
        : base.map(
            (tier, i) =>
              raised.find(({ belowUsdCents }) => belowUsdCents === (tier.belowUsdCents?.toString() ?? null)) ?? {
                belowUsdCents: base[i]!.belowUsdCents?.toString() ?? null,
                confirmations: tier.confirmations,
                rule: tier.rule,
              },
          );
  }
  const writeLogo = logoWriter(logo);
  const values = { ...plain, ...(confirmations && { confirmations }) };
  const isRebranded = logo !== undefined || (name !== undefined && name.trim() !== nameBefore);
  await changeSettings(ctx, {
    merchantId,
    settings: values,
    ...(name !== undefined && { name }),
    also: async (tx, stored) => {
      // Compared with what is stored now: what the request read may have changed since, and must not be put back by others.
      const changes = (key: (typeof RISKY)[number]) => values[key] !== undefined && !isDeepStrictEqual(values[key], stored[key]);
      if (!isRecent && (isRebranded || RISKY.some(changes))) throw new Problem('recent_authentication_required');
      const before = Object.fromEntries(Object.keys(values).map((key) => [key, stored[key as keyof MerchantSettings] ?? null]));
      if (changes('refundLimitUsdCents')) {
        await checkStanding(tx, { merchantId, actor, action: 'approvals.manage' });
        const [was, limit] = [stored, { ...stored, ...values }].map((one) => limitText(one.refundLimitUsdCents));
        const detail = { change: 'limit', was: was!, limit: limit!, by: actor.name };
        await notifyMembers(ctx, tx, [{ merchantId, mode: null, kind: 'team_changed', detail, actorId: actor.userId }]);
      }
      await writeLogo(tx, merchantId);
      await writeAudit(tx, {
        ...{ merchantId, mode: null, actor, action: 'settings.changed', object: merchantId },
        before: { ...before, ...(name !== undefined && { name: nameBefore }) },
        after: {
          ...values,
          ...(name !== undefined && { name }),
          ...(logo !== undefined && { logo: logo === null ? 'removed' : 'changed' }),
        },
      });
    },
  });
}

/** By an operator. Errors: parameter_invalid (time_zone), merchant_not_found. */
export async function setTimeZone(ctx: Context, { merchantId, timeZone }: { merchantId: string; timeZone: string }): Promise<void> {
  checkTimeZone(timeZone);
  await changeSettings(ctx, { merchantId, settings: { timeZone } });
}

// Branding of the payment page and where it may be embedded: accent color, logo, theme, language, support contact, origins.

type Branding = Partial<Pick<MerchantSettings, 'accent' | 'theme' | 'locale' | 'supportContact' | 'origins' | 'autoReturn' | 'kiosk'>>;
/** A logo larger than this would cost payers on slow networks seconds. */
const LOGO_LIMIT = 65_536;

/** Changes the given settings; others stay. Errors: merchant_not_found, parameter_invalid with the setting. */
export async function setBranding(
  ctx: Context,
  { merchantId, branding, logo }: { merchantId: string; branding: Branding; logo?: Uint8Array | null },
): Promise<void> {
  checkBranding(branding);
  const write = logoWriter(logo);
  await changeSettings(ctx, { merchantId, settings: branding, also: (tx) => write(tx, merchantId) });
}

/** Errors: parameter_invalid with the setting. */
function checkBranding({ accent, theme, locale, supportContact, origins }: Branding): void {
  const refuse = (param: string, reason: string): never => {
    throw new Problem('parameter_invalid', { reason }, { param });
  };
  if (accent && !/^#[0-9a-f]{6}$/i.test(accent)) refuse('accent', 'it must be a color such as #0f5bd7');
  if (theme && !THEMES.includes(theme)) refuse('theme', `it must be one of ${THEMES.join(', ')}`);
  if (locale && !/^[a-z]{2,3}(-[A-Za-z]{2,4})?$/.test(locale)) refuse('locale', 'it must be a language such as de or pt-BR');
  if (supportContact && !isContact(supportContact)) refuse('support', 'it must be an email address, a phone number or an https URL');
  for (const origin of origins ?? [])
    if (!isOrigin(origin)) refuse('origins', `${origin} is not an origin; write it like https://shop.example`);
}

/** Validates a logo and returns the function that stores it. Null removes the logo, undefined keeps it. Errors: parameter_invalid. */
function logoWriter(logo: Uint8Array | null | undefined): (tx: Tx, merchantId: string) => Promise<void> {
  if (logo === undefined) return async () => {};
  if (logo === null)
    return async (tx, merchantId) => {
      await tx`delete from merchant_logos where merchant_id = ${merchantId}`;
    };
  const kind = logoType(logo);
  const hash = createHash('sha256').update(logo).digest('hex').slice(0, 32);
  return async (tx, merchantId) => {
    await tx`
      insert into merchant_logos (merchant_id, hash, type, bytes) values (${merchantId}, ${hash}, ${kind}, ${logo})
      on conflict (merchant_id) do update set hash = excluded.hash, type = excluded.type, bytes = excluded.bytes`;
  };
}

const isContact = (text: string): boolean =>
  text.length <= 200 &&
  (parseWebUrl(text)?.url.protocol === 'https:' || /^[^\s@<>"]+@[^\s@<>"]+$/.test(text) || /^\+?[\d ()./-]{4,30}$/.test(text));

/** What follows the XML declaration and the comments at the beginning of a document. A comment without an end stays. */
function withoutProlog(text: string): string {
  let rest = text.trimStart();
  const skip = (begin: string, end: string): boolean => {
    const at = rest.startsWith(begin) ? rest.indexOf(end, begin.length) : -1;
    if (at !== -1) rest = rest.slice(at + end.length).trimStart();
    return at !== -1;
  };
  skip('<?xml', '?>');
  while (skip('<!--', '-->'));
  return rest;
}

/**
 * Accepts a PNG by its signature, or an SVG that can only draw: no scripts, no events, no external resources, no entities. Images do
 * not run scripts, but this also keeps the file harmless when it is opened directly.
 */
export function logoType(bytes: Uint8Array): 'image/png' | 'image/svg+xml' {
  const refuse = (reason: string) => new Problem('parameter_invalid', { reason }, { param: 'logo' });
  if (bytes.length > LOGO_LIMIT) throw refuse('it is larger than 64 kB');
  if (Buffer.from(bytes.subarray(0, 8)).toString('latin1') === '\x89PNG\r\n\x1a\n') return 'image/png';
  const text = Buffer.from(bytes).toString('utf8');
  if (!/^<svg[\s>]/.test(withoutProlog(text))) throw refuse('it must be a PNG or SVG image');
  const harm =
    /<!(?:doctype|entity)/i.exec(text) ??
    /<\/?(?:[\w-]+:)?(?:script|foreignobject|iframe|object|embed|image|use|a|style|animate\w*|set|handler|listener)\b/i.exec(text) ??
    /\son\w+\s*=/i.exec(text) ??
    /(?:xlink:)?href\s*=/i.exec(text) ??
    /javascript:|data:|url\(\s*["']?(?!#)/i.exec(text) ??
    /<\?(?!xml\s)/i.exec(text);
  if (harm) throw refuse(`the SVG contains ${harm[0].trim()}, which is not allowed in a logo`);
  return 'image/svg+xml';
}

/** A logo by its hash; null when no merchant uses it anymore. */
export async function readLogo(ctx: Context, { hash }: { hash: string }): Promise<{ type: string; bytes: Buffer } | null> {
  const [row] = await ctx.db.sql<{ type: string; bytes: Buffer }[]>`select type, bytes from merchant_logos where hash = ${hash} limit 1`;
  return row ?? null;
}
