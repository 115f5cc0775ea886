/** The only way out over HTTP: time and size limits, no redirects, and public addresses only for merchants' URLs. */
import http from 'node:http';
import https from 'node:https';
import { isIP } from 'node:net';
import { matchNetworks } from '../core/networks.ts';
import type { Log } from '../log.ts';
import { type Address, createNames, NameError, type Names } from '../names.ts';
import { type Outgoing, OutgoingError } from '../outgoing.ts';
import { exchange, type HttpAgents, reach } from './exchange.ts';
import { checkAddresses, literalOf, parseMerchantUrl } from './merchant-url.ts';

/** Limit for checking a URL that a merchant saves. */
const CHECK_MS = 5_000;
/** Limit for connecting to it once. */
const CONNECT_MS = 4_000;

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
  const isAllowed = (host: string, address: string) => allowedHosts.has(host) || isAllowedAddress(address);
  const agents = {
    http: new http.Agent({ keepAlive: true, maxSockets: 256 }),
    https: new https.Agent({ keepAlive: true, maxSockets: 256, ...(ca && { ca }) }),
  };
  const way: HttpAgents = { agents, ca };

  /** Checks the URL and every address that it resolves to; returns all of them, the only ones to connect to. */
  const check = async (
    { merchantId, url }: { merchantId: string; url: string },
    signal: AbortSignal,
  ): Promise<{ url: URL; at: readonly Address[] }> => {
    const parsed = parseMerchantUrl(url);
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
