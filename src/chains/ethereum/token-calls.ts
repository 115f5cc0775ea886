/** Calls of token contracts: transfers, transfers with authorization (EIP-3009), and many of them at once through Multicall3. */
import { keccak_256 } from '@noble/hashes/sha3.js';
import { bytesToHex, concatBytes, hexToBytes, utf8ToBytes } from '@noble/hashes/utils.js';
import { invariant } from '../../core/invariant.ts';
import type { Signature } from './transaction.ts';

/** The same on every network that Florin knows. */
export const MULTICALL3 = '0xcA11bde05977b3631167028862bE2a173976CA11';

const textHash = (text: string): string => bytesToHex(keccak_256(utf8ToBytes(text)));
export const selector = (signature: string): string => textHash(signature).slice(0, 8);
/** 32 bytes of a call: a number, an address, or 32 bytes in hex. Any other value throws: nothing is cut off or filled up. */
export function word(value: bigint | string): string {
  if (typeof value === 'bigint') {
    invariant(value >= 0n && value < 1n << 256n, 'a number of a call has at most 256 bits');
    return value.toString(16).padStart(64, '0');
  }
  const hex = value.replace(/^0x/, '').toLowerCase();
  invariant(/^([0-9a-f]{40}|[0-9a-f]{64})$/.test(hex), 'a word of a call is an address or 32 bytes');
  return hex.padStart(64, '0');
}

const TRANSFER = selector('transfer(address,uint256)');
const AUTHORIZED = selector('transferWithAuthorization(address,address,uint256,uint256,uint256,bytes32,uint8,bytes32,bytes32)');
const AGGREGATE = selector('aggregate3((address,bool,bytes)[])');
/** Topic of the event that every transfer of a token emits. */
export const TRANSFER_TOPIC = `0x${textHash('Transfer(address,address,uint256)')}`;

export const transferData = (to: string, units: bigint): string => TRANSFER + word(to) + word(units);

export type AuthorizedTransfer = { from: string; to: string; units: bigint; validBefore: number; nonce: string };
export type TokenDomain = { name: string; version: string; chainId: number; contract: string };

const DOMAIN_TYPE = textHash('EIP712Domain(string name,string version,uint256 chainId,address verifyingContract)');
const AUTHORIZATION_TYPE = textHash(
  'TransferWithAuthorization(address from,address to,uint256 value,uint256 validAfter,uint256 validBefore,bytes32 nonce)',
);
export const domainSeparator = ({ name, version, chainId, contract }: TokenDomain): string =>
  bytesToHex(keccak_256(hexToBytes(DOMAIN_TYPE + textHash(name) + textHash(version) + word(BigInt(chainId)) + word(contract))));
const wordsOf = ({ from, to, units, validBefore, nonce }: AuthorizedTransfer): string =>
  word(from) + word(to) + word(units) + word(0n) + word(BigInt(validBefore)) + word(nonce);
/** What the holder signs (EIP-712). */
export const authorizationHash = (transfer: AuthorizedTransfer, domain: TokenDomain): Uint8Array =>
  keccak_256(
    concatBytes(
      Uint8Array.of(0x19, 1),
      hexToBytes(domainSeparator(domain)),
      keccak_256(hexToBytes(AUTHORIZATION_TYPE + wordsOf(transfer))),
    ),
  );

export const authorizedData = (transfer: AuthorizedTransfer, { r, s, parity }: Signature): string =>
  AUTHORIZED + wordsOf(transfer) + word(BigInt(27 + parity)) + word(r) + word(s);
const AUTHORIZED_BYTES = 4 + 9 * 32;

/** `mayFail`: whether its failure leaves the other calls as they are. Otherwise it undoes all of them. */
export type BatchCall = { data: string; mayFail: boolean };
/** Calls of one contract. */
export function aggregateData(contract: string, calls: readonly BatchCall[]): string {
  const parts = calls.map(({ data, mayFail }) => {
    const bytes = data.length / 2;
    return word(contract) + word(mayFail ? 1n : 0n) + word(96n) + word(BigInt(bytes)) + data.padEnd(Math.ceil(bytes / 32) * 64, '0');
  });
  let at = calls.length * 32;
  const offsets = parts.map((part) => {
    const offset = word(BigInt(at));
    at += part.length / 2;
    return offset;
  });
  return AGGREGATE + word(32n) + word(BigInt(calls.length)) + offsets.join('') + parts.join('');
}

/** The signatures in the data of so many authorized transfers; null when the data is too short. What surrounds them is not checked. */
export function signaturesIn(data: Uint8Array, count: number): Signature[] | null {
  const partBytes = 4 * 32 + Math.ceil(AUTHORIZED_BYTES / 32) * 32;
  const from = 4 + 2 * 32 + count * 32;
  if (data.length !== from + count * partBytes) return null;
  const number = (at: number) => BigInt(`0x${bytesToHex(data.subarray(at, at + 32))}`);
  const found: Signature[] = [];
  for (let i = 0; i < count; i++) {
    const at = from + i * partBytes + 4 * 32 + 4 + 6 * 32;
    const v = number(at);
    if (v !== 27n && v !== 28n) return null;
    found.push({ parity: v === 28n ? 1 : 0, r: number(at + 32), s: number(at + 64) });
  }
  return found;
}
