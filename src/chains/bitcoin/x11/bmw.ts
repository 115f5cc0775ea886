/** Blue Midnight Wish, 512 bits, of a message of 64 bytes. Words of 64 bits are kept as two halves. */

/** Which five words of message and state make each word, and their signs. */
const MIX: readonly (readonly number[])[] = [
  [5, -7, 10, 13, 14],
  [6, -8, 11, 14, -15],
  [0, 7, 9, -12, 15],
  [0, -1, 8, -10, 13],
  [1, 2, 9, -11, -14],
  [3, -2, 10, -12, 15],
  [4, -16, -3, -11, 13],
  [1, -4, -5, -12, -14],
  [2, -5, -6, 13, -15],
  [0, -3, 6, -7, 14],
  [8, -1, -4, -7, 15],
  [8, -16, -2, -5, 9],
  [1, 3, -6, -9, 10],
  [2, 4, 7, 10, 11],
  [3, -5, 8, -11, -12],
  [12, -4, -6, -9, 13],
];
/** Shift right, shift left and two rotations of the functions s0 to s3. */
const S: readonly (readonly [number, number, number, number])[] = [
  [1, 3, 4, 37],
  [1, 2, 13, 43],
  [2, 1, 19, 53],
  [2, 2, 28, 59],
];
/** Rotations of the functions r1 to r7. */
const R = [5, 11, 27, 32, 37, 43, 53] as const;
/** How the sixteen words of the result are shifted: first the fold of the later words, then a word; right is negative. */
const FOLD: readonly (readonly [number, number])[] = [
  [5, -5],
  [-7, 8],
  [-5, 5],
  [-1, 5],
  [-3, 0],
  [6, -6],
  [-4, 6],
  [-11, 2],
];
const FOLD_LATE = [8, -6, 6, 4, -3, -4, -7, -2] as const;

/** The two halves of the last result of a function below. */
let high = 0;
let low = 0;
function rotateLeft(h: number, l: number, n: number): void {
  const first = n < 32 ? h : l;
  const second = n < 32 ? l : h;
  const by = n & 31;
  high = by === 0 ? first : (first << by) | (second >>> (32 - by));
  low = by === 0 ? second : (second << by) | (first >>> (32 - by));
}
/** Left for a positive number of places, right for a negative one; less than 32. */
function shift(h: number, l: number, n: number): void {
  if (n > 0) {
    high = (h << n) | (l >>> (32 - n));
    low = l << n;
  } else {
    high = n === 0 ? h : h >>> -n;
    low = n === 0 ? l : (l >>> -n) | (h << (32 + n));
  }
}
function s(n: number, h: number, l: number): void {
  const [right, left, one, other] = S[n]!;
  shift(h, l, -right);
  let sumHigh = high;
  let sumLow = low;
  shift(h, l, left);
  sumHigh ^= high;
  sumLow ^= low;
  rotateLeft(h, l, one);
  sumHigh ^= high;
  sumLow ^= low;
  rotateLeft(h, l, other);
  high ^= sumHigh;
  low ^= sumLow;
}

/** A sum of words: each half separately, exact in a number, joined by `endSum`. */
let sumHigh = 0;
let sumLow = 0;
const addResult = (): void => {
  sumHigh += high >>> 0;
  sumLow += low >>> 0;
};
const endSum = (): void => {
  low = sumLow | 0;
  high = (sumHigh + Math.floor(sumLow / 0x1_0000_0000)) | 0;
  sumHigh = 0;
  sumLow = 0;
};

/** 32 words of 64 bits, high half first. */
const q = new Int32Array(64);

/** The sixteen words made from message and state: a bijection of both, then one of the functions s0 to s4. */
function startWords(message: Int32Array, state: Int32Array): void {
  for (let i = 0; i < 16; i++) {
    for (const term of MIX[i]!) {
      const word = Math.abs(term) % 16;
      const h = (message[2 * word]! ^ state[2 * word]!) >>> 0;
      const l = (message[2 * word + 1]! ^ state[2 * word + 1]!) >>> 0;
      sumHigh += term < 0 ? -h : h;
      sumLow += term < 0 ? -l : l;
    }
    endSum();
    const n = i % 5;
    if (n < 4) s(n, high, low);
    else {
      const h = high;
      const l = low;
      shift(h, l, -1);
      high ^= h;
      low ^= l;
    }
    const next = (i + 1) % 16;
    addResult();
    sumHigh += state[2 * next]! >>> 0;
    sumLow += state[2 * next + 1]! >>> 0;
    endSum();
    q[2 * i] = high;
    q[2 * i + 1] = low;
  }
}

