/** Identifiers: a prefix and 24 base62 characters (about 143 bits). Randomness is passed in, so the core stays pure. */
import { createCipheriv, createDecipheriv, createHmac, hash, type KeyObject, timingSafeEqual } from 'node:crypto';

const ALPHABET = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz';
type IdPrefix =
  | 'pay'
  | 'we'
  | 'mer'
  | 'key'
  | 'del'
  | 'rec'
  | 'req'
  | 'wal'
  | 'usr'
  | 'acc'
  | 'lnk'
  | 'inv'
  | 'dev'
  | 'shp'
  | 'ref'
  | 'po'
  | 'bat'
  | 'swp'
  | 'ln';

/** Base62 text of `length` characters from random bytes, by rejection sampling (no modulo bias). `random(n)` yields n fresh bytes, or such as latin1 text. */
export function base62(length: number, random: (bytes: number) => Uint8Array | string): string {
  let text = '';
  while (text.length < length) {
    const bytes = random((length - text.length) * 2);
    for (let i = 0; i < bytes.length && text.length < length; i++) {
      const byte = typeof bytes === 'string' ? bytes.charCodeAt(i) : bytes[i]!;
      if (byte < 248) text += ALPHABET[byte % 62];
    }
  }
  return text;
}

/** A fresh random id such as `pay_…`. */
export const newId = (prefix: IdPrefix, random: (bytes: number) => Uint8Array): string => `${prefix}_${base62(24, random)}`;

/** An id that follows from its parts, which are joined unambiguously, and from the key of the install. */
export function derivedId(prefix: 'evt' | 'cus', installKey: KeyObject, parts: readonly string[]): string {
  const text = JSON.stringify(parts);
  let block = 0;
  // One id in a million needs another block of bytes. As text, because an extra buffer costs more than the hash.
  const bytes = () =>
    createHmac('sha256', installKey)
      .update(block++ === 0 ? text : `${block} ${text}`)
      .digest('binary');
  return `${prefix}_${base62(24, bytes)}`;
}

/**
 * The id of an event, derived from what happened: a transition replayed after a restore keeps its id,
 * a different one never takes it.
 */
export const eventId = (installKey: KeyObject, parts: readonly string[]): string => derivedId('evt', installKey, parts);

/** 128 bits under the install's key: hides how many rows there are and which one comes next. */
const blockKey = (installKey: KeyObject) => createHmac('sha256', installKey).update('numbers as ids').digest().subarray(0, 16);

/** The public id of a row with an internal number. */
export function idOfNumber(prefix: IdPrefix, installKey: KeyObject, number: bigint): string {
  const block = Buffer.alloc(16);
  block.writeBigUInt64BE(number, 8);
  const cipher = createCipheriv('aes-128-ecb', blockKey(installKey), null).setAutoPadding(false);
  let value = BigInt(`0x${cipher.update(block).toString('hex')}`);
  let text = '';
  for (let i = 0; i < 24; i++) {
    text = ALPHABET[Number(value % 62n)] + text;
    value /= 62n;
  }
  return `${prefix}_${text}`;
}

/** The number behind a public id; null when `idOfNumber` did not create it with this prefix and key. */
export function numberOfId(prefix: IdPrefix, installKey: KeyObject, id: string): bigint | null {
  const text = id.slice(prefix.length + 1);
  if (!id.startsWith(`${prefix}_`) || !/^[0-9A-Za-z]{24}$/.test(text)) return null;
  let value = 0n;
  for (const char of text) value = value * 62n + BigInt(ALPHABET.indexOf(char));
  if (value >> 128n !== 0n) return null;
  const decipher = createDecipheriv('aes-128-ecb', blockKey(installKey), null).setAutoPadding(false);
  const block = decipher.update(Buffer.from(value.toString(16).padStart(32, '0'), 'hex'));
  return block.readBigUInt64BE(0) === 0n ? block.readBigUInt64BE(8) : null;
}

export const ID_PATTERN = /^[a-z]{2,3}_[0-9A-Za-z]{24}$/;

/** Compares digests, so that the time does not tell how much of a secret was right. */
export const isSameSecret = (given: string, secret: string): boolean =>
  timingSafeEqual(hash('sha256', given, 'buffer'), hash('sha256', secret, 'buffer'));
