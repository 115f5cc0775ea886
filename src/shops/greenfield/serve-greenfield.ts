/** The protocol over HTTP: `/btcpay/api/v1` with its own gate and its own form of errors. Its keys open nothing else, and no other key opens it. */
import type { FastifyError, FastifyInstance } from 'fastify';
import type { Context } from '../../context.ts';
import { Problem } from '../../core/problem.ts';
import { toProblem } from '../../http/server.ts';
import { type Enter, logShopCalls, openShopGate, registerShopRoute, type ShopDoors, sendJson } from '../serve-shop.ts';
import { storeIdOf } from '../shop-keys.ts';
import { fromProblem, GreenfieldError, missingPermission, notSupported, unauthenticated } from './greenfield-error.ts';
import { GREENFIELD_ROUTES, type GreenfieldRoute } from './greenfield-routes.ts';
import { GREENFIELD_PATH } from './invoice-body.ts';
import { whatInstead } from './not-there.ts';

const API = `${GREENFIELD_PATH}/api/v1`;

export function registerGreenfield(app: FastifyInstance, ctx: Context, doors: ShopDoors): void {
  app.register(
    async (scope) => {
      logShopCalls(scope, ctx);
      scope.setErrorHandler((error: FastifyError | Problem | GreenfieldError, request, reply) => {
        const known = error instanceof GreenfieldError ? error : fromProblem(toProblem(ctx, request, error));
        const wait = error instanceof Problem ? error.retryAfterSeconds : null;
        if (wait !== null) reply.header('retry-after', String(wait));
        return sendJson(reply, known.status, JSON.stringify(known.body));
      });
      const enter = openGate(ctx, doors);
      for (const route of GREENFIELD_ROUTES) registerShopRoute(scope, ctx, { enter, route, status: 200 });
      scope.setNotFoundHandler(async (request, reply) => {
        await enter({ request, reply }, null);
        throw notSupported(whatInstead(request.url.split('?')[0]!));
      });
    },
    { prefix: API },
  );
}

/** The gate of all shops, then the permission, and that the store in the path is the key's own. */
function openGate(ctx: Context, doors: ShopDoors): Enter<GreenfieldRoute | null> {
  const enterShop = openShopGate(ctx, doors, {
    dialect: 'greenfield',
    keyOf: ({ headers }) => /^token ([\x21-\x7e]{1,200})$/i.exec(headers.authorization ?? '')?.[1],
    refused: unauthenticated,
  });
  return async (call, route) => {
    const { request } = call;
    const entered = await enterShop(call);
    const { shop } = entered;
    const { store } = (request.params ?? {}) as { store?: string };
    const needs = route?.needs ?? null;
    if (store !== undefined && store !== storeIdOf(shop)) throw missingPermission(needs ?? 'btcpay.store.canviewstoresettings');
    if (needs !== null && !shop.permissions.includes(needs)) throw missingPermission(needs);
    return entered;
  };
}
