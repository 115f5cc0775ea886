/** One request and its reply: a time limit for all of it, a size limit for the reply, no redirects. */
import http, { type IncomingMessage, type RequestOptions } from 'node:http';
import https from 'node:https';
import type { LookupFunction } from 'node:net';
import type { Readable } from 'node:stream';
import { createGunzip } from 'node:zlib';
import type { Address } from '../names.ts';
import { OutgoingError, type OutgoingReply, type OutgoingRequest } from '../outgoing.ts';

/** How requests leave: pools of kept connections, and the certificate authority to trust in tests. */
export type Way = { agents: { http: http.Agent; https: https.Agent }; ca: string | undefined };

/** Sends a request. `pinned`: the address to connect to, whatever the name resolves to now. Errors: OutgoingError. */
export const exchange = (way: Way, url: URL, request: OutgoingRequest, pinned?: Address): Promise<OutgoingReply> =>
  new Promise((resolve, reject) => {
    const outgoing = (url.protocol === 'https:' ? https : http).request(url, optionsOf(way, url, request, pinned));
    let settled = false;
    let answered = false;
    /** Only the first outcome counts. */
    const settle = (act: () => void) => {
      if (settled) return;
      settled = true;
      clearTimeout(timer);
      act();
    };
    const fail = (error: unknown) =>
      settle(() => {
        outgoing.destroy();
        reject(error instanceof OutgoingError ? error : classify(error));
      });
    // Started after the request, which throws on an invalid header.
    const timer = setTimeout(
      () => fail(new OutgoingError('timeout', `no complete answer within ${request.timeoutMs} ms`)),
      request.timeoutMs,
    );
    outgoing.on('error', (error: NodeJS.ErrnoException) => {
      // A server may close an idle connection at the moment it is used again, for example after a restart. The request is sent once
      // more. Only read requests use kept connections.
      if (answered || !outgoing.reusedSocket || error.code !== 'ECONNRESET') return fail(error);
      settle(() => resolve(exchange(way, url, request, pinned)));
    });
    outgoing.on('upgrade', (_reply, socket) => {
      socket.destroy();
      fail(new OutgoingError('reset', 'the answer switches to another protocol'));
    });
    outgoing.on('response', (reply) => {
      answered = true;
      const complete = (body: Buffer) => settle(() => resolve({ status: reply.statusCode ?? 0, headers: headersOf(reply), body }));
      readReply(reply, request, { complete, fail, stop: () => outgoing.destroy() });
    });
    outgoing.end(request.body);
  });

function optionsOf(
  { agents, ca }: Way,
  url: URL,
  { method = 'GET', headers, body, gzip }: OutgoingRequest,
  pinned?: Address,
): RequestOptions {
  const accepted = gzip && { 'Accept-Encoding': 'gzip' };
  const all = { method, headers: { ...headers, ...accepted, ...(body && { 'Content-Length': String(body.length) }) } };
  if (!pinned) return { ...all, agent: url.protocol === 'https:' ? agents.https : agents.http };
  const lookup: LookupFunction = (_host, options, done) => (options.all ? done(null, [pinned]) : done(null, pinned.address, pinned.family));
  // A pinned socket is never reused: the pool is keyed by name, not by the address that was checked for this attempt.
  return { ...all, agent: false, lookup, ...(ca !== undefined && { ca }) };
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

function classify(error: unknown): OutgoingError {
  const { code = '', message = String(error) } = error as { code?: string; message?: string };
  const failure = /^(ENOTFOUND|EAI_AGAIN)$/.test(code)
    ? 'dns'
    : /CERT|TLS|SSL|SELF_SIGNED|UNABLE_TO_VERIFY|ERR_TLS|EPROTO/.test(code)
      ? 'tls'
      : /^(ECONNRESET|EPIPE|HPE_)/.test(code)
        ? 'reset'
        : 'connect';
  return new OutgoingError(failure, message, { cause: error });
}
