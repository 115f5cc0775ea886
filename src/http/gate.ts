/** The checks that every API request passes: HTTPS, key, permission, limit; and the claim of its Idempotency-Key. */
import { createHash } from 'node:crypto';
import type { FastifyReply, FastifyRequest } from 'fastify';
import type { Context } from '../context.ts';
import { clientNetwork } from '../core/networks.ts';
import { UNLIMITED } from '../core/plan.ts';
import { Problem } from '../core/problem.ts';
import { findApiKey, type KeyOwner, originAllowedByAnyKey } from '../keys/keys.ts';
import type { IdempotencyClaim } from '../payments/view.ts';
import { createClientReader, type ReadClient } from './client.ts';
import { canonicalJson, type ParsedBody } from './json.ts';
import { type Limits, WINDOW_SECONDS } from './limits.ts';

declare module 'fastify' {
  // An interface because it extends one of the library's.
  interface FastifyRequest {
    /** The owner of its key, once known. */
    keyOwner: KeyOwner | null;
    /** The client address, known together with the owner. */
    clientIp: string;
    /** When it started, on the monotonic clock. */
    startedMs: number;
    /** Names of parameters that its route does not accept and that are ignored; null: none. */
    ignoredParameters: readonly string[] | null;
  }
}

/** Who may call: a secret key, any key, or a secret key of test mode. */
export type Access = 'secret' | 'any' | 'secret_test';

/** Replies to calls without a valid key show this bucket, by client. */
const ANONYMOUS_PER_MINUTE = 300;
/** A public key is visible in shop pages, so its creates are also limited by client. */
const PUBLIC_PER_MINUTE_PER_CLIENT = 10;

export type Gate = {
  /** The caller's address and whether the request came over TLS, through trusted proxies. */
  client: ReadClient;
  /** Lets a request through or throws the problem; rate limit headers are set either way. Stores the identified caller on the request. */
  enter(request: FastifyRequest, reply: FastifyReply, access: Access): Promise<KeyOwner>;
  /** Identifies the caller, regardless of whether the request succeeds. */
  identify(request: FastifyRequest): Promise<KeyOwner | null>;
  /** Sets the rate limit headers of a caller without a key (unknown route, preflight). */
  anonymous(request: FastifyRequest, reply: FastifyReply): Promise<void>;
};

export function createGate(ctx: Context, { trustedProxies, limits }: { trustedProxies: readonly string[]; limits: Limits }): Gate {
  const client = createClientReader(ctx, trustedProxies);
  /** `quiet`: the headers keep showing another bucket, unless this one refuses. */
  const consume = async (reply: FastifyReply, bucket: string, points: number, { quiet = false } = {}): Promise<void> => {
    const show = (remaining: number, resetMs: number) => {
      const seconds = Math.max(1, Math.ceil(resetMs / 1000));
      reply.raw.setHeader('x-ratelimit-limit', String(points || UNLIMITED));
      reply.raw.setHeader('x-ratelimit-remaining', String(remaining));
      reply.raw.setHeader('x-ratelimit-reset', String(Math.ceil((ctx.clock.now().getTime() + resetMs) / 1000)));
      reply.raw.setHeader('ratelimit-policy', `"default";q=${points || UNLIMITED};w=${WINDOW_SECONDS}`);
      reply.raw.setHeader('ratelimit', `"default";r=${remaining};t=${seconds}`);
      return seconds;
    };
    if (points === 0) {
      if (!quiet) show(UNLIMITED, WINDOW_SECONDS * 1000);
      return;
    }
    const { allowed, remaining, resetMs } = await limits.consume(bucket, points);
    if (allowed && quiet) return;
    const seconds = show(allowed ? remaining : 0, resetMs);
    if (!allowed) throw new Problem('rate_limit_exceeded', { seconds }, { retryAfterSeconds: seconds });
  };

  const httpsOnly = ctx.settings.publicUrl.startsWith('https:');
  const anonymous: Gate['anonymous'] = (request, reply) => consume(reply, `ip ${client(request).network}`, ANONYMOUS_PER_MINUTE);

  const identify: Gate['identify'] = async (request) => {
    const bearer = /^Bearer ([\x21-\x7e]{1,200})$/i.exec(request.headers.authorization ?? '')?.[1];
    request.clientIp ||= client(request).ip;
    request.keyOwner = bearer === undefined ? null : await findApiKey(ctx, bearer);
    return request.keyOwner;
  };
  return {
    client,
    anonymous,
    identify,
    enter: async (request, reply, access) => {
      const { ip, network, secure } = client(request);
      request.clientIp = ip;
      if (httpsOnly && !secure) {
        await consume(reply, `ip ${network}`, ANONYMOUS_PER_MINUTE);
        throw new Problem('https_required');
      }
      const owner = await identify(request);
      // Pages call only create routes.
      const origin = access === 'any' ? request.headers.origin : undefined;
      if (!owner) {
        await consume(reply, `ip ${network}`, ANONYMOUS_PER_MINUTE);
        if (origin !== undefined && (await originAllowedByAnyKey(ctx, origin))) showTo(origin, reply);
        throw new Problem('invalid_api_key');
      }
      const page = owner.kind === 'public' && owner.origins.length > 0 ? origin : undefined;
      const isListed = page !== undefined && owner.origins.includes(page);
      if (isListed) showTo(page, reply);
      const { perMinute } = ctx.settings.plans[owner.plan];
      if (owner.kind !== 'public') await consume(reply, `${owner.merchantId} ${owner.mode}`, perMinute);
      else if (access !== 'any') await consume(reply, `refused ${owner.keyId} ${network}`, ANONYMOUS_PER_MINUTE);
      else await consume(reply, `public ${owner.keyId} ${network}`, PUBLIC_PER_MINUTE_PER_CLIENT);
      if (owner.kind === 'public' && access !== 'any') throw new Problem('secret_key_required');
      if (!owner.allows(ip)) throw new Problem('ip_not_allowed', { ip });
      if (owner.readOnly && request.method !== 'GET') throw new Problem('key_read_only');
      if (access === 'secret_test' && owner.mode !== 'test') throw new Problem('test_key_required');
      if (page !== undefined && !isListed) refuseOrigin(page, reply);
      if (origin !== undefined && isFromOtherSite(request) && !isListed && !(await originAllowedByAnyKey(ctx, origin)))
        refuseOrigin(origin, reply);
      // A request refused for another reason does not use up the limit of the merchant's other payers.
      if (owner.kind === 'public') await consume(reply, `public ${owner.merchantId} ${owner.mode}`, perMinute, { quiet: true });
      return owner;
    },
  };
}

