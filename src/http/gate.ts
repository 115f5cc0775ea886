/** The checks that every API request passes: HTTPS, key, permission, limit; and the claim of its Idempotency-Key. */
import { createHash } from 'node:crypto';
import type { FastifyReply, FastifyRequest } from 'fastify';
import type { Context } from '#context';
import { clientNetwork } from '#core/networks';
import type { IdempotencyClaim } from '#core/payment-view';
import { Problem } from '#core/problem';
import type { KeyPermission } from '#core/roles';
import { LONGEST_IDEMPOTENCY_HEADER } from '#core/text';
import { findApiKey, type KeyOwner } from '#keys';
import { canonicalJson, createClientReader, type Limits, limitHeaders, type ParsedBody, type ReadClient, setHeaders } from '#transport';

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
/** What a request needs: a kind of key, and which permission of a secret key. */
export type KeyNeeds = { access: Access; permission: KeyPermission };

/** Replies to calls without a valid key show this bucket, by client. */
const ANONYMOUS_PER_MINUTE = 300;
/** A public key is visible in shop pages, so its creates are also limited by client. */
const PUBLIC_PER_MINUTE_PER_CLIENT = 10;

type Counted = {
  /** The headers keep showing another bucket, unless this one refuses. */
  quiet?: boolean;
  refuses?: boolean;
  refusal?: 'rate_limit_exceeded' | 'public_key_limit_reached';
};

export type Gate = {
  /** The caller's address and whether the request came over TLS, through trusted proxies. */
  client: ReadClient;
  /** Counts a request toward `points` a minute (0: unlimited), sets the headers, and refuses beyond the limit. */
  count(reply: FastifyReply, bucket: string, points: number, options?: Counted): Promise<void>;
  /** Lets a request through or throws the problem; rate limit headers are set either way. Stores the identified caller on the request. */
  enter(request: FastifyRequest, reply: FastifyReply, needs: KeyNeeds): Promise<KeyOwner>;
  /** Identifies the caller, regardless of whether the request succeeds. */
  identify(request: FastifyRequest): Promise<KeyOwner | null>;
  /** Counts a caller without a key, such as one of an unknown route, and sets the headers; refuses beyond the limit unless `refuses` is false. */
  anonymous(request: FastifyRequest, reply: FastifyReply, options?: { refuses?: boolean }): Promise<void>;
};

