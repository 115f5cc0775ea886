/**
 * SHA-256 twice (FIPS 180-4) of the many short messages of a block, four at a time in the lanes of WebAssembly's vectors. A call to
 * the platform's SHA-256 costs more than the hash itself, and a block of 4,000 transactions needs 16,000 of them. Long messages still use
 * the platform's.
 */
import { hash } from 'node:crypto';
import {
  ADD_WORDS,
  assemble,
  at,
  CHOOSE,
  CONTINUE_IF,
  END,
  get,
  I32_ADD,
  I32_LESS,
  I32_SUB,
  i32,
  LOAD,
  LOAD_SPLAT,
  LOOP,
  SHIFT_WORDS_LEFT,
  SHIFT_WORDS_RIGHT,
  STORE,
  set,
  vector,
  XOR,
} from '../wasm.ts';

/** Square and cube roots of the first primes, as the standard defines its constants. */
const primes = Array.from({ length: 310 }, (_, i) => i + 2).filter((n) => ![2, 3, 5, 7, 11, 13, 17].some((d) => d < n && n % d === 0));
const fraction = (root: number): number => ((root - Math.floor(root)) * 2 ** 32) | 0;
const K = primes.slice(0, 64).map((prime) => fraction(Math.cbrt(prime)));
const START = primes.slice(0, 8).map((prime) => fraction(Math.sqrt(prime)));

const LANES = 4;
/** Longer messages use the platform's SHA-256, whose speed then outweighs the cost of the call. */
const MAX_BLOCKS = 16;
/** Offsets in the module's memory: the standard's constants, what is hashed a second time, hashes, and four messages for each number of blocks. */
const K_AT = 0;
const START_AT = K_AT + 64 * 4;
const SECOND_AT = START_AT + 8 * 4;
const HASHES_AT = SECOND_AT + LANES * 64;
const MESSAGES_AT = HASHES_AT + LANES * 32;

/** Bytes of two vectors in a new order, four by four: `words` numbers them 0 to 7. */
const shuffle = (...words: number[]): number[] => [...vector(0x0d), ...words.flatMap((word) => [0, 1, 2, 3].map((i) => 4 * word + i))];
const SWAP_BYTES = [...vector(0x0d), ...[0, 4, 8, 12].flatMap((word) => [3, 2, 1, 0].map((i) => word + i))];
const swapBytes = (local: number): number[] => [...get(local), ...get(local), ...SWAP_BYTES, ...set(local)];

/** Locals of the function: its parameters, four addresses or temporaries, the state of eight words and what it was, 16 words of message. */
const [MESSAGE, STRIDE, BLOCKS, OUT, OUT_STRIDE, ROUND, FROM] = [0, 1, 2, 3, 4, 5, 6];
const STATE = 7;
const BEFORE = STATE + 8;
const WORDS = BEFORE + 8;
const SPARE = WORDS + 16;

