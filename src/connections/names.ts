/**
 * Resolves the host names in merchants' URLs. It queries the name servers over its own sockets, because the system's resolver uses a
 * small thread pool, and slow name servers of one merchant would delay every other lookup in the process.
 */
import { lookup as systemLookup } from 'node:dns';
import { Resolver } from 'node:dns/promises';
import { readFile } from 'node:fs/promises';
import { isIP } from 'node:net';
import { networkInterfaces } from 'node:os';
import type { UnreachedReason } from '#core/unreached';

export type Address = { address: string; family: number };
/** Whether a host is an onion service, which only Tor finds: no name server is asked about it (RFC 7686). */
export const isOnion = (host: string): boolean => /\.onion\.?$/i.test(host);

/** Why a name does not resolve. Merchants see the message and the reason. */
export class NameError extends Error {
  readonly reason: Extract<UnreachedReason, `name_${string}`>;
  constructor(message: string, { reason = 'name_unknown', cause }: { reason?: NameError['reason']; cause?: unknown } = {}) {
    super(message, { cause });
    this.name = 'NameError';
    this.reason = reason;
  }
}
export type Names = {
  /** All addresses of a host, preferred one first. `signal` aborts when nothing waits for the answer. Throws NameError. */
  resolve(host: string, caller: { merchantId: string; signal?: AbortSignal }): Promise<readonly Address[]>;
};

/** Time limit of a lookup. */
const LOOK_UP_MS = 3_000;
/** Concurrent lookups of one merchant, and how many more may wait. */
export const LOOK_UPS_PER_MERCHANT = 8;
const WAITING_PER_MERCHANT = 64;
/** A failed lookup is not repeated for this long: shorter than the delay before the second attempt of a delivery. */
const FAILED_MS = 4_000;
const REMEMBERED = 10_000;
/** Node uses up to two of its four threads for lookups. One for names of the operator's network leaves the other free. */
const SYSTEM_AT_ONCE = 1;
const HOSTS_FILE_MS = 10_000;

/**
 * `allowedHosts` are names of the operator's network. The system resolves them, because only it may know them; the same is true for
 * names without a dot when `asksSystem` is set. `servers` and `hostsFile` default to the machine's.
 */
export function createNames({
  allowedHosts = new Set(),
  asksSystem = false,
  servers,
  hostsFile = '/etc/hosts',
  lookUpMs = LOOK_UP_MS,
  failedMs = FAILED_MS,
}: {
  allowedHosts?: ReadonlySet<string>;
  asksSystem?: boolean;
  servers?: readonly string[];
  hostsFile?: string;
  lookUpMs?: number;
  failedMs?: number;
}): Names {
  const turns = new Map<string, Turns>();
  const system = createTurns(SYSTEM_AT_ONCE, REMEMBERED);
  const underWay = new Map<string, { answer: Promise<readonly Address[]> | null; waiting: number }>();
  const failed = new Map<string, { error: NameError; until: number }>();
  const readHosts = createHostsReader(hostsFile);

  const ask = async (host: string): Promise<readonly Address[]> => {
    if (allowedHosts.has(host)) return system.run(() => askSystem(host));
    const listed = (await readHosts()).get(host);
    if (listed) return listed;
    // RFC 6761, section 6.3.
    if (/(^|\.)localhost$/.test(host)) return [asAddress('127.0.0.1'), asAddress('::1')];
    if (host.includes('.')) return askServers(host, lookUpMs, servers);
    if (asksSystem) return system.run(() => askSystem(host));
    throw new NameError(`the name ${host} does not resolve`);
  };
  /** Remembers a failure for a moment, so everything that waits for the same name fails with it. */
  const askOnce = async (host: string): Promise<readonly Address[]> => {
    const known = failed.get(host);
    if (known && known.until > performance.now()) throw known.error;
    failed.delete(host);
    try {
      return await ask(host);
    } catch (cause) {
      const error = cause instanceof NameError ? cause : new NameError(`the name ${host} does not resolve`, { cause });
      if (failed.size >= REMEMBERED) failed.delete(failed.keys().next().value!);
      failed.set(host, { error, until: performance.now() + failedMs });
      throw error;
    }
  };
  const inTurn = async (host: string, merchantId: string, isWanted: () => boolean): Promise<readonly Address[]> => {
    const own = turns.get(merchantId) ?? createTurns(LOOK_UPS_PER_MERCHANT, WAITING_PER_MERCHANT);
    turns.set(merchantId, own);
    try {
      return await own.run(async () => {
        if (!isWanted())
          throw new NameError(`the name ${host} was not asked: nobody waits for it any more`, { reason: 'name_lookups_busy' });
        return askOnce(host);
      });
    } finally {
      if (own.isIdle()) turns.delete(merchantId);
    }
  };
  return {
    resolve: async (host, { merchantId, signal }) => {
      // One query serves all lookups of the same name by one merchant at the same time.
      const key = `${merchantId} ${host}`;
      const shared = underWay.get(key) ?? { waiting: 0, answer: null };
      shared.waiting++;
      underWay.set(key, shared);
      shared.answer ??= inTurn(host, merchantId, () => shared.waiting > 0).finally(() => underWay.delete(key));
      const leave = () => void shared.waiting--;
      signal?.addEventListener('abort', leave, { once: true });
      return shared.answer.finally(() => signal?.removeEventListener('abort', leave));
    },
  };
}

