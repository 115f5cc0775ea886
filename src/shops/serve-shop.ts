/** What the protocols of shops have in common over HTTP: the gate, and how a call is answered. */
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import type { Context } from '#context';
import type { IdempotencyClaim } from '#core/payment-view';
import { Problem } from '#core/problem';
import { type Gate, type RouteAddress, readClaimOf, readSent, sendJson, serveRoute } from '#http';
import { noteRequest } from '#keys';
import type { KeyActor } from '#people';
import type { ParsedBody } from '#transport';
import { findShopKey, type ShopDialect, type ShopKey } from './shop-keys.ts';

export type ShopDoors = Pick<Gate, 'client' | 'count' | 'anonymous'>;

export type ShopCall = {
  ctx: Context;
  shop: ShopKey;
  /** The key, which `api-keys/current` of BTCPay's protocol shows. */
  key: string;
  /** The shop, as the audit log names it. */
  actor: KeyActor;
  params: Readonly<Record<string, string>>;
  query: URLSearchParams;
  body: ParsedBody;
  idempotency: IdempotencyClaim | null;
};
/** JSON text that is ready to be sent. */
export class JsonText {
  readonly text: string;
  constructor(text: string) {
    this.text = text;
  }
}
export type ShopRoute = RouteAddress & { handle(call: ShopCall): Promise<object | null> };

type Entered = { shop: ShopKey; key: string; ip: string };
export type ShopEntrance<Route> = (call: { request: FastifyRequest; reply: FastifyReply }, route: Route) => Promise<Entered>;

/** How a protocol sends its key, and what it answers to one that is missing or wrong. */
type GateForm = { dialect: ShopDialect; keyOf(request: FastifyRequest): string | undefined; refused(): Error };

/** Who made a request, once its key is known. */
const callers = new WeakMap<FastifyRequest, { shop: ShopKey; ip: string }>();

/**
 * Adds the calls of shops to the request log: method, route and status. What they sent and got stays out of it, and so do the IDs in their
 * paths: who knows that of a refund can claim it.
 */
export function logShopCalls(scope: FastifyInstance, ctx: Context): void {
  scope.addHook('onResponse', (request, reply, done) => {
    const caller = callers.get(request);
    if (caller !== undefined)
      noteRequest(ctx, {
        requestId: request.id,
        owner: { keyId: caller.shop.id, merchantId: caller.shop.merchantId, mode: caller.shop.mode },
        method: request.method,
        url: request.routeOptions.url ?? request.url.split('?')[0]!.replace(/\/[^/]{16,}/g, '/:id'),
        status: reply.statusCode,
        errorCode: null,
        startedMs: request.startedMs,
        hasIdempotencyKey: request.headers['idempotency-key'] !== undefined,
        ip: caller.ip,
        agent: request.headers['user-agent'] ?? null,
        body: null,
        ignored: null,
        isPoll: false,
      });
    done();
  });
}

/** HTTPS, key and rate limit. */
export function openShopGate(ctx: Context, { client, count, anonymous }: ShopDoors, { dialect, keyOf, refused }: GateForm) {
  const httpsOnly = ctx.settings.publicUrl.startsWith('https:');
  return async ({ request, reply }: { request: FastifyRequest; reply: FastifyReply }): Promise<Entered> => {
    const { ip, secure } = client(request);
    if (httpsOnly && !secure) {
      await anonymous(request, reply);
      throw new Problem('https_required');
    }
    const key = keyOf(request);
    const shop = key === undefined ? null : await findShopKey(ctx, { text: key, dialect });
    if (key === undefined || shop === null) {
      await anonymous(request, reply);
      throw refused();
    }
    callers.set(request, { shop, ip });
    await count(reply, `shop ${shop.merchantId} ${shop.mode}`, ctx.settings.plans[shop.plan].perMinute);
    return { shop, key, ip };
  };
}

/** Serves a route; `status` is that of success. */
export function registerShopRoute<Route extends ShopRoute>(
  scope: FastifyInstance,
  ctx: Context,
  { enter, route, status }: { enter: ShopEntrance<Route>; route: Route; status: number },
): void {
  serveRoute(scope, route, {
    urls: [route.path],
    enter: (request, reply) => enter({ request, reply }, route),
    answer: async (request, reply, { shop, key, ip }) => {
      const body = readSent(request);
      const scopeOf = [shop.id, `${route.method} ${route.path}`];
      const answer = await route.handle({
        ...{ ctx, shop, key, body },
        actor: { keyId: shop.id, name: shop.name, ip },
        params: request.params as Record<string, string>,
        query: new URLSearchParams(request.url.split('?')[1] ?? ''),
        idempotency: route.method === 'POST' ? readClaimOf(request, scopeOf, body) : null,
      });
      return sendJson(reply, status, answer instanceof JsonText ? answer.text : JSON.stringify(answer));
    },
  });
}
