/** The one reader of web addresses that are stored and later shown or opened, so that no page fails on one that was accepted. */

/** An address for people: as it was written, except that a host in another script is in its ASCII form. */
type WebUrl = { text: string; url: URL };

/**
 * An absolute http or https address that every parser reads alike: without spaces, control characters, backslashes and credentials, and
 * without placeholders in its host. Null for everything else.
 */
export function parseWebUrl(text: string): WebUrl | null {
  const authority = /^https?:\/\/([^/?#]+)/i.exec(text)?.[1];
  if (authority === undefined || /[\p{Cc}\s\\"<>]/u.test(text) || /[@{}]/.test(authority)) return null;
  const url = URL.parse(text);
  if (url === null || url.username !== '' || url.password !== '' || url.hostname === '') return null;
  return { text: /^[\x21-\x7e]+$/.test(authority) ? text : text.replace(authority, () => url.host), url };
}

/** The host of an address that was stored; null if it cannot be read, because older versions accepted more. */
export const hostOfUrl = (text: string): string | null => URL.parse(text)?.host ?? null;
