/** The round of AES (FIPS 197) on little-endian words, and the three hash functions of X11 that are made of it: ECHO, Grøstl and SHAvite-3. */

// SHAvite-3-512 of a message of 64 bytes.

const SHAVITE_ROUNDS = 14;
const START = Int32Array.from([
  0x72fccdd8, 0x79ca4727, 0x128a077b, 0x40d55aec, 0xd1901a06, 0x430ae307, 0xb29f5cd1, 0xdf07fbfc, 0x8e45d73d, 0x681ab538, 0xbde86578,
  0xdd577e47, 0xe275eade, 0x502d9fcd, 0xb9357178, 0x022a4b9a,
]);
/** The quarters of the state that each round of four reads and changes, twice. */
const STEPS = [
  [4, 0, 12, 8],
  [0, 12, 8, 4],
  [12, 8, 4, 0],
  [8, 4, 0, 12],
] as const;
/** The bits hashed so far, and where the four words of this count enter the round keys: at a word of a round, in some order, the last inverted. */
const COUNT = [512, 0, 0, 0] as const;
const COUNTED: Readonly<Record<number, { at: number; order: readonly [number, number, number, number] }>> = {
  1: { at: 0, order: [0, 1, 2, 3] },
  5: { at: 4, order: [3, 2, 1, 0] },
  9: { at: 28, order: [2, 3, 0, 1] },
  13: { at: 24, order: [1, 0, 3, 2] },
};

const keys = new Int32Array(32);
const chaining = new Int32Array(16);
const x = new Int32Array(4);

/** The round keys of an odd round: each quarter goes through AES, rotated, and is combined with the one before. */
function expandNonlinear(round: number): void {
  const counted = COUNTED[round];
  for (let at = 0; at < 32; at += 4) {
    x[0] = keys[at + 1]!;
    x[1] = keys[at + 2]!;
    x[2] = keys[at + 3]!;
    x[3] = keys[at]!;
    aesRound(x, 0);
    for (let i = 0; i < 4; i++) keys[at + i] = x[i]! ^ keys[(at + i + 28) % 32]!;
    if (counted?.at === at) for (let i = 0; i < 4; i++) keys[at + i]! ^= i === 3 ? ~COUNT[counted.order[i]!]! : COUNT[counted.order[i]!]!;
  }
}
const expandLinear = (): void => {
  for (let i = 0; i < 32; i++) keys[i]! ^= keys[(i + 25) % 32]!;
};

