/**
 * SHA-256 twice (FIPS 180-4), for the many short hashes of a block: calling the platform's costs more than such a hash itself, and
 * a block of 4,000 transactions needs 16,000 of them. The long ones are the platform's.
 */
import { hash } from 'node:crypto';

/** From this length on the platform's code is faster than the call to it is slow. */
const LONG = 1_024;

/** Square and cube roots of the first primes, as the standard defines its constants. */
const primes = Array.from({ length: 310 }, (_, i) => i + 2).filter((n) => ![2, 3, 5, 7, 11, 13, 17].some((d) => d < n && n % d === 0));
const fraction = (root: number): number => ((root - Math.floor(root)) * 2 ** 32) | 0;
const K = Int32Array.from(primes.slice(0, 64), (prime) => fraction(Math.cbrt(prime)));
const START = Int32Array.from(primes.slice(0, 8), (prime) => fraction(Math.sqrt(prime)));

const words = new Int32Array(64);
const state = new Int32Array(8);

/** Takes the 64 bytes in the first 16 `words` into `state`. */
function compress(): void {
  for (let i = 16; i < 64; i++) {
    const x = words[i - 15]!;
    const y = words[i - 2]!;
    const s0 = ((x >>> 7) | (x << 25)) ^ ((x >>> 18) | (x << 14)) ^ (x >>> 3);
    const s1 = ((y >>> 17) | (y << 15)) ^ ((y >>> 19) | (y << 13)) ^ (y >>> 10);
    words[i] = (words[i - 16]! + words[i - 7]! + s0 + s1) | 0;
  }
  let a = state[0]!;
  let b = state[1]!;
  let c = state[2]!;
  let d = state[3]!;
  let e = state[4]!;
  let f = state[5]!;
  let g = state[6]!;
  let h = state[7]!;
  for (let i = 0; i < 64; i++) {
    const s1 = ((e >>> 6) | (e << 26)) ^ ((e >>> 11) | (e << 21)) ^ ((e >>> 25) | (e << 7));
    const t1 = (h + s1 + (g ^ (e & (f ^ g))) + K[i]! + words[i]!) | 0;
    const s0 = ((a >>> 2) | (a << 30)) ^ ((a >>> 13) | (a << 19)) ^ ((a >>> 22) | (a << 10));
    const t2 = (s0 + ((a & b) ^ (c & (a ^ b)))) | 0;
    h = g;
    g = f;
    f = e;
    e = (d + t1) | 0;
    d = c;
    c = b;
    b = a;
    a = (t1 + t2) | 0;
  }
  state[0] = state[0]! + a;
  state[1] = state[1]! + b;
  state[2] = state[2]! + c;
  state[3] = state[3]! + d;
  state[4] = state[4]! + e;
  state[5] = state[5]! + f;
  state[6] = state[6]! + g;
  state[7] = state[7]! + h;
}

/** Writes the hash of `bytes` from `from` up to `to` into `out` at `at`; `out` may be what was hashed. */
export function sha256dInto(bytes: Uint8Array, from: number, to: number, out: Uint8Array, at: number): void {
  if (to - from >= LONG) {
    out.set(hash('sha256', hash('sha256', bytes.subarray(from, to), 'buffer'), 'buffer'), at);
    return;
  }
  state.set(START);
  let next = from;
  for (; next + 64 <= to; next += 64) {
    for (let i = 0, p = next; i < 16; i++, p += 4)
      words[i] = (bytes[p]! << 24) | (bytes[p + 1]! << 16) | (bytes[p + 2]! << 8) | bytes[p + 3]!;
    compress();
  }
  words.fill(0, 0, 16);
  const rest = to - next;
  for (let i = 0; i < rest; i++) words[i >> 2]! |= bytes[next + i]! << (24 - 8 * (i & 3));
  words[rest >> 2]! |= 0x80 << (24 - 8 * (rest & 3));
  if (rest >= 56) {
    compress();
    words.fill(0, 0, 16);
  }
  words[15] = (to - from) * 8;
  compress();
  words.set(state);
  words.fill(0, 8, 16);
  words[8] = 0x80 << 24;
  words[15] = 256;
  state.set(START);
  compress();
  for (let i = 0; i < 8; i++) {
    const word = state[i]!;
    out[at + 4 * i] = word >>> 24;
    out[at + 4 * i + 1] = word >>> 16;
    out[at + 4 * i + 2] = word >>> 8;
    out[at + 4 * i + 3] = word;
  }
}
