/** Branding of the payment page and where it may be embedded: accent color, logo, theme, language, support contact, origins. */
import { createHash } from 'node:crypto';
import type { Context } from '../context.ts';
import { Problem } from '../core/problem.ts';
import { parseWebUrl } from '../core/urls.ts';
import type { Tx } from '../db/db.ts';
import { isOrigin } from '../keys/keys.ts';
import { changeSettings } from './merchants.ts';
import { type MerchantSettings, THEMES } from './stored-settings.ts';

export type Branding = Partial<
  Pick<MerchantSettings, 'accent' | 'theme' | 'locale' | 'supportContact' | 'origins' | 'autoReturn' | 'kiosk'>
>;
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
export function checkBranding({ accent, theme, locale, supportContact, origins }: Branding): void {
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
export function logoWriter(logo: Uint8Array | null | undefined): (tx: Tx, merchantId: string) => Promise<void> {
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