export function shavite512(message: Buffer): Buffer {
  // One block: the message, a one bit, its length in bits, and the length of the result.
  keys.fill(0);
  for (let i = 0; i < 16; i++) keys[i] = message.readInt32LE(4 * i);
  keys[16] = 0x80;
  keys[27] = 512 << 16;
  keys[31] = 512 << 16;
  chaining.set(START);
  for (let round = 0; round < SHAVITE_ROUNDS; round++) {
    if (round > 0) round % 2 === 1 ? expandNonlinear(round) : expandLinear();
    const step = STEPS[round % 4]!;
    for (let half = 0; half < 2; half++) {
      const from = step[2 * half]!;
      const to = step[2 * half + 1]!;
      x.set(chaining.subarray(from, from + 4));
      for (let key = 16 * half; key < 16 * half + 16; key += 4) {
        for (let i = 0; i < 4; i++) x[i]! ^= keys[key + i]!;
        aesRound(x, 0);
      }
      for (let i = 0; i < 4; i++) chaining[to + i]! ^= x[i]!;
    }
  }
  const out = Buffer.allocUnsafe(64);
  for (let i = 0; i < 16; i++) out.writeInt32LE(START[i]! ^ chaining[(i + 8) % 16]!, 4 * i);
  return out;
}

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
const multiply = (x: number, by: number): number => {
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
function aesRound(x: Int32Array, at: number): void {
  const x0 = x[at]!;
  const x1 = x[at + 1]!;
  const x2 = x[at + 2]!;
  const x3 = x[at + 3]!;
  x[at] = T0[x0 & 0xff]! ^ T1[(x1 >>> 8) & 0xff]! ^ T2[(x2 >>> 16) & 0xff]! ^ T3[x3 >>> 24]!;
  x[at + 1] = T0[x1 & 0xff]! ^ T1[(x2 >>> 8) & 0xff]! ^ T2[(x3 >>> 16) & 0xff]! ^ T3[x0 >>> 24]!;
  x[at + 2] = T0[x2 & 0xff]! ^ T1[(x3 >>> 8) & 0xff]! ^ T2[(x0 >>> 16) & 0xff]! ^ T3[x1 >>> 24]!;
  x[at + 3] = T0[x3 & 0xff]! ^ T1[(x0 >>> 8) & 0xff]! ^ T2[(x1 >>> 16) & 0xff]! ^ T3[x2 >>> 24]!;
}

// ECHO-512 of a message of 64 bytes.

const ROUNDS = 10;
/** 16 words of 128 bits. */
const w = new Int32Array(64);
const shifted = new Int32Array(64);

/** Doubles four bytes in the field of AES. */
const doubleBytes = (x: number): number => (((x & 0x80808080) >>> 7) * 27) ^ ((x & 0x7f7f7f7f) << 1);

function mixColumn(column: number): void {
  for (let i = 16 * column; i < 16 * column + 4; i++) {
    const a = w[i]!;
    const b = w[i + 4]!;
    const c = w[i + 8]!;
    const d = w[i + 12]!;
    const ab = doubleBytes(a ^ b);
    const bc = doubleBytes(b ^ c);
    const cd = doubleBytes(c ^ d);
    w[i] = ab ^ b ^ c ^ d;
    w[i + 4] = bc ^ a ^ c ^ d;
    w[i + 8] = cd ^ a ^ b ^ d;
    w[i + 12] = ab ^ bc ^ cd ^ a ^ b ^ c;
  }
}

export function echo512(message: Buffer): Buffer {
  // The state: the length of the result, in each of eight words. Then one block: the message, a one bit, and both lengths in bits.
  const block = Buffer.alloc(128);
  message.copy(block);
  block[64] = 0x80;
  block.writeUInt16LE(512, 110);
  block.writeUInt16LE(512, 112);
  for (let i = 0; i < 32; i++) {
    w[i] = i % 4 === 0 ? 512 : 0;
    w[32 + i] = block.readInt32LE(4 * i);
  }
  for (let round = 0; round < ROUNDS; round++) {
    for (let word = 0; word < 16; word++) {
      aesRound(w, 4 * word);
      // The key counts on from the number of bits hashed.
      w[4 * word]! ^= 512 + 16 * round + word;
      aesRound(w, 4 * word);
    }
    // Words are shifted by their row, as AES shifts bytes.
    for (let word = 0; word < 16; word++) {
      const from = (word + 4 * (word % 4)) % 16;
      for (let i = 0; i < 4; i++) shifted[4 * word + i] = w[4 * from + i]!;
    }
    w.set(shifted);
    for (let column = 0; column < 4; column++) mixColumn(column);
  }
  const out = Buffer.allocUnsafe(64);
  for (let i = 0; i < 16; i++) out.writeInt32LE((i % 4 === 0 ? 512 : 0) ^ block.readInt32LE(4 * i) ^ w[i]! ^ w[32 + i]!, 4 * i);
  return out;
}

// Grøstl-512 of a message of 64 bytes.

const GROESTL_ROUNDS = 14;
/** By how many columns each row is shifted in the two permutations. */
const SHIFT_P = [0, 1, 2, 3, 4, 5, 6, 11] as const;
const SHIFT_Q = [1, 3, 5, 11, 0, 2, 4, 6] as const;
/** The first row of the circulant matrix that mixes a column. */
const CIRCULANT = [2, 2, 3, 4, 5, 3, 5, 7] as const;

/** For each row and byte, its part of the mixed column: rows 0 to 3 in one word, 4 to 7 in another, lowest row first. */
const UPPER = new Int32Array(8 * 256);
const LOWER = new Int32Array(8 * 256);
for (let row = 0; row < 8; row++)
  for (let byte = 0; byte < 256; byte++) {
    const part = (target: number) => multiply(S_BOX[byte]!, CIRCULANT[(row - target + 8) % 8]!);
    UPPER[256 * row + byte] = part(0) | (part(1) << 8) | (part(2) << 16) | (part(3) << 24);
    LOWER[256 * row + byte] = part(4) | (part(5) << 8) | (part(6) << 16) | (part(7) << 24);
  }

/** 16 columns of 8 bytes, and the same as words. */
const state = new Uint8Array(128);
const next = new Int32Array(32);
const nextBytes = new Uint8Array(next.buffer);

/** The permutation P, or Q when `isQ`, of `state`. */
function permute(isQ: boolean): void {
  const shifts = isQ ? SHIFT_Q : SHIFT_P;
  for (let round = 0; round < GROESTL_ROUNDS; round++) {
    for (let column = 0; column < 16; column++) {
      if (!isQ) state[8 * column]! ^= (column << 4) ^ round;
      else {
        for (let row = 0; row < 8; row++) state[8 * column + row]! ^= 0xff;
        state[8 * column + 7]! ^= (column << 4) ^ round;
      }
    }
    for (let column = 0; column < 16; column++) {
      let upper = 0;
      let lower = 0;
      for (let row = 0; row < 8; row++) {
        const index = 256 * row + state[8 * ((column + shifts[row]!) % 16) + row]!;
        upper ^= UPPER[index]!;
        lower ^= LOWER[index]!;
      }
      next[2 * column] = upper;
      next[2 * column + 1] = lower;
    }
    state.set(nextBytes);
  }
}

export function groestl512(message: Buffer): Buffer {
  // One block: the message, a one bit, and the number of blocks. The state before it is the length of the result, in bits.
  const block = Buffer.alloc(128);
  message.copy(block);
  block[64] = 0x80;
  block[127] = 1;
  const chained = Buffer.alloc(128);
  chained.writeUInt16BE(512, 126);
  for (let i = 0; i < 128; i++) state[i] = chained[i]! ^ block[i]!;
  permute(false);
  for (let i = 0; i < 128; i++) chained[i]! ^= state[i]!;
  state.set(block);
  permute(true);
  for (let i = 0; i < 128; i++) chained[i]! ^= state[i]!;
  state.set(chained);
  permute(false);
  for (let i = 0; i < 128; i++) chained[i]! ^= state[i]!;
  return chained.subarray(64);
}