/** The message's and the state's part of the word `i`, from 16 on. */
function addElement(message: Int32Array, state: Int32Array, i: number): void {
  const j = i - 16;
  for (const [offset, sign] of [
    [0, 1],
    [3, 1],
    [10, -1],
  ] as const) {
    const word = (j + offset) % 16;
    rotateLeft(message[2 * word]!, message[2 * word + 1]!, word + 1);
    sumHigh += sign * (high >>> 0);
    sumLow += sign * (low >>> 0);
  }
  sumHigh += 0x05555555 * i;
  sumLow += 0x55555555 * i;
  endSum();
  const word = (j + 7) % 16;
  high ^= state[2 * word]!;
  low ^= state[2 * word + 1]!;
}

/** The sixteen words that follow, each from the sixteen before it. */
function expandWords(message: Int32Array, state: Int32Array): void {
  for (let i = 16; i < 32; i++) {
    addElement(message, state, i);
    addResult();
    for (let k = 0; k < 16; k++) {
      const h = q[2 * (i - 16 + k)]!;
      const l = q[2 * (i - 16 + k) + 1]!;
      if (i < 18) s((k + 1) % 4, h, l);
      else if (k >= 14) {
        shift(h, l, 13 - k);
        high ^= h;
        low ^= l;
      } else if (k % 2 === 1) rotateLeft(h, l, R[(k - 1) / 2]!);
      else {
        high = h;
        low = l;
      }
      addResult();
    }
    endSum();
    q[2 * i] = high;
    q[2 * i + 1] = low;
  }
}

/** The compression function; writes the new state to `out`. */
function compress(message: Int32Array, state: Int32Array, out: Int32Array): void {
  startWords(message, state);
  expandWords(message, state);
  const fold = (from: number, to: number, half: number): number => {
    let folded = 0;
    for (let i = from; i < to; i++) folded ^= q[2 * i + half]!;
    return folded;
  };
  const earlyHigh = fold(16, 24, 0);
  const earlyLow = fold(16, 24, 1);
  const allHigh = earlyHigh ^ fold(24, 32, 0);
  const allLow = earlyLow ^ fold(24, 32, 1);
  for (let i = 0; i < 8; i++) {
    const [byAll, byWord] = FOLD[i]!;
    shift(allHigh, allLow, byAll);
    let h = high ^ message[2 * i]!;
    let l = low ^ message[2 * i + 1]!;
    shift(q[2 * (16 + i)]!, q[2 * (16 + i) + 1]!, byWord);
    h ^= high;
    l ^= low;
    sumHigh = (h >>> 0) + ((earlyHigh ^ q[2 * (24 + i)]! ^ q[2 * i]!) >>> 0);
    sumLow = (l >>> 0) + ((earlyLow ^ q[2 * (24 + i) + 1]! ^ q[2 * i + 1]!) >>> 0);
    endSum();
    out[2 * i] = high;
    out[2 * i + 1] = low;
  }
  for (let i = 8; i < 16; i++) {
    const turned = (i - 4) % 8;
    rotateLeft(out[2 * turned]!, out[2 * turned + 1]!, i + 1);
    addResult();
    sumHigh += (allHigh ^ q[2 * (16 + i)]! ^ message[2 * i]!) >>> 0;
    sumLow += (allLow ^ q[2 * (16 + i) + 1]! ^ message[2 * i + 1]!) >>> 0;
    shift(earlyHigh, earlyLow, FOLD_LATE[i - 8]!);
    const word = i === 8 ? 23 : 7 + i;
    sumHigh += (high ^ q[2 * word]! ^ q[2 * i]!) >>> 0;
    sumLow += (low ^ q[2 * word + 1]! ^ q[2 * i + 1]!) >>> 0;
    endSum();
    out[2 * i] = high;
    out[2 * i + 1] = low;
  }
}

const START = new Int32Array(32);
const LAST = new Int32Array(32);
for (let i = 0; i < 16; i++) {
  START[2 * i] = 0x80818283 + 0x08080808 * i;
  START[2 * i + 1] = 0x84858687 + 0x08080808 * i;
  LAST[2 * i] = 0xaaaaaaaa;
  LAST[2 * i + 1] = 0xaaaaaaa0 + i;
}
const words = new Int32Array(32);
const first = new Int32Array(32);
const second = new Int32Array(32);

export function bmw512(message: Buffer): Buffer {
  words.fill(0);
  for (let i = 0; i < 8; i++) {
    words[2 * i] = message.readInt32LE(8 * i + 4);
    words[2 * i + 1] = message.readInt32LE(8 * i);
  }
  // A one bit behind the message; its length in bits at the end of the block.
  words[17] = 0x80;
  words[31] = 512;
  compress(words, START, first);
  compress(first, LAST, second);
  const out = Buffer.allocUnsafe(64);
  for (let i = 0; i < 8; i++) {
    out.writeInt32LE(second[2 * (8 + i) + 1]!, 8 * i);
    out.writeInt32LE(second[2 * (8 + i)]!, 8 * i + 4);
  }
  return out;
}
