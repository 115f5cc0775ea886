/** All outgoing requests: time and size limits, no redirects, and public addresses only for merchants' URLs. */
import http, { type IncomingMessage } from 'node:http';
import https from 'node:https';
import { BlockList, isIP, type LookupFunction } from 'node:net';
import { matchNetworks } from './core/networks.ts';
import type { Log } from './log.ts';
import { createNames, NameError, type Names } from './names.ts';

export type OutgoingReply = { status: number; headers: Record<string, string>; body: Uint8Array };
export type OutgoingRequest = {
  url: string;
  method?: 'GET' | 'POST';
  headers?: Record<string, string>;
  body?: Uint8Array;
  /** Limit for the whole exchange: DNS lookup, connect, TLS, headers, body. */
  timeoutMs: number;
  /** Longer replies are cut (`cut`) or refused (`refuse`). */
  maxReplyBytes: number;
  over?: 'cut' | 'refuse';
  /**
   * Receives the reply in parts as it arrives; `body` is then empty. `announced` is the length that the sender announced, at most
   * `maxReplyBytes`; zero when it announced none.
   */
  take?: (part: Buffer, announced: number) => void;
};
/** A request for a merchant, whose lookups are limited together. */
export type MerchantRequest = OutgoingRequest & { merchantId: string };
/** Why a request failed. `class` is stable, and merchants see it. */
export class OutgoingError extends Error {
  readonly class: 'refused_address' | 'dns' | 'connect' | 'tls' | 'timeout' | 'reset' | 'too_large' | 'invalid_url';
  constructor(failure: OutgoingError['class'], message: string, options?: { cause?: unknown }) {
    super(message, options);
    this.name = 'OutgoingError';
    this.class = failure;
  }
}
export type Outgoing = {
  /** To hosts the operator configured: nodes, price sources. No redirects. */
  request(request: OutgoingRequest): Promise<OutgoingReply>;
  /** To a merchant's URL: public addresses only (or WEBHOOK_ALLOW), https, checked and pinned. No redirects. */
  requestMerchantUrl(request: MerchantRequest): Promise<OutgoingReply>;
  /** Whether a merchant URL may be saved: grammar, scheme, port, literal addresses, and every address its name resolves to. Throws OutgoingError. */
  vetMerchantUrl(target: { merchantId: string; url: string }): Promise<void>;
  close(): Promise<void>;
};

/** Everything that is not the public internet (IANA special-purpose registries). */
const PRIVATE = new BlockList();
for (const [network, bits] of [
  ['0.0.0.0', 8],
  ['10.0.0.0', 8],
  ['100.64.0.0', 10],
  ['127.0.0.0', 8],
  ['169.254.0.0', 16],
  ['172.16.0.0', 12],
  ['192.0.0.0', 24],
  ['192.0.2.0', 24],
  ['192.88.99.0', 24],
  ['192.168.0.0', 16],
  ['198.18.0.0', 15],
  ['198.51.100.0', 24],
  ['203.0.113.0', 24],
  ['224.0.0.0', 4],
  ['240.0.0.0', 4],
] as const)
  PRIVATE.addSubnet(network, bits, 'ipv4');
/** In IPv6 only global unicast is public, without the special ranges in it: documentation, 6to4, Teredo, SRv6. */
const PUBLIC6 = new BlockList();
PUBLIC6.addSubnet('2000::', 3, 'ipv6');
const PRIVATE6 = new BlockList();
for (const [network, bits] of [
  ['2001::', 23],
  ['2001:db8::', 32],
  ['2002::', 16],
  ['3fff::', 20],
  ['5f00::', 16],
] as const)
  PRIVATE6.addSubnet(network, bits, 'ipv6');

/** Whether the address is on the public internet. IPv4 inside IPv6 (mapped, NAT64, 6to4, compatible) is rejected. */
export const isPublicAddress = (address: string): boolean =>
  isIP(address) === 4
    ? !PRIVATE.check(address, 'ipv4')
    : isIP(address) === 6 && PUBLIC6.check(address, 'ipv6') && !PRIVATE6.check(address, 'ipv6');

