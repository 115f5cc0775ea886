/** Invoices that a stranger signs: those of a node with other contents. */
import { secp256k1 } from '@noble/curves/secp256k1.js';
import { sha256 } from '@noble/hashes/sha2.js';
import { bech32 } from '@scure/base';

/** Types of fields (BOLT 11). */
export const FIELD = { features: 5, description: 13, secret: 16, payee: 19, descriptionHash: 23 } as const;
const KEY = new Uint8Array(32).fill(9);
/** How many words are the time, and how many the signature. */
const [TIME, SIGNATURE] = [7, 104];

const fieldOf = (type: number, bytes: Uint8Array): number[] => {
  const words = [...bech32.toWords(bytes)];
  return [type, words.length >> 5, words.length & 31, ...words];
};
/** Whole bytes, with zeros for the rest: this is what is signed. */
function packed(words: readonly number[]): Uint8Array {
  const bits = words.map((word) => word.toString(2).padStart(5, '0')).join('');
  const whole = bits.padEnd(Math.ceil(bits.length / 8) * 8, '0');
  return Uint8Array.from(whole.match(/.{8}/g) ?? [], (byte) => Number.parseInt(byte, 2));
}

/**
 * The invoice with its time moved, without the fields of some types, with others, and signed by a key of its own. `isHigh`: names that key,
 * with a signature in its other form.
 */
export function forgeInvoice(
  text: string,
  {
    later = 0,
    without = [],
    put = [],
    isHigh = false,
  }: { later?: number; without?: number[]; put?: [number, Uint8Array][]; isHigh?: boolean },
): string {
  const { prefix, words } = bech32.decode(text as `${string}1${string}`, false);
  const time = words.slice(0, TIME).reduce((sum, word) => sum * 32 + word, 0) + later;
  const dropped = new Set([...without, FIELD.payee, ...put.map(([type]) => type)]);
  const fields: number[] = [];
  for (let at = TIME; at < words.length - SIGNATURE; ) {
    const end = at + 3 + words[at + 1]! * 32 + words[at + 2]!;
    if (!dropped.has(words[at]!)) fields.push(...words.slice(at, end));
    at = end;
  }
  const named: [number, Uint8Array][] = isHigh ? [[FIELD.payee, secp256k1.getPublicKey(KEY)]] : [];
  for (const [type, bytes] of [...put, ...named]) fields.push(...fieldOf(type, bytes));
  const data = [...Array.from({ length: TIME }, (_, n) => Math.floor(time / 32 ** (TIME - 1 - n)) % 32), ...fields];
  const hash = sha256(Buffer.concat([Buffer.from(prefix), packed(data)]));
  const signed = secp256k1.sign(hash, KEY, { prehash: false, format: 'recovered' });
  // The recovery bit comes first here, and last in an invoice.
  let [recovery, s] = [signed[0]!, BigInt(`0x${Buffer.from(signed.subarray(33)).toString('hex')}`)];
  if (isHigh) [recovery, s] = [recovery ^ 1, secp256k1.Point.Fn.ORDER - s];
  const tail = Buffer.concat([signed.subarray(1, 33), Buffer.from(s.toString(16).padStart(64, '0'), 'hex'), Buffer.from([recovery])]);
  return bech32.encode(prefix, [...data, ...bech32.toWords(tail)], false);
}
