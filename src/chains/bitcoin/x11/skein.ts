/** Skein-512 (version 1.3) of a message of 64 bytes. Words of 64 bits are kept as two halves, low half first. */

const ROUNDS = 72;
/** Rotations of the four mixes, for eight rounds. */
const ROTATIONS = [
  [46, 36, 19, 37],
  [33, 27, 14, 42],
  [17, 49, 36, 39],
  [44, 9, 54, 56],
  [39, 30, 34, 24],
  [13, 50, 10, 17],
  [25, 29, 39, 43],
  [8, 35, 56, 22],
] as const;
const PERMUTATION = [2, 1, 4, 7, 6, 5, 0, 3] as const;
/** The types of a block that are used, in the topmost byte of its tweak, with the marks of a first and last block. */
const CONFIGURATION = 0xc0000000 | (4 << 24);
const MESSAGE = 0xc0000000 | (48 << 24);
const OUTPUT = 0xc0000000 | (63 << 24);

const key = new Int32Array(18);
const tweak = new Int32Array(6);
const x = new Int32Array(16);
const y = new Int32Array(16);

/** Adds the words at `of[from]` to the words at `x[to]`. */
function add(to: number, of: Int32Array, from: number): void {
  const low = (x[2 * to]! >>> 0) + (of[2 * from]! >>> 0);
  x[2 * to + 1] = x[2 * to + 1]! + of[2 * from + 1]! + (low > 0xffffffff ? 1 : 0);
  x[2 * to] = low;
}
function addKey(subkey: number): void {
  for (let i = 0; i < 8; i++) add(i, key, (subkey + i) % 9);
  add(5, tweak, subkey % 3);
  add(6, tweak, (subkey + 1) % 3);
  const low = (x[14]! >>> 0) + subkey;
  x[15] = x[15]! + (low > 0xffffffff ? 1 : 0);
  x[14] = low;
}
function mix(pair: number, rotation: number): void {
  const a = 4 * pair;
  add(2 * pair, x, 2 * pair + 1);
  const low = rotation < 32 ? x[a + 2]! : x[a + 3]!;
  const high = rotation < 32 ? x[a + 3]! : x[a + 2]!;
  const by = rotation & 31;
  x[a + 2] = ((low << by) | (high >>> (32 - by))) ^ x[a]!;
  x[a + 3] = ((high << by) | (low >>> (32 - by))) ^ x[a + 1]!;
}

/** Chains one block: Threefish-512 of the block, with the state as its key, combined with the block. */
function chain(state: Int32Array, block: Int32Array, length: number, type: number): void {
  key.set(state);
  // The parity constant C240 of version 1.3.
  key[16] = 0xa9fc1a22;
  key[17] = 0x1bd11bda;
  for (let i = 0; i < 16; i++) key[16 + (i & 1)]! ^= state[i]!;
  tweak.set([length, 0, 0, type, length, type]);
  x.set(block);
  for (let round = 0; round < ROUNDS; round++) {
    if (round % 4 === 0) addKey(round / 4);
    const rotations = ROTATIONS[round % 8]!;
    for (let pair = 0; pair < 4; pair++) mix(pair, rotations[pair]!);
    for (let i = 0; i < 8; i++) {
      y[2 * i] = x[2 * PERMUTATION[i]!]!;
      y[2 * i + 1] = x[2 * PERMUTATION[i]! + 1]!;
    }
    x.set(y);
  }
  addKey(ROUNDS / 4);
  for (let i = 0; i < 16; i++) state[i] = x[i]! ^ block[i]!;
}

/** The state before a message: a configuration block of 32 bytes with the schema "SHA3", version 1, and the length of the result. */
const START = new Int32Array(16);
chain(START, Int32Array.from([0x33414853, 1, 512, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]), 32, CONFIGURATION);
const ZEROS = new Int32Array(16);
const state = new Int32Array(16);
const block = new Int32Array(16);

export function skein512(message: Buffer): Buffer {
  state.set(START);
  for (let i = 0; i < 16; i++) block[i] = message.readInt32LE(4 * i);
  chain(state, block, 64, MESSAGE);
  chain(state, ZEROS, 8, OUTPUT);
  const out = Buffer.allocUnsafe(64);
  for (let i = 0; i < 16; i++) out.writeInt32LE(state[i]!, 4 * i);
  return out;
}
