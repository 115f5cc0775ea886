/** The protocol over HTTP: `/btcpay/api/v1` with its own gate and its own form of errors. Its keys open nothing else, and no other key opens it. */
import type { FastifyError, FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import type { Context } from '../../context.ts';
import { Problem } from '../../core/problem.ts';
import type { ReadClient } from '../../http/client.ts';
import { readClaimOf } from '../../http/gate.ts';
import { EMPTY_BODY, parseJson } from '../../http/json.ts';
import type { Limits } from '../../http/limits.ts';
import { toProblem } from '../../http/server.ts';
import { findShopKey, type ShopKey, storeIdOf } from '../shop-keys.ts';
import { fromProblem, GreenfieldError, missing, notSupported, unauthenticated } from './greenfield-error.ts';
import { GREENFIELD_ROUTES, type GreenfieldRoute, JsonText } from './greenfield-routes.ts';
import { GREENFIELD_PATH } from './invoice-body.ts';
import { whatInstead } from './not-there.ts';

export type ShopDoors = { client: ReadClient; limits: Limits };
const API = `${GREENFIELD_PATH}/api/v1`;
const ANONYMOUS_PER_MINUTE = 300;

export function registerGreenfield(app: FastifyInstance, ctx: Context, doors: ShopDoors): void {
  app.register(
    async (scope) => {
      scope.setErrorHandler((error: FastifyError | Problem | GreenfieldError, request, reply) => {
        const known = error instanceof GreenfieldError ? error : fromProblem(toProblem(ctx, request, error));
        const wait = error instanceof Problem ? error.retryAfterSeconds : null;
        if (wait !== null) reply.header('retry-after', String(wait));
        return sendJson(reply, known.status, JSON.stringify(known.body));
      });
      const enter = openGate(ctx, doors);
      for (const route of GREENFIELD_ROUTES) registerOne(scope, ctx, enter, route);
      scope.setNotFoundHandler(async (request) => {
        await enter(request, null);
        throw notSupported(whatInstead(request.url.split('?')[0]!));
      });
    },
    { prefix: API },
  );
}

const sendJson = (reply: FastifyReply, status: number, body: string): FastifyReply =>
  reply.code(status).header('cache-control', 'no-store').type('application/json; charset=utf-8').send(body);

type Entered = { shop: ShopKey; key: string };
type Enter = (request: FastifyRequest, route: GreenfieldRoute | null) => Promise<Entered>;

/** HTTPS, key, rate limit, permission, and that the store in the path is the key's own. */
function openGate(ctx: Context, { client, limits }: ShopDoors): Enter {
  const httpsOnly = ctx.settings.publicUrl.startsWith('https:');
  const consume = async (bucket: string, points: number) => {
    if (points === 0) return;
    const { allowed, resetMs } = await limits.consume(bucket, points);
    const wait = Math.max(1, Math.ceil(resetMs / 1000));
    if (!allowed) throw new Problem('rate_limit_exceeded', { seconds: wait }, { retryAfterSeconds: wait });
  };
  return async (request, route) => {
    const { network, secure } = client(request);
    if (httpsOnly && !secure) {
      await consume(`ip ${network}`, ANONYMOUS_PER_MINUTE);
      throw new Problem('https_required');
    }
    const key = /^token ([\x21-\x7e]{1,200})$/i.exec(request.headers.authorization ?? '')?.[1];
    const shop = key === undefined ? null : await findShopKey(ctx, { text: key, dialect: 'greenfield' });
    if (key === undefined || shop === null) {
      await consume(`ip ${network}`, ANONYMOUS_PER_MINUTE);
      throw unauthenticated();
    }
    await consume(`shop ${shop.merchantId} ${shop.mode}`, ctx.settings.plans[shop.plan].perMinute);
    const { store } = (request.params ?? {}) as { store?: string };
    const needs = route?.needs ?? null;
    if (store !== undefined && store !== storeIdOf(shop)) throw missing(needs ?? 'btcpay.store.canviewstoresettings');
    if (needs !== null && !shop.permissions.includes(needs)) throw missing(needs);
    return { shop, key };
  };
}

function registerOne(scope: FastifyInstance, ctx: Context, enter: Enter, route: GreenfieldRoute): void {
  const entered = new WeakMap<FastifyRequest, Entered>();
  scope.route({
    method: route.method,
    url: route.path,
    exposeHeadRoute: false,
    // Before the body is read: a caller without permission learns nothing else.
    onRequest: async (request) => void entered.set(request, await enter(request, route)),
    handler: async (request, reply) => {
      const { shop, key } = entered.get(request)!;
      const body = typeof request.body === 'string' && request.body !== '' ? parseJson(request.body) : EMPTY_BODY;
      const scopeOf = [shop.id, `${route.method} ${route.path}`];
      const answer = await route.handle({
        ...{ ctx, shop, key, body },
        params: request.params as Record<string, string>,
        query: new URLSearchParams(request.url.split('?')[1] ?? ''),
        idempotency: route.method === 'POST' ? readClaimOf(request, scopeOf, body) : null,
      });
      return sendJson(reply, 200, answer instanceof JsonText ? answer.text : JSON.stringify(answer));
    },
  });
}
