/** HTTP for all chain sources: requests whose failure is an outage of the source, and readers for replies of unknown shape. */
import { type Outgoing, OutgoingError } from '#connections';
import { ChainError } from './chain-source.ts';

/** Sends one request and returns the whole reply; `name` identifies the source in errors. Errors: ChainError outage. */
export async function requestFrom(
  outgoing: Outgoing,
  name: string,
  request: Omit<Parameters<Outgoing['request']>[0], 'over'>,
): ReturnType<Outgoing['request']> {
  try {
    return await outgoing.request({ ...request, over: 'refuse' });
  } catch (cause) {
    const reason = cause instanceof OutgoingError ? ` (${cause.class})` : '';
    throw new ChainError('outage', `${name} does not answer${reason}`, { cause });
  }
}

/** Whether the source was unreachable, so no other request would work either. */
export const isAway = (error: ChainError): boolean =>
  error.cause instanceof OutgoingError && ['connect', 'dns', 'tls'].includes(error.cause.class);

export type ReplyFields = Record<string, unknown>;
/** The fields of an object; empty for anything else. */
export const fields = (value: unknown): ReplyFields => (typeof value === 'object' && value !== null ? (value as ReplyFields) : {});

/** The start of a reply with a string result, and its maximum length; members may be in any order. */
const RESULT = '"result":"';
const RESULT_WITHIN = 200;
const QUOTE = 0x22;
/** Buffers grow in these steps, so blocks of different sizes can reuse them. */
const ROOM_BYTES = 256 << 10;

/**
 * Reads a reply whose result is a long hex string, part by part. Keeping it as text or parsing it as JSON takes longer than downloading
 * it, and creates garbage of several times the size of the block. The bytes are written to `room` if they fit, otherwise to a new
 * buffer.
 */
type HexReader = {
  take(part: Buffer, announced: number): void;
  /** The bytes, after the closing quote. Null: the reply has another form or is incomplete. */
  bytes(): Buffer<ArrayBuffer> | null;
  /** What was received of a reply in another form. */
  text(): string;
};
export function createHexReader(room: Buffer<ArrayBuffer> | undefined): HexReader {
  let state: 'before' | 'within' | 'after' | 'other' = 'before';
  const held: Buffer[] = [];
  let into = Buffer.alloc(0);
  let size = 0;
  /** The first digit of a byte whose second one is in the next part. */
  let digit = '';

  const decode = (hex: Buffer): void => {
    let from = 0;
    const room = size + (hex.length >> 1) + 1;
    if (room > into.length) {
      const grown = Buffer.allocUnsafeSlow(2 * room);
      into.copy(grown, 0, 0, size);
      into = grown;
    }
    if (digit !== '' && hex.length > 0) {
      into.write(digit + hex.toString('latin1', 0, 1), size++, 'hex');
      digit = '';
      from = 1;
    }
    const even = hex.length - ((hex.length - from) & 1);
    writeHex(hex, from, even, into, size);
    size += (even - from) >> 1;
    if (even < hex.length) digit = hex.toString('latin1', even);
  };
  const take = (part: Buffer, announced: number): void => {
    if (state === 'before') {
      held.push(part);
      const begun = held.length === 1 ? part : Buffer.concat(held);
      const from = begun.subarray(0, RESULT_WITHIN).indexOf(RESULT) + RESULT.length;
      if (from >= RESULT.length) {
        state = 'within';
        into =
          room && room.length >= announced >> 1 ? room : Buffer.allocUnsafeSlow(Math.ceil((announced >> 1 || 1) / ROOM_BYTES) * ROOM_BYTES);
        held.length = 0;
        take(begun.subarray(from), announced);
      } else if (begun.length >= RESULT_WITHIN) state = 'other';
    } else if (state === 'within') {
      const end = part.indexOf(QUOTE);
      decode(end < 0 ? part : part.subarray(0, end));
      if (end >= 0) state = 'after';
    } else if (state === 'other') held.push(part);
  };
  return {
    take,
    bytes: () => (state === 'after' && digit === '' ? into.subarray(0, size) : null),
    text: () => Buffer.concat(held).toString(),
  };
}

// Decodes hex into bytes that exist already, part by part: a block has millions of digits, and one string of them would be garbage.

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