type Turns = { run<T>(work: () => Promise<T>): Promise<T>; isIdle(): boolean };
/** Runs at most `atOnce` at a time, in order of arrival; rejects when `mostWaiting` are already waiting. */
function createTurns(atOnce: number, mostWaiting: number): Turns {
  const waiting: (() => void)[] = [];
  let running = 0;
  return {
    isIdle: () => running === 0,
    run: async (work) => {
      if (running < atOnce) running++;
      else if (waiting.length >= mostWaiting)
        throw new NameError('too many names are being looked up for this merchant', { reason: 'name_lookups_busy' });
      // A finished call hands its place to the next one.
      else await new Promise<void>((resolve) => waiting.push(resolve));
      try {
        return await work();
      } finally {
        const next = waiting.shift();
        if (next) next();
        else running--;
      }
    },
  };
}

const asAddress = (address: string): Address => ({ address, family: isIP(address) });

const askSystem = (host: string): Promise<readonly Address[]> =>
  new Promise((resolve, reject) => {
    systemLookup(host, { all: true, verbatim: true }, (error, addresses) => (error ? reject(error) : resolve(addresses)));
  });

/** Queries IPv4 and IPv6 in parallel; if one fails or times out, the other is used. Each lookup has its own resolver so it can be canceled. */
async function askServers(host: string, lookUpMs: number, servers: readonly string[] | undefined): Promise<readonly Address[]> {
  // The resolver repeats the query after a third of the time. The second try gets the rest.
  const resolver = new Resolver({ timeout: Math.ceil(lookUpMs / 3), tries: 2 });
  if (servers) resolver.setServers(servers);
  const timer = setTimeout(() => resolver.cancel(), lookUpMs);
  try {
    const [four, six] = await Promise.allSettled([resolver.resolve4(host), resolver.resolve6(host)]);
    const found = [four, six].map((answer) => (answer.status === 'fulfilled' ? answer.value.map(asAddress) : []));
    const addresses = (prefersSix() ? found.toReversed() : found).flat();
    if (addresses.length > 0) return addresses;
    const reasons = [four, six].flatMap((answer) => (answer.status === 'rejected' ? [answer.reason as NodeJS.ErrnoException] : []));
    const answered = (...codes: string[]) => reasons.find(({ code = '' }) => codes.includes(code));
    const silent = answered('ETIMEOUT', 'ECANCELLED');
    if (silent) throw new NameError(`the name servers of ${host} do not answer`, { reason: 'name_servers_silent', cause: silent });
    const failed = answered('ESERVFAIL', 'EREFUSED', 'ECONNREFUSED', 'EBADRESP');
    const reason = failed ? 'name_servers_failed' : answered('ENODATA') ? 'name_without_address' : 'name_unknown';
    throw new NameError(`the name ${host} does not resolve`, { reason, cause: failed ?? reasons[0] });
  } finally {
    clearTimeout(timer);
  }
}

/** Whether the machine has a public IPv6 address and no IPv4 address. Everywhere else IPv4 is the safer choice. */
function prefersSix(): boolean {
  const outward = Object.values(networkInterfaces()).flatMap((addresses) => (addresses ?? []).filter(({ internal }) => !internal));
  return !outward.some(({ family }) => family === 'IPv4') && outward.some(({ address }) => /^[23]/.test(address) && isIP(address) === 6);
}

/** The names of the machine's hosts file (hosts(5)), read again after a while. */
function createHostsReader(file: string): () => Promise<ReadonlyMap<string, readonly Address[]>> {
  let readAt = Number.NEGATIVE_INFINITY;
  let names: Promise<ReadonlyMap<string, readonly Address[]>>;
  return () => {
    if (performance.now() - readAt >= HOSTS_FILE_MS) {
      readAt = performance.now();
      // Without the file there are no entries.
      names = readFile(file, 'utf8').then(parseHosts, () => new Map());
    }
    return names;
  };
}

export function parseHosts(text: string): ReadonlyMap<string, readonly Address[]> {
  const names = new Map<string, Address[]>();
  for (const line of text.split('\n')) {
    const [address = '', ...hosts] = line.replace(/#.*/, '').trim().split(/\s+/);
    if (isIP(address) === 0) continue;
    for (const host of hosts.map((name) => name.toLowerCase())) names.set(host, [...(names.get(host) ?? []), asAddress(address)]);
  }
  return names;
}
