/**
 * Reads a BOLT 11 invoice and checks its signature. Everything that Florin believes about an invoice comes from here: the amount, when it
 * ends, who is paid, and the payment hash that the preimage must have.
 */
import { secp256k1 } from '@noble/curves/secp256k1.js';
import { sha256 } from '@noble/hashes/sha2.js';
import { bytesToHex, concatBytes, hexToBytes, utf8ToBytes } from '@noble/hashes/utils.js';
import { bech32 } from '@scure/base';
import type { Network } from './coin.ts';

/** `msat`: null when the payer may choose the amount. `payee`: the compressed key of the node that is paid. */
export type Invoice = {
  network: Network | 'signet';
  msat: bigint | null;
  createdAt: Date;
  expiresAt: Date;
  paymentHash: string;
  payee: string;
  description: string | null;
  descriptionHash: string | null;
};

/** What is not a valid invoice, and why. */
export class InvoiceError extends Error {}

/** As much as the largest QR code holds. */
const MOST_CHARACTERS = 7_089;
/** The longest that an invoice may be valid. */
const MOST_SECONDS = 31_536_000;
const DEFAULT_SECONDS = 3_600;
/** Words of the signature: 64 bytes and the recovery flag. */
const SIGNATURE_WORDS = 104;
const TIMESTAMP_WORDS = 7;
/** BOLT 11: `tb` is testnet, `tbs` is signet. */
const PREFIXES = { bcrt: 'regtest', tbs: 'signet', bc: 'mainnet', tb: 'testnet' } as const;
const MSAT_OF_BTC = 100_000_000_000n;
/** BOLT 11: what a letter divides a bitcoin by. */
const DIVISORS: Readonly<Record<string, bigint>> = { m: 1_000n, u: 1_000_000n, n: 1_000_000_000n, p: 1_000_000_000_000n };
/** BOLT 9, context 9: the features that an invoice may require. */
const KNOWN_FEATURES = new Set([8, 14, 16, 24, 36, 48]);
/** The fields that are read, by type, and how many words those of a fixed length have. A field of another length is skipped. */
const FIELDS: Readonly<Record<number, { name: string; words?: number }>> = {
  1: { name: 'hash', words: 52 },
  5: { name: 'features' },
  6: { name: 'expiry' },
  13: { name: 'description' },
  16: { name: 'secret', words: 52 },
  19: { name: 'payee', words: 53 },
  23: { name: 'descriptionHash', words: 52 },
  24: { name: 'cltv' },
};

const bad = (reason: string): never => {
  throw new InvoiceError(reason);
};

/** Errors: InvoiceError. */
export function decodeInvoice(text: string): Invoice {
  if (text.length > MOST_CHARACTERS) bad(`it has more than ${MOST_CHARACTERS} characters`);
  const { prefix, words } = readBech32(text);
  const { network, msat } = readPrefix(prefix);
  if (words.length < TIMESTAMP_WORDS + SIGNATURE_WORDS) bad('it is too short');
  const signed = words.slice(0, -SIGNATURE_WORDS);
  const fields = readFields(signed.slice(TIMESTAMP_WORDS));
  const hash = sha256(concatBytes(utf8ToBytes(prefix), packed(signed)));
  const payee = checkSignature(hash, bytesOf(words.slice(-SIGNATURE_WORDS)), fields.get('payee'));
  const seconds = fields.has('expiry') ? number(fields.get('expiry')!, 'the expiry') : DEFAULT_SECONDS;
  if (seconds > MOST_SECONDS) bad('it is valid for more than a year');
  if (fields.has('cltv')) number(fields.get('cltv')!, 'the final expiry');
  checkFeatures(fields.get('features') ?? []);
  if (!fields.has('secret')) bad('it has no payment secret');
  if (fields.has('description') === fields.has('descriptionHash')) bad('it needs a description or the hash of one');
  const createdMs = Number(wholeOf(words.slice(0, TIMESTAMP_WORDS))) * 1000;
  return {
    network,
    msat,
    createdAt: new Date(createdMs),
    expiresAt: new Date(createdMs + seconds * 1000),
    paymentHash: bytesToHex(bytesOf(fields.get('hash') ?? bad('it has no payment hash'))),
    payee,
    description: fields.has('description') ? textOf(bytesOf(fields.get('description')!)) : null,
    descriptionHash: fields.has('descriptionHash') ? bytesToHex(bytesOf(fields.get('descriptionHash')!)) : null,
  };
}

