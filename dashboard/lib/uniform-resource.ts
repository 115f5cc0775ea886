/** Uniform Resources: CBOR (RFC 8949), encoded as the first and last letters of words (BCR-2020-012). */

/** Two letters for each byte. */
export const PAIRS =
  'aeadaoaxaaahamatayasbkbdbnbtbabsbebybgbwbbbzcmchcscfcycwcecackctcxclcpcndkdadsdidedtdrdndwdpdmdldyeheyeoeeecenemetesftfrfnfsfmfh' +
  'fzfpfwfxfyfefgflfdgagegrgsgtglgwgdgygmgughgohfhghdhkhthphhhlhyhehnhsidiaieihiyioisinimjejzjnjtjljojsjpjkjykpkoktkskkknkgkekikblb' +
  'lalylflslrlplnltloldlelulklgmnmymhmemomumwmdmtmsmknlnyndnsntnnnenboyoeotoxonolospdptpkpypspmplpepfpaprqdqzrerprlrorhrdrkrfryrnrs' +
  'rtsesasrssskswstspsosgsbsfsntotktitttdtetytltbtstptatnuyuoutueurvtvyvovlvevwvavdvswlwdwmwpwewywswtwnwzwfwkykynylyaytzszoztzczezm';

/** CRC-32 (ISO 3309), which ends every resource and names every series. */
export function checksumOf(bytes: Uint8Array): number {
  let crc = 0xffffffff;
  for (const byte of bytes) {
    crc ^= byte;
    for (let i = 0; i < 8; i++) crc = (crc >>> 1) ^ (crc & 1 ? 0xedb88320 : 0);
  }
  return ~crc >>> 0;
}

const VALUES: ReadonlyMap<string, number> = new Map(Array.from({ length: 256 }, (_, i) => [PAIRS.slice(2 * i, 2 * i + 2), i]));
/** The decoded bytes, or null when a pair is unknown or the checksum is wrong. */
export function readWords(text: string): Uint8Array<ArrayBuffer> | null {
  const values = (text.toLowerCase().match(/../g) ?? []).map((pair) => VALUES.get(pair));
  if (text.length % 2 !== 0 || values.length <= 4 || values.includes(undefined)) return null;
  const bytes = Uint8Array.from(values as number[]);
  const body = bytes.subarray(0, -4);
  return new DataView(bytes.buffer).getUint32(body.length) === checksumOf(body) ? body : null;
}
/** Bytes and their checksum in pairs of letters. */
export function wordsOf(bytes: Uint8Array): string {
  const checksum = checksumOf(bytes);
  return [...bytes, ...[24, 16, 8, 0].map((by) => (checksum >>> by) & 255)].map((byte) => PAIRS.slice(2 * byte, 2 * byte + 2)).join('');
}

/** The head of a CBOR value: its kind, and its value or length up to 32 bits. */
export const cborHead = (kind: number, count: number): number[] =>
  count < 24
    ? [(kind << 5) | count]
    : count < 0x100
      ? [(kind << 5) | 24, count]
      : count < 0x10000
        ? [(kind << 5) | 25, count >> 8, count & 255]
        : [(kind << 5) | 26, count >>> 24, (count >>> 16) & 255, (count >>> 8) & 255, count & 255];

export type Value = number | boolean | null | string | Uint8Array | Value[] | Map<Value, Value> | Tagged;
type Tagged = { tag: number; value: Value };
/** The subset of CBOR that keys and PSBTs use. Throws RangeError. */
export function readCbor(bytes: Uint8Array): Value {
  let at = 0;
  const next = (): number => {
    if (at >= bytes.length) throw new RangeError('it ends too early');
    return bytes[at++]!;
  };
  const take = (count: number): Uint8Array => {
    if (at + count > bytes.length) throw new RangeError('it ends too early');
    at += count;
    return bytes.slice(at - count, at);
  };
  const read = (depth: number): Value => {
    if (depth > 16) throw new RangeError('it is too deep');
    const head = next();
    const kind = head >> 5;
    const small = head & 31;
    if (kind === 7) {
      if (small < 20 || small > 22) throw new RangeError('it is of no kind known here');
      return small === 22 ? null : small === 21;
    }
    if (small > 26) throw new RangeError('it is longer than such keys are');
    const count = small < 24 ? small : take(1 << (small - 24)).reduce((sum, byte) => sum * 256 + byte, 0);
    if (kind === 0) return count;
    if (kind === 2) return take(count);
    if (kind === 3) return new TextDecoder().decode(take(count));
    if (kind === 6) return { tag: count, value: read(depth + 1) };
    if (kind === 1 || count > 100) throw new RangeError('it is of no kind known here');
    if (kind === 4) return Array.from({ length: count }, () => read(depth + 1));
    return new Map(Array.from({ length: count }, () => [read(depth + 1), read(depth + 1)]));
  };
  return read(0);
}

/** The number of the tag around a value; null without one. */
export const tagOf = (value: Value | undefined): number | null =>
  typeof value === 'object' && value !== null && 'tag' in value ? value.tag : null;
/** A value without the tags around it. */
export const untagged = (value: Value | undefined): Value =>
  typeof value === 'object' && value !== null && 'tag' in value ? untagged(value.value) : (value ?? null);
