/** Addresses of Ethereum-like chains: the last 20 bytes of the hash of a public key, with the checksum of EIP-55. */
import { secp256k1 } from '@noble/curves/secp256k1.js';
import { keccak_256 } from '@noble/hashes/sha3.js';
import { bytesToHex, utf8ToBytes } from '@noble/hashes/utils.js';

/** The account of a compressed public key, as 40 hex digits. */
export const accountOf = (publicKey: Uint8Array): string =>
  bytesToHex(keccak_256(secp256k1.Point.fromBytes(publicKey).toBytes(false).slice(1)).slice(-20));

/** EIP-55 mixed-case checksum over 40 hex digits. */
export function checksumAddress(hex: string): string {
  const lower = hex.toLowerCase();
  const digest = bytesToHex(keccak_256(utf8ToBytes(lower)));
  return `0x${[...lower].map((char, i) => (Number.parseInt(digest[i]!, 16) >= 8 ? char.toUpperCase() : char)).join('')}`;
}

/** Whether a text has the form of an address. Its checksum may still be wrong. */
export const isAddress = (text: string): boolean => /^0x[0-9a-fA-F]{40}$/.test(text);

/** Whether the checksum holds, or there is none: all letters are upper or all are lower case. */
export function hasValidChecksum(address: string): boolean {
  const hex = address.slice(2);
  return hex === hex.toLowerCase() || hex === hex.toUpperCase() || checksumAddress(hex) === address;
}

/** The payment URI of ERC-681 with plain wei, without exponent. */
export const ethereumUri = ({ address, units, chainId }: { address: string; units: bigint; chainId: number }): string =>
  `ethereum:${address}@${chainId}?value=${units}`;
/** ERC-681 for a token: the contract is called, which then pays the address. */
export const tokenUri = ({
  contract,
  address,
  units,
  chainId,
}: {
  contract: string;
  address: string;
  units: bigint;
  chainId: number;
}): string => `ethereum:${contract}@${chainId}/transfer?address=${address}&uint256=${units}`;

/** The call of ERC-20 `transfer(address,uint256)`: nothing is approved, and nothing else can be moved. */
export const transferCall = ({ address, units }: { address: string; units: bigint }): string =>
  `0xa9059cbb${address.slice(2).toLowerCase().padStart(64, '0')}${units.toString(16).padStart(64, '0')}`;
