/** The only way out over HTTP: time and size limits, no redirects, and public addresses only for merchants' URLs. */
import { X509Certificate } from 'node:crypto';
import type { Agent, IncomingMessage, RequestOptions } from 'node:http';
import https from 'node:https';
import { connect, isIP, type Socket } from 'node:net';
import type { Readable } from 'node:stream';
import { type ConnectionOptions, connect as connectTls } from 'node:tls';
import { createGunzip } from 'node:zlib';
import { matchNetworks } from '#core/networks';
import type { UnreachedReason } from '#core/unreached';
import type { Log } from '#log';
import { type Address, createNames, isOnion, NameError, type Names } from './names.ts';
import {
  isPublicAddress,
  type Outgoing,
  OutgoingError,
  type OutgoingReply,
  type OutgoingRequest,
  type ReachResult,
  type SocketRequest,
} from './outgoing.ts';
import { openSocket, type PeerAddress, type SocksProxy } from './socks5.ts';
import { speakText, startHandshake, type TextSocket } from './web-socket.ts';

/** Importing this module would also load the client behind `fetch`, which takes a tenth of the time in which a command starts. */
const http = process.getBuiltinModule('node:http');

/** Limit for checking a URL that a merchant saves. */
const CHECK_MS = 5_000;
/** Limit for connecting to it once. */
const CONNECT_MS = 4_000;

/** Creates the client. `allow`: CIDRs and host names of the operator's network that merchants' URLs may reach anyway. `proxy`: reaches onion services. */
export function createOutgoing({
  allow,
  log,
  ca,
  resolve,
  proxy = null,
}: {
  allow: readonly string[];
  log: Log;
  ca?: string;
  resolve?: Names['resolve'];
  proxy?: SocksProxy | null;
}): Outgoing {
  const namesHost = (entry: string) => isIP(entry.split('/')[0]!) === 0;
  const allowedHosts = new Set(allow.filter(namesHost).map((host) => host.toLowerCase()));
  const find = resolve ?? createNames({ allowedHosts, asksSystem: allow.length > 0 }).resolve;
  const isAllowedAddress = matchNetworks(allow.filter((entry) => !namesHost(entry)));
  const isAllowed = (host: string, address: string) => allowedHosts.has(host) || isAllowedAddress(address);
  const agents = {
    http: new http.Agent({ keepAlive: true, maxSockets: 256 }),
    https: new https.Agent({ keepAlive: true, maxSockets: 256, ...(ca && { ca }) }),
  };
  const way: HttpAgents = { agents, ca, proxy };

  /** Checks the URL and every address that it resolves to; returns all of them, the only ones to connect to. */
  const check = async (
    { merchantId, url }: { merchantId: string; url: string },
    signal: AbortSignal,
  ): Promise<{ url: URL; at: readonly Address[] }> => {
    const parsed = parseMerchantUrl(url);
    if (isOnion(parsed.host)) return { url: parsed.url, at: [onionAt(parsed, proxy)] };
    const literal = literalOf(parsed);
    const addresses = literal ? [literal] : await resolveHost(find, parsed.host, { merchantId, signal });
    return { url: parsed.url, at: checkAddresses(parsed, addresses, isAllowed) };
  };
  return {
    request: (request) => exchange(way, new URL(request.url), request),
    requestMerchantUrl: async (request) => {
      const started = performance.now();
      const { url, at } = await within((signal) => check(request, signal), request.timeoutMs);
      const leftMs = Math.max(1, request.timeoutMs - (performance.now() - started));
      return exchange(way, url, { ...request, timeoutMs: leftMs }, at);
    },
    openMerchantSocket: async (request) => {
      const started = performance.now();
      const web = { ...request, url: request.url.replace(/^ws(s?):/, 'http$1:') };
      const { url, at } = await within((signal) => check(web, signal), request.timeoutMs);
      const leftMs = Math.max(1, request.timeoutMs - (performance.now() - started));
      return upgrade(way, url, { ...web, timeoutMs: leftMs }, at);
    },
    vetMerchantUrl: async (target) => {
      await within((signal) => check(target, signal), CHECK_MS);
      log.debug({ url: target.url }, 'Merchant URL checked');
    },
    reachMerchantUrl: async (target) => {
      try {
        const { url, at } = await within((signal) => check(target, signal), CHECK_MS);
        return await reach(way, url, at, CONNECT_MS);
      } catch (error) {
        if (error instanceof OutgoingError) return { reason: error.reason, address: null };
        throw error;
      }
    },
    close: async () => {
      agents.http.destroy();
      agents.https.destroy();
    },
  };
}

