/** Decodes hex into bytes that exist already, part by part: a block has millions of digits, and one string of them would be garbage. */

/** Digits in one string. */
const AT_ONCE = 65_536;

/**
 * Decodes the digits `hex[from, to)`, an even number, into `out` at `outAt`. Invalid digits are not detected. Use it only for data that
 * is verified by its hash.
 */
export function writeHex(hex: Buffer, from: number, to: number, out: Buffer, outAt: number): void {
  for (let start = from; start < to; start += AT_ONCE) {
    const end = Math.min(to, start + AT_ONCE);
    out.write(hex.toString('latin1', start, end), outAt + ((start - from) >> 1), 'hex');
  }
}
