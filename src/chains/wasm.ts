/** A small assembler for WebAssembly, run at start: no build step, a few kilobytes, and 128-bit vectors. */

/** The WebAssembly opcodes in use, with the bytes that follow them. */
const leb = (value: number): number[] => (value < 128 ? [value] : [(value & 127) | 128, ...leb(value >>> 7)]);
export const get = (local: number): number[] => [0x20, local];
export const set = (local: number): number[] => [0x21, local];
export const i32 = (value: number): number[] => [0x41, ...(value < 64 ? [value] : [(value & 127) | 128, value >>> 7])];
export const I32_ADD = 0x6a;
export const I32_SUB = 0x6b;
export const I32_LESS = 0x49;
export const LOOP = [0x03, 0x40];
export const CONTINUE_IF = [0x0d, 0];
export const END = 0x0b;
/** The immediate of a memory access: no alignment, and the offset. */
export const at = (offset: number): number[] => [0, ...leb(offset)];
/** Vector instructions; words have 32 bits, pairs 16. */
export const vector = (code: number): number[] => [0xfd, ...leb(code)];
export const LOAD = vector(0x00);
export const LOAD_SPLAT = vector(0x09);
export const STORE = vector(0x0b);
export const CHOOSE = vector(0x52);
export const XOR = vector(0x51);
export const SHIFT_WORDS_LEFT = vector(0xab);
export const SHIFT_WORDS_RIGHT = vector(0xad);
export const ADD_WORDS = vector(0xae);
export const AND = vector(0x4e);
export const OR = vector(0x50);
export const NARROW = vector(0x66);
export const SPLAT_BYTES = vector(0x0f);
export const SHIFT_BYTES_LEFT = vector(0x6b);
export const SHIFT_BYTES_RIGHT = vector(0x6d);
export const ADD_BYTES = vector(0x6e);
export const SPLAT_PAIRS = vector(0x10);
export const SHIFT_PAIRS_LEFT = vector(0x8b);
export const SHIFT_PAIRS_RIGHT = vector(0x8d);

const section = (id: number, content: number[]): number[] => [id, ...leb(content.length), ...content];
const I32 = 0x7f;
const V128 = 0x7b;
const PAGE_BYTES = 65_536;

/**
 * One function with integer parameters and no result, with its own memory in pages of 64 KiB. Locals are numbered: parameters, then
 * `integers`, then `vectors`.
 */
export function assemble({
  parameters,
  integers,
  vectors,
  pages,
  code,
}: {
  parameters: number;
  integers: number;
  vectors: number;
  pages: number;
  code: readonly number[];
}): { run(...values: number[]): void; memory: Buffer } {
  const body = [2, integers, I32, vectors, V128, ...code];
  const module = new WebAssembly.Module(
    Uint8Array.from([
      ...[0x00, 0x61, 0x73, 0x6d, 1, 0, 0, 0],
      ...section(1, [1, 0x60, parameters, ...Array<number>(parameters).fill(I32), 0]),
      ...section(3, [1, 0]),
      ...section(5, [1, 0, pages]),
      ...section(7, [2, 1, 0x72, 0, 0, 1, 0x6d, 2, 0]),
      ...section(10, [1, ...leb(body.length), ...body]),
    ]),
  );
  const { r: run, m: memory } = new WebAssembly.Instance(module).exports as unknown as {
    r(...values: number[]): void;
    m: WebAssembly.Memory;
  };
  return { run, memory: Buffer.from(memory.buffer, 0, pages * PAGE_BYTES) };
}
