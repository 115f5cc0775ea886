/** What a pasted text or a file contains: an account key, a private key or seed phrase, or something else. */
import { looksPrivate } from './private-key.ts';

export type GivenKey = { kind: 'key'; text: string } | { kind: 'private' } | { kind: 'other'; why: string };

/** All strings in a JSON document, at any depth. */
const textsIn = (value: unknown): string[] =>
  typeof value === 'string' ? [value] : typeof value === 'object' && value !== null ? Object.values(value).flatMap(textsIn) : [];
const jsonIn = (text: string): unknown => {
  try {
    return /^\s*\{/.test(text) ? JSON.parse(text) : null;
  } catch {
    // Not JSON: treated as plain text.
    return null;
  }
};

/** Wallet files name transactions by 64 hex digits, which a private key alone could be too. */
const HASH = /^[0-9a-f]{64}$/i;
/** A text, a code or a wallet file, which the service reads, unless something in it can spend. */
export function readGiven(given: string): GivenKey {
  const text = given.trim();
  const inside = [...textsIn(jsonIn(text)).filter((one) => !HASH.test(one)), ...text.split('\n')];
  return [text, ...inside].some(looksPrivate) ? { kind: 'private' } : { kind: 'key', text };
}
