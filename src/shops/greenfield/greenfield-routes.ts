/** All calls of the protocol: what each needs, and what answers it. Paths are below `/btcpay/api/v1`. */
import type { FastifyError, FastifyInstance } from 'fastify';
import type { Context } from '#context';
import { CHAIN, COIN, type Coin, coinText } from '#core/coin';
import { fiatDecimals, isFiat } from '#core/fiat';
import { base62, newId } from '#core/id';
import { formatDecimal, parseAmount, readAmountText } from '#core/money';
import type { IdempotencyClaim } from '#core/payment-view';
import { Problem } from '#core/problem';
import { asList, asObject, asText, asTexts, oneOf, type StoredJson } from '#core/stored-json';
import { cutText, parseWebUrl, toPrintableLine } from '#core/text';
import type { Tx } from '#db';
import { sendJson, toProblem } from '#http';
import { getMerchant, isOffered, type Merchant } from '#merchants';
import { type AskedRefund, claimUrl, getOutgoing, requestRefund } from '#outgoing';
import { archivePayment, cancelPayment, resolvePayment, setInvoiceId } from '#payments';
import { writeAudit } from '#people';
import { getPaymentOnChain, readOnChain } from '#queries';
import { type ParsedBody, writtenAt } from '#transport';
import { deleteEndpoint, type Endpoint, EVERYTHING, getEndpoint, listEndpoints, planEndpoint, planUpdate } from '#webhooks';
import {
  JsonText,
  logShopCalls,
  openShopGate,
  registerShopRoute,
  type ShopCall,
  type ShopDoors,
  type ShopEntrance,
  type ShopRoute,
} from '../serve-shop.ts';
import { getInvoice, listInvoices, queueMissed, type ShopInvoice, updateInvoice } from '../shop-invoices.ts';
import { holdShop, PERMISSIONS, type Permission, type ShopKey, storeIdOf } from '../shop-keys.ts';
import { coinOfMethod, methodOf, offeredCoins } from '../shop-money.ts';
import {
  createOrder,
  type FieldFault,
  orderIdOf,
  readOrderMetadata,
  readOrderPrice,
  readRedirect,
  readText,
  shownNumber,
} from '../shop-order.ts';
import { askRefund, paymentOfRefund } from '../shop-refunds.ts';
import {
  GREENFIELD_PATH,
  greenfieldUrl,
  invoiceJson,
  paymentMethods,
  possibleMarks,
  SPEED_CONFIRMATIONS,
  SPEED_POLICIES,
  seconds,
} from './invoice-body.ts';

// The protocol over HTTP: `/btcpay/api/v1` with its own gate and its own form of errors. Its keys open nothing else, and no other key
// opens it.

const API = `${GREENFIELD_PATH}/api/v1`;

