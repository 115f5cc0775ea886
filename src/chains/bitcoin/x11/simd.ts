/** SIMD-512 of a message of 64 bytes. */

const START = Int32Array.from([
  0x0ba16b95, 0x72f999ad, 0x9fecc2ae, 0xba3264fc, 0x5e894929, 0x8e9f30e5, 0x2f1daa37, 0xf0f2c558, 0xac506643, 0xa90635a5, 0xe25b878b,
  0xaab7878f, 0x88817f7a, 0x0a02892b, 0x559a7550, 0x598f657e, 0x7eef60a1, 0x6b70e3e8, 0x9c1714d1, 0xb958e2a8, 0xab02675e, 0xed1c014f,
  0xcd8d65bb, 0xfdb7a257, 0x09254899, 0xd699c7bc, 0x9019b6dc, 0x2b9022e4, 0x8fa14956, 0x21bf9bd3, 0xb94d0943, 0x6ffddc22,
]);
const PRIME = 257;
const powers = (base: number): number[] => {
  const list = [1];
  while (list.length < 256) list.push((list.at(-1)! * base) % PRIME);
  return list;
};
/** 41 has order 256; 163 is its inverse. */
const ALPHA = Int32Array.from(powers(41));
const OFFSETS = Int32Array.from(powers(163));
const LAST_OFFSETS = OFFSETS.map((power, i) => (power + OFFSETS[(3 * i) % 256]!) % PRIME);

/** Which eight words of the transform each step uses, the distances of the two parts of a word, and the factor. */
const WORDS = [
  { from: [4, 6, 0, 2, 7, 5, 3, 1], low: 0, high: 1, factor: 185 },
  { from: [15, 11, 12, 8, 9, 13, 10, 14], low: 0, high: 1, factor: 185 },
  { from: [17, 18, 23, 20, 22, 21, 16, 19], low: -256, high: -128, factor: 233 },
  { from: [30, 24, 25, 31, 27, 29, 28, 26], low: -383, high: -255, factor: 233 },
] as const;
const ROTATIONS = [
  [3, 23, 17, 27],
  [28, 19, 22, 7],
  [29, 9, 15, 5],
  [4, 13, 10, 25],
] as const;
/** Lanes that exchange their words, by step: the number of a lane changes by these bits. */
const EXCHANGES = [1, 6, 2, 3, 5, 7, 4] as const;

const rotateLeft = (word: number, n: number): number => (word << n) | (word >>> (32 - n));
/** Partial reductions modulo 257. */
const reduceSmall = (x: number): number => (x & 0xff) - (x >> 8);
const reduceLarge = (x: number): number => (x & 0xffff) + (x >> 16);

const q = new Int32Array(256);
/** Joins two halves of a transform, `half` values each, whose roots of unity are `step` powers apart. */
function join(at: number, half: number, step: number): void {
  for (let i = 0; i < half; i++) {
    const m = q[at + i]!;
    const n = q[at + half + i]!;
    const t = i === 0 ? n : reduceLarge(n * ALPHA[i * step]!);
    q[at + i] = m + t;
    q[at + half + i] = m - t;
  }
}
/** The transform of eight values of which four are zero; 2 is a root of unity, so powers are shifts. */
function transform8(x: Uint8Array, from: number, step: number, to: number): void {
  const x0 = x[from]!;
  const x1 = x[from + step]!;
  const x2 = x[from + 2 * step]!;
  const x3 = x[from + 3 * step]!;
  const b1 = reduceSmall((x1 << 2) + (x3 << 6));
  const b2 = (x1 << 4) - (x3 << 4);
  const b3 = reduceSmall((x1 << 6) + (x3 << 2));
  q[to] = x0 + x2 + x1 + x3;
  q[to + 1] = x0 + (x2 << 4) + b1;
  q[to + 2] = x0 - x2 + b2;
  q[to + 3] = x0 - (x2 << 4) + b3;
  q[to + 4] = x0 + x2 - x1 - x3;
  q[to + 5] = x0 + (x2 << 4) - b1;
  q[to + 6] = x0 - x2 - b2;
  q[to + 7] = x0 - (x2 << 4) - b3;
}
function transform16(x: Uint8Array, from: number, step: number, to: number): void {
  transform8(x, from, 2 * step, to);
  transform8(x, from + step, 2 * step, to + 8);
  for (let i = 0; i < 8; i++) {
    const m = q[to + i]!;
    const n = q[to + 8 + i]! << i;
    q[to + i] = m + n;
    q[to + 8 + i] = m - n;
  }
}
function transform(x: Uint8Array, from: number, step: number, to: number, size: number): void {
  if (size === 16) transform16(x, from, step, to);
  else {
    transform(x, from, 2 * step, to, size / 2);
    transform(x, from + step, 2 * step, to + size / 2, size / 2);
    join(to, size / 2, 256 / size);
  }
}

/** Four rows of eight words. */
const s = new Int32Array(32);
const turned = new Int32Array(8);
const w = new Int32Array(8);
function step(isMajority: boolean, first: number, second: number, exchange: number): void {
  for (let i = 0; i < 8; i++) turned[i] = rotateLeft(s[i]!, first);
  for (let i = 0; i < 8; i++) {
    const a = s[i]!;
    const b = s[8 + i]!;
    const c = s[16 + i]!;
    const f = isMajority ? (a & b) | ((a | b) & c) : ((b ^ c) & a) ^ c;
    s[i] = rotateLeft((s[24 + i]! + w[i]! + f) | 0, second) + turned[i ^ exchange]!;
    s[24 + i] = c;
    s[16 + i] = b;
    s[8 + i] = turned[i]!;
  }
}

const state = new Int32Array(32);
function compress(block: Buffer, isLast: boolean): void {
  transform(block, 0, 1, 0, 256);
  const offsets = isLast ? LAST_OFFSETS : OFFSETS;
  for (let i = 0; i < 256; i++) {
    const reduced = reduceSmall(reduceSmall(reduceLarge(q[i]! + offsets[i]!)));
    q[i] = reduced <= 128 ? reduced : reduced - PRIME;
  }
  for (let i = 0; i < 32; i++) s[i] = state[i]! ^ block.readInt32LE(4 * i);
  for (let round = 0; round < 4; round++) {
    const { from, low, high, factor } = WORDS[round]!;
    const rotations = ROTATIONS[round]!;
    for (let n = 0; n < 8; n++) {
      for (let i = 0; i < 8; i++) {
        const at = 16 * from[n]! + 2 * i;
        w[i] = ((q[at + low]! * factor) & 0xffff) + ((q[at + high]! * factor) << 16);
      }
      step(n >= 4, rotations[n % 4]!, rotations[(n + 1) % 4]!, EXCHANGES[(round + n) % 7]!);
    }
  }
  // Four more steps with the state as the message.
  const rotations = ROTATIONS[3];
  for (let n = 0; n < 4; n++) {
    w.set(state.subarray(8 * n, 8 * n + 8));
    step(false, rotations[n]!, rotations[(n + 1) % 4]!, EXCHANGES[(4 + n) % 7]!);
  }
  state.set(s);
}

/** The block behind the message: its length in bits. */
const LENGTH = Buffer.alloc(128);
LENGTH.writeUInt16LE(512);

const block = Buffer.alloc(128);

export function simd512(message: Buffer): Buffer {
  state.set(START);
  message.copy(block);
  compress(block, false);
  compress(LENGTH, true);
  const out = Buffer.allocUnsafe(64);
  for (let i = 0; i < 16; i++) out.writeInt32LE(state[i]!, 4 * i);
  return out;
}