async function resolveHost(
  find: Names['resolve'],
  host: string,
  caller: { merchantId: string; signal: AbortSignal },
): Promise<readonly Address[]> {
  try {
    return await find(host, caller);
  } catch (cause) {
    const isKnown = cause instanceof NameError;
    throw new OutgoingError('dns', isKnown ? cause.message : `the host ${host} does not resolve`, {
      cause,
      ...(isKnown && { reason: cause.reason }),
    });
  }
}

async function within<T>(work: (ended: AbortSignal) => Promise<T>, timeoutMs: number): Promise<T> {
  const ended = new AbortController();
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(
      () => reject(new OutgoingError('timeout', `no answer within ${timeoutMs} ms`, { reason: 'name_servers_silent' })),
      timeoutMs,
    );
  });
  try {
    return await Promise.race([work(ended.signal), late]);
  } finally {
    clearTimeout(timer);
    ended.abort();
  }
}

// One request and its reply: a time limit for all of it, a size limit for the reply, no redirects.

/** How requests leave: pools of kept connections, the certificate authority to trust in tests, and what reaches onion services. */
type HttpAgents = { agents: { http: Agent; https: https.Agent }; ca: string | undefined; proxy: SocksProxy | null };

/** How far a request to pinned addresses came. */
type Progress = { address: string | null; tried: string[]; phase: 'connecting' | 'securing' | 'asking' };
const TIMED_OUT = { connecting: 'connect_timeout', securing: 'tls_timeout', asking: 'answer_timeout' } as const;

/** Sends a request. `pinned`: the addresses to connect to, whatever the name resolves to now. Errors: OutgoingError. */
const exchange = (way: HttpAgents, url: URL, request: OutgoingRequest, pinned?: readonly Address[]): Promise<OutgoingReply> =>
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

/** Upgrades a connection to a WebSocket. Errors: OutgoingError. */
const upgrade = (way: HttpAgents, url: URL, request: SocketRequest, at: readonly Address[]): Promise<TextSocket> =>
  new Promise((resolve, reject) => {
    const progress: Progress = { address: null, tried: [], phase: 'connecting' };
    const ended = new AbortController();
    const { headers, accept } = startHandshake();
    const options = optionsOf(way, url, { ...request, headers, maxReplyBytes: 0 }, { at, progress, ended: ended.signal });
    const outgoing = (url.protocol === 'https:' ? https : http).request(url, options);
    const end = (act: () => void) => {
      clearTimeout(timer);
      ended.abort();
      act();
    };
    const fail = (cause: unknown) =>
      end(() => {
        outgoing.destroy();
        reject(placed(classify(cause), progress));
      });
    const timer = setTimeout(
      () => fail(new OutgoingError('timeout', `no connection within ${request.timeoutMs} ms`, { reason: TIMED_OUT[progress.phase] })),
      request.timeoutMs,
    );
    outgoing.on('error', fail);
    outgoing.on('response', ({ statusCode }) => fail(new OutgoingError('reset', `the server opens no WebSocket: status ${statusCode}`)));
    outgoing.on('upgrade', (reply, socket, head) => {
      if (reply.headers['sec-websocket-accept'] !== accept) return fail(new OutgoingError('reset', 'the server opens no WebSocket'));
      end(() => resolve(speakText(socket, { head, maxBytes: request.maxBytes, spoken: request.spoken })));
    });
    outgoing.end();
  });

function placed(error: OutgoingError, { address, tried }: Progress): OutgoingError {
  error.address = address ?? (tried.join(', ') || null);
  return error;
}

type Pinned = { at: readonly Address[]; progress: Progress; ended: AbortSignal };
type Way = Pinned & { proxy: SocksProxy | null };

function optionsOf(
  { agents, ca, proxy }: HttpAgents,
  url: URL,
  { method = 'GET', headers, body, gzip, certificate }: OutgoingRequest,
  pinned: Pinned | undefined,
): RequestOptions {
  const accepted = gzip && { 'Accept-Encoding': 'gzip' };
  const all = { method, headers: { ...headers, ...accepted, ...(body && { 'Content-Length': String(body.length) }) } };
  if (!pinned) return { ...all, agent: url.protocol === 'https:' ? agents.https : agents.http };
  return {
    ...all,
    // Without an agent, so a pinned socket is never reused: a pool is keyed by name, not by the addresses that were checked this time.
    createConnection: (_options, done) => {
      open(url, certificate === undefined ? { ca } : ownCertificate(certificate), { ...pinned, proxy }).then(
        (socket) => done(null, socket),
        (error: Error) => done(error, undefined as never),
      );
      return undefined;
    },
  };
}