/** Shifted left or right and combined: a rotation by each of `turns`, and a plain shift by `shift`. */
const sigma = (x: number, turns: number[], shift?: number): number[] => {
  const terms = turns.flatMap((n) => [
    [...get(x), ...i32(n), ...SHIFT_WORDS_RIGHT],
    [...get(x), ...i32(32 - n), ...SHIFT_WORDS_LEFT],
  ]);
  if (shift !== undefined) terms.push([...get(x), ...i32(shift), ...SHIFT_WORDS_RIGHT]);
  return terms.flatMap((term, i) => (i === 0 ? term : [...term, ...XOR]));
};
/** Four vectors of four words each become their columns. */
const transpose = (x: number): number[] => {
  const pair = (one: number, other: number, order: number[]) => [...get(one), ...get(other), ...shuffle(...order)];
  return [
    ...pair(x, x + 1, [0, 4, 1, 5]),
    ...set(SPARE),
    ...pair(x, x + 1, [2, 6, 3, 7]),
    ...pair(x + 2, x + 3, [0, 4, 1, 5]),
    ...set(x + 1),
    ...pair(x + 2, x + 3, [2, 6, 3, 7]),
    ...set(x + 3),
    ...set(x + 2),
    // Low halves in SPARE and x + 1, high halves in x + 2 and x + 3.
    ...pair(SPARE, x + 1, [0, 1, 4, 5]),
    ...set(x),
    ...pair(SPARE, x + 1, [2, 3, 6, 7]),
    ...set(x + 1),
    ...pair(x + 2, x + 3, [0, 1, 4, 5]),
    ...pair(x + 2, x + 3, [2, 3, 6, 7]),
    ...set(x + 3),
    ...set(x + 2),
  ];
};
const each = (count: number, emit: (i: number) => number[]): number[] => Array.from({ length: count }, (_, i) => emit(i)).flat();
/** Sixteen rounds; `schedules`: each word of the message makes room for the one sixteen rounds later. */
const rounds = (schedules: boolean): number[] =>
  each(16, (i) => {
    // The state moves on by one word a round: its locals keep their places and change their names.
    const name = (n: number) => STATE + ((n - i + 16) % 8);
    const [a, b, c, d, e, f, g, h] = [name(0), name(1), name(2), name(3), name(4), name(5), name(6), name(7)];
    const word = (n: number) => WORDS + ((i + n) % 16);
    return [
      ...[...get(h), ...get(word(0)), ...ADD_WORDS, ...get(ROUND), ...LOAD_SPLAT, ...at(K_AT + 4 * i), ...ADD_WORDS],
      ...[...sigma(e, [6, 11, 25]), ...ADD_WORDS, ...get(f), ...get(g), ...get(e), ...CHOOSE, ...ADD_WORDS, ...set(h)],
      ...[...get(d), ...get(h), ...ADD_WORDS, ...set(d)],
      ...[
        ...get(h),
        ...sigma(a, [2, 13, 22]),
        ...ADD_WORDS,
        ...get(c),
        ...get(a),
        ...get(a),
        ...get(b),
        ...XOR,
        ...CHOOSE,
        ...ADD_WORDS,
        ...set(h),
      ],
      ...(schedules
        ? [
            ...[...get(word(0)), ...sigma(word(1), [7, 18], 3), ...ADD_WORDS, ...get(word(9)), ...ADD_WORDS],
            ...[...sigma(word(14), [17, 19], 10), ...ADD_WORDS, ...set(word(0))],
          ]
        : []),
    ];
  });
