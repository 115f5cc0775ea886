/** The API of Coinbase Commerce over HTTP, as far as plugins use it: `/commerce` with its own keys and its own form of errors. */
import type { FastifyError, FastifyInstance } from 'fastify';
import type { Context } from '../../context.ts';
import { Problem } from '../../core/problem.ts';
import { toProblem } from '../../http/server.ts';
import { getPaymentOnChain } from '../../payments/queries.ts';
import {
  JsonText,
  logShopCalls,
  openShopGate,
  registerShopRoute,
  type ShopCall,
  type ShopDoors,
  type ShopRoute,
  sendJson,
} from '../serve-shop.ts';
import { getInvoice } from '../shop-invoices.ts';
import { chargeJson, sinceTold } from './charge-body.ts';
import { CommerceError, chargeError, notSupportedHere, wrongKey } from './commerce-error.ts';
import { COMMERCE_PATH } from './connect-commerce.ts';
import { createCharge } from './create-charge.ts';

async function readCharge({ ctx, shop, params }: ShopCall): Promise<JsonText> {
  const target = {
    merchantId: shop.merchantId,
    mode: shop.mode,
    dialect: 'commerce' as const,
    lineId: shop.lineId,
    paymentId: params.charge!,
  };
  const invoice = await getInvoice(ctx, target);
  const payment = await getPaymentOnChain(ctx, target);
  const { timeline } = sinceTold(payment, invoice);
  return new JsonText(`{"data":${chargeJson(ctx, payment, { invoice, timeline })}}`);
}

async function postCharge(call: ShopCall): Promise<JsonText> {
  const charge = await createCharge(call.ctx, call.shop, call);
  return readCharge({ ...call, params: { charge } });
}

/** Florin has no checkouts. Plugins read the list to test their key. */
const NO_CHECKOUTS = { pagination: { order: 'desc', total: 0, yielded: 0, limit: 0, next_uri: null, previous_uri: null }, data: [] };

export const COMMERCE_ROUTES: readonly (ShopRoute & { status: number })[] = [
  { method: 'POST', path: '/charges', status: 201, handle: postCharge },
  { method: 'GET', path: '/charges/:charge', status: 200, handle: readCharge },
  { method: 'GET', path: '/checkouts', status: 200, handle: async () => NO_CHECKOUTS },
];

export function registerCommerce(app: FastifyInstance, ctx: Context, doors: ShopDoors): void {
  app.register(
    async (scope) => {
      logShopCalls(scope, ctx);
      scope.setErrorHandler((error: FastifyError | Problem | CommerceError, request, reply) => {
        const known = error instanceof CommerceError ? error : chargeError(toProblem(ctx, request, error));
        const wait = error instanceof Problem ? error.retryAfterSeconds : null;
        if (wait !== null) reply.header('retry-after', String(wait));
        return sendJson(reply, known.status, JSON.stringify(known.body));
      });
      const enter = openShopGate(ctx, doors, {
        dialect: 'commerce',
        keyOf: ({ headers }) => /^[\x21-\x7e]{1,200}$/.exec(String(headers['x-cc-api-key'] ?? ''))?.[0],
        refused: wrongKey,
      });
      for (const route of COMMERCE_ROUTES) registerShopRoute(scope, ctx, { enter, route, status: route.status });
      scope.setNotFoundHandler(async (request, reply) => {
        await enter({ request, reply });
        throw notSupportedHere();
      });
    },
    { prefix: COMMERCE_PATH },
  );
}
