/** The headers that replies have in common: their spelling, the rate limit, and what lets pages of other sites read a reply. */
import { readFile, writeFile } from 'node:fs/promises';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { isIP } from 'node:net';
import { promisify } from 'node:util';
import { brotliCompress, brotliCompressSync, constants, gzip, gzipSync } from 'node:zlib';
import type { FastifyReply, FastifyRequest } from 'fastify';
import type { Context } from '#context';
import { clientNetwork, matchNetworks, plainIp } from '#core/networks';
import { UNLIMITED } from '#core/plan';
import { type LimitUse, WINDOW_SECONDS } from './limits.ts';

/** An import would load the client behind `fetch` too. */
const http = process.getBuiltinModule('node:http');

/** Names that are not only capitalized: documents and standards spell them like this. */
const SPELLED: Readonly<Record<string, string>> = { Etag: 'ETag', Ratelimit: 'RateLimit', Www: 'WWW' };
const spelledNames = new Map<string, string>();
const MOST_NAMES = 500;

/** The documented spelling of a header: `x-ratelimit-limit` as `X-RateLimit-Limit`. */
function spelledHeader(name: string): string {
  const known = spelledNames.get(name);
  if (known !== undefined) return known;
  const spelled = name
    .split('-')
    .map((part) => part.charAt(0).toUpperCase() + part.slice(1).toLowerCase())
    .map((part) => SPELLED[part] ?? part)
    .join('-');
  if (spelledNames.size < MOST_NAMES) spelledNames.set(name, spelled);
  return spelled;
}

/**
 * A response whose headers are spelled as documented on HTTP/1.1. Names of headers have no case (RFC 9110), but some clients compare
 * them as text, and Fastify writes them in lower case.
 */
export class SpelledResponse<Request extends IncomingMessage = IncomingMessage> extends http.ServerResponse<Request> {
  override setHeader(name: string, value: number | string | readonly string[]): this {
    return super.setHeader(spelledHeader(name), value);
  }
}

/** Sets several headers. */
export function setHeaders(raw: ServerResponse, headers: Readonly<Record<string, string>>): void {
  for (const name in headers) raw.setHeader(name, headers[name]!);
}

/** A bucket's limit (0: unlimited) and what is left of it, as headers. */
export function limitHeaders(
  now: Date,
  points: number,
  { remaining, resetMs }: Omit<LimitUse, 'allowed'>,
): Readonly<Record<string, string>> {
  const limit = points || UNLIMITED;
  return {
    'X-RateLimit-Limit': String(limit),
    'X-RateLimit-Remaining': String(remaining),
    'X-RateLimit-Reset': String(Math.ceil((now.getTime() + resetMs) / 1000)),
    'RateLimit-Policy': `"default";q=${limit};w=${WINDOW_SECONDS}`,
    RateLimit: `"default";r=${remaining};t=${Math.max(1, Math.ceil(resetMs / 1000))}`,
  };
}

let unlimited = { second: 0, headers: limitHeaders(new Date(0), 0, { remaining: UNLIMITED, resetMs: 0 }) };
/** What every reply says until a limit is counted, such as that of a health check, which is not limited. Made once a second. */
export function withoutLimit(now: Date): Readonly<Record<string, string>> {
  const second = Math.ceil(now.getTime() / 1000);
  if (second !== unlimited.second)
    unlimited = { second, headers: limitHeaders(now, 0, { remaining: UNLIMITED, resetMs: WINDOW_SECONDS * 1000 }) };
  return unlimited.headers;
}

/** What a refused request says, whichever limit it met: nothing is left for so many seconds. */
export const usedUp = (now: Date, seconds: number): Readonly<Record<string, string>> => {
  const { 'X-RateLimit-Remaining': remaining, 'X-RateLimit-Reset': reset } = limitHeaders(now, 0, {
    remaining: 0,
    resetMs: seconds * 1000,
  });
  return { 'X-RateLimit-Remaining': remaining!, 'X-RateLimit-Reset': reset! };
};

/**
 * Lets pages of every site read the reply. Routes for public keys send this with every reply, to the preflight and to the request, so
 * that both always agree and a page can also read why it is refused. Nothing is revealed: a reply depends only on the key, which the
 * page must have to ask, and cookies are neither needed nor allowed.
 */
export const FOR_PAGES: Readonly<Record<string, string>> = {
  'Access-Control-Allow-Origin': '*',
  'Access-Control-Expose-Headers':
    'Idempotent-Replayed, Retry-After, X-Ignored-Parameters, X-RateLimit-Limit, X-RateLimit-Remaining, X-RateLimit-Reset, X-Request-Id',
};