export function createGate(ctx: Context, { trustedProxies, limits }: { trustedProxies: readonly string[]; limits: Limits }): Gate {
  const client = createClientReader(ctx, trustedProxies);
  const count: Gate['count'] = async (reply, bucket, points, { quiet = false, refuses = true, refusal = 'rate_limit_exceeded' } = {}) => {
    // Every reply begins with the headers of no limit.
    if (points === 0) return;
    const { allowed, remaining, resetMs } = await limits.consume(bucket, points);
    if (allowed && quiet) return;
    setHeaders(reply.raw, limitHeaders(ctx.clock.now(), points, { remaining: allowed ? remaining : 0, resetMs }));
    const seconds = Math.max(1, Math.ceil(resetMs / 1000));
    if (!allowed && refuses) throw new Problem(refusal, { seconds, limit: points }, { retryAfterSeconds: seconds });
  };

  const httpsOnly = ctx.settings.publicUrl.startsWith('https:');
  const ownOrigins = new Set([ctx.settings.publicUrl, ctx.settings.paymentPageUrl].map((url) => new URL(url).origin));
  const anonymous: Gate['anonymous'] = (request, reply, options) =>
    count(reply, `ip ${client(request).network}`, ANONYMOUS_PER_MINUTE, options);

  const identify: Gate['identify'] = async (request) => {
    const key = keyIn(request);
    request.clientIp ||= client(request).ip;
    request.keyOwner = key === null ? null : await findApiKey(ctx, key);
    return request.keyOwner;
  };
  /** Refuses a page that may not use the key. Browsers name the page's origin; other clients name none. */
  const checkPage = ({ headers }: FastifyRequest, owner: KeyOwner): void => {
    const { origin } = headers;
    if (origin === undefined) return;
    const shown = origin.slice(0, 200);
    if (owner.kind === 'public') {
      if (owner.origins.length > 0 && !owner.origins.includes(origin)) throw new Problem('origin_not_allowed', { origin: shown });
      return;
    }
    // The reference is on this host and sends requests with a test key.
    const isOwn = ownOrigins.has(origin) || (headers.host !== undefined && origin.endsWith(`://${headers.host}`));
    if (!isOwn) throw new Problem('secret_key_in_page', { origin: shown });
  };
  return {
    client,
    count,
    anonymous,
    identify,
    enter: async (request, reply, { access, permission }) => {
      const { ip, network, secure } = client(request);
      request.clientIp = ip;
      if (httpsOnly && !secure) {
        await anonymous(request, reply);
        throw new Problem('https_required');
      }
      const owner = await identify(request).catch(async (error: unknown) => {
        // Without the database nobody is known, and the reply says so instead of refusing.
        await anonymous(request, reply, { refuses: false });
        throw error;
      });
      if (!owner) {
        await anonymous(request, reply);
        throw new Problem('invalid_api_key');
      }
      const { perMinute } = ctx.settings.plans[owner.plan];
      if (owner.kind !== 'public') await count(reply, `${owner.merchantId} ${owner.mode}`, perMinute);
      else if (access !== 'any') await count(reply, `refused ${owner.keyId} ${network}`, ANONYMOUS_PER_MINUTE);
      else await count(reply, `public ${owner.keyId} ${network}`, PUBLIC_PER_MINUTE_PER_CLIENT, { refusal: 'public_key_limit_reached' });
      if (owner.kind === 'public' && access !== 'any') throw new Problem('secret_key_required');
      if (!owner.allows(ip)) throw new Problem('ip_not_allowed', { ip });
      if (owner.readOnly && request.method !== 'GET') throw new Problem('key_read_only');
      if (owner.kind === 'secret') needPermission(owner, permission);
      if (access === 'secret_test' && owner.mode !== 'test') throw new Problem('test_key_required');
      // Browsers that know a name and a password send them with the requests of other sites too.
      if (access === 'any' || isBasic(request)) checkPage(request, owner);
      // A request refused for another reason does not use up the limit of the merchant's other payers.
      if (owner.kind === 'public') await count(reply, `public ${owner.merchantId} ${owner.mode}`, perMinute, { quiet: true });
      return owner;
    },
  };
}

/** The API key of a request: `Bearer <API_KEY>`, or the name of HTTP Basic (RFC 7617) with an empty password, as `curl -u <API_KEY>:` sends it. */
function keyIn(request: FastifyRequest): string | null {
  const text = /^(?:Bearer|Basic) ([\x21-\x7e]{1,300})$/i.exec(request.headers.authorization ?? '')?.[1];
  if (text === undefined) return null;
  const key = isBasic(request) ? /^([^:]+):$/.exec(Buffer.from(text, 'base64').toString('latin1'))?.[1] : text;
  return key !== undefined && /^[\x21-\x7e]{1,200}$/.test(key) ? key : null;
}
const isBasic = ({ headers }: FastifyRequest): boolean => /^Basic /i.test(headers.authorization ?? '');

/** Errors: key_permission_missing. */
export function needPermission({ permissions }: Pick<KeyOwner, 'permissions'>, permission: KeyPermission): void {
  if (!permissions.includes(permission)) throw new Problem('key_permission_missing', { permission });
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
  const text = typeof header === 'string' && header.length <= LONGEST_IDEMPOTENCY_HEADER ? header : '';
  const key = /^"((?:[^"\\]|\\["\\])*)"$/.exec(text)?.[1]?.replace(/\\(["\\])/g, '$1') ?? text;
  if (!/^[\x20-\x7e]{1,255}$/.test(key)) throw new Problem('idempotency_key_invalid', {}, { param: null });
  const hash = (value: string) => createHash('sha256').update(value).digest();
  return {
    claim: hash(JSON.stringify([...scope, request.params, key, ...more])),
    fingerprint: hash(canonicalJson(body)),
  };
}