/** Ports of services that are not web servers: a merchant URL must not talk to them. */
const CLOSED_PORTS = new Set([
  1433, 1521, 2049, 2181, 2375, 2376, 2379, 3306, 3389, 5432, 5672, 5900, 5984, 6379, 6443, 9042, 9092, 9200, 9300, 10250, 11211, 27017,
]);

/** Creates the client. `allow`: CIDRs and host names of the operator's network that merchants' URLs may reach anyway. */
export function createOutgoing({
  allow,
  log,
  ca,
  resolve,
}: {
  allow: readonly string[];
  log: Log;
  ca?: string;
  resolve?: Names['resolve'];
}): Outgoing {
  const namesHost = (entry: string) => isIP(entry.split('/')[0]!) === 0;
  const allowedHosts = new Set(allow.filter(namesHost).map((host) => host.toLowerCase()));
  const find = resolve ?? createNames({ allowedHosts, asksSystem: allow.length > 0 }).resolve;
  const isAllowedAddress = matchNetworks(allow.filter((entry) => !namesHost(entry)));
  const agents = {
    http: new http.Agent({ keepAlive: true, maxSockets: 256 }),
    https: new https.Agent({ keepAlive: true, maxSockets: 256, ...(ca && { ca }) }),
  };
  const allowed = (host: string, address: string) => allowedHosts.has(host) || isAllowedAddress(address);

  /** Checks the URL and every address that it resolves to; returns one checked address to connect to. */
  const vet = async (
    { merchantId, url: text }: { merchantId: string; url: string },
    signal: AbortSignal,
  ): Promise<{ url: URL; address: string; family: number }> => {
    const refuse = (kind: OutgoingError['class'], reason: string): never => {
      throw new OutgoingError(kind, reason);
    };
    if (text.length > 2048) refuse('invalid_url', 'it must have at most 2048 characters');
    if (!URL.canParse(text)) refuse('invalid_url', 'it is not a URL');
    const url = new URL(text);
    if (url.protocol !== 'https:' && url.protocol !== 'http:') refuse('invalid_url', 'it must start with https://');
    if (url.username !== '' || url.password !== '') refuse('invalid_url', 'it must not contain a user name or password');
    const host = url.hostname
      .replace(/^\[|\]$/g, '')
      .replace(/\.$/, '')
      .toLowerCase();
    if (host === '') refuse('invalid_url', 'it must name a host');
    const literal = isIP(host);
    let addresses: readonly { address: string; family: number }[];
    try {
      addresses = literal ? [{ address: host, family: literal }] : await find(host, { merchantId, signal });
    } catch (cause) {
      throw new OutgoingError('dns', cause instanceof NameError ? cause.message : `the host ${host} does not resolve`, { cause });
    }
    if (addresses.length === 0) refuse('dns', `the host ${host} does not resolve`);
    const own = addresses.every(({ address }) => allowed(host, address));
    if (!own && !addresses.every(({ address }) => isPublicAddress(address)))
      refuse('refused_address', 'its host must resolve to a public address');
    if (!own && url.protocol !== 'https:') refuse('invalid_url', 'it must start with https://');
    const port = Number(url.port || 443);
    if (!own && ((port !== 443 && port < 1024) || CLOSED_PORTS.has(port))) refuse('refused_address', `webhooks cannot use port ${port}`);
    return { url, ...addresses[0]! };
  };

  const send = (url: URL, request: OutgoingRequest, pinned?: { address: string; family: number }): Promise<OutgoingReply> =>
    new Promise((resolvePromise, reject) => {
      const secure = url.protocol === 'https:';
      let settled = false;
      let answered = false;
      const fail = (error: unknown) => {
        if (settled) return;
        settled = true;
        clearTimeout(timer);
        outgoing.destroy();
        reject(error instanceof OutgoingError ? error : classify(error));
      };
      const outgoing = (secure ? https : http).request(url, {
        method: request.method ?? 'GET',
        headers: { ...request.headers, ...(request.body && { 'content-length': String(request.body.length) }) },
        // A pinned socket is never reused: the pool is keyed by name, not by the address that was checked for this attempt.
        agent: pinned ? false : secure ? agents.https : agents.http,
        ...(pinned && ca && { ca }),
        ...(pinned && {
          lookup: ((_host, options, done) =>
            options.all ? done(null, [pinned]) : done(null, pinned.address, pinned.family)) satisfies LookupFunction,
        }),
      });
      // Started after the request, which throws on an invalid header.
      const timer = setTimeout(
        () => fail(new OutgoingError('timeout', `no complete answer within ${request.timeoutMs} ms`)),
        request.timeoutMs,
      );
      outgoing.on('error', (error: NodeJS.ErrnoException) => {
        // A server may close an idle connection at the moment it is used again, for example after a restart. The request is sent once
        // more. Only read requests use kept connections.
        if (settled || answered || !outgoing.reusedSocket || error.code !== 'ECONNRESET') return fail(error);
        settled = true;
        clearTimeout(timer);
        resolvePromise(send(url, request, pinned));
      });
      outgoing.on('upgrade', (_reply, socket) => {
        socket.destroy();
        fail(new OutgoingError('reset', 'the answer switches to another protocol'));
      });
      outgoing.on('response', (reply: IncomingMessage) => {
        answered = true;
        const parts: Buffer[] = [];
        let size = 0;
        const announced = Math.min(Number(reply.headers['content-length'] ?? 0) || 0, request.maxReplyBytes);
        const take = request.take ?? ((part: Buffer) => void parts.push(part));
        const finish = () => {
          if (settled) return;
          settled = true;
          clearTimeout(timer);
          resolvePromise({
            status: reply.statusCode ?? 0,
            headers: Object.fromEntries(Object.entries(reply.headers).map(([name, value]) => [name, String(value)])),
            body: Buffer.concat(parts),
          });
        };
        reply.on('data', (part: Buffer) => {
          size += part.length;
          if (size <= request.maxReplyBytes) {
            take(part, announced);
            return;
          }
          if (request.over === 'refuse')
            return fail(new OutgoingError('too_large', `the answer is larger than ${request.maxReplyBytes} bytes`));
          take(part.subarray(0, part.length - (size - request.maxReplyBytes)), announced);
          finish();
          outgoing.destroy();
        });
        reply.on('end', finish);
        reply.on('error', fail);
        reply.on('close', () => {
          if (!reply.complete) fail(new OutgoingError('reset', 'the connection closed in the middle of the answer'));
        });
      });
      outgoing.end(request.body);
    });

  return {
    request: (request) => send(new URL(request.url), request),
    requestMerchantUrl: async (request) => {
      const started = performance.now();
      const { url, address, family } = await within((signal) => vet(request, signal), request.timeoutMs);
      return send(url, { ...request, timeoutMs: Math.max(1, request.timeoutMs - (performance.now() - started)) }, { address, family });
    },
    vetMerchantUrl: async (target) => {
      await within((signal) => vet(target, signal), 5_000);
      log.debug({ url: target.url }, 'Merchant URL checked');
    },
    close: async () => {
      agents.http.destroy();
      agents.https.destroy();
    },
  };
}

async function within<T>(work: (ended: AbortSignal) => Promise<T>, timeoutMs: number): Promise<T> {
  const ended = new AbortController();
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new OutgoingError('timeout', `no answer within ${timeoutMs} ms`)), timeoutMs);
  });
  try {
    return await Promise.race([work(ended.signal), late]);
  } finally {
    clearTimeout(timer);
    ended.abort();
  }
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
