/** Whether the operator runs a source of a chain, and whether what it shows is proven. */
import { isIP } from 'node:net';
import { matchNetworks } from './networks.ts';

/**
 * `own`: the operator runs it. `proven`: others may run it, because every block that it shows is checked here. Either alone can complete
 * payments up to a small amount. `claimed`: its word is all there is, so it only answers lookups and gives hints.
 */
export type Trust = 'own' | 'proven' | 'claimed';
/** What operators say about a source. */
export const TRUST_SETTINGS = ['own', 'untrusted'] as const;
export type TrustSetting = (typeof TRUST_SETTINGS)[number];
/** `checked`: whether every block of the source is checked here. */
export const trustOf = (setting: TrustSetting, checked: boolean): Trust => (setting === 'own' ? 'own' : checked ? 'proven' : 'claimed');

const isPrivate = matchNetworks([
  ...['127.0.0.0/8', '10.0.0.0/8', '172.16.0.0/12', '192.168.0.0/16', '169.254.0.0/16', '100.64.0.0/10'],
  ...['::1/128', 'fc00::/7', 'fe80::/10'],
]);
/** Names that public name servers do not resolve: RFC 6761, 6762, 8375 and 9476, and those that routers use. */
const PRIVATE_SUFFIX = /\.(localhost|local|internal|lan|home\.arpa|alt)$/i;

/**
 * The trust of a source unless the operator sets it: `own` when the host is a loopback or private address, a name without a dot (as in
 * container networks) or a name of a local network. Names are judged as written and not by the address that they resolve to, because
 * every answer of a name server can change it.
 */
export function defaultTrust(url: string): TrustSetting {
  const host = new URL(url).hostname.replace(/^\[|\]$/g, '').replace(/\.$/, '');
  if (isIP(host) !== 0) return isPrivate(host) ? 'own' : 'untrusted';
  return !host.includes('.') || PRIVATE_SUFFIX.test(host) ? 'own' : 'untrusted';
}
