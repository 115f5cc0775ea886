/**
 * Compressed answers (RFC 9110, section 12.5.3): files are compressed once and kept, pages as they are made.
 *
 * A compressed page gives away secrets only where somebody can make another person's browser ask for it and choose a part of it
 * (BREACH). The payment page has no cookie: whoever can ask for it holds its address, and with it everything the page says. Answers to
 * people who are signed in, such as the API of the dashboard, are never compressed.
 */
import { promisify } from 'node:util';
import { brotliCompress, brotliCompressSync, constants, gzip, gzipSync } from 'node:zlib';
import type { FastifyReply, FastifyRequest } from 'fastify';

/** A file as it is, and as browsers take it. */
export type Packed = { plain: Buffer; br: Buffer; gzip: Buffer };

/** A larger file would keep its first reader waiting for seconds. */
const LARGE = 1 << 20;
const compressBrotli = promisify(brotliCompress);
const compressGzip = promisify(gzip);
const brotli = (quality: number, size: number) => ({
  params: { [constants.BROTLI_PARAM_QUALITY]: quality, [constants.BROTLI_PARAM_SIZE_HINT]: size },
});

export async function pack(plain: Buffer): Promise<Packed> {
  const [br, gz] = await Promise.all([
    compressBrotli(plain, brotli(plain.length > LARGE ? 5 : 9, plain.length)),
    compressGzip(plain, { level: plain.length > LARGE ? 6 : 9 }),
  ]);
  return { plain, br, gzip: gz };
}

type Encoding = 'br' | 'gzip' | null;
/** The smallest encoding that an Accept-Encoding header takes. */
export function encodingFor(header: string | string[] | undefined): Encoding {
  const taken = new Set(
    String(header ?? '')
      .toLowerCase()
      .split(',', 20)
      .map((part) => part.split(';').map((piece) => piece.trim()))
      .filter(([, ...params]) => !params.some((param) => /^q=0(\.0*)?$/.test(param)))
      .map(([name]) => name),
  );
  return taken.has('br') ? 'br' : taken.has('gzip') ? 'gzip' : null;
}

/** Sends a file that was packed before. */
export function sendPacked(request: FastifyRequest, reply: FastifyReply, packed: Packed): FastifyReply {
  const encoding = encodingFor(request.headers['accept-encoding']);
  reply.header('vary', 'accept-encoding');
  return encoding === null ? reply.send(packed.plain) : reply.header('content-encoding', encoding).send(packed[encoding]);
}

/** A page takes less than half a millisecond at this quality, which is less than what handing it to another thread costs. */
const PAGE_QUALITY = 4;

/** Sends a page that was made for this request; the caller names `accept-encoding` in Vary. */
export function sendText(request: FastifyRequest, reply: FastifyReply, text: string): FastifyReply {
  const encoding = encodingFor(request.headers['accept-encoding']);
  if (encoding === null) return reply.send(text);
  const bytes = Buffer.from(text);
  const small = encoding === 'br' ? brotliCompressSync(bytes, brotli(PAGE_QUALITY, bytes.length)) : gzipSync(bytes);
  return reply.header('content-encoding', encoding).send(small);
}