/** The payment hash that a preimage proves, both in lower-case hex; null: it is not 32 bytes in that form (BOLT 11). */
export const paymentHashOf = (preimage: string): string | null =>
  /^[0-9a-f]{64}$/.test(preimage) ? bytesToHex(sha256(hexToBytes(preimage))) : null;

/** BIP-173 without its limit of 90 characters. */
function readBech32(text: string): { prefix: string; words: readonly number[] } {
  try {
    return bech32.decode(text as `${string}1${string}`, false);
  } catch (cause) {
    throw new InvoiceError('its form or its checksum is wrong', { cause });
  }
}

function readPrefix(prefix: string): Pick<Invoice, 'network' | 'msat'> {
  const [, chain, digits, unit] =
    /^ln(bcrt|tbs|bc|tb)(?:([1-9]\d{0,17})([munp]?))?$/.exec(prefix) ?? bad('it is not an invoice of Bitcoin');
  const network = PREFIXES[chain as keyof typeof PREFIXES];
  if (digits === undefined) return { network, msat: null };
  const [msat, divisor] = [BigInt(digits) * MSAT_OF_BTC, DIVISORS[unit || ''] ?? 1n];
  if (msat % divisor !== 0n) bad('its amount has a part of a millisatoshi');
  return { network, msat: msat / divisor };
}

/** The first field of each type. Unknown types are skipped, as BOLT 11 says. */
function readFields(words: readonly number[]): Map<string, readonly number[]> {
  const fields = new Map<string, readonly number[]>();
  for (let at = 0; at < words.length; ) {
    const [type, high, low] = words.slice(at, at + 3);
    const end = at + 3 + (high ?? 0) * 32 + (low ?? 0);
    if (low === undefined || end > words.length) bad('a field is longer than the invoice');
    const known = FIELDS[type!];
    if (known && (known.words ?? end - at - 3) === end - at - 3 && !fields.has(known.name))
      fields.set(known.name, words.slice(at + 3, end));
    at = end;
  }
  return fields;
}

/** Returns the key of the payee: the one that is named, or else the one that signed. */
function checkSignature(hash: Uint8Array, signature: Uint8Array, named: readonly number[] | undefined): string {
  const compact = signature.subarray(0, 64);
  try {
    if (named) {
      const key = bytesOf(named);
      if (secp256k1.verify(compact, hash, key, { prehash: false, lowS: true })) return bytesToHex(key);
    } else {
      const full = secp256k1.Signature.fromBytes(compact, 'compact').addRecoveryBit(signature[64]!);
      return full.recoverPublicKey(hash).toHex(true);
    }
  } catch (cause) {
    throw new InvoiceError('its signature is wrong', { cause });
  }
  return bad('its signature is wrong');
}

/** A feature with an even number must be understood. */
function checkFeatures(words: readonly number[]): void {
  if (words[0] === 0) bad('its features begin with zeros');
  for (const [index, word] of words.entries())
    for (let bit = 0; bit < 5; bit++) {
      const feature = (words.length - 1 - index) * 5 + bit;
      if (word & (1 << bit) && feature % 2 === 0 && !KNOWN_FEATURES.has(feature)) bad(`it requires the unknown feature ${feature}`);
    }
}

const wholeOf = (words: readonly number[]): bigint => words.reduce((sum, word) => sum * 32n + BigInt(word), 0n);

function number(words: readonly number[], what: string): number {
  if (words[0] === 0) bad(`${what} begins with zeros`);
  if (words.length > 7) bad(`${what} is too large`);
  return Number(wholeOf(words));
}

/** The bytes of words, with zeros for the rest of the last one: this is what is signed. */
function packed(words: readonly number[]): Uint8Array {
  const bytes = new Uint8Array(Math.ceil((words.length * 5) / 8));
  for (const [index, word] of words.entries())
    for (let bit = 0; bit < 5; bit++) {
      const place = index * 5 + bit;
      if (word & (16 >> bit)) bytes[place >> 3]! |= 128 >> (place & 7);
    }
  return bytes;
}

/** The whole bytes of words, without the rest. */
const bytesOf = (words: readonly number[]): Uint8Array => packed(words).slice(0, Math.floor((words.length * 5) / 8));

function textOf(bytes: Uint8Array): string {
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes);
  } catch (cause) {
    throw new InvoiceError('its description is not UTF-8', { cause });
  }
}
