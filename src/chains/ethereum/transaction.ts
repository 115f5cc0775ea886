/** Transactions of Ethereum-like chains with a base fee (EIP-1559): their bytes, what is signed, and who signed it. */
import { secp256k1 } from '@noble/curves/secp256k1.js';
import { keccak_256 } from '@noble/hashes/sha3.js';
import { bytesToHex, concatBytes, hexToBytes } from '@noble/hashes/utils.js';
import { accountOf } from './address.ts';
import { decodeRlp, encodeRlp, type Rlp } from './rlp.ts';

/** Addresses and data in hex without 0x. `max` and `tip` in wei per gas. */
export type Transaction = {
  chainId: number;
  nonce: number;
  tip: bigint;
  max: bigint;
  gas: bigint;
  to: string;
  units: bigint;
  data: string;
};
/** `parity` tells which of two points r stands for. */
export type Signature = { r: bigint; s: bigint; parity: 0 | 1 };

const TYPE = Uint8Array.of(2);
/** A whole number in the fewest bytes; zero has none. */
const numberBytes = (value: bigint): Uint8Array => {
  if (value === 0n) return new Uint8Array();
  const hex = value.toString(16);
  return hexToBytes(hex.length % 2 === 0 ? hex : `0${hex}`);
};
const fieldsOf = ({ chainId, nonce, tip, max, gas, to, units, data }: Transaction): Rlp[] => [
  ...[BigInt(chainId), BigInt(nonce), tip, max, gas].map(numberBytes),
  hexToBytes(to),
  numberBytes(units),
  hexToBytes(data),
  // No access list (EIP-2930).
  [],
];

export const unsignedBytes = (tx: Transaction): Uint8Array => concatBytes(TYPE, encodeRlp(fieldsOf(tx)));
export const signingHash = (tx: Transaction): Uint8Array => keccak_256(unsignedBytes(tx));
export const signedBytes = (tx: Transaction, { r, s, parity }: Signature): Uint8Array =>
  concatBytes(TYPE, encodeRlp([...fieldsOf(tx), ...[BigInt(parity), r, s].map(numberBytes)]));
/** The ID of a signed transaction. */
export const transactionId = (raw: Uint8Array): string => `0x${bytesToHex(keccak_256(raw))}`;

/** The value, the data and the signature of a signed transaction; null when the bytes are not one. */
export function readSignedTransaction(raw: Uint8Array): { units: bigint; data: Uint8Array; signature: Signature } | null {
  if (raw[0] !== TYPE[0]) return null;
  try {
    const fields = decodeRlp(raw.subarray(1));
    if (fields instanceof Uint8Array || fields.length !== 12) return null;
    const [units, data, parity, r, s] = [6, 7, 9, 10, 11].map((i) => fields[i]);
    if (
      !(
        units instanceof Uint8Array &&
        data instanceof Uint8Array &&
        parity instanceof Uint8Array &&
        r instanceof Uint8Array &&
        s instanceof Uint8Array
      )
    )
      return null;
    if (parity.length > 1 || (parity.length === 1 && parity[0] !== 1) || r.length > 32 || s.length > 32) return null;
    const number = (bytes: Uint8Array) => BigInt(`0x0${bytesToHex(bytes)}`);
    return { units: number(units), data, signature: { r: number(r), s: number(s), parity: parity.length === 1 ? 1 : 0 } };
  } catch {
    // Whatever is wrong with the bytes, they are not a transaction.
    return null;
  }
}

/** Signs a hash. Deterministic (RFC 6979), with the lower of two values of s. */
export function signHash(hash: Uint8Array, privateKey: Uint8Array): Signature {
  const bytes = secp256k1.sign(hash, privateKey, { prehash: false, format: 'recovered' });
  const { r, s, recovery } = secp256k1.Signature.fromBytes(bytes, 'recovered');
  return { r, s, parity: recovery === 1 ? 1 : 0 };
}

/** The account that signed a hash, as 40 hex digits; null when the signature is not valid or not in the form that chains accept. */
export function signerOf(hash: Uint8Array, { r, s, parity }: Signature): string | null {
  try {
    const signature = new secp256k1.Signature(r, s, parity);
    if (signature.hasHighS()) return null;
    return accountOf(signature.recoverPublicKey(hash).toBytes(true));
  } catch {
    // Values out of range, or no such point.
    return null;
  }
}
