/** The round of AES (FIPS 197) on little-endian words, as the hash functions use it. */

const double = (x: number): number => ((x << 1) ^ (x & 0x80 ? 0x11b : 0)) & 0xff;

/** The substitution box of AES: the inverse in the field, then an affine map. */
export const S_BOX: Uint8Array = (() => {
  const box = new Uint8Array(256);
  // p runs through all powers of 3 and q through their inverses.
  let p = 1;
  let q = 1;
  do {
    p ^= double(p);
    q ^= q << 1;
    q ^= q << 2;
    q ^= q << 4;
    q &= 0xff;
    if (q & 0x80) q ^= 0x09;
    box[p] = (q ^ ((q << 1) | (q >> 7)) ^ ((q << 2) | (q >> 6)) ^ ((q << 3) | (q >> 5)) ^ ((q << 4) | (q >> 4)) ^ 0x63) & 0xff;
  } while (p !== 1);
  box[0] = 0x63;
  return box;
})();

/** The product with a constant in the field of AES. */
export const multiply = (x: number, by: number): number => {
  let product = 0;
  for (let factor = by, power = x; factor > 0; factor >>= 1, power = double(power)) if (factor & 1) product ^= power;
  return product;
};

const rotate = (word: number, n: number): number => (word << n) | (word >>> (32 - n));
/** Substitution and column mix of one byte, for each of the four rows. */
const T0 = Int32Array.from(S_BOX, (s) => multiply(s, 2) | (s << 8) | (s << 16) | (multiply(s, 3) << 24));
const T1 = T0.map((word) => rotate(word, 8));
const T2 = T0.map((word) => rotate(word, 16));
const T3 = T0.map((word) => rotate(word, 24));

/** One round in place on the four words at `at`, without a key. */
export function aesRound(x: Int32Array, at: number): void {
  const x0 = x[at]!;
  const x1 = x[at + 1]!;
  const x2 = x[at + 2]!;
  const x3 = x[at + 3]!;
  x[at] = T0[x0 & 0xff]! ^ T1[(x1 >>> 8) & 0xff]! ^ T2[(x2 >>> 16) & 0xff]! ^ T3[x3 >>> 24]!;
  x[at + 1] = T0[x1 & 0xff]! ^ T1[(x2 >>> 8) & 0xff]! ^ T2[(x3 >>> 16) & 0xff]! ^ T3[x0 >>> 24]!;
  x[at + 2] = T0[x2 & 0xff]! ^ T1[(x3 >>> 8) & 0xff]! ^ T2[(x0 >>> 16) & 0xff]! ^ T3[x1 >>> 24]!;
  x[at + 3] = T0[x3 & 0xff]! ^ T1[(x0 >>> 8) & 0xff]! ^ T2[(x1 >>> 16) & 0xff]! ^ T3[x2 >>> 24]!;
}
