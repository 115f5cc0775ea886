/** HTTP servers of tests, which get each request with its whole body. A connection that ends early fails no test; any other error does. */
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';

export type Handler = (request: IncomingMessage, reply: ServerResponse, body: Buffer<ArrayBuffer>) => unknown;
export type Served = { url: string; port: number; stop(): Promise<void> };

/** The codes of errors when the other end went away: those of sockets and streams, and those of `fetch`. */
const GONE = new Set([
  ...['ECONNREFUSED', 'ECONNRESET', 'EPIPE', 'ERR_STREAM_PREMATURE_CLOSE'],
  ...['UND_ERR_RES_CONTENT_LENGTH_MISMATCH', 'UND_ERR_SOCKET'],
]);
const isGone = (error: unknown): boolean =>
  error instanceof Error && (GONE.has(String((error as NodeJS.ErrnoException).code)) || isGone(error.cause));

/**
 * Starts a server on a free port of 127.0.0.1. When the client hangs up, or when the server that the handler asks has stopped, the
 * connection is closed. Everything else that the handler throws is left unhandled, so that it fails the test.
 */
export async function serve(handler: Handler): Promise<Served> {
  const server = createServer(async (request, reply) => {
    try {
      const parts: Buffer[] = [];
      for await (const part of request) parts.push(part as Buffer);
      await handler(request, reply, Buffer.concat(parts));
    } catch (error) {
      reply.destroy();
      if (!isGone(error)) throw error;
    }
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}`,
    port,
    stop: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}

/** Passes a request on to another server, with its headers other than those of the connection. */
export function passOn(origin: string, { method, url, headers }: IncomingMessage, body: Buffer<ArrayBuffer>): Promise<Response> {
  const { host: _host, connection: _connection, 'content-length': _length, ...rest } = headers;
  return fetch(origin + url, { method: method!, headers: rest as Record<string, string>, ...(body.length > 0 && { body }) });
}