type Trust = Pick<ConnectionOptions, 'ca' | 'checkServerIdentity'>;

/** A certificate that its server signed names no host that could be checked. It must be the same one, byte for byte. */
const ownCertificate = (certificate: string): Trust => ({
  ca: certificate,
  checkServerIdentity: (_host, { fingerprint256 }) =>
    fingerprint256 === new X509Certificate(certificate).fingerprint256
      ? undefined
      : new Error(`the certificate has changed: it now has the fingerprint ${fingerprint256}`),
});

/** A connection to the first of the checked addresses that accepts one; with TLS, the handshake is under way. */
async function open(url: URL, trust: Trust, { at, progress, ended, proxy }: Way): Promise<Socket> {
  const isSecure = url.protocol === 'https:';
  const tried = (address: string) => void progress.tried.push(address);
  const port = Number(url.port || (isSecure ? 443 : 80));
  const [first] = at;
  const { socket, address } =
    first?.family === ONION
      ? await dialOnion({ host: first.address, port }, { proxy, ended })
      : await dial({ addresses: at, port, tried, ended });
  progress.address = address;
  progress.phase = isSecure ? 'securing' : 'asking';
  if (!isSecure) return socket;
  // RFC 6066, section 3: SNI names a host without its final dot.
  const host = url.hostname.replace(/^\[|\]$|\.$/g, '');
  const secure = connectTls({ socket, host, servername: isIP(host) === 0 ? host : '', ALPNProtocols: ['http/1.1'], ...trust });
  secure.once('secureConnect', () => {
    progress.phase = 'asking';
  });
  return secure;
}

