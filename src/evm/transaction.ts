/** Transactions of Ethereum-like chains with a base fee (EIP-1559): their bytes, what is signed, and who signed it. */
import { secp256k1 } from '@noble/curves/secp256k1.js';
import { keccak_256 } from '@noble/hashes/sha3.js';
import { bytesToHex, concatBytes, hexToBytes, utf8ToBytes } from '@noble/hashes/utils.js';
import { accountOf, isAddress } from '#addresses';
import { chainOf } from '#core/coin';
import { invariant } from '#core/invariant';
import type { AccountRequest, Authorization, BatchRequest, SigningFile } from '#core/signing-file';
import { decodeRlp, encodeRlp, type Rlp } from './rlp.ts';

/** Addresses and data in hex without 0x. `max` and `tip` in wei per gas. */
type Transaction = {
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

// Calls of token contracts: transfers, transfers with authorization (EIP-3009), and many of them at once through Multicall3.

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

type AuthorizedTransfer = { from: string; to: string; units: bigint; validBefore: number; nonce: string };
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

// The transaction that each request of a signing file asks for. The signer signs it, and the service compares what comes back with it.

type In = Pick<SigningFile, 'chainId' | 'gasPrice'>;
/** The 40 hex digits of an address. Anything else throws, so that no other account is ever paid. */
function bare(address: string): string {
  invariant(isAddress(address), 'an account is 0x and 40 hex digits');
  return address.slice(2).toLowerCase();
}

export const domainOf = ({ domain, contract }: BatchRequest, { chainId }: In): TokenDomain => ({ ...domain, chainId: chainId!, contract });
export const transfersOf = ({ authorizations, validBefore }: BatchRequest): AuthorizedTransfer[] =>
  authorizations.map(({ from, nonce, line }) => ({ from, to: line.to, units: line.units, validBefore, nonce }));

/**
 * A payout is paid as a whole: if it fails, so does the transaction. What is gathered for it may be on the address that pays already, because
 * anybody can send an authorization that was published.
 */
const mayFailAlone = ({ line }: Authorization): boolean => line.purpose !== 'payout';

/** `signatures`: of the authorizations of a batch, in order. `mayFail`: others for an estimate, which shows failures. */
export function transactionOf(
  request: AccountRequest,
  { chainId, gasPrice }: In,
  {
    signatures = [],
    mayFail = mayFailAlone,
  }: { signatures?: readonly Signature[]; mayFail?: (authorization: Authorization) => boolean } = {},
): Transaction {
  const { nonce, gas } = request;
  const common = { chainId: chainId!, nonce, gas, tip: gasPrice!.tip, max: gasPrice!.max };
  switch (request.kind) {
    case 'native':
      return { ...common, to: bare(request.line.to), units: request.line.units, data: '' };
    case 'fund':
      return { ...common, to: bare(request.to), units: request.units, data: '' };
    case 'token':
      return { ...common, to: bare(request.contract), units: 0n, data: transferData(request.line.to, request.line.units) };
    case 'batch': {
      const calls = transfersOf(request).map((transfer, i) => {
        return { data: authorizedData(transfer, signatures[i]!), mayFail: mayFail(request.authorizations[i]!) };
      });
      return { ...common, to: bare(MULTICALL3), units: 0n, data: aggregateData(request.contract, calls) };
    }
  }
}

/** The highest fee that a request can cost. */
export const feeOf = ({ gas }: AccountRequest, { gasPrice }: In): bigint => gas * gasPrice!.max;

/** The most gas of one transfer, and the highest price of gas, in wei. */
const MOST_GAS = 300_000n;
const MOST_PRICE = 5_000_000_000_000n;
/** Arbitrum takes what posting on Ethereum costs from the gas of a transaction, at a price that is as much lower. */
const POSTED = 40n;
/** The limits of a signing file: the signer refuses more. */
export const gasLimits = ({ coin }: Pick<SigningFile, 'coin'>): { gas: bigint; price: bigint } =>
  chainOf(coin).dataFee === 'node_interface'
    ? { gas: MOST_GAS * POSTED, price: MOST_PRICE / POSTED }
    : { gas: MOST_GAS, price: MOST_PRICE };

/** The most that publishing one transfer on Ethereum is taken to cost, in wei. */
const MOST_PUBLISHING = 2_000_000_000_000_000n;
/** What the gas address pays an address at most: its highest fee, and where publishing on Ethereum is charged besides, also that. */
export const mostFunded = (paid: AccountRequest, file: Pick<SigningFile, 'coin' | 'chainId' | 'gasPrice'>): bigint =>
  feeOf(paid, file) + (chainOf(file.coin).dataFee === 'gas_price_oracle' ? MOST_PUBLISHING : 0n);
