/** Frames of the peer-to-peer protocol: magic, command, length, checksum, payload. Sizes are limited before memory is used. */
import { sha256d } from '../sha256d.ts';

/** A peer broke the protocol. The message says how; the connection is closed. */
export class WireError extends Error {
  constructor(message: string) {
    super(message);
    this.name = 'WireError';
  }
}

const HEAD_BYTES = 24;
const COMMAND_BYTES = 12;
/** Memory for a payload is reserved in steps, so that a length alone costs nothing. */
const FIRST_BYTES = 16_384;

/** The most items of an `inv`, `getdata` or `notfound` message (MAX_INV_SZ). */
export const MAX_ITEMS = 50_000;
/**
 * The largest payload of a message: MAX_PROTOCOL_MESSAGE_LENGTH of Bitcoin and Dogecoin. Litecoin allows 32 MB and uses them for nothing that
 * is asked for here; Dash allows less. A lower limit of our own would let strangers stop a chain: one merge-mined Dogecoin block with a
 * large proof makes every message of 2,000 headers that contains it larger than usual ones.
 */
export const MAX_PAYLOAD = 4_000_000;

/** A whole message as it is sent. */
export function frame(magic: Buffer, command: string, payload: Buffer): Buffer {
  const bytes = Buffer.alloc(HEAD_BYTES + payload.length);
  magic.copy(bytes, 0);
  bytes.write(command, 4, COMMAND_BYTES, 'latin1');
  bytes.writeUInt32LE(payload.length, 16);
  sha256d(payload).copy(bytes, 20, 0, 4);
  payload.copy(bytes, HEAD_BYTES);
  return bytes;
}

type Body = { command: string; length: number; checksum: number; room: Buffer; received: number };

/** The command of a frame's first 24 bytes: printable ASCII, then zeros only. */
function commandOf(head: Buffer): string {
  let length = 0;
  while (length < COMMAND_BYTES && head[4 + length] !== 0) {
    const character = head[4 + length]!;
    if (character < 0x21 || character > 0x7e) throw new WireError('the command of a message has invalid characters');
    length++;
  }
  if (length === 0) throw new WireError('a message has no command');
  for (let at = length; at < COMMAND_BYTES; at++) {
    if (head[4 + at] !== 0) throw new WireError('the command of a message is not padded with zeros');
  }
  return head.toString('latin1', 4, 4 + length);
}

export type FrameReader = {
  /**
   * Takes bytes as they arrive and calls `onFrame` for each complete message. Stops when `onFrame` returns false. Errors: WireError on a
   * wrong magic, command, length or checksum.
   */
  read(chunk: Buffer): void;
  /** The message that has arrived in part, or null. */
  partial(): { command: string; length: number; received: number } | null;
};

/** Creates a reader of one connection. Its memory is at most twice what the peer has sent of the current message. */
export function createFrameReader({ magic, onFrame }: { magic: Buffer; onFrame(command: string, payload: Buffer): boolean }): FrameReader {
  const head = Buffer.alloc(HEAD_BYTES);
  let headBytes = 0;
  let body: Body | null = null;
  let stopped = false;

  const openBody = (): Body => {
    const command = commandOf(head);
    const length = head.readUInt32LE(16);
    if (length > MAX_PAYLOAD) throw new WireError(`a ${command} message of ${length} bytes is larger than ${MAX_PAYLOAD}`);
    const room = Buffer.allocUnsafeSlow(Math.min(length, FIRST_BYTES));
    return { command, length, checksum: head.readUInt32LE(20), room, received: 0 };
  };
  const takeHead = (chunk: Buffer, at: number): number => {
    const taken = Math.min(HEAD_BYTES - headBytes, chunk.length - at);
    chunk.copy(head, headBytes, at, at + taken);
    headBytes += taken;
    const seen = Math.min(headBytes, magic.length);
    if (head.compare(magic, 0, seen, 0, seen) !== 0) throw new WireError('the peer is on another network: wrong magic');
    if (headBytes === HEAD_BYTES) body = openBody();
    return taken;
  };
  const takeBody = (into: Body, chunk: Buffer, at: number): number => {
    const taken = Math.min(into.length - into.received, chunk.length - at);
    if (into.received + taken > into.room.length) {
      const larger = Buffer.allocUnsafeSlow(Math.min(into.length, Math.max(into.room.length * 2, into.received + taken)));
      into.room.copy(larger, 0, 0, into.received);
      into.room = larger;
    }
    chunk.copy(into.room, into.received, at, at + taken);
    into.received += taken;
    return taken;
  };
  return {
    read: (chunk) => {
      for (let at = 0; at < chunk.length && !stopped; ) {
        at += body ? takeBody(body, chunk, at) : takeHead(chunk, at);
        // `takeHead` may have set it, which the type check does not see.
        const whole = body as Body | null;
        if (!whole || whole.received < whole.length) continue;
        if (sha256d(whole.room).readUInt32LE(0) !== whole.checksum) throw new WireError(`a ${whole.command} message has a wrong checksum`);
        body = null;
        headBytes = 0;
        stopped = !onFrame(whole.command, whole.room);
      }
    },
    partial: () => body && { command: body.command, length: body.length, received: body.received },
  };
}
