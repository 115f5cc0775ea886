/**
 * Uniform Resources: CBOR (RFC 8949), encoded as the first and last letters of words (BCR-2020-012), and the account key in a single-part
 * `hdkey` (BCR-2020-007).
 */

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
export function readWords(text: string): Uint8Array | null {
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

type Value = number | boolean | null | string | Uint8Array | Value[] | Map<Value, Value>;
/** The subset of CBOR that keys and PSBTs use. Tags are skipped: the position of a value says what it is. Throws RangeError. */
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
    if (depth > 8) throw new RangeError('it is too deep');
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
    if (kind === 6) return read(depth + 1);
    if (kind === 1 || count > 100) throw new RangeError('it is of no kind known here');
    if (kind === 4) return Array.from({ length: count }, () => read(depth + 1));
    return new Map(Array.from({ length: count }, () => [read(depth + 1), read(depth + 1)]));
  };
  return read(0);
}

const ALPHABET = '123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz';
async function base58check(payload: Uint8Array<ArrayBuffer>): Promise<string> {
  const sum = await crypto.subtle.digest('SHA-256', await crypto.subtle.digest('SHA-256', payload));
  let rest = [...payload, ...new Uint8Array(sum, 0, 4)].reduce((whole, byte) => whole * 256n + BigInt(byte), 0n);
  let text = '';
  for (; rest > 0n; rest /= 58n) text = ALPHABET[Number(rest % 58n)]! + text;
  // Extended keys never start with a zero byte, so no leading "1" is lost here.
  return text;
}

const HARDENED = 0x80000000;
/** The SLIP-132 version for the address type, when the path names one and the coin supports it. */
const versionOf = (isTest: boolean, purpose: number, coin: number): number => {
  const segwit = coin <= 2;
  if (segwit && purpose === HARDENED + 84) return isTest ? 0x045f1cf6 : 0x04b24746;
  if (segwit && purpose === HARDENED + 49) return isTest ? 0x044a5262 : 0x049d7cb2;
  return isTest ? 0x043587cf : 0x0488b21e;
};

const mapOf = (value: Value | undefined): Map<Value, Value> => (value instanceof Map ? value : new Map());
const wordOf = (value: Value | undefined): number => (typeof value === 'number' ? value : 0);

/** The extended public key in `ur:crypto-hdkey/…` or `ur:hdkey/…`. Null when the code has no key with a path. */
export async function readHdKey(code: string): Promise<string | 'private' | null> {
  const body = /^ur:(?:crypto-)?hdkey\/([a-z]+)$/i.exec(code)?.[1];
  const bytes = body === undefined ? null : readWords(body);
  if (!bytes) return null;
  let fields: Map<Value, Value>;
  try {
    fields = mapOf(readCbor(bytes));
  } catch {
    // The checksum is right, but the content is not a key as the standard describes it.
    return null;
  }
  const key = fields.get(3);
  const chainCode = fields.get(4);
  if (fields.get(1) === true || fields.get(2) === true || (key instanceof Uint8Array && key[0] === 0)) return 'private';
  if (!(key instanceof Uint8Array) || key.length !== 33 || !(chainCode instanceof Uint8Array) || chainCode.length !== 32) return null;
  const components = mapOf(fields.get(6)).get(1);
  // Pairs of index and hardened flag. Ranges and wildcards do not name a single key.
  if (!Array.isArray(components) || components.length < 2 || components.length % 2 !== 0) return null;
  const path: number[] = [];
  for (let i = 0; i < components.length; i += 2) {
    const index = components[i];
    if (typeof index !== 'number' || index >= HARDENED) return null;
    path.push(index + (components[i + 1] === true ? HARDENED : 0));
  }
  const isTest = wordOf(mapOf(fields.get(5)).get(2)) === 1;
  const payload = new Uint8Array(78);
  const view = new DataView(payload.buffer);
  view.setUint32(0, versionOf(isTest, path[0]!, (path[1] ?? HARDENED) - HARDENED));
  payload[4] = wordOf(mapOf(fields.get(6)).get(3)) || path.length;
  view.setUint32(5, wordOf(fields.get(8)));
  view.setUint32(9, path.at(-1)!);
  payload.set(chainCode, 13);
  payload.set(key, 45);
  return base58check(payload);
}