/** Connects, with TLS where the URL wants it, and sends nothing. */
async function reach(way: HttpAgents, url: URL, at: readonly Address[], timeoutMs: number): Promise<ReachResult> {
  const progress: Progress = { address: null, tried: [], phase: 'connecting' };
  const ended = new AbortController();
  let socket: Socket | undefined;
  let timer: NodeJS.Timeout | undefined;
  try {
    await new Promise<void>((resolve, reject) => {
      const late = () =>
        reject(new OutgoingError('timeout', `no connection within ${timeoutMs} ms`, { reason: TIMED_OUT[progress.phase] }));
      timer = setTimeout(late, timeoutMs);
      open(url, { ca: way.ca }, { at, progress, ended: ended.signal, proxy: way.proxy }).then((opened) => {
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

// Connects to one of several checked addresses: whichever accepts first, as browsers do (RFC 8305).

/** The next address is tried after this long, or as soon as all others have failed. The earlier ones may still win. */
const STAGGER_MS = 250;
/** The most addresses of one host that are tried. */
const MOST_TRIED = 32;

/** In order of preference, alternating between IPv4 and IPv6. */
function alternate(addresses: readonly Address[]): Address[] {
  const first = addresses.filter(({ family }) => family === addresses[0]?.family);
  const others = addresses.filter(({ family }) => family !== addresses[0]?.family);
  const order = Array.from({ length: Math.max(first.length, others.length) }, (_, i) => [first[i], others[i]]);
  return order.flat().filter((address) => address !== undefined);
}

/**
 * The first connection that is made. `tried` gets each address when it is tried. Errors: OutgoingError, when all have failed; none after
 * `ended`, which closes what is open.
 */
function dial({
  addresses,
  port,
  tried,
  ended,
}: {
  addresses: readonly Address[];
  port: number;
  tried(address: string): void;
  ended: AbortSignal;
}): Promise<{ socket: Socket; address: string }> {
  const order = alternate(addresses).slice(0, MOST_TRIED);
  const open = new Set<Socket>();
  const failures: { address: string; error: OutgoingError }[] = [];
  return new Promise((resolve, reject) => {
    let timer: NodeJS.Timeout | undefined;
    const close = (kept?: Socket) => {
      clearTimeout(timer);
      ended.removeEventListener('abort', abort);
      for (const socket of open) if (socket !== kept) socket.destroy();
    };
    const abort = () => close();
    const next = () => {
      clearTimeout(timer);
      const at = order.shift();
      if (!at) {
        if (open.size > 0) return;
        close();
        return reject(asOne(failures));
      }
      tried(at.address);
      const socket = connect({ host: at.address, port, family: at.family, noDelay: true });
      open.add(socket);
      const failed = (cause: Error) => {
        open.delete(socket);
        failures.push({ address: at.address, error: classify(cause) });
        next();
      };
      socket.once('error', failed).once('connect', () => {
        close(socket);
        socket.off('error', failed);
        resolve({ socket, address: at.address });
      });
      if (order.length > 0) timer = setTimeout(next, STAGGER_MS);
    };
    ended.addEventListener('abort', abort, { once: true });
    next();
  });
}

/** One error for all: the most telling one. A machine without IPv6 has no route to any such address, which says nothing of the host. */
function asOne(failures: readonly { address: string; error: OutgoingError }[]): OutgoingError {
  const { error } = failures.find((one) => one.error.reason !== 'unreachable') ?? failures[0]!;
  const message = failures
    .map(({ address, error: { message } }) => (message.includes(address) ? message : `${address}: ${message}`))
    .join('; ');
  return new OutgoingError(error.class, message, { cause: error.cause, reason: error.reason });
}

// Whether a merchant's URL may be requested: its form, its port, and the addresses that its host resolves to.

/** Ports of services that are not web servers: a merchant URL must not talk to them. */
const CLOSED_PORTS = new Set([
  1433, 1521, 2049, 2181, 2375, 2376, 2379, 3306, 3389, 5432, 5672, 5900, 5984, 6379, 6443, 9042, 9092, 9200, 9300, 10250, 11211, 27017,
]);
const MOST_CHARACTERS = 2048;

const refuse = (kind: OutgoingError['class'], message: string, reason?: UnreachedReason): never => {
  throw new OutgoingError(kind, message, { reason });
};

/** A URL that could be requested, and its host in lower case, without brackets and without a final dot. */
type MerchantUrl = { url: URL; host: string };

/** Errors: OutgoingError invalid_url. */
export function parseMerchantUrl(text: string): MerchantUrl {
  if (text.length > MOST_CHARACTERS) refuse('invalid_url', `it must have at most ${MOST_CHARACTERS} characters`);
  if (!URL.canParse(text)) refuse('invalid_url', 'it is not a URL');
  const url = new URL(text);
  if (url.protocol !== 'https:' && url.protocol !== 'http:') refuse('invalid_url', 'it must start with https://');
  if (url.username !== '' || url.password !== '') refuse('invalid_url', 'it must not contain a user name or password');
  const host = url.hostname
    .replace(/^\[|\]$/g, '')
    .replace(/\.$/, '')
    .toLowerCase();
  if (host === '') refuse('invalid_url', 'it must name a host');
  return { url, host };
}

/**
 * The addresses to connect to: all of them, and only if each may be connected to. `isAllowed`: whether an address belongs to the
 * operator's network and was opened to merchants. Errors: OutgoingError dns, refused_address, invalid_url.
 */
export function checkAddresses(
  { url, host }: MerchantUrl,
  addresses: readonly Address[],
  isAllowed: (host: string, address: string) => boolean,
): readonly Address[] {
  if (addresses.length === 0) refuse('dns', `the host ${host} does not resolve`, 'name_without_address');
  if (addresses.every(({ address }) => isAllowed(host, address))) return addresses;
  if (!addresses.every(({ address }) => isPublicAddress(address))) refuse('refused_address', 'its host must resolve to a public address');
  if (url.protocol !== 'https:') refuse('invalid_url', 'it must start with https://');
  const port = Number(url.port || 443);
  if ((port !== 443 && port < 1024) || CLOSED_PORTS.has(port)) refuse('refused_address', `webhooks cannot use port ${port}`, 'url_invalid');
  return addresses;
}

/** In place of the family of an address. */
const ONION = 0;
const ONION_MS = 60_000;

/** In place of an address. The name of an onion service is its key (version 3), which authenticates it without TLS. Errors: OutgoingError. */
function onionAt({ url, host }: MerchantUrl, proxy: SocksProxy | null): Address {
  if (!/^([a-z0-9-]{1,63}\.){0,3}[a-z2-7]{56}\.onion$/.test(host)) refuse('invalid_url', 'it must name an onion service of version 3');
  if (!proxy) refuse('connect', `${host} can only be reached through Tor; the operator must set P2P_PROXY`, 'unreachable');
  if (CLOSED_PORTS.has(Number(url.port))) refuse('refused_address', `port ${url.port} cannot be used`, 'url_invalid');
  return { address: host, family: ONION };
}

/** One circuit for each onion service, which is used again (IsolateSOCKSAuth). */
async function dialOnion(to: PeerAddress, { proxy, ended }: Pick<Way, 'proxy' | 'ended'>): Promise<{ socket: Socket; address: string }> {
  const isolated = proxy && { ...proxy, user: proxy.user || to.host, password: proxy.password || to.host };
  return { socket: await openSocket({ to, proxy: isolated, timeoutMs: ONION_MS, ended }), address: to.host };
}

/** An address in place of a name; null for a name. */
export const literalOf = ({ host }: MerchantUrl): Address | null => (isIP(host) === 0 ? null : { address: host, family: isIP(host) });

// What the errors of sockets, TLS and HTTP mean.

type Meaning = [OutgoingError['class'], UnreachedReason];

/** By the codes of Node and OpenSSL. */
const BY_CODE: Readonly<Record<string, Meaning>> = {
  ENOTFOUND: ['dns', 'name_unknown'],
  EAI_AGAIN: ['dns', 'name_servers_silent'],
  ECONNREFUSED: ['connect', 'connection_refused'],
  EHOSTUNREACH: ['connect', 'unreachable'],
  EHOSTDOWN: ['connect', 'unreachable'],
  ENETUNREACH: ['connect', 'unreachable'],
  EADDRNOTAVAIL: ['connect', 'unreachable'],
  EACCES: ['connect', 'unreachable'],
  EPERM: ['connect', 'unreachable'],
  ETIMEDOUT: ['connect', 'connect_timeout'],
  ECONNRESET: ['reset', 'connection_lost'],
  EPIPE: ['reset', 'connection_lost'],
  // A chain that ends below its root: the server sent its own certificate alone.
  UNABLE_TO_VERIFY_LEAF_SIGNATURE: ['tls', 'certificate_incomplete'],
  // A certificate of the chain names an issuer that is neither sent nor trusted.
  UNABLE_TO_GET_ISSUER_CERT_LOCALLY: ['tls', 'certificate_unknown_authority'],
  UNABLE_TO_GET_ISSUER_CERT: ['tls', 'certificate_unknown_authority'],
  SELF_SIGNED_CERT_IN_CHAIN: ['tls', 'certificate_unknown_authority'],
  DEPTH_ZERO_SELF_SIGNED_CERT: ['tls', 'certificate_self_signed'],
  ERR_TLS_CERT_ALTNAME_INVALID: ['tls', 'certificate_wrong_name'],
  HOSTNAME_MISMATCH: ['tls', 'certificate_wrong_name'],
  CERT_HAS_EXPIRED: ['tls', 'certificate_expired'],
  CERT_NOT_YET_VALID: ['tls', 'certificate_not_yet_valid'],
  ERR_SSL_WRONG_VERSION_NUMBER: ['tls', 'plain_http'],
  ERR_SSL_PACKET_LENGTH_TOO_LONG: ['tls', 'plain_http'],
  ERR_SSL_HTTP_REQUEST: ['tls', 'plain_http'],
  ERR_SSL_TLSV13_ALERT_CERTIFICATE_REQUIRED: ['tls', 'client_certificate_required'],
};

/** The class of any failure, and the reason that merchants see. */
function classify(error: unknown): OutgoingError {
  if (error instanceof OutgoingError) return error;
  const { code = '', message = String(error) } = error as { code?: string; message?: string };
  const [failure, reason] = BY_CODE[code] ?? guess(code, message);
  return new OutgoingError(failure, message, { cause: error, reason });
}

function guess(code: string, message: string): Meaning {
  // Older ways to say the same, without a code of its own.
  if (code === 'EPROTO' && /wrong version number|packet length too long|http request/i.test(message)) return ['tls', 'plain_http'];
  if (/certificate required|CERTIFICATE_REQUIRED/.test(message)) return ['tls', 'client_certificate_required'];
  if (/^(CERT|ERR_TLS_CERT|UNABLE_TO|SELF_SIGNED|INVALID_CA|INVALID_PURPOSE|PATH_LENGTH|CRL)/.test(code))
    return ['tls', 'certificate_invalid'];
  if (/TLS|SSL|EPROTO/.test(code)) return ['tls', 'tls_refused'];
  if (/^HPE_/.test(code)) return ['reset', 'not_http'];
  return ['connect', 'connect_failed'];
}
