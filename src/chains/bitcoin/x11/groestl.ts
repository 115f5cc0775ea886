/** Grøstl-512 of a message of 64 bytes. */
import { multiply, S_BOX } from './aes.ts';

const ROUNDS = 14;
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
  for (let round = 0; round < ROUNDS; round++) {
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