// Response compression (RFC 9110, section 12.5.3): files are compressed once and cached, pages on each request.
//
// A compressed page leaks secrets only if an attacker can make another person's browser request it and control a part of it (BREACH). The
// payment page has no cookie: everyone who can request it has its URL, and with it all its contents. Responses to signed-in users, such as
// the dashboard's API, are never compressed.

/** A file uncompressed and in each encoding. */
export type PackedBody = { plain: Buffer; br: Buffer; gzip: Buffer };

/** Compressing a larger file as well as possible takes seconds. */
const LARGE = 1 << 20;
const compressBrotli = promisify(brotliCompress);
const compressGzip = promisify(gzip);
const brotli = (quality: number, size: number) => ({
  params: { [constants.BROTLI_PARAM_QUALITY]: quality, [constants.BROTLI_PARAM_SIZE_HINT]: size },
});

/** `best`: as small as possible, for files that are compressed when they are built, and not while a reader waits. */
async function pack(plain: Buffer, { best = false } = {}): Promise<PackedBody> {
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
export async function readPacked(path: string): Promise<PackedBody> {
  const [plain, br, gz] = await Promise.all([readFile(path), readFile(`${path}.br`), readFile(`${path}.gz`)]);
  return { plain, br, gzip: gz };
}

/** A text that never changes: made and compressed for its first reader. */
export function packOnce(make: () => string | Promise<string>): () => Promise<PackedBody> {
  let packed: Promise<PackedBody> | null = null;
  const start = async (): Promise<PackedBody> => {
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
function encodingFor(header: string | string[] | undefined): Encoding {
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
export function sendPacked(request: FastifyRequest, reply: FastifyReply, packed: PackedBody): FastifyReply {
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

// Determines the client: the peer itself, or the caller that a listed proxy names.

/** The caller's address, the key it is rate limited under, and whether the request came over TLS. */
export type ReadClient = (request: FastifyRequest) => { ip: string; network: string; secure: boolean };

/** The number of unlisted peers that are remembered, and how often each is written: anyone can send headers. */
const MOST_UNLISTED = 20;
const WRITE_MS = 600_000;

/** Reads the caller through `trustedProxies` (addresses or CIDRs). Claims of other peers are ignored, and recorded for doctor. */
export function createClientReader(ctx: Context, trustedProxies: readonly string[]): ReadClient {
  const isProxy = matchNetworks(trustedProxies);
  const written = new Map<string, number>();
  const remember = (peer: string) => {
    const now = ctx.clock.monotonicMs();
    const last = written.get(peer);
    if (last === undefined ? written.size >= MOST_UNLISTED : now - last < WRITE_MS) return;
    written.set(peer, now);
    rememberUnlisted(ctx, peer).catch((error: unknown) => ctx.log.warn({ err: error, peer }, 'Could not record an unlisted proxy'));
  };
  return (request) => {
    const peer = plainIp(request.socket.remoteAddress ?? '');
    const tls = 'encrypted' in request.socket;
    const { headers } = request;
    if (!isProxy(peer)) {
      if (headers['x-forwarded-for'] !== undefined || headers['x-forwarded-proto'] !== undefined) remember(peer);
      return { ip: peer, network: clientNetwork(peer), secure: tls };
    }
    const hops = String(headers['x-forwarded-for'] ?? '')
      .split(',')
      .map(addressOf);
    // The last hop that is not one of our proxies is the caller; anything before it is the caller's own claim. One that cannot be read
    // is a caller too: nobody knows which.
    const ip = hops.findLast((hop) => hop === null || !isProxy(hop)) ?? peer;
    return { ip, network: clientNetwork(ip), secure: tls || namesTls(headers['x-forwarded-proto']) };
  };
}

/** Whether the caller used TLS. Of several proxies, the first one spoke with the caller; some write capital letters. */
const namesTls = (protocol: string | string[] | undefined): boolean => /^\s*https\s*(?:,|$)/i.test(String(protocol ?? ''));

/** The address that a proxy named, also with a port, as some write it; null: it cannot be read. */
function addressOf(hop: string): string | null {
  const text = hop.trim();
  const bare = /^\[([^\]]*)\](?::\d{1,5})?$/.exec(text)?.[1] ?? /^([\d.]+):\d{1,5}$/.exec(text)?.[1] ?? text;
  return isIP(bare) === 0 ? null : plainIp(bare);
}

/** Records a peer that sent forwarded headers; entries last seen a week ago are removed first. */
const rememberUnlisted = ({ db: { sql } }: Context, peer: string) => sql`
  with old as (
    delete from unlisted_proxies where seen_at < clock_timestamp() - interval '7 days' and peer <> ${peer}
  )
  insert into unlisted_proxies (peer)
  select ${peer} where (select count(*) from unlisted_proxies) < ${MOST_UNLISTED} or exists (select 1 from unlisted_proxies where peer = ${peer})
  on conflict (peer) do update set seen_at = excluded.seen_at`;
