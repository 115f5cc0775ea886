/** Decodes hex, 32 digits at a time with WebAssembly vectors: a block has millions of digits, and strings of them would be garbage. */
import {
  ADD_BYTES,
  AND,
  assemble,
  at,
  CONTINUE_IF,
  END,
  get,
  I32_ADD,
  I32_LESS,
  i32,
  LOAD,
  LOOP,
  NARROW,
  OR,
  SHIFT_BYTES_LEFT,
  SHIFT_BYTES_RIGHT,
  SHIFT_PAIRS_LEFT,
  SHIFT_PAIRS_RIGHT,
  SPLAT_BYTES,
  SPLAT_PAIRS,
  STORE,
  set,
} from './wasm.ts';

/** Digits in one call. Their bytes follow them in the module's memory. */
const AT_ONCE = 65_536;
const STEP = 32;

const [FROM, END_AT, OUT] = [0, 1, 2];
const DIGITS = 3;
const NINES = 4;
const HALF = 5;
/** The values of 16 digits: the low half of each, plus nine for letters. */
const values = (offset: number): number[] => [
  ...[...get(FROM), ...LOAD, ...at(offset), ...set(DIGITS)],
  ...[...get(DIGITS), ...i32(6), ...SHIFT_BYTES_RIGHT, ...set(NINES)],
  ...[...get(DIGITS), ...i32(15), ...SPLAT_BYTES, ...AND],
  ...[...get(NINES), ...ADD_BYTES, ...get(NINES), ...i32(3), ...SHIFT_BYTES_LEFT, ...ADD_BYTES, ...set(DIGITS)],
];
/** Combines pairs of values into bytes, eight in total. */
const pairs = [
  ...[...get(DIGITS), ...i32(4), ...SHIFT_PAIRS_LEFT, ...get(DIGITS), ...i32(8), ...SHIFT_PAIRS_RIGHT, ...OR],
  ...[...i32(255), ...SPLAT_PAIRS, ...AND],
];
const { run, memory } = assemble({
  parameters: 3,
  integers: 0,
  vectors: 3,
  pages: 2,
  code: [
    ...LOOP,
    ...[...values(0), ...pairs, ...set(HALF), ...values(16)],
    ...[...get(OUT), ...get(HALF), ...pairs, ...NARROW, ...STORE, ...at(0)],
    ...[...get(OUT), ...i32(16), I32_ADD, ...set(OUT)],
    ...[...get(FROM), ...i32(STEP), I32_ADD, 0x22, FROM, ...get(END_AT), I32_LESS, ...CONTINUE_IF, END],
    END,
  ],
});

/**
 * Decodes the digits `hex[from, to)`, an even number, into `out` at `outAt`. Invalid digits are not detected; they produce an arbitrary
 * byte. Use it only for data that is verified by its hash.
 */
export function writeHex(hex: Buffer, from: number, to: number, out: Buffer, outAt: number): void {
  for (let start = from; start < to; start += AT_ONCE) {
    const end = Math.min(to, start + AT_ONCE);
    hex.copy(memory, 0, start, end);
    run(0, end - start, AT_ONCE);
    memory.copy(out, outAt + ((start - from) >> 1), AT_ONCE, AT_ONCE + ((end - start) >> 1));
  }
}
