/** What an Electrum server sends: one JSON-RPC message in each line, with a limit for each line and for all of them. */

/** A server that breaks the protocol: the connection to it is closed. */
export class LineError extends Error {
  constructor(message: string) {
    super(message);
    this.name = 'LineError';
  }
}

/** `code` is null when the error is not an object with a number: its text is never shown or read. */
export type ElectrumMessage =
  | { kind: 'result'; id: number; result: unknown }
  | { kind: 'error'; id: number; code: number | null }
  | { kind: 'notice'; method: string; params: readonly unknown[] };

/** Reads one line. Errors: LineError. */
export function decodeLine(line: Buffer): ElectrumMessage {
  let value: unknown;
  try {
    value = JSON.parse(line.toString('utf8'));
  } catch {
    throw new LineError('sent a line that is not JSON');
  }
  if (typeof value !== 'object' || value === null || Array.isArray(value)) throw new LineError('sent a line that is not a message');
  const { id, method, params, result, error } = value as Record<string, unknown>;
  if (typeof method === 'string') {
    if (!Array.isArray(params)) throw new LineError('sent a notification without parameters');
    return { kind: 'notice', method, params };
  }
  if (!Number.isSafeInteger(id)) throw new LineError('sent an answer without the number of a request');
  if (error !== undefined && error !== null) {
    const code = typeof error === 'object' && !Array.isArray(error) ? (error as Record<string, unknown>).code : null;
    return { kind: 'error', id: id as number, code: Number.isSafeInteger(code) ? (code as number) : null };
  }
  if (result === undefined) throw new LineError('sent an answer without a result');
  return { kind: 'result', id: id as number, result };
}

/**
 * The longest line: a transaction or a header in hex. No transaction has more than 4,000,000 bytes (MAX_BLOCK_WEIGHT), and so many bytes of
 * Dogecoin headers fit into one message of its network. A miner decides how long the proof of a header is, so the limit is the same where a
 * new block is announced: with a lower one, a single block would close every server.
 */
export const LARGE_BYTES = 8_100_000;
/** What a server may send beyond what was asked for: notifications, and what belongs to requests that were given up. */
export const SPARE_BYTES = LARGE_BYTES;
/** Room that is kept for the next line. */
const KEPT_BYTES = 64 << 10;
const NEWLINE = 0x0a;

export type LineReader = {
  /** A request was sent, whose answer may have this many bytes. */
  expect(bytes: number): void;
  /** An answer arrived; those that are still due may have this many bytes. What was not used is no longer allowed. */
  settle(due: number): void;
  /** Takes what arrived. Errors: LineError. */
  take(part: Buffer): void;
};

/**
 * Splits what arrives into lines. No line is longer than `longest`, and in all not more arrives than was asked for and is
 * spare, so memory and traffic are bounded whatever a server sends.
 */
export function createLineReader({ longest, onLine }: { longest: number; onLine(line: Buffer): void }): LineReader {
  /** The start of a line whose end has not arrived. It doubles as it grows, so that byte by byte costs no more than at once. */
  let room = Buffer.alloc(0);
  let held = 0;
  let credit = SPARE_BYTES;
  const hold = (part: Buffer): void => {
    if (held + part.length > longest) throw new LineError('sent a line that is too long');
    if (held + part.length > room.length) {
      const grown = Buffer.allocUnsafe(Math.max(2 * (held + part.length), KEPT_BYTES));
      room.copy(grown, 0, 0, held);
      room = grown;
    }
    part.copy(room, held);
    held += part.length;
  };
  const finish = (last: Buffer): Buffer => {
    if (held === 0 && last.length <= longest) return last;
    hold(last);
    const line = room.subarray(0, held);
    held = 0;
    if (room.length > KEPT_BYTES) room = Buffer.alloc(0);
    return line;
  };
  return {
    expect: (bytes) => {
      credit += bytes;
    },
    settle: (due) => {
      credit = Math.min(credit, SPARE_BYTES + due);
    },
    take: (part) => {
      credit -= part.length;
      if (credit < 0) throw new LineError('sent more than was asked for');
      let from = 0;
      for (let end = part.indexOf(NEWLINE); end >= 0; end = part.indexOf(NEWLINE, from)) {
        const line = finish(part.subarray(from, end));
        from = end + 1;
        if (line.length > 0) onLine(line);
      }
      if (from < part.length) hold(part.subarray(from));
    },
  };
}

/** A message as it is sent. */
export const encodeRequest = (id: number, method: string, params: readonly unknown[]): string =>
  `${JSON.stringify({ jsonrpc: '2.0', id, method, params })}\n`;
