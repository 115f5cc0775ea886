/** ECHO-512 of a message of 64 bytes. */
import { aesRound } from './aes.ts';

const ROUNDS = 10;
/** 16 words of 128 bits. */
const w = new Int32Array(64);
const shifted = new Int32Array(64);

/** Doubles four bytes in the field of AES. */
const double = (x: number): number => (((x & 0x80808080) >>> 7) * 27) ^ ((x & 0x7f7f7f7f) << 1);

function mixColumn(column: number): void {
  for (let i = 16 * column; i < 16 * column + 4; i++) {
    const a = w[i]!;
    const b = w[i + 4]!;
    const c = w[i + 8]!;
    const d = w[i + 12]!;
    const ab = double(a ^ b);
    const bc = double(b ^ c);
    const cd = double(c ^ d);
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
