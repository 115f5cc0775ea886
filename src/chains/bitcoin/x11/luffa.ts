/** Luffa-512 (version 2) of a message of 64 bytes. */

/** The state before a message: five rows of 256 bits. */
const START = Int32Array.from([
  0x6d251e69, 0x44b051e0, 0x4eaa6fb4, 0xdbf78465, 0x6e292011, 0x90152df4, 0xee058139, 0xdef610bb, 0xc3b44b95, 0xd9d2f256, 0x70eee9a0,
  0xde099fa3, 0x5d9b0557, 0x8fc944b3, 0xcf1ccf0e, 0x746cd581, 0xf7efc89d, 0x5dba5781, 0x04016ce5, 0xad659c05, 0x0306194f, 0x666d1836,
  0x24aa230a, 0x8b264ae7, 0x858075d5, 0x36d79cce, 0xe571f7d7, 0x204b1f67, 0x35870c6a, 0x57e9e923, 0x14bcb808, 0x7cde72ce, 0x6c68e9be,
  0x5ec41e22, 0xc825b7c7, 0xaffb4363, 0xf5df3999, 0x0fc688f1, 0xb07224cc, 0x03e86cea,
]);
/** Constants of the eight steps of each row, added to its first and its fifth word. */
const C0 = Int32Array.from([
  0x303994a6, 0xc0e65299, 0x6cc33a12, 0xdc56983e, 0x1e00108f, 0x7800423d, 0x8f5b7882, 0x96e1db12, 0xb6de10ed, 0x70f47aae, 0x0707a3d4,
  0x1c1e8f51, 0x707a3d45, 0xaeb28562, 0xbaca1589, 0x40a46f3e, 0xfc20d9d2, 0x34552e25, 0x7ad8818f, 0x8438764a, 0xbb6de032, 0xedb780c8,
  0xd9847356, 0xa2c78434, 0xb213afa5, 0xc84ebe95, 0x4e608a22, 0x56d858fe, 0x343b138f, 0xd0ec4e3d, 0x2ceb4882, 0xb3ad2208, 0xf0d2e9e3,
  0xac11d7fa, 0x1bcb66f2, 0x6f2d9bc9, 0x78602649, 0x8edae952, 0x3b6ba548, 0xedae9520,
]);
const C4 = Int32Array.from([
  0xe0337818, 0x441ba90d, 0x7f34d442, 0x9389217f, 0xe5a8bce6, 0x5274baf4, 0x26889ba7, 0x9a226e9d, 0x01685f3d, 0x05a17cf4, 0xbd09caca,
  0xf4272b28, 0x144ae5cc, 0xfaa7ae2b, 0x2e48f1c1, 0xb923c704, 0xe25e72c1, 0xe623bb72, 0x5c58a4a4, 0x1e38e2e7, 0x78e38b9d, 0x27586719,
  0x36eda57f, 0x703aace7, 0xe028c9bf, 0x44756f91, 0x7e8fce32, 0x956548be, 0xfe191be2, 0x3cb226e5, 0x5944a28e, 0xa1c4c355, 0x5090d577,
  0x2d1925ab, 0xb46496ac, 0xd1925ab0, 0x29131ab6, 0x0fc053c3, 0x3f014f0c, 0xfc053c31,
]);

const rotateLeft = (word: number, n: number): number => (word << n) | (word >>> (32 - n));
const v = new Int32Array(40);
const sum = new Int32Array(8);
const saved = new Int32Array(8);

/** Multiplies a row in place by the generator of the ring. */
function double(row: Int32Array, at: number): void {
  const last = row[at + 7]!;
  for (let i = 7; i > 0; i--) row[at + i] = row[at + i - 1]!;
  row[at] = last;
  row[at + 1]! ^= last;
  row[at + 3]! ^= last;
  row[at + 4]! ^= last;
}
const combine = (to: number, row: Int32Array, from: number): void => {
  for (let i = 0; i < 8; i++) v[to + i]! ^= row[from + i]!;
};

/** Spreads a block over the five rows. */
function inject(block: Int32Array): void {
  for (let i = 0; i < 8; i++) sum[i] = v[i]! ^ v[8 + i]! ^ v[16 + i]! ^ v[24 + i]! ^ v[32 + i]!;
  double(sum, 0);
  for (let row = 0; row < 5; row++) combine(8 * row, sum, 0);
  // Each row is doubled and combined with the next one, then with the one before.
  for (const step of [1, -1]) {
    const at = (n: number) => 8 * ((5 + step * n) % 5);
    saved.set(v.subarray(0, 8));
    for (let n = 0; n < 5; n++) {
      double(v, at(n));
      if (n < 4) combine(at(n), v, at(n + 1));
      else combine(at(n), saved, 0);
    }
  }
  for (let row = 0; row < 5; row++) {
    combine(8 * row, block, 0);
    double(block, 0);
  }
}

function substitute(a: number, b: number, c: number, d: number): void {
  let x0 = v[a]!;
  let x1 = v[b]!;
  let x2 = v[c]!;
  let x3 = v[d]!;
  let t = x0;
  x0 |= x1;
  x2 ^= x3;
  x1 = ~x1;
  x0 ^= x3;
  x3 &= t;
  x1 ^= x3;
  x3 ^= x2;
  x2 &= x0;
  x0 = ~x0;
  x2 ^= x1;
  x1 |= x3;
  t ^= x1;
  x3 ^= x2;
  x2 &= x1;
  x1 ^= x0;
  v[a] = t;
  v[b] = x1;
  v[c] = x2;
  v[d] = x3;
}
function mixWords(at: number, other: number): void {
  v[other]! ^= v[at]!;
  v[at] = rotateLeft(v[at]!, 2) ^ v[other]!;
  v[other] = rotateLeft(v[other]!, 14) ^ v[at]!;
  v[at] = rotateLeft(v[at]!, 10) ^ v[other]!;
  v[other] = rotateLeft(v[other]!, 1);
}
function permute(): void {
  for (let row = 0; row < 5; row++) {
    const at = 8 * row;
    for (let i = 4; i < 8; i++) v[at + i] = row === 0 ? v[at + i]! : rotateLeft(v[at + i]!, row);
    for (let step = 0; step < 8; step++) {
      substitute(at, at + 1, at + 2, at + 3);
      substitute(at + 5, at + 6, at + 7, at + 4);
      for (let i = 0; i < 4; i++) mixWords(at + i, at + 4 + i);
      v[at]! ^= C0[8 * row + step]!;
      v[at + 4]! ^= C4[8 * row + step]!;
    }
  }
}

const block = new Int32Array(8);

export function luffa512(message: Buffer): Buffer {
  v.set(START);
  const out = Buffer.allocUnsafe(64);
  // Two blocks of message, one of padding, two of zeros; the last two give half of the result each.
  for (let n = 0; n < 5; n++) {
    for (let i = 0; i < 8; i++) block[i] = n < 2 ? message.readInt32BE(32 * n + 4 * i) : 0;
    if (n === 2) block[0] = 0x80000000;
    inject(block);
    permute();
    if (n < 3) continue;
    for (let i = 0; i < 8; i++) out.writeInt32BE(v[i]! ^ v[8 + i]! ^ v[16 + i]! ^ v[24 + i]! ^ v[32 + i]!, 32 * (n - 3) + 4 * i);
  }
  return out;
}
