/** One request and its reply: a time limit for all of it, a size limit for the reply, no redirects. */
import http, { type IncomingMessage, type RequestOptions } from 'node:http';
import https from 'node:https';
import { isIP, type Socket } from 'node:net';
import type { Readable } from 'node:stream';
import { connect as connectTls } from 'node:tls';
import { createGunzip } from 'node:zlib';
import type { Address } from '../names.ts';
import { OutgoingError, type OutgoingReply, type OutgoingRequest, type Reached } from '../outgoing.ts';
import { classify } from './classify.ts';
import { dial } from './dial.ts';

/** How requests leave: pools of kept connections, and the certificate authority to trust in tests. */
export type HttpAgents = { agents: { http: http.Agent; https: https.Agent }; ca: string | undefined };

/** How far a request to pinned addresses came. */
type Progress = { address: string | null; tried: string[]; phase: 'connecting' | 'securing' | 'asking' };
const TIMED_OUT = { connecting: 'connect_timeout', securing: 'tls_timeout', asking: 'answer_timeout' } as const;

/** Sends a request. `pinned`: the addresses to connect to, whatever the name resolves to now. Errors: OutgoingError. */
export const exchange = (way: HttpAgents, url: URL, request: OutgoingRequest, pinned?: readonly Address[]): Promise<OutgoingReply> =>
  new Promise((resolve, reject) => {
    const progress: Progress = { address: null, tried: [], phase: pinned ? 'connecting' : 'asking' };
    const ended = new AbortController();
    const options = optionsOf(way, url, request, pinned && { at: pinned, progress, ended: ended.signal });
    const outgoing = (url.protocol === 'https:' ? https : http).request(url, options);
    let settled = false;
    let answered = false;
    /** Only the first outcome counts. */
    const settle = (act: () => void) => {
      if (settled) return;
      settled = true;
      clearTimeout(timer);
      ended.abort();
      act();
    };
    const fail = (cause: unknown) =>
      settle(() => {
        outgoing.destroy();
        reject(placed(classify(cause), progress));
      });
    // Started after the request, which throws on an invalid header.
    const timer = setTimeout(
      () => fail(new OutgoingError('timeout', `no complete answer within ${request.timeoutMs} ms`, { reason: TIMED_OUT[progress.phase] })),
      request.timeoutMs,
    );
    outgoing.on('error', (error: NodeJS.ErrnoException) => {
      // A server may close an idle connection at the moment it is used again, for example after a restart. The request is sent once
      // more. Connections are kept only to the operator's own servers, whose requests may be repeated: they read, or announce a
      // transaction that is the same each time.
      if (answered || !outgoing.reusedSocket || error.code !== 'ECONNRESET') return fail(error);
      settle(() => resolve(exchange(way, url, request, pinned)));
    });
    outgoing.on('upgrade', (_reply, socket) => {
      socket.destroy();
      fail(new OutgoingError('reset', 'the answer switches to another protocol', { reason: 'not_http' }));
    });
    outgoing.on('response', (reply) => {
      answered = true;
      const address = progress.address === null ? {} : { address: progress.address };
      const complete = (body: Buffer) =>
        settle(() => resolve({ status: reply.statusCode ?? 0, headers: headersOf(reply), body, ...address }));
      readReply(reply, request, { complete, fail, stop: () => outgoing.destroy() });
    });
    outgoing.end(request.body);
  });

function placed(error: OutgoingError, { address, tried }: Progress): OutgoingError {
  error.address = address ?? (tried.join(', ') || null);
  return error;
}

type Pinned = { at: readonly Address[]; progress: Progress; ended: AbortSignal };

function optionsOf(
  { agents, ca }: HttpAgents,
  url: URL,
  { method = 'GET', headers, body, gzip }: OutgoingRequest,
  pinned: Pinned | undefined,
): RequestOptions {
  const accepted = gzip && { 'Accept-Encoding': 'gzip' };
  const all = { method, headers: { ...headers, ...accepted, ...(body && { 'Content-Length': String(body.length) }) } };
  if (!pinned) return { ...all, agent: url.protocol === 'https:' ? agents.https : agents.http };
  return {
    ...all,
    // Without an agent, so a pinned socket is never reused: a pool is keyed by name, not by the addresses that were checked this time.
    createConnection: (_options, done) => {
      open(url, ca, pinned).then(
        (socket) => done(null, socket),
        (error: Error) => done(error, undefined as never),
      );
      return undefined;
    },
  };
}

