/** Whether a merchant's URL may be requested: its form, its port, and the addresses that its host resolves to. */
import { isIP } from 'node:net';
import type { Unreached } from '../core/unreached.ts';
import type { Address } from '../names.ts';
import { isPublicAddress, OutgoingError } from '../outgoing.ts';

/** Ports of services that are not web servers: a merchant URL must not talk to them. */
const CLOSED_PORTS = new Set([
  1433, 1521, 2049, 2181, 2375, 2376, 2379, 3306, 3389, 5432, 5672, 5900, 5984, 6379, 6443, 9042, 9092, 9200, 9300, 10250, 11211, 27017,
]);
const MOST_CHARACTERS = 2048;

const refuse = (kind: OutgoingError['class'], message: string, reason?: Unreached): never => {
  throw new OutgoingError(kind, message, { reason });
};

/** A URL that could be requested, and its host in lower case, without brackets and without a final dot. */
export type MerchantUrl = { url: URL; host: string };

/** Errors: OutgoingError invalid_url. */
export function parseMerchantUrl(text: string): MerchantUrl {
  if (text.length > MOST_CHARACTERS) refuse('invalid_url', `it must have at most ${MOST_CHARACTERS} characters`);
  if (!URL.canParse(text)) refuse('invalid_url', 'it is not a URL');
  const url = new URL(text);
  if (url.protocol !== 'https:' && url.protocol !== 'http:') refuse('invalid_url', 'it must start with https://');
  if (url.username !== '' || url.password !== '') refuse('invalid_url', 'it must not contain a user name or password');
  const host = url.hostname
    .replace(/^\[|\]$/g, '')
    .replace(/\.$/, '')
    .toLowerCase();
  if (host === '') refuse('invalid_url', 'it must name a host');
  return { url, host };
}

/**
 * The addresses to connect to: all of them, and only if each may be connected to. `isAllowed`: whether an address belongs to the
 * operator's network and was opened to merchants. Errors: OutgoingError dns, refused_address, invalid_url.
 */
export function checkAddresses(
  { url, host }: MerchantUrl,
  addresses: readonly Address[],
  isAllowed: (host: string, address: string) => boolean,
): readonly Address[] {
  if (addresses.length === 0) refuse('dns', `the host ${host} does not resolve`, 'name_without_address');
  if (addresses.every(({ address }) => isAllowed(host, address))) return addresses;
  if (!addresses.every(({ address }) => isPublicAddress(address))) refuse('refused_address', 'its host must resolve to a public address');
  if (url.protocol !== 'https:') refuse('invalid_url', 'it must start with https://');
  const port = Number(url.port || 443);
  if ((port !== 443 && port < 1024) || CLOSED_PORTS.has(port)) refuse('refused_address', `webhooks cannot use port ${port}`, 'url_invalid');
  return addresses;
}

/** An address in place of a name; null for a name. */
export const literalOf = ({ host }: MerchantUrl): Address | null => (isIP(host) === 0 ? null : { address: host, family: isIP(host) });
