/** Addresses and networks such as 192.0.2.0/24, and what is within them. */
import { BlockList, isIP } from 'node:net';

/** Of IPv4 written as IPv6 the address that it means. */
export const plainIp = (ip: string): string => ip.replace(/^::ffff:(?=\d+\.)/i, '');
const familyOf = (ip: string): 'ipv4' | 'ipv6' => (isIP(ip) === 6 ? 'ipv6' : 'ipv4');

/** An address, or a network with the bits that count. */
export function isNetwork(text: string): boolean {
  const [ip, bits, ...more] = text.split('/');
  const version = isIP(ip!);
  if (version === 0 || ip!.includes('%') || more.length > 0) return false;
  return bits === undefined || (/^(0|[1-9]\d{0,2})$/.test(bits) && Number(bits) <= (version === 4 ? 32 : 128));
}

/** Whether an address is within any of them. */
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
