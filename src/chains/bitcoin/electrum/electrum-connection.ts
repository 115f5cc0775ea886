/** One connection to an Electrum server: the certificate is checked before the first byte is sent, every request has a deadline. */

import { isIP, type Socket } from 'node:net';
import { connect as connectTls, type TLSSocket } from 'node:tls';
import { openSocket, type SocksProxy } from '#connections';
import type { ChainStore } from '../../store.ts';

/**
 * Why a server is not asked now. `away`: it does not answer. `busy`: it asks for fewer requests. `certificate`: it shows another one than
 * before. `wrong`: it is on another network, or what it answered is provably false.
 */
export type ServerFault = 'away' | 'busy' | 'certificate' | 'wrong';
export class ServerError extends Error {
  readonly fault: ServerFault;
  constructor(fault: ServerFault, message: string) {
    super(message);
    this.name = 'ServerError';
    this.fault = fault;
  }
}
/** The server answered that it cannot answer. */
export class AnswerError extends Error {
  readonly code: number | null;
  constructor(method: string, code: number | null) {
    super(`answered ${method} with error ${code ?? 'without a code'}`);
    this.name = 'AnswerError';
    this.code = code;
  }
}

/** `host:port` is its name. */
export type ServerAddress = { name: string; host: string; port: number; tls: boolean };

export type Waits = { connectMs: number; answerMs: number; idleMs: number };
/** Proxies such as Tor take longer. Servers close after 600 s without a request; we close first, so that none of them needs pings. */
const WAITS: Waits = { connectMs: 10_000, answerMs: 15_000, idleMs: 240_000 };
const PROXY_FACTOR = 2;

/** Requests that are open at the same time; more wait here. */
const AT_ONCE = 10;
/** Answers without a history, a transaction or headers. */
export const SMALL_BYTES = 1 << 20;
/** ElectrumX: too much was asked for, and too busy. */
const BUSY_CODES: readonly (number | null)[] = [-101, -102];
const NAME = 'florin';
/** 1.5 is another chain's. */
const VERSIONS = ['1.4', '1.6'] as const;

export type ElectrumConnection = {
  software: string;
  protocol: string;
  /** The same request is sent once, however many wait for it. Errors: ServerError, AnswerError. */
  request(method: string, params: readonly unknown[], bytes?: number): Promise<unknown>;
  close(): void;
};

type Pending = { method: string; bytes: number; timer: NodeJS.Timeout; resolve(result: unknown): void; reject(error: Error): void };
type State = {
  socket: Socket;
  reader: LineReader;
  waits: Waits;
  pending: Map<number, Pending>;
  waiting: (() => void)[];
  nextId: number;
  idle: NodeJS.Timeout | undefined;
  /** Why it is closed. */
  closed: ServerError | null;
  onNotice(method: string, params: readonly unknown[]): void;
  onAnswer(method: string, bytes: number): void;
  onClose(error: ServerError): void;
};

function end(state: State, error: ServerError): void {
  if (state.closed) return;
  state.closed = error;
  clearTimeout(state.idle);
  state.socket.destroy();
  for (const { timer, reject } of state.pending.values()) {
    clearTimeout(timer);
    reject(error);
  }
  state.pending.clear();
  for (const next of state.waiting.splice(0)) next();
  state.onClose(error);
}

function rest(state: State): void {
  clearTimeout(state.idle);
  state.idle = setTimeout(() => end(state, new ServerError('away', 'was not needed')), state.waits.idleMs);
  state.idle.unref();
}

function take(state: State, message: ElectrumMessage, bytes: number): void {
  if (message.kind === 'notice') {
    state.onNotice(message.method, message.params);
    return;
  }
  const open = state.pending.get(message.id);
  // Given up, or never sent.
  if (!open) return;
  clearTimeout(open.timer);
  state.onAnswer(open.method, bytes);
  state.pending.delete(message.id);
  state.reader.settle([...state.pending.values()].reduce((sum, due) => sum + due.bytes, 0));
  state.waiting.shift()?.();
  rest(state);
  if (message.kind === 'result') open.resolve(message.result);
  else if (!BUSY_CODES.includes(message.code)) open.reject(new AnswerError(open.method, message.code));
  else {
    const busy = new ServerError('busy', 'asks for fewer requests');
    open.reject(busy);
    end(state, busy);
  }
}

async function send(state: State, method: string, params: readonly unknown[], bytes: number): Promise<unknown> {
  while (state.pending.size >= AT_ONCE && !state.closed) await new Promise<void>((next) => state.waiting.push(next));
  if (state.closed) throw state.closed;
  const id = state.nextId++;
  clearTimeout(state.idle);
  return new Promise((resolve, reject) => {
    const { answerMs } = state.waits;
    const late = (): void => end(state, new ServerError('away', `does not answer ${method} within ${answerMs / 1000} s`));
    state.pending.set(id, { method, bytes, timer: setTimeout(late, answerMs), resolve, reject });
    state.reader.expect(bytes);
    state.socket.write(encodeRequest(id, method, params));
  });
}

