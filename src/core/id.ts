/** Identifiers: a prefix and 24 base62 characters (about 143 bits). Randomness is handed in, so that the core stays pure. */
import { createHmac, type KeyObject } from 'node:crypto';

const ALPHABET = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz';
export type IdPrefix = 'pay' | 'we' | 'mer' | 'key' | 'del' | 'req' | 'wal';

/** Base62 text of `length` characters from random bytes, by rejection sampling (no modulo bias). `random(n)` yields n fresh bytes. */
export function base62(length: number, random: (bytes: number) => Uint8Array): string {
  let text = '';
  while (text.length < length) {
    for (const byte of random((length - text.length) * 2)) {
      if (byte < 248 && text.length < length) text += ALPHABET[byte % 62];
    }
  }
  return text;
}

/** A fresh random id such as `pay_…`. */
export const newId = (prefix: IdPrefix, random: (bytes: number) => Uint8Array): string => `${prefix}_${base62(24, random)}`;

/**
 * The id of an event, derived from what happened: a transition replayed after a restore keeps its id,
 * a different one never takes it. `parts` are joined unambiguously.
 */
export function eventId(installKey: KeyObject, parts: readonly string[]): string {
  let value = BigInt(`0x${createHmac('sha256', installKey).update(JSON.stringify(parts)).digest('hex')}`);
  let text = '';
  for (let i = 0; i < 24; i++) {
    text += ALPHABET[Number(value % 62n)];
    value /= 62n;
  }
  return `evt_${text}`;
}

export const ID_PATTERN = /^[a-z]{2,3}_[0-9A-Za-z]{24}$/;
