/** SHAvite-3-512 of a message of 64 bytes. */
import { aesRound } from './aes.ts';

const ROUNDS = 14;
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
const state = new Int32Array(16);
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
  state.set(START);
  for (let round = 0; round < ROUNDS; round++) {
    if (round > 0) round % 2 === 1 ? expandNonlinear(round) : expandLinear();
    const step = STEPS[round % 4]!;
    for (let half = 0; half < 2; half++) {
      const from = step[2 * half]!;
      const to = step[2 * half + 1]!;
      x.set(state.subarray(from, from + 4));
      for (let key = 16 * half; key < 16 * half + 16; key += 4) {
        for (let i = 0; i < 4; i++) x[i]! ^= keys[key + i]!;
        aesRound(x, 0);
      }
      for (let i = 0; i < 4; i++) state[to + i]! ^= x[i]!;
    }
  }
  const out = Buffer.allocUnsafe(64);
  for (let i = 0; i < 16; i++) out.writeInt32LE(START[i]! ^ state[(i + 8) % 16]!, 4 * i);
  return out;
}