/** A connection to the first of the checked addresses that accepts one; with TLS, the handshake is under way. */
async function open(url: URL, ca: string | undefined, { at, progress, ended }: Pinned): Promise<Socket> {
  const isSecure = url.protocol === 'https:';
  const tried = (address: string) => void progress.tried.push(address);
  const { socket, address } = await dial({ addresses: at, port: Number(url.port || (isSecure ? 443 : 80)), tried, ended });
  progress.address = address;
  progress.phase = isSecure ? 'securing' : 'asking';
  if (!isSecure) return socket;
  // RFC 6066, section 3: SNI names a host without its final dot.
  const host = url.hostname.replace(/^\[|\]$|\.$/g, '');
  const secure = connectTls({ socket, host, servername: isIP(host) === 0 ? host : '', ALPNProtocols: ['http/1.1'], ...(ca && { ca }) });
  secure.once('secureConnect', () => {
    progress.phase = 'asking';
  });
  return secure;
}

/** Connects, with TLS where the URL wants it, and sends nothing. */
export async function reach(way: HttpAgents, url: URL, at: readonly Address[], timeoutMs: number): Promise<Reached> {
  const progress: Progress = { address: null, tried: [], phase: 'connecting' };
  const ended = new AbortController();
  let socket: Socket | undefined;
  let timer: NodeJS.Timeout | undefined;
  try {
    await new Promise<void>((resolve, reject) => {
      const late = () =>
        reject(new OutgoingError('timeout', `no connection within ${timeoutMs} ms`, { reason: TIMED_OUT[progress.phase] }));
      timer = setTimeout(late, timeoutMs);
      open(url, way.ca, { at, progress, ended: ended.signal }).then((opened) => {
        socket = opened.on('error', reject).once('close', () => reject(new OutgoingError('reset', 'the connection was closed')));
        if (progress.phase === 'asking') resolve();
        else opened.once('secureConnect', () => resolve());
      }, reject);
    });
    return { reason: null, address: progress.address };
  } catch (error) {
    const { reason, address } = placed(classify(error), progress);
    return { reason, address };
  } finally {
    clearTimeout(timer);
    ended.abort();
    socket?.destroy();
  }
}

const headersOf = ({ headers }: IncomingMessage): Record<string, string> =>
  Object.fromEntries(Object.entries(headers).map(([name, value]) => [name, String(value)]));

/** The content of a reply. It is decompressed in parts, so a small reply that grows beyond every limit is stopped at the limit. */
function contentOf(reply: IncomingMessage, { gzip }: OutgoingRequest, fail: (error: unknown) => void): Readable {
  if (!gzip || reply.headers['content-encoding']?.toLowerCase() !== 'gzip') return reply;
  const content = createGunzip();
  content.on('error', (cause) => fail(new OutgoingError('reset', 'the answer is not valid gzip', { cause })));
  reply.on('close', () => {
    if (!reply.complete) content.destroy();
  });
  return reply.pipe(content);
}

/** Reads a reply up to its limit. `stop` closes the connection. */
function readReply(
  reply: IncomingMessage,
  request: OutgoingRequest,
  { complete, fail, stop }: { complete(body: Buffer): void; fail(error: unknown): void; stop(): void },
): void {
  const { maxReplyBytes, over = 'cut', take } = request;
  const parts: Buffer[] = [];
  let room = maxReplyBytes;
  const content = contentOf(reply, request, fail);
  const length = content === reply ? Number(reply.headers['content-length'] ?? 0) || 0 : 0;
  const announced = Math.min(length, maxReplyBytes);
  const keep = take ?? ((part: Buffer) => void parts.push(part));
  const finish = () => complete(Buffer.concat(parts));
  const end = () => {
    if (content !== reply) content.destroy();
  };
  content.on('data', (part: Buffer) => {
    if (part.length <= room) {
      room -= part.length;
      keep(part, announced);
      return;
    }
    end();
    if (over === 'refuse') return fail(new OutgoingError('too_large', `the answer is larger than ${maxReplyBytes} bytes`));
    keep(part.subarray(0, room), announced);
    room = 0;
    finish();
    stop();
  });
  content.on('end', finish);
  reply.on('error', fail);
  reply.on('close', () => {
    if (!reply.complete) fail(new OutgoingError('reset', 'the connection closed in the middle of the answer'));
  });
}