/** Requests on an open socket. */
function speak(socket: Socket, waits: Waits, on: Pick<State, 'onNotice' | 'onAnswer' | 'onClose'>): State {
  const pending: State['pending'] = new Map();
  const reader = createLineReader({ longest: LARGE_BYTES, onLine: (line) => take(state, decodeLine(line), line.length) });
  const state: State = { socket, reader, waits, pending, waiting: [], nextId: 0, idle: undefined, closed: null, ...on };
  socket.on('data', (part: Buffer) => {
    try {
      if (!state.closed) reader.take(part);
    } catch (error) {
      // Nothing that a stranger sends may end the process.
      end(state, new ServerError('away', error instanceof LineError ? error.message : `sent what cannot be read (${error})`));
    }
  });
  socket.on('error', (error) => end(state, new ServerError('away', `closed the connection (${error.message})`)));
  socket.on('close', () => end(state, new ServerError('away', 'closed the connection')));
  return state;
}

/** TLS over an open socket. Certificates are judged here, because most servers sign their own. Errors: an Error. */
function encrypt(socket: Socket, { host }: ServerAddress, timeoutMs: number): Promise<TLSSocket> {
  return new Promise((resolve, reject) => {
    const secured = connectTls({ socket, host, rejectUnauthorized: false, ...(isIP(host) === 0 && { servername: host }) });
    const fail = (error: Error): void => {
      clearTimeout(timer);
      secured.destroy();
      reject(error);
    };
    const timer = setTimeout(() => fail(new Error(`no TLS within ${timeoutMs / 1000} s`)), timeoutMs);
    secured.on('error', fail);
    secured.once('close', () => fail(new Error('the connection was closed')));
    secured.once('secureConnect', () => {
      clearTimeout(timer);
      resolve(secured);
    });
  });
}

/** How a server proves who it is: by a public authority, or by the fingerprint of its certificate. */
const identityOf = (socket: TLSSocket): string => (socket.authorized ? 'authority' : socket.getPeerCertificate().fingerprint256);

/** Why no authority vouches for a certificate, where its operator may just have forgotten to renew it. */
const WHY: Readonly<Record<string, string>> = {
  CERT_HAS_EXPIRED: 'has expired',
  ERR_TLS_CERT_ALTNAME_INVALID: 'is for another name',
};

type ConnectionOptions = {
  address: ServerAddress;
  proxy: SocksProxy | null;
  certificates: ChainStore['certificates'];
  waits?: Waits;
  onNotice(method: string, params: readonly unknown[]): void;
  /** How long an answer was. */
  onAnswer(method: string, bytes: number): void;
  /** It is closed, for this reason; never called before it was open. */
  onClose(error: ServerError): void;
};

async function openChannel({ address, proxy, certificates }: ConnectionOptions, waits: Waits): Promise<Socket> {
  const { host, port, name, tls } = address;
  if (host.endsWith('.onion') && !proxy) throw new ServerError('away', 'can only be reached through Tor; set P2P_PROXY');
  let socket: Socket;
  try {
    socket = await openSocket({ to: { host, port }, proxy, timeoutMs: waits.connectMs });
    if (!tls) return socket;
    socket = await encrypt(socket, address, waits.connectMs);
  } catch (error) {
    throw new ServerError('away', `cannot be reached: ${(error as Error).message}`);
  }
  const secured = socket as TLSSocket;
  const isKnown = await certificates.isKnown(name, identityOf(secured));
  if (isKnown) return socket;
  const why = WHY[String(secured.authorizationError)];
  socket.destroy();
  throw new ServerError(
    'certificate',
    `shows another certificate than before${why ? `, which ${why}` : ''}; if its operator confirms the change, accept it with: florin chain accept-certificate --server ${name}`,
  );
}

/** Connects and agrees on a version. Errors: ServerError; those of the database. */
export async function openConnection(options: ConnectionOptions): Promise<ElectrumConnection> {
  const { connectMs, answerMs, idleMs } = options.waits ?? WAITS;
  const factor = options.proxy ? PROXY_FACTOR : 1;
  const waits = { connectMs: factor * connectMs, answerMs: factor * answerMs, idleMs };
  let isOpen = false;
  const socket = await openChannel(options, waits);
  const { onNotice, onAnswer } = options;
  const state = speak(socket, waits, { onNotice, onAnswer, onClose: (error) => isOpen && options.onClose(error) });
  const asked = new Map<string, Promise<unknown>>();
  const request: ElectrumConnection['request'] = (method, params, bytes = SMALL_BYTES) => {
    const key = JSON.stringify([method, params]);
    const open = asked.get(key) ?? send(state, method, params, bytes).finally(() => asked.delete(key));
    asked.set(key, open);
    return open;
  };
  try {
    const reply = await request('server.version', [NAME, VERSIONS]);
    const [software, protocol] = Array.isArray(reply) ? reply : [];
    if (typeof software !== 'string' || typeof protocol !== 'string' || !/^1\.(4(\.\d+)?|6(\.\d+)?)$/.test(protocol))
      throw new ServerError('wrong', `does not speak version ${VERSIONS.join(' to ')} of the protocol`);
    isOpen = true;
    return {
      // It is shown to operators.
      software: software.replace(/[^\w .+/-]/g, '').slice(0, 60),
      protocol,
      request,
      close: () => {
        isOpen = false;
        end(state, new ServerError('away', 'was closed'));
      },
    };
  } catch (error) {
    end(state, new ServerError('away', 'was closed'));
    throw error instanceof AnswerError ? new ServerError('wrong', 'does not agree on a version of the protocol') : error;
  }
}

// What an Electrum server sends: one JSON-RPC message in each line, with a limit for each line and for all of them.

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

type LineReader = {
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
