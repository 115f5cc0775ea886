/** Whose word a source of a chain is: that of a machine the operator runs, or a stranger's. */
import { isIP } from 'node:net';
import { matchNetworks } from './networks.ts';

/** `own`: the operator runs it, and up to a small amount it completes payments by itself. */
export const TRUSTS = ['own', 'untrusted'] as const;
export type Trust = (typeof TRUSTS)[number];

const isPrivate = matchNetworks([
  ...['127.0.0.0/8', '10.0.0.0/8', '172.16.0.0/12', '192.168.0.0/16', '169.254.0.0/16', '100.64.0.0/10'],
  ...['::1/128', 'fc00::/7', 'fe80::/10'],
]);
/** Names that no public name server answers for: RFC 6761, 6762, 8375 and 9476, and what routers use. */
const PRIVATE_SUFFIX = /\.(localhost|local|internal|lan|home\.arpa|alt)$/i;

/**
 * What a source is taken for unless the operator says otherwise: its own when the host is a loopback or private address, a name
 * without a dot (as container networks give them) or one that only a local network knows. Names are judged as written, never by
 * the address they lead to: that may change with every answer of a name server.
 */
export function defaultTrust(url: string): Trust {
  const host = new URL(url).hostname.replace(/^\[|\]$/g, '').replace(/\.$/, '');
  if (isIP(host) !== 0) return isPrivate(host) ? 'own' : 'untrusted';
  return !host.includes('.') || PRIVATE_SUFFIX.test(host) ? 'own' : 'untrusted';
}
