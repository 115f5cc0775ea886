/** IP addresses and networks such as 192.0.2.0/24. */
import { BlockList, isIP } from 'node:net';
import { type Coin, chainOf, type Network } from './coin.ts';

const withoutZone = (ip: string): string => ip.split('%', 1)[0]!;
/** An IPv4 address written as IPv6 (RFC 4291, 2.5.5.2), in its IPv4 form, however it is written. */
export function plainIp(ip: string): string {
  return isIP(ip) === 6 && /:ffff:/i.test(ip) ? (embeddedIn(ip, '::ffff:') ?? ip) : ip;
}
/** The IPv4 address in the last 32 bits of an IPv6 address with this prefix of 96 bits; null: it has another one. */
function embeddedIn(ip: string, prefix: string): string | null {
  const whole = new URL(`http://[${withoutZone(ip)}]`).hostname.slice(1, -1);
  if (!whole.startsWith(prefix)) return null;
  const groups = whole.slice(prefix.length).split(':');
  if (groups.length > 2) return null;
  const [high, low] = groups.length === 2 ? groups : ['0', groups[0]];
  return [high!, low!].flatMap((group) => [Number.parseInt(group || '0', 16) >> 8, Number.parseInt(group || '0', 16) & 255]).join('.');
}
/**
 * The client that an address counts as for limits. For IPv6 that is the first 64 bits, because a host usually has all addresses of such
 * a network, unless a translator put the IPv4 address of the client into it (RFC 6052): then all of IPv4 is in one network.
 */
export function clientNetwork(given: string): string {
  const ip = plainIp(given).split('%', 1)[0]!;
  if (isIP(ip) !== 6) return ip;
  const translated = /^0*64:0*ff9b:/i.test(ip) ? embeddedIn(ip, '64:ff9b::') : null;
  if (translated !== null) return translated;
  const [head, tail] = ip.split('::') as [string, string?];
  const before = head === '' ? [] : head.split(':');
  // `::` stands for zeros. Only four groups matter here, so the number of the others does not.
  const groups = tail === undefined ? before : [...before, ...zerosOf(before, tail), ...(tail === '' ? [] : tail.split(':'))];
  return `${groups
    .slice(0, 4)
    .map((group) => Number.parseInt(group, 16).toString(16))
    .join(':')}::/64`;
}
function zerosOf(before: readonly string[], tail: string): string[] {
  // The last two groups may be written as IPv4.
  const after = tail === '' ? 0 : tail.split(':').length + (tail.includes('.') ? 1 : 0);
  return Array(8 - before.length - after).fill('0') as string[];
}

const familyOf = (ip: string): 'ipv4' | 'ipv6' => (isIP(ip) === 6 ? 'ipv6' : 'ipv4');

/** An address, or a network with the bits that count. */
export function isNetwork(text: string): boolean {
  const [ip = '', bits, ...more] = text.split('/');
  const version = isIP(ip);
  if (version === 0 || ip.includes('%') || more.length > 0) return false;
  return bits === undefined || (/^(0|[1-9]\d{0,2})$/.test(bits) && Number(bits) <= (version === 4 ? 32 : 128));
}

/** Whether a host, as a URL names it, is this machine. */
export const isLoopback = (host: string): boolean => /^(([^.]+\.)*localhost|127\.\d+\.\d+\.\d+|\[::1\])$/i.test(host);

/** Whether an address is in any of the networks. */
export function matchNetworks(networks: readonly string[]): (ip: string) => boolean {
  const list = new BlockList();
  for (const entry of networks) {
    const [ip, bits] = entry.split('/') as [string, string?];
    const family = familyOf(ip);
    list.addSubnet(ip, bits === undefined ? (family === 'ipv4' ? 32 : 128) : Number(bits), family);
  }
  return (given) => {
    const ip = plainIp(given);
    return isIP(ip) !== 0 && list.check(ip, familyOf(ip));
  };
}

// Public block explorers. Florin links to them and never sends them requests.

/** Null for private chains, and for IDs in an unexpected form. */
export function explorerUrl(coin: Coin, network: Network, txid: string | null): string | null {
  const site = chainOf(coin).explorer[network];
  return site && txid && /^(0x)?[0-9a-f]{64}$/i.test(txid) ? site + txid : null;
}
