/** What a shop asks for when it opens the pairing page, read from the query that its plugin made. */
import { cutText, toPrintableLine } from '../core/text.ts';
import { parseWebUrl } from '../core/urls.ts';
import { isPermission, type Permission, PLATFORM_PERMISSIONS, PLATFORMS, type Platform } from './permissions.ts';

export type PairingRequest = {
  /** What the plugin calls the shop. */
  name: string;
  permissions: readonly Permission[];
  /** Permissions that Florin does not have. A key without them would be refused by the plugin, and one with them would lie. */
  unknown: readonly string[];
  /** Where the browser sends the key; null: it is shown, and entered by hand. */
  redirect: string | null;
  /** The origin of the redirect, and its address without the query. */
  origin: string | null;
  site: string | null;
};

/** The query of the plugin as one parameter, which survives sign-in. */
export const packQuery = (query: string): string => Buffer.from(query).toString('base64url');

const MOST = 4_000;
const PACKED = /^[A-Za-z0-9_-]{1,6000}$/;

export function readPairing(packed: string): PairingRequest {
  const query = new URLSearchParams(PACKED.test(packed) ? Buffer.from(packed, 'base64url').toString().slice(0, MOST) : '');
  // A plugin may name the store of an earlier key: the key is for the store that is chosen here.
  const asked = [...new Set(query.getAll('permissions').map((text) => text.split(':')[0]!))].slice(0, 50);
  const given = query.get('applicationName') ?? query.get('applicationIdentifier') ?? '';
  const name = cutText(toPrintableLine(given), 100);
  const redirect = readRedirect(query.get('redirect') ?? '');
  return {
    name: name === '' ? 'Shop' : name,
    permissions: asked.filter(isPermission),
    unknown: asked.filter((text) => !isPermission(text)).map((text) => cutText(text, 80)),
    redirect,
    ...siteOf(redirect),
  };
}

function siteOf(redirect: string | null): Pick<PairingRequest, 'origin' | 'site'> {
  if (redirect === null) return { origin: null, site: null };
  const { origin, pathname } = new URL(redirect);
  return { origin, site: cutText(origin + pathname, 1_000) };
}

function readRedirect(text: string): string | null {
  const found = parseWebUrl(text);
  // The origin is written into the security policy of the page.
  return found && /^https?:\/\/[\w.:[\]-]+$/.test(found.url.origin) ? text : null;
}

/** The platform whose plugin asks for exactly this. */
export const platformOf = (permissions: readonly Permission[]): Platform | 'other' =>
  PLATFORMS.find((platform) => {
    const known: readonly Permission[] = PLATFORM_PERMISSIONS[platform];
    return known.length === permissions.length && known.every((permission) => permissions.includes(permission));
  }) ?? 'other';
