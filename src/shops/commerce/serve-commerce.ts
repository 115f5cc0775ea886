/** The API of Coinbase Commerce over HTTP, as far as plugins use it: `/commerce` with its own keys and its own form of errors. */
import type { FastifyError, FastifyInstance } from 'fastify';
import type { Context } from '#context';
import { newId } from '#core/id';
import type { IdempotencyClaim } from '#core/payment-view';
import type { Problem } from '#core/problem';
import { asObject } from '#core/stored-json';
import { sendJson, toProblem } from '#http';
import { getPaymentOnChain } from '#queries';
import { type ParsedBody, writtenAt } from '#transport';
import { JsonText, logShopCalls, openShopGate, registerShopRoute, type ShopCall, type ShopDoors, type ShopRoute } from '../serve-shop.ts';
import { getInvoice } from '../shop-invoices.ts';
import type { ShopKey } from '../shop-keys.ts';
import { offeredCoins } from '../shop-money.ts';
import { createOrder, type FieldFault, orderIdOf, readOrderMetadata, readOrderPrice, readRedirect, readText } from '../shop-order.ts';
import { chargeJson, sinceTold } from './charge-body.ts';
import { COMMERCE_PATH } from './connect-commerce.ts';

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
        const problem = error instanceof CommerceError ? null : toProblem(ctx, request, error);
        const { status, body } = problem === null ? (error as CommerceError) : chargeError(problem);
        if (problem !== null && problem.retryAfterSeconds !== null) reply.header('retry-after', String(problem.retryAfterSeconds));
        return sendJson(reply, status, JSON.stringify(body));
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

// Creates a charge: reads what a shop sends, and creates a payment for it.

const LONGEST_NAME = 200;
const LONGEST_DESCRIPTION = 1_000;

type NewCharge = { body: ParsedBody; idempotency: IdempotencyClaim | null };

/** Errors: 400 with the first fault; those of `createPayment`. Returns the ID of the payment. */
async function createCharge(ctx: Context, shop: ShopKey, { body, idempotency }: NewCharge): Promise<string> {
  const given = asObject(body.value);
  const local = asObject(given.local_price);
  const faults: FieldFault[] = [];
  if (given.pricing_type !== 'fixed_price')
    faults.push({ path: 'pricing_type', message: 'The pricing_type must be fixed_price: charges without a price are not supported.' });
  const written = writtenAt(body, 'local_price.amount');
  const price = readOrderPrice(ctx, shop, { amount: local.amount, written, currency: local.currency, faults });
  const metadata = readOrderMetadata(body, given.metadata, faults);
  const redirectUrl = readRedirect(given.redirect_url, { path: 'redirect_url', name: 'redirect_url', faults });
  const cancelUrl = readRedirect(given.cancel_url, { path: 'cancel_url', name: 'cancel_url', faults });
  const coins = price?.fixed ? [price.fixed.coin] : await offeredCoins(ctx, shop);
  if (coins.length === 0)
    faults.push({ path: 'wallets', message: 'There is no wallet to receive payments. Add one in the dashboard, under Wallets.' });
  const [first] = faults;
  if (first || !price) throw invalidCharge(first?.message ?? 'The price is missing.');
  const text = (value: unknown, most: number): string => readText(value, most) ?? '';
  const description = text(given.description, LONGEST_DESCRIPTION);
  const charge = { name: text(given.name, LONGEST_NAME), description, cancelUrl };
  const paymentId = newId('pay', ctx.random);
  const orderId = orderIdOf(metadata.value, 'order_id');
  const checkout = { redirectUrl, redirectAutomatically: false, language: null, coins, charge };
  return createOrder(ctx, shop, {
    ...{ dialect: 'commerce', price, description, idempotency },
    invoice: { paymentId, orderId, metadata: metadata.text, checkout },
    returnUrl: redirectUrl,
    expiresInSeconds: null,
  });
}

// Errors in the form of the protocol.

class CommerceError extends Error {
  readonly status: number;
  readonly body: { error: { type: string; message: string } };

  constructor(status: number, type: string, message: string) {
    super(`Commerce ${status}`);
    this.status = status;
    this.body = { error: { type, message } };
  }
}

const wrongKey = (): CommerceError => new CommerceError(401, 'authentication_error', 'The API key is missing or not valid.');
const invalidCharge = (message: string): CommerceError => new CommerceError(400, 'invalid_request', message);
const notSupportedHere = (): CommerceError =>
  new CommerceError(
    501,
    'not_supported',
    'Florin supports creating and reading charges. Use the dashboard or the API of Florin for everything else.',
  );

/** A failure of Florin in the words of the protocol. */
function chargeError({ code, status, message }: Problem): CommerceError {
  if (code === 'invalid_api_key') return wrongKey();
  if (code === 'payment_not_found') return new CommerceError(404, 'not_found', 'The charge was not found.');
  if (status === 429) return new CommerceError(429, 'rate_limit_exceeded', message);
  return new CommerceError(status, status < 500 ? 'invalid_request' : 'internal_server_error', message);
}
