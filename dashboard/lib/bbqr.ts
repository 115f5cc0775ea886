/** BBQr (Coinkite): a file as a series of QR codes, which are shown one after another and read in any order. */
import { base32nopad } from '@scure/base';

const DIGITS = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ';
/** Two digits of base 36. */
const MOST_PARTS = 36 * 36 - 1;
const MOST_CHARACTERS = 4_296;
/** A screen of a phone still shows a code of this size sharply enough for cameras: version 18, 89 modules. */
const PART_BYTES = 600;
/** About two minutes of codes. Larger files are better moved as files. */
export const MOST_SHOWN_BYTES = 480 * PART_BYTES;
/** More than a signed transaction or a signed file that fits into a series has. */
const MOST_READ_BYTES = 4 * 1024 * 1024;
const PART = /^B\$([2HZ])([A-Z])([0-9A-Z]{2})([0-9A-Z]{2})([0-9A-Z]+)$/;

/** P: PSBT, T: Bitcoin transaction, J: JSON, U: text. */
export type BbqrFile = { type: string; bytes: Uint8Array<ArrayBuffer> };

const base36 = (value: number): string => DIGITS[Math.floor(value / 36)]! + DIGITS[value % 36]!;

/** The texts of the codes, all of about the same length. Null when the file is too large. */
export function splitBbqr({ type, bytes }: BbqrFile): string[] | null {
  if (bytes.length === 0 || bytes.length > MOST_SHOWN_BYTES) return null;
  const count = Math.ceil(bytes.length / PART_BYTES);
  // Five bytes are eight digits of base 32, and only the last part may have a fraction of that.
  const size = Math.ceil(bytes.length / count / 5) * 5;
  const total = Math.ceil(bytes.length / size);
  return Array.from(
    { length: total },
    (_, i) => `B$2${type}${base36(total)}${base36(i)}${base32nopad.encode(bytes.subarray(i * size, (i + 1) * size))}`,
  );
}

/** The series cannot be read; the message says why. */
export class BbqrError extends Error {
  constructor(message: string) {
    super(message);
    this.name = 'BbqrError';
  }
}

/** The bytes of one part. Null when it is damaged. */
function bytesOf(encoding: string, digits: string): Uint8Array | null {
  try {
    if (encoding !== 'H') return base32nopad.decode(digits);
    return /^([0-9A-F]{2})+$/.test(digits) ? Uint8Array.from(digits.match(/../g)!, (pair) => Number.parseInt(pair, 16)) : null;
  } catch {
    return null;
  }
}

/** Unpacks a stream without a header, and stops as soon as it grows above the limit. */
async function inflate(packed: Uint8Array<ArrayBuffer>, mostBytes: number): Promise<Uint8Array<ArrayBuffer>> {
  const chunks: Uint8Array<ArrayBuffer>[] = [];
  let size = 0;
  try {
    const reader = new Blob([packed]).stream().pipeThrough(new DecompressionStream('deflate-raw')).getReader();
    for (let next = await reader.read(); !next.done; next = await reader.read()) {
      size += next.value.length;
      if (size > mostBytes) {
        void reader.cancel().catch(() => {});
        break;
      }
      chunks.push(next.value as Uint8Array<ArrayBuffer>);
    }
  } catch {
    throw new BbqrError('The codes contain damaged data. Show them again in your wallet.');
  }
  if (size > mostBytes) throw new BbqrError('The file in these codes is too large.');
  return joinBytes(chunks);
}

function joinBytes(chunks: readonly Uint8Array[]): Uint8Array<ArrayBuffer> {
  const whole = new Uint8Array(chunks.reduce((sum, { length }) => sum + length, 0));
  let at = 0;
  for (const chunk of chunks) {
    whole.set(chunk, at);
    at += chunk.length;
  }
  return whole;
}

export type PartCount = { have: number; total: number };

/** Collects the parts of a series in any order, with repeats. Another series, or a part that differs from before, starts over. */
export function createBbqrReader(mostBytes = MOST_READ_BYTES) {
  let head = '';
  let total = 0;
  let size = 0;
  const parts = new Map<number, { digits: string; bytes: Uint8Array }>();
  const startOver = (next: string, count: number): void => {
    [head, total, size] = [next, count, 0];
    parts.clear();
  };
  return {
    /** What was read so far, or null when the code is not a part of a BBQr series. Errors: BbqrError. */
    add(code: string): PartCount | null {
      const found = code.length <= MOST_CHARACTERS ? PART.exec(code) : null;
      if (!found) return null;
      const [, encoding, , totalDigits, indexDigits, digits] = found as unknown as [string, string, string, string, string, string];
      const [count, index] = [Number.parseInt(totalDigits, 36), Number.parseInt(indexDigits, 36)];
      const bytes = count >= 1 && count <= MOST_PARTS && index < count ? bytesOf(encoding, digits) : null;
      if (!bytes) return null;
      const known = parts.get(index);
      if (head !== code.slice(0, 6) || (known && known.digits !== digits)) startOver(code.slice(0, 6), count);
      if (!parts.has(index)) {
        parts.set(index, { digits, bytes });
        size += bytes.length;
      }
      if (size > mostBytes) {
        startOver('', 0);
        throw new BbqrError('The file in these codes is too large.');
      }
      return { have: parts.size, total };
    },
    /** The file, once all parts were read. Errors: BbqrError. */
    async file(): Promise<BbqrFile> {
      if (total === 0 || parts.size < total) throw new BbqrError('Some codes of the series are missing.');
      const bytes = joinBytes(Array.from({ length: total }, (_, i) => parts.get(i)!.bytes));
      return { type: head[3]!, bytes: head[2] === 'Z' ? await inflate(bytes, mostBytes) : bytes };
    },
  };
}
