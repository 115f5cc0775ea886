/**
 * Response compression (RFC 9110, section 12.5.3): files are compressed once and cached, pages on each request.
 *
 * A compressed page leaks secrets only if an attacker can make another person's browser request it and control a part of it
 * (BREACH). The payment page has no cookie: everyone who can request it has its URL, and with it all its contents. Responses to
 * signed-in users, such as the dashboard's API, are never compressed.
 */
import { readFile, writeFile } from 'node:fs/promises';
import { promisify } from 'node:util';
import { brotliCompress, brotliCompressSync, constants, gzip, gzipSync } from 'node:zlib';
import type { FastifyReply, FastifyRequest } from 'fastify';

/** A file uncompressed and in each encoding. */
export type Packed = { plain: Buffer; br: Buffer; gzip: Buffer };

/** Compressing a larger file as well as possible takes seconds. */
const LARGE = 1 << 20;
const compressBrotli = promisify(brotliCompress);
const compressGzip = promisify(gzip);
const brotli = (quality: number, size: number) => ({
  params: { [constants.BROTLI_PARAM_QUALITY]: quality, [constants.BROTLI_PARAM_SIZE_HINT]: size },
});

/** `best`: as small as possible, for files that are compressed when they are built, and not while a reader waits. */
export async function pack(plain: Buffer, { best = false } = {}): Promise<Packed> {
  const isLarge = plain.length > LARGE;
  const [br, gz] = await Promise.all([
    compressBrotli(plain, brotli(isLarge ? 5 : best ? 11 : 9, plain.length)),
    compressGzip(plain, { level: isLarge ? 6 : 9 }),
  ]);
  return { plain, br, gzip: gz };
}

/** Writes the compressed forms of a file next to it. */
export async function writePacked(path: string): Promise<void> {
  const { br, gzip: gz } = await pack(await readFile(path), { best: true });
  await Promise.all([writeFile(`${path}.br`, br), writeFile(`${path}.gz`, gz)]);
}

/** Reads a file with the compressed forms that `writePacked` left. */
export async function readPacked(path: string): Promise<Packed> {
  const [plain, br, gz] = await Promise.all([readFile(path), readFile(`${path}.br`), readFile(`${path}.gz`)]);
  return { plain, br, gzip: gz };
}

/** A text that never changes: made and compressed for its first reader. */
export function packOnce(make: () => string | Promise<string>): () => Promise<Packed> {
  let packed: Promise<Packed> | null = null;
  const start = async (): Promise<Packed> => {
    try {
      return await pack(Buffer.from(await make()));
    } catch (error) {
      // The next reader tries again.
      packed = null;
      throw error;
    }
  };
  return () => (packed ??= start());
}

type Encoding = 'br' | 'gzip' | null;
/** The smallest encoding that an Accept-Encoding header accepts. */
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

/** Sends a file that was compressed before. */
export function sendPacked(request: FastifyRequest, reply: FastifyReply, packed: Packed): FastifyReply {
  const encoding = encodingFor(request.headers['accept-encoding']);
  reply.header('vary', 'accept-encoding');
  return encoding === null ? reply.send(packed.plain) : reply.header('content-encoding', encoding).send(packed[encoding]);
}

/** At this quality, a page takes less than half a millisecond, which is less than the cost of handing it to another thread. */
const PAGE_QUALITY = 4;

/** Sends a page that is the same for everybody who may see it, generated for this request; the caller lists `accept-encoding` in Vary. */
export function sendText(request: FastifyRequest, reply: FastifyReply, text: string): FastifyReply {
  const encoding = encodingFor(request.headers['accept-encoding']);
  if (encoding === null) return reply.send(text);
  const bytes = Buffer.from(text);
  const small = encoding === 'br' ? brotliCompressSync(bytes, brotli(PAGE_QUALITY, bytes.length)) : gzipSync(bytes);
  return reply.header('content-encoding', encoding).send(small);
}