/** Hashes four messages of whole blocks, `stride` apart, into `out`, `outStride` apart. */
const code = [
  ...each(8, (i) => [...i32(0), ...LOAD_SPLAT, ...at(START_AT + 4 * i), ...set(STATE + i)]),
  ...LOOP,
  ...each(8, (i) => [...get(STATE + i), ...set(BEFORE + i)]),
  ...get(MESSAGE),
  ...set(FROM),
  // Lane after lane its sixteen words, in four vectors; then column by column.
  ...each(LANES, (lane) => [
    ...each(4, (quarter) => [...get(FROM), ...LOAD, ...at(16 * quarter), ...set(WORDS + 4 * quarter + lane)]),
    ...[...get(FROM), ...get(STRIDE), I32_ADD, ...set(FROM)],
  ]),
  ...each(16, (i) => swapBytes(WORDS + i)),
  ...each(4, (quarter) => transpose(WORDS + 4 * quarter)),
  ...[...i32(0), ...set(ROUND)],
  ...[...LOOP, ...rounds(true), ...get(ROUND), ...i32(64), I32_ADD, 0x22, ROUND, ...i32(192), I32_LESS, ...CONTINUE_IF, END],
  ...rounds(false),
  ...each(8, (i) => [...get(STATE + i), ...get(BEFORE + i), ...ADD_WORDS, ...set(STATE + i)]),
  ...[...get(MESSAGE), ...i32(64), I32_ADD, ...set(MESSAGE)],
  ...[...get(BLOCKS), ...i32(1), I32_SUB, 0x22, BLOCKS, ...CONTINUE_IF, END],
  ...transpose(STATE),
  ...transpose(STATE + 4),
  ...each(8, (i) => swapBytes(STATE + i)),
  ...each(LANES, (lane) => [
    ...[...get(OUT), ...get(STATE + lane), ...STORE, ...at(0), ...get(OUT), ...get(STATE + 4 + lane), ...STORE, ...at(16)],
    ...[...get(OUT), ...get(OUT_STRIDE), I32_ADD, ...set(OUT)],
  ]),
  END,
];
const { run: hashFour, memory: shared } = assemble({ parameters: 5, integers: 2, vectors: SPARE + 1 - STATE, pages: 1, code });
new Int32Array(shared.buffer, K_AT, 64).set(K);
new Int32Array(shared.buffer, START_AT, 8).set(START);
/** Pads a message to whole blocks: a one bit, zeros, and the length in bits. */
const pad = (from: number, length: number, blocks: number): void => {
  const end = from + 64 * blocks;
  let at = from + length;
  shared[at++] = 0x80;
  while (at < end - 3) shared[at++] = 0;
  shared[at++] = length >>> 13;
  shared[at++] = length >>> 5;
  shared[at] = length << 3;
};
for (let lane = 0; lane < LANES; lane++) pad(SECOND_AT + 64 * lane, 32, 1);

/** Messages with the same number of blocks are collected here, with the targets of their hashes. */
const rooms = Array.from({ length: MAX_BLOCKS + 1 }, (_, blocks) => ({
  from: MESSAGES_AT + ((64 * LANES * blocks) / 2) * (blocks - 1),
  waiting: 0,
  outs: [] as Buffer[],
  ats: [] as number[],
}));

function hashRoom(blocks: number): void {
  const room = rooms[blocks]!;
  hashFour(room.from, 64 * blocks, blocks, SECOND_AT, 64);
  hashFour(SECOND_AT, 64, 1, HASHES_AT, 32);
  for (let lane = 0; lane < room.waiting; lane++)
    shared.copy(room.outs[lane]!, room.ats[lane]!, HASHES_AT + 32 * lane, HASHES_AT + 32 * lane + 32);
  room.waiting = 0;
}

/**
 * Writes the hash of a message to `out` at `outAt`, at the latest by the next `hashWaiting`. The message is read immediately: the four
 * bytes at `head`, then those in `[from, to)`, then those in `[rest, end)`.
 */
export function hashSoon(
  bytes: Buffer,
  head: number,
  from: number,
  to: number,
  rest: number,
  end: number,
  out: Buffer,
  outAt: number,
): void {
  const length = 4 + (to - from) + (end - rest);
  const blocks = (length + 72) >>> 6;
  if (blocks > MAX_BLOCKS) {
    const message = Buffer.concat([bytes.subarray(head, head + 4), bytes.subarray(from, to), bytes.subarray(rest, end)]);
    out.set(hash('sha256', hash('sha256', message, 'buffer'), 'buffer'), outAt);
    return;
  }
  const room = rooms[blocks]!;
  const start = room.from + room.waiting * 64 * blocks;
  for (let i = 0; i < 4; i++) shared[start + i] = bytes[head + i]!;
  bytes.copy(shared, start + 4, from, to);
  for (let i = rest, at = start + 4 + to - from; i < end; i++, at++) shared[at] = bytes[i]!;
  pad(start, length, blocks);
  room.outs[room.waiting] = out;
  room.ats[room.waiting] = outAt;
  if (++room.waiting === LANES) hashRoom(blocks);
}

/** Hashes all collected messages. */
export function hashWaiting(): void {
  for (let blocks = 1; blocks <= MAX_BLOCKS; blocks++) if (rooms[blocks]!.waiting > 0) hashRoom(blocks);
}