/** Refuses a page in a way it can read: without the header, its script only sees `Failed to fetch`. */
function refuseOrigin(origin: string, reply: FastifyReply): never {
  showTo(origin, reply);
  throw new Problem('origin_not_allowed', { origin: origin.slice(0, 200) });
}
/** Whether the browser reports a cross-site page. Preflights are answered for every origin, so the POST itself is checked. */
const isFromOtherSite = (request: FastifyRequest): boolean =>
  ['cross-site', 'same-site'].includes(String(request.headers['sec-fetch-site'] ?? ''));

/** Lets a page of `origin` read the reply. */
function showTo(origin: string, reply: FastifyReply): void {
  reply.raw.setHeader('access-control-allow-origin', origin);
  reply.raw.setHeader('vary', 'origin');
  reply.raw.setHeader(
    'access-control-expose-headers',
    'idempotent-replayed, retry-after, x-ignored-parameters, x-ratelimit-limit, x-request-id',
  );
}

/**
 * The claim of an Idempotency-Key (draft-ietf-httpapi-idempotency-key-header): quoted or bare, scoped to key kind, merchant, mode and
 * route; with a public key, which everyone has, also to the client.
 */
export const readClaim = (request: FastifyRequest, owner: KeyOwner, route: string, body: ParsedBody): IdempotencyClaim | null =>
  readClaimOf(
    request,
    [owner.kind, owner.merchantId, owner.mode, route],
    body,
    owner.kind === 'public' ? [clientNetwork(request.clientIp)] : [],
  );

/** The same for the caller and route that `scope` names. */
export function readClaimOf(
  request: FastifyRequest,
  scope: readonly string[],
  body: ParsedBody,
  more: readonly string[] = [],
): IdempotencyClaim | null {
  const header = request.headers['idempotency-key'];
  if (header === undefined) return null;
  const text = typeof header === 'string' ? header : '';
  const key = /^"((?:[^"\\]|\\["\\])*)"$/.exec(text)?.[1]?.replace(/\\(["\\])/g, '$1') ?? text;
  if (!/^[\x20-\x7e]{1,255}$/.test(key)) throw new Problem('idempotency_key_invalid', {}, { param: null });
  const hash = (value: string) => createHash('sha256').update(value).digest();
  return {
    claim: hash(JSON.stringify([...scope, request.params, key, ...more])),
    fingerprint: hash(canonicalJson(body)),
  };
}