export function registerGreenfield(app: FastifyInstance, ctx: Context, doors: ShopDoors): void {
  app.register(
    async (scope) => {
      logShopCalls(scope, ctx);
      scope.setErrorHandler((error: FastifyError | Problem | GreenfieldError, request, reply) => {
        const problem = error instanceof GreenfieldError ? null : toProblem(ctx, request, error);
        const { status, body } = problem === null ? (error as GreenfieldError) : fromProblem(problem);
        if (problem !== null && problem.retryAfterSeconds !== null) reply.header('retry-after', String(problem.retryAfterSeconds));
        return sendJson(reply, status, JSON.stringify(body));
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
function openGate(ctx: Context, doors: ShopDoors): ShopEntrance<GreenfieldRoute | null> {
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

// Calls of the original that Florin does not have, and what to use instead. Never 404: plugins read it as "make a new one".

const NOT_THERE: readonly [call: RegExp, message: string][] = [
  [
    /\/lightning\b|LightningNetwork|-LN\b/i,
    'Florin receives payments on blockchains only. Remove Lightning from the settings of the plugin.',
  ],
  [/\/payouts\b|\/payout-processors\b/, 'Florin holds no key that can spend, so it sends no payouts. Refund customers from the dashboard.'],
  [/\/refund$/, 'Refund this payment in the dashboard, or create a pull payment.'],
  [/\/pull-payments\b/, 'Only creating a pull payment is supported. Manage refunds in the dashboard.'],
  [/\/payment-requests\b/, 'Use payment links in the dashboard instead of payment requests.'],
  [/\/users\b/, 'Manage members in the dashboard, under Team.'],
  [/\/apps\b/, 'There are no apps. Use payment links in the dashboard instead.'],
  [/\/wallet\b|\/wallets\b|\/onchain\b/i, 'Manage wallets in the dashboard. Florin holds no key that can spend.'],
  [/\/rates\b/, 'Florin uses the median of several exchanges. GET /api/crypto/price shows its prices.'],
];
const ANY = 'Florin does not have this call. The guide about shops in its documentation lists what plugins can use.';

const whatInstead = (path: string): string => NOT_THERE.find(([call]) => call.test(path))?.[1] ?? ANY;

// Errors in the form of the protocol: 422 is a list of faults, everything else an object.

/** A reply other than 200. */
class GreenfieldError extends Error {
  readonly status: number;
  readonly body: object;

  constructor(status: number, body: { code: string; message: string; missingPermission?: string } | readonly FieldFault[]) {
    super(`Greenfield ${status}`);
    this.status = status;
    this.body = body;
  }
}

const unauthenticated = (): GreenfieldError =>
  new GreenfieldError(401, { code: 'unauthenticated', message: 'Authentication is required for accessing this endpoint' });
const missingPermission = (permission: string): GreenfieldError =>
  new GreenfieldError(403, {
    missingPermission: permission,
    code: 'missing-permission',
    message: `Insufficient API Permissions. Please use an API key with permission "${permission}" for this store.`,
  });
const invalid = (...faults: readonly [FieldFault, ...FieldFault[]]): GreenfieldError => new GreenfieldError(422, faults);
const notSupported = (message: string): GreenfieldError => new GreenfieldError(501, { code: 'not-supported', message });

const NOT_FOUND: Readonly<Record<string, { code: string; message: string }>> = {
  payment_not_found: { code: 'invoice-not-found', message: 'The invoice was not found' },
  endpoint_not_found: { code: 'webhook-not-found', message: 'The webhook was not found' },
};
/** Problems that are faults of a field. */
const FIELDS: Readonly<Record<string, string>> = {
  fiat_unsupported: 'Currency',
  amount_invalid: 'Amount',
  amount_too_large: 'Amount',
  amount_too_small: 'Amount',
  amount_precision: 'Amount',
  refund_exceeds: 'Amount',
  url_invalid: 'Url',
  coin_not_configured: 'checkout.paymentMethods',
  payment_status_conflict: 'Status',
  payment_has_money: 'Status',
  payment_needs_attention: 'Status',
  nothing_received: 'Status',
  worth_unknown: 'Status',
  money_refunded: 'Status',
};

/** A failure of Florin in the words of the protocol. */
function fromProblem(problem: Problem): GreenfieldError {
  const { code, status, message, param } = problem;
  if (code === 'invalid_api_key') return unauthenticated();
  const absent = NOT_FOUND[code];
  if (absent) return new GreenfieldError(404, absent);
  const field = FIELDS[code];
  if (field) return invalid({ path: field, message });
  if (status === 400 && param !== null) return invalid({ path: param, message });
  return new GreenfieldError(status, { code: code.replaceAll('_', '-'), message });
}

// The webhooks of a shop, which no other shop of the store sees: endpoints of Florin's own engine that speak the protocol.

const DIALECT = 'greenfield';
const MOST_TYPES = 64;
/** A shorter one can be guessed from one signed delivery. */
const SHORTEST_SECRET = 16;
const LONGEST_SECRET = 256;

const ownedBy = ({ merchantId, mode, lineId }: ShopKey) => ({ merchantId, mode, dialect: DIALECT, lineId }) as const;

/** Writes for a shop that is still connected: a webhook must not outlive the key that made it. */
const writeFor = <T>(ctx: Context, shop: ShopKey, write: (tx: Tx) => Promise<T>): Promise<T> =>
  ctx.db.begin(async (tx) => {
    await holdShop(tx, shop);
    return write(tx);
  }) as Promise<T>;

const webhookBody = ({ id, enabled, url, events }: Endpoint) => ({
  id,
  enabled,
  automaticRedelivery: true,
  url,
  authorizedEvents: {
    everything: (events as readonly string[]).includes(EVERYTHING),
    specificEvents: (events as readonly string[]).filter((type) => type !== EVERYTHING),
  },
});

function readWebhook(body: unknown): { url: string; events: string[]; enabled: boolean; secret: string | null } {
  const given = asObject(body);
  const url = asText(given.url);
  if (url === null || url === '') throw invalid({ path: 'Url', message: 'The URL is missing' });
  const { everything, specificEvents } = asObject(given.authorizedEvents);
  const types = asList(specificEvents);
  const isType = (type: unknown): type is string => typeof type === 'string' && /^[A-Za-z]{1,64}$/.test(type);
  if (types.length > MOST_TYPES || !types.every(isType))
    throw invalid({ path: 'AuthorizedEvents', message: `At most ${MOST_TYPES} names of events are accepted.` });
  const secret = asText(given.secret);
  if (secret !== null && secret.length > LONGEST_SECRET)
    throw invalid({ path: 'Secret', message: `The secret must have at most ${LONGEST_SECRET} characters.` });
  if (secret && secret.length < SHORTEST_SECRET)
    throw invalid({ path: 'Secret', message: `The secret must have at least ${SHORTEST_SECRET} characters. Leave it out to get one.` });
  // A webhook without a choice gets everything.
  const all = everything === true || (everything === undefined && types.length === 0);
  return {
    url,
    events: all ? [EVERYTHING] : types.filter(isType),
    enabled: given.enabled !== false,
    secret: secret === '' ? null : secret,
  };
}

const listWebhooks = async (ctx: Context, shop: ShopKey) => (await listEndpoints(ctx, ownedBy(shop))).map(webhookBody);

const getWebhook = async (ctx: Context, shop: ShopKey, endpointId: string) =>
  webhookBody(await getEndpoint(ctx, { ...ownedBy(shop), endpointId }));

const byShop = ({ name }: ShopKey) => ({ name, userId: null });
const audit = (tx: Tx, { shop: { merchantId, mode }, actor }: ShopCall, change: { action: string; object: string; after?: object }) =>
  writeAudit(tx, { merchantId, mode, actor, ...change });
const kept = ({ url, events, enabled }: Endpoint) => ({ url, events, enabled });

/** With its secret, which is the plugin's own if it brought one. */
async function createWebhook(call: ShopCall) {
  const { ctx, shop } = call;
  const { secret, ...given } = readWebhook(call.body.value);
  const chosen = secret ?? base62(32, ctx.random);
  const write = await planEndpoint(ctx, { ...ownedBy(shop), ...given, description: shop.name, secret: chosen, by: byShop(shop) });
  const made = await writeFor(ctx, shop, async (tx) => {
    const endpoint = await write(tx, { lineId: shop.lineId, keyId: shop.id });
    if (endpoint.enabled) await queueMissed(tx, { lineId: shop.lineId, endpointId: endpoint.id });
    await audit(tx, call, { action: 'endpoint.create', object: endpoint.id, after: kept(endpoint) });
    return endpoint;
  });
  return { ...webhookBody(made), secret: made.secret };
}

async function updateWebhook(call: ShopCall) {
  const { ctx, shop } = call;
  const given = readWebhook(call.body.value);
  const write = await planUpdate(ctx, { ...ownedBy(shop), endpointId: call.params.webhook!, ...given, by: byShop(shop) });
  const changed = await writeFor(ctx, shop, async (tx) => {
    const endpoint = await write(tx);
    if (endpoint.enabled) await queueMissed(tx, { lineId: shop.lineId, endpointId: endpoint.id });
    await audit(tx, call, { action: 'endpoint.update', object: endpoint.id, after: kept(endpoint) });
    return endpoint;
  });
  return webhookBody(changed);
}

async function deleteWebhook(call: ShopCall): Promise<null> {
  const { ctx, shop } = call;
  const endpointId = call.params.webhook!;
  await ctx.db.begin(async (tx) => {
    await deleteEndpoint(ctx, tx, { ...ownedBy(shop), endpointId });
    await audit(tx, call, { action: 'endpoint.delete', object: endpointId });
  });
  return null;
}

export type GreenfieldRoute = ShopRoute & {
  /** Null for every key that is still connected. */
  needs: Permission | null;
};

/** The version of the original that this answers like. Plugins compare it. */
const VERSION = '2.4.1';
const { viewInvoices, createInvoice: create, modifyInvoices, viewStore, webhooks, refunds } = PERMISSIONS;

const ownerOf = ({ shop: { merchantId, mode } }: ShopCall) => ({ merchantId, mode });
const shopOf = (call: ShopCall) => ({ ...ownerOf(call), dialect: 'greenfield' as const, lineId: call.shop.lineId });
const targetOf = (call: ShopCall) => ({ ...shopOf(call), paymentId: call.params.invoice! });

async function serverInfo({ ctx, shop }: ShopCall): Promise<object> {
  const coins = await offeredCoins(ctx, shop);
  return {
    version: VERSION,
    onion: null,
    supportedPaymentMethods: coins.map(methodOf),
    // Chains that are behind are shown to payers and members. A shop that refuses to sell meanwhile helps nobody.
    fullySynched: true,
    syncStatus: coins.map((coin) => syncOf(ctx, coin)),
    florin: true,
  };
}
const syncOf = (ctx: Context, coin: Coin) => ({
  paymentMethodId: methodOf(coin),
  chainHeight: 0,
  syncHeight: 0,
  available: ctx.chains.has(CHAIN[COIN[coin].chain].chain),
  nodeInformation: { headers: 0, blocks: 0, verificationProgress: 1 },
  // The PHP library reads this older name.
  cryptoCode: COIN[coin].asset,
});

async function storeOf({ ctx, shop }: ShopCall): Promise<object> {
  const { name, settings } = await getMerchant(ctx, shop);
  return { id: storeIdOf(shop), name, website: settings.website, defaultCurrency: settings.displayCurrency };
}

async function methodsOf({ ctx, shop }: ShopCall): Promise<object> {
  return (await offeredCoins(ctx, shop)).map((coin) => ({ enabled: true, paymentMethodId: methodOf(coin), config: null }));
}

async function readInvoice(call: ShopCall): Promise<JsonText> {
  const invoice = await getInvoice(call.ctx, targetOf(call));
  return new JsonText(invoiceJson(call.ctx, await getPaymentOnChain(call.ctx, targetOf(call)), invoice));
}

/** How many invoices a list holds, and how far it may skip. */
const MOST_LISTED = 100;
const MOST_SKIPPED = 100_000;
const MOST_ORDERS = 50;

async function readInvoices(call: ShopCall): Promise<JsonText> {
  const { ctx, query } = call;
  const whole = (name: string, fallback: number, most: number): number => {
    const text = query.get(name) ?? '';
    return /^\d{1,9}$/.test(text) ? Math.min(Number(text), most) : fallback;
  };
  const orderIds = query.getAll('orderId').filter((text) => text !== '' && text.isWellFormed() && !text.includes('\u0000'));
  if (orderIds.length > MOST_ORDERS) throw invalid({ path: 'OrderId', message: `At most ${MOST_ORDERS} orders can be listed.` });
  const page = { skip: whole('skip', 0, MOST_SKIPPED), take: whole('take', MOST_LISTED, MOST_LISTED) };
  const invoices = await listInvoices(ctx, { ...shopOf(call), orderIds, archived: query.get('includeArchived') === 'true', ...page });
  const payments = await readOnChain(
    ctx,
    ctx.db.sql,
    invoices.map(({ paymentId }) => paymentId),
  );
  const statuses = query.getAll('status');
  const shown = payments.map((payment, i) => invoiceJson(ctx, payment, invoices[i]!));
  const wanted = statuses.length === 0 ? shown : shown.filter((text) => statuses.includes((JSON.parse(text) as { status: string }).status));
  return new JsonText(`[${wanted.join(',')}]`);
}

async function readMethods(call: ShopCall): Promise<object> {
  await getInvoice(call.ctx, targetOf(call));
  return paymentMethods(call.ctx, await getPaymentOnChain(call.ctx, targetOf(call)));
}

async function postInvoice(call: ShopCall): Promise<JsonText> {
  const { ctx, shop, body, idempotency } = call;
  const invoice = await createInvoice(ctx, shop, { body, idempotency });
  return readInvoice({ ...call, params: { ...call.params, invoice } });
}

/** Marks an invoice: `Invalid` cancels or rejects, `Settled` accepts what arrived. Nothing is settled without money. */
async function markInvoice(call: ShopCall): Promise<JsonText> {
  const { ctx, actor, body } = call;
  const status = asText(asObject(body.value).status);
  if (status !== 'Settled' && status !== 'Invalid') throw invalid({ path: 'Status', message: 'The status must be Settled or Invalid.' });
  await getInvoice(ctx, targetOf(call));
  const payment = await getPaymentOnChain(ctx, targetOf(call));
  if (!possibleMarks(payment).includes(status)) {
    const late = payment.view.transfersCount > 0 ? 'Money arrived for it.' : 'It is too late for that.';
    const why = status === 'Settled' ? 'Only money that arrived can be accepted, once the invoice has ended.' : late;
    throw invalid({ path: 'Status', message: `This invoice cannot be marked as ${status} now. ${why}` });
  }
  const act = { ...targetOf(call), actor, idempotency: null, render: () => ({ status: 200, body: '' }) };
  if (payment.view.facts.status === 'pending') await cancelPayment(ctx, { ...act, onlyIfUnpaid: true });
  else await resolvePayment(ctx, { ...act, action: status === 'Settled' ? 'accept' : 'reject', transfers: null });
  return readInvoice(call);
}

/** Archives an invoice. One that can still be paid is canceled first, unless money has arrived. */
async function archiveInvoice(call: ShopCall): Promise<null> {
  const { ctx, actor } = call;
  await getInvoice(ctx, targetOf(call));
  const act = { ...targetOf(call), actor, idempotency: null, render: () => ({ status: 200, body: '' }) };
  const { view } = await getPaymentOnChain(ctx, targetOf(call));
  if (view.facts.status === 'pending') await cancelPayment(ctx, { ...act, onlyIfUnpaid: true });
  await archivePayment(ctx, { ...act, archived: true });
  return null;
}

/** Replaces the metadata, such as after the order got another number. */
async function putInvoice(call: ShopCall): Promise<JsonText> {
  const { ctx, actor, body } = call;
  const before = await getInvoice(ctx, targetOf(call));
  const given = asObject(body.value).metadata;
  const faults: FieldFault[] = given ? [] : [{ path: 'Metadata', message: 'The metadata is missing.' }];
  const { value, text: metadata } = readOrderMetadata(body, given, faults);
  if (faults[0]) throw invalid(faults[0]);
  const orderId = orderIdOf(value, 'orderId');
  await setInvoiceId(ctx, {
    ...{ ...targetOf(call), invoiceId: shownNumber(orderId), render: () => ({ status: 200, body: '' }) },
    also: async (tx) => {
      await updateInvoice(tx, { ...targetOf(call), orderId, metadata });
      const change = { before: { order: before.orderId }, after: { order: orderId } };
      await writeAudit(tx, { ...ownerOf(call), actor, action: 'payment.invoice_changed', object: before.paymentId, ...change });
    },
  });
  return readInvoice(call);
}

const route = (method: GreenfieldRoute['method'], path: string, needs: Permission | null, handle: GreenfieldRoute['handle']) => ({
  ...{ method, path, needs, handle },
});
/** The same call with and without the store in its path; the key belongs to one store anyway. */
const both = (...[method, path, needs, handle]: Parameters<typeof route>): GreenfieldRoute[] => [
  route(method, `/stores/:store${path}`, needs, handle),
  route(method, path, needs, handle),
];

export const GREENFIELD_ROUTES: readonly GreenfieldRoute[] = [
  route('GET', '/server/info', null, serverInfo),
  route('GET', '/api-keys/current', null, async ({ shop, key }) => ({
    apiKey: key,
    label: shop.name,
    permissions: shop.permissions.map((permission) => `${permission}:${storeIdOf(shop)}`),
  })),
  route('GET', '/stores', viewStore, async (call) => [await storeOf(call)]),
  route('GET', '/stores/:store', viewStore, storeOf),
  ...both('GET', '/payment-methods', viewStore, methodsOf),
  ...both('GET', '/webhooks', webhooks, ({ ctx, shop }) => listWebhooks(ctx, shop)),
  ...both('POST', '/webhooks', webhooks, createWebhook),
  ...both('GET', '/webhooks/:webhook', webhooks, ({ ctx, shop, params }) => getWebhook(ctx, shop, params.webhook!)),
  ...both('PUT', '/webhooks/:webhook', webhooks, updateWebhook),
  ...both('DELETE', '/webhooks/:webhook', webhooks, deleteWebhook),
  ...both('POST', '/pull-payments', refunds, createPullPayment),
  ...both('POST', '/invoices', create, postInvoice),
  ...both('GET', '/invoices', viewInvoices, readInvoices),
  ...both('GET', '/invoices/:invoice', viewInvoices, readInvoice),
  route('PUT', '/stores/:store/invoices/:invoice', modifyInvoices, putInvoice),
  route('DELETE', '/stores/:store/invoices/:invoice', modifyInvoices, archiveInvoice),
  ...both('GET', '/invoices/:invoice/payment-methods', viewInvoices, readMethods),
  ...both('POST', '/invoices/:invoice/status', modifyInvoices, markInvoice),
];

// Creates an invoice: reads what a plugin sends, with all faults at once, and creates a payment through Florin's own verb.

const WINDOW_MINUTES = { least: 10, most: 1_440 };
type NewInvoice = { body: ParsedBody; idempotency: IdempotencyClaim | null };

/** Errors: 422 with every fault; those of `createPayment`. Returns the ID of the payment. */
async function createInvoice(ctx: Context, shop: ShopKey, { body, idempotency }: NewInvoice): Promise<string> {
  const given = asObject(body.value);
  const faults: FieldFault[] = [];
  const merchant = await getMerchant(ctx, shop);
  const id = newId('pay', ctx.random);
  const price = readOrderPrice(ctx, shop, { amount: given.amount, written: writtenAt(body, 'amount'), currency: given.currency, faults });
  const metadata = readOrderMetadata(body, given.metadata, faults);
  const checkout = asObject(given.checkout);
  const coins = price?.fixed ? [price.fixed.coin] : await readCoins(ctx, shop, { merchant, asked: checkout.paymentMethods, faults });
  const redirectUrl = readRedirect(checkout.redirectURL, { path: 'checkout.redirectURL', name: 'redirect URL', faults });
  const written = writtenAt(body, 'checkout.paymentTolerance');
  const toleranceBasisPoints = readTolerance({ given: checkout.paymentTolerance, written, merchant, faults });
  const [first, ...others] = faults;
  if (first || !price) throw invalid(first ?? { path: 'Amount', message: 'The amount is missing' }, ...others);
  const orderId = orderIdOf(metadata.value, 'orderId');
  const filled = redirectUrl === null ? null : fillRedirect(redirectUrl, { invoiceId: id, orderId });
  if (filled !== null && parseWebUrl(filled) === null)
    throw invalid({ path: 'checkout.redirectURL', message: 'The redirect URL must be an http or https URL, also with the order in it.' });
  const redirectAutomatically = checkout.redirectAutomatically === true;
  const language = readText(checkout.defaultLanguage, 35);
  const invoice: ShopInvoice = {
    ...{ paymentId: id, orderId, metadata: metadata.text },
    checkout: { redirectUrl, redirectAutomatically, language, coins, charge: null },
  };
  const { buyerEmail, buyerName, itemDesc } = asObject(metadata.value);
  return createOrder(ctx, shop, {
    ...{ dialect: 'greenfield', price, invoice, idempotency },
    buyer: { email: buyerEmail, name: buyerName },
    returnUrl: filled,
    description: asText(itemDesc),
    expiresInSeconds: readWindow(checkout.expirationMinutes),
    stricter: { toleranceBasisPoints, confirmations: readSpeed(checkout.speedPolicy) },
  });
}

/** The coins of the methods that were named, or all that are offered. */
async function readCoins(
  ctx: Context,
  shop: ShopKey,
  { merchant, asked, faults }: { merchant: Merchant; asked: unknown; faults: FieldFault[] },
): Promise<readonly Coin[]> {
  const path = 'checkout.paymentMethods';
  const offered = await offeredCoins(ctx, shop);
  if (asked === null || asked === undefined || (Array.isArray(asked) && asked.length === 0)) {
    if (offered.length === 0)
      faults.push({ path, message: 'There is no wallet to receive payments. Add one in the dashboard, under Wallets.' });
    return offered;
  }
  const names = Array.isArray(asked) ? asked.slice(0, 100) : [asked];
  const coins: Coin[] = [];
  for (const name of names) {
    const coin = coinOfMethod(asText(name) ?? '');
    if (coin === null) faults.push({ path, message: `Unknown payment method: ${cutText(asText(name) ?? '', 40)}` });
    else if (isOffered(merchant.settings, coin, shop.mode) && offered.includes(coin) && !coins.includes(coin)) coins.push(coin);
  }
  if (coins.length === 0 && faults.every((fault) => fault.path !== path))
    faults.push({ path, message: 'None of these payment methods is available in this store.' });
  return coins;
}

/** Fills `{InvoiceId}` and `{OrderId}`, however they are capitalized. */
const fillRedirect = (url: string, { invoiceId, orderId }: { invoiceId: string; orderId: string | null }): string =>
  url.replace(/\{InvoiceId\}/gi, () => encodeURIComponent(invoiceId)).replace(/\{OrderId\}/gi, () => encodeURIComponent(orderId ?? ''));

function readWindow(given: unknown): number | null {
  const minutes = typeof given === 'number' ? Math.floor(given) : Number.NaN;
  return Number.isFinite(minutes) ? Math.min(Math.max(minutes, WINDOW_MINUTES.least), WINDOW_MINUTES.most) * 60 : null;
}

type GivenTolerance = { given: unknown; written: string | undefined; merchant: Merchant; faults: FieldFault[] };
/** A tolerance below the merchant's, in hundredths of a percent; null: the merchant's applies. WHMCS asks for none at all. */
function readTolerance({ given, written, merchant: { settings }, faults }: GivenTolerance): number | null {
  if (given === null || given === undefined) return null;
  const parsed = parseAmount(typeof given === 'number' ? written! : (asText(given) ?? ''), 2, { isNumber: typeof given === 'number' });
  const most = settings.toleranceBasisPoints;
  if (typeof parsed === 'bigint' && parsed <= BigInt(most)) return parsed === BigInt(most) ? null : Number(parsed);
  const message = `The tolerance of this store is at most ${most / 100} %. Change it in the dashboard, under Checkout.`;
  faults.push({ path: 'checkout.paymentTolerance', message });
  return null;
}

/** The confirmations that a policy demands. Those that the merchant requires are never lowered. */
function readSpeed(given: unknown): number | null {
  const policy = oneOf(SPEED_POLICIES, given);
  return policy === null ? null : SPEED_CONFIRMATIONS[policy] || null;
}

// Pull payments as plugins create them for refunds: a page on which the customer enters an address.

const MOST_DECIMALS = 18;
const LONGEST_NAME = 50;
const LONGEST_REASON = 200;
/** `coins`: in which the customer may get the money; null for any. */
type PullPaymentRequest = { name: string; amount: string; currency: string; coins: readonly Coin[] | null };
type NewPullPayment = { id: string; createdAt: Date; expiresAt: Date | null; viewLink: string };

async function createPullPayment(call: ShopCall): Promise<object> {
  const { ctx, shop, body } = call;
  const given = asObject(body.value);
  const currency = (asText(given.currency) ?? '').toUpperCase();
  if (!isFiat(currency) && coinOfMethod(currency) === null) throw invalid({ path: 'Currency', message: 'Invalid currency' });
  const isNumber = typeof given.amount === 'number';
  const written = isNumber ? writtenAt(body, 'amount')! : (asText(given.amount)?.trim() ?? '');
  const parsed = parseAmount(written, MOST_DECIMALS, { isNumber });
  if (typeof parsed !== 'bigint' || parsed === 0n) throw invalid({ path: 'Amount', message: 'The amount must be above zero.' });
  // It is kept and shown as it was written, but without an exponent.
  const amount = /e/i.test(written) ? formatDecimal(parsed, MOST_DECIMALS, 0) : written;
  const name = toPrintableLine(asText(given.name) ?? '');
  const paymentId = await paymentOfRefund(ctx, { ...shop, name });
  if (paymentId === 'unclear')
    throw invalid({
      path: 'Name',
      message: 'More than one payment has this order number. Request the refund from the right one in the dashboard of Florin.',
    });
  const asked = { name, amount, currency, coins: coinsGiven(given) };
  const made = paymentId === null ? await withoutPayment(call, asked) : await ofPayment(call, { ...asked, paymentId });
  return {
    id: made.id,
    name: cutText(name, LONGEST_NAME),
    description: asText(given.description) ?? '',
    currency,
    amount,
    BOLT11Expiration: '30',
    startsAt: seconds(made.createdAt),
    expiresAt: made.expiresAt && seconds(made.expiresAt),
    archived: false,
    autoApproveClaims: false,
    viewLink: made.viewLink,
  };
}

/** A refund like those that the API creates: the same states and the same limit. */
async function ofPayment(
  { ctx, shop: { merchantId, mode }, actor, idempotency }: ShopCall,
  { paymentId, name, coins, ...price }: PullPaymentRequest & { paymentId: string },
): Promise<NewPullPayment> {
  const reply = await requestRefund(ctx, {
    ...{ merchantId, mode, paymentId, idempotency, rate: 'payment', address: null, actor },
    asked: askedOf(price),
    allows: (coin) => {
      if (coins !== null && !coins.includes(coin))
        throw wrongMethod(`The payment of this order was made in ${coinText(coin)}, which is not among these methods.`);
    },
    reason: cutText(name, LONGEST_REASON) || null,
    render: ({ id }) => ({ status: 200, body: Buffer.from(id) }),
  });
  const id = Buffer.from(reply.body).toString();
  const refund = await getOutgoing(ctx, { kind: 'refund', merchantId, mode, id });
  return { id, createdAt: refund.createdAt, expiresAt: refund.claimUntil, viewLink: claimUrl(ctx, refund) };
}

const wrongMethod = (message: string) => invalid({ path: 'PayoutMethods', message });
/** The coins of the methods that were named. Plugins name one list under both names. */
function coinsGiven({ payoutMethods, paymentMethods }: StoredJson): readonly Coin[] | null {
  const named = [payoutMethods, paymentMethods].map((list) => asTexts(list).slice(0, 100)).find((list) => list.length > 0);
  if (named === undefined) return null;
  const coins = named.flatMap((name) => coinOfMethod(name) ?? []);
  if (coins.length === 0) throw wrongMethod('None of these methods is available in this store.');
  return [...new Set(coins)];
}

function askedOf({ amount, currency }: Pick<PullPaymentRequest, 'amount' | 'currency'>): AskedRefund {
  const read = (decimals: number): bigint => {
    const units = readAmountText(amount, decimals);
    if (units === null) throw invalid({ path: 'Amount', message: `The amount can have at most ${decimals} decimals.` });
    return units;
  };
  if (isFiat(currency)) return { kind: 'fiat', currency, minor: read(fiatDecimals(currency)) };
  const named = coinOfMethod(currency);
  return {
    kind: 'coin',
    units: (coin) => {
      if (coin !== named) throw invalid({ path: 'Currency', message: 'The payment of this order was made in another currency.' });
      return read(COIN[coin].decimals);
    },
  };
}

/** What is asked for, in US cents; null if there is no price for it. */
function worthOf(ctx: Context, shop: ShopKey, { amount, currency }: Pick<PullPaymentRequest, 'amount' | 'currency'>): bigint | null {
  try {
    return readOrderPrice(ctx, shop, { amount, written: amount, currency, faults: [] })?.amountUsdCents ?? null;
  } catch (error) {
    if (error instanceof Problem) return null;
    throw error;
  }
}

async function withoutPayment({ ctx, shop, actor }: ShopCall, asked: PullPaymentRequest): Promise<NewPullPayment> {
  const { merchantId, mode } = shop;
  const usdCents = worthOf(ctx, shop, asked);
  const { id, createdAt, claimUntil: expiresAt } = await askRefund(ctx, { merchantId, mode, actor, usdCents, ...asked });
  return { id, createdAt, expiresAt, viewLink: `${greenfieldUrl(ctx)}/pull-payments/${id}` };
}
