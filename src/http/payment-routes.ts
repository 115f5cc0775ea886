/** The payment endpoints: read the request, call one use case, build the reply. */

import type { Static, TObject } from 'typebox';
import type { Context } from '#context';
import { type Asset, apiNamesOf, COIN, type Coin } from '#core/coin';
import type { Fiat } from '#core/fiat';
import { e8ToCents, formatUnits, formatUsd, MAX_USD_CENTS, worthUsdE8 } from '#core/money';
import { PAYMENT_STATUSES } from '#core/payment';
import { heldDetail, paymentDetail, paymentUrl } from '#core/payment-detail';
import type { NamedCustomer, PaymentItem, PaymentRequest, PaymentView } from '#core/payment-view';
import { Problem } from '#core/problem';
import { readCustomer } from '#customers';
import { askInvoice } from '#lightning';
import { defaultCoin, getMerchant } from '#merchants';
import { createPayment, type PaymentDraft } from '#payments';
import { getPayment, type ListFilter, listFilteredPayments, listPayments } from '#queries';
import { type PaymentWarning, priceAt, warningsFor } from '#readiness';
import { collect, type ParsedBody, type ReadingsOf, readBody, together } from '#transport';
import {
  CreateSimpleInUsd,
  readCoinFilter,
  readCoinUnits,
  readFiatCode,
  readLimit,
  readMetadata,
  readMinor,
  readOneCoin,
  readPageCursor,
  readPairs,
  readPrice,
  readQuery,
  readQueryTime,
  readQueryUsd,
  readReturnUrl,
  readScenario,
} from './read.ts';
import { type Answer, type ApiCall, type ApiRoute, apiRoute, type Caller, madeBy, mine, type ReadingCall } from './route.ts';
import {
  CreateAdvanced,
  Created,
  CreateLegacy,
  CreateSimple,
  DetailSchema,
  type ItemSchema,
  LegacyCreated,
  List,
  ListQuery,
} from './schema.ts';

const creation = (ctx: Context, view: PaymentView, warnings: readonly PaymentWarning[]) => ({
  success: true,
  transaction_id: view.facts.id,
  id: view.facts.id,
  payment_url: paymentUrl(ctx.settings.paymentPageUrl, view.facts.id),
  amount_usd: formatUsd(view.facts.targetUsdCents),
  ...(view.request.items && { items_count: view.request.items.length }),
  expires_at: view.settlement.expiresAt.toISOString(),
  status: view.settlement.status,
  mode: view.facts.mode,
  ...(warnings.length > 0 && { warnings }),
});
type CreateCall = ReadingCall<typeof Created>;
/** Creates a payment without a coin, and warns if the payer would have no coin to choose. */
async function createOpen({ ctx, owner, actor, claim, reply }: CreateCall, draft: PaymentDraft): Promise<Answer> {
  const { amountUsdCents } = draft;
  const warnings = await warningsFor(ctx, { ...mine(owner), amountUsdCents });
  return createPayment(ctx, { ...madeBy(owner), actor, draft, idempotency: claim, render: (view) => reply(creation(ctx, view, warnings)) });
}

type Common = {
  description?: string;
  metadata?: Record<string, string>;
  customer?: { email?: string; name?: string; reference?: string };
  expires_in?: number;
  payment_address?: string;
  invoice_id?: string;
  locale?: string;
  replaces?: string;
};
type CommonRead = {
  common: Common;
  metadata: Record<string, string>;
  customer: NamedCustomer | null;
  replaces: string | null;
  scenario: ReturnType<typeof readScenario>;
};
/** The parameters that all create requests share. */
export const commonReadings = (owner: Caller, given: Common): ReadingsOf<CommonRead> => ({
  common: { params: [], read: () => given },
  metadata: { params: ['metadata'], read: () => readMetadata(given.metadata, owner.kind) },
  customer: { params: ['customer'], read: () => readCustomerOf(given.customer, owner) },
  replaces: { params: ['replaces'], read: () => readReplaces(given.replaces, owner) },
  scenario: { params: ['payment_address'], read: () => readScenario(given.payment_address, owner.mode) },
});
/** Strangers have the public key of a page, and would name and change customers. Errors: secret_key_required, parameter_invalid. */
function readCustomerOf(given: Common['customer'], { kind }: Caller): NamedCustomer | null {
  if (given !== undefined && kind === 'public') throw new Problem('secret_key_required', {}, { param: 'customer' });
  return readCustomer(given);
}
/** Canceling the one before needs the same permission as everywhere. Errors: secret_key_required, key_permission_missing. */
function readReplaces(given: string | undefined, { kind, permissions }: Caller): string | null {
  if (given === undefined) return null;
  if (kind === 'public') throw new Problem('secret_key_required', {}, { param: 'replaces' });
  if (!permissions.includes('resolve')) throw new Problem('key_permission_missing', { permission: 'resolve' }, { param: 'replaces' });
  return given;
}

/** The payment that a create request describes. */
export function draftOf(
  { common, metadata, customer, replaces, scenario }: CommonRead,
  more: {
    amountUsdCents: bigint;
    returnUrl: string | null;
    items?: PaymentItem[];
    taxMinor?: bigint;
    fiat?: PaymentRequest['fiat'];
    asset?: Asset;
  },
): PaymentDraft {
  return {
    amountUsdCents: more.amountUsdCents,
    fixed: null,
    coin: scenario?.coin ?? null,
    request: {
      returnUrl: more.returnUrl,
      description: common.description ?? null,
      items: more.items ?? null,
      taxMinor: more.taxMinor ?? null,
      fiat: more.fiat ?? null,
      asset: more.asset ?? null,
      locale: common.locale ?? null,
      ...(replaces !== null && { replaces }),
    },
    invoiceId: common.invoice_id ?? null,
    metadata,
    customer,
    expiresInSeconds: common.expires_in ?? null,
    scenario,
  };
}

/** With a public key that lists origins, the payer may only return to one of them. */
function returnUrlFor(owner: Caller, text: string): string {
  const url = readReturnUrl(text, owner.mode);
  if (owner.kind === 'public' && owner.origins.length > 0 && !owner.origins.includes(new URL(url).origin)) {
    throw new Problem(
      'url_invalid',
      { schemes: 'https', reason: `this public key is limited to ${owner.origins.join(', ').slice(0, 300)}` },
      { param: 'return_url' },
    );
  }
  return url;
}

async function createSimple(call: CreateCall): Promise<Answer> {
  const { ctx, owner, parsed: body } = call;
  const asked = body.value as { amount?: unknown; currency_fiat?: unknown };
  const isInUsd = (asked.amount ?? null) === null && (asked.currency_fiat ?? null) === null;
  const { read } = readBody(isInUsd ? CreateSimpleInUsd : CreateSimple, body, (given) => ({
    ...commonReadings(owner, given as Common),
    price: { params: ['amount_usd', 'amount', 'currency_fiat'], read: () => readPrice(ctx, { mode: owner.mode, body, given }) },
    returnUrl: { params: ['return_url'], read: () => returnUrlFor(owner, given.return_url) },
  }));
  const draft = draftOf(read, { ...read.price, returnUrl: read.returnUrl });
  return createOpen(call, draft);
}

/** The lines of an order. The errors of all lines are reported together. */
function readItems(body: ParsedBody, items: readonly Static<typeof ItemSchema>[], currency: Fiat): PaymentItem[] {
  const faults: Problem[] = [];
  const read = items.map((item, i): PaymentItem => {
    const param = `items[${i}].unit_price`;
    const unitPriceMinor = collect(faults, () => readMinor(body, param, item.unit_price, currency, { zero: true })) ?? 0n;
    return { productId: item.product_id, name: item.name, quantity: BigInt(item.quantity), unitPriceMinor };
  });
  if (faults.length > 0) throw together(faults);
  return read;
}

async function createAdvanced(call: CreateCall): Promise<Answer> {
  const { ctx, owner, parsed: body } = call;
  const { read } = readBody(CreateAdvanced, body, (given) => {
    const currency = (): Fiat => readFiatCode(given.currency_fiat ?? 'USD');
    return {
      ...commonReadings(owner, given as Common),
      currency: { params: ['currency_fiat'], read: currency },
      items: { params: ['items', 'currency_fiat'], read: () => readItems(body, given.items, currency()) },
      taxMinor: { params: ['tax', 'currency_fiat'], read: () => readMinor(body, 'tax', given.tax, currency(), { zero: true }) },
      returnUrl: { params: ['return_url'], read: () => returnUrlFor(owner, given.return_url) },
    };
  });
  const { currency, items, taxMinor, returnUrl } = read;
  const minor = items.reduce((sum, item) => sum + item.quantity * item.unitPriceMinor, taxMinor);
  if (minor === 0n) throw new Problem('amount_invalid', {}, { param: 'items' });
  // The total is converted to dollars once, so that lines and tax are not rounded individually.
  const price = priceAt(ctx, { mode: owner.mode, currency, minor, params: { amount: 'items', currency: 'currency_fiat' } });
  const draft = draftOf(read, { ...price, returnUrl, items, taxMinor });
  return createOpen(call, draft);
}

/** A caller who meant dollars learns that the amount was read in coins. */
const inCoin = (coin: Coin, units: bigint, cents: bigint): string =>
  `the worth of ${formatUsd(MAX_USD_CENTS)} USD. The amount is in ${COIN[coin].asset} here, and ${formatUnits(coin, units)} ${COIN[coin].asset} is worth ${formatUsd(cents)} USD. For a price in US dollars, use POST /api/payment/create/simple`;

/** A fixed coin amount: its USD worth at creation is stored for tiers and lists. Errors: amount_too_small, amount_too_large, price_unavailable. */
export function worthOfUnits(ctx: Context, { mode }: Pick<Caller, 'mode'>, { coin, units }: { coin: Coin; units: bigint }): bigint {
  if (units < COIN[coin].dustUnits) {
    const shown = (value: bigint) => `${formatUnits(coin, value)} ${COIN[coin].asset}`;
    throw new Problem('amount_too_small', { coin, amount: shown(units), minimum: shown(COIN[coin].dustUnits) }, { param: 'amount' });
  }
  const quotable = mode === 'test' ? { price: ctx.prices.forTest(COIN[coin].asset) } : ctx.prices.quotable(COIN[coin].asset);
  if (!('price' in quotable))
    throw new Problem('price_unavailable', { coin, reason: quotable.reason }, { param: 'currency', retryAfterSeconds: 30 });
  const cents = e8ToCents(worthUsdE8(coin, units, quotable.price.priceE8));
  if (cents > MAX_USD_CENTS) throw new Problem('amount_too_large', { maximum: inCoin(coin, units, cents) }, { param: 'amount' });
  return cents > 0n ? cents : 1n;
}

/** POST /payments: a fixed coin amount. */
async function createLegacy({ ctx, owner, actor, parsed: body, claim, reply }: ReadingCall<typeof LegacyCreated>): Promise<Answer> {
  // The coin determines how many decimals the amount may have, so its default applies before the rest is read.
  const fallback = defaultCoin(await getMerchant(ctx, { merchantId: owner.merchantId }), owner.mode);
  const { read } = readBody(CreateLegacy, body, (given) => {
    const coin = (): Coin =>
      given.currency
        ? readOneCoin(given.currency, given.network, { toPay: true })
        : (readScenario(given.payment_address, owner.mode)?.coin ?? fallback);
    return {
      ...commonReadings(owner, given as Common),
      units: {
        params: ['amount', 'currency', 'network', 'payment_address'],
        read: () => readCoinUnits(body, 'amount', given.amount, coin()),
      },
      coin: { params: ['currency', 'network', 'payment_address'], read: coin },
      returnUrl: {
        params: ['redirect_url'],
        read: () => (given.redirect_url === undefined ? null : readReturnUrl(given.redirect_url, owner.mode, 'redirect_url')),
      },
    };
  });
  const { coin, units } = read;
  const draft = draftOf(read, { amountUsdCents: worthOfUnits(ctx, owner, { coin, units }), returnUrl: read.returnUrl });
  return createPayment(ctx, {
    ...{ ...madeBy(owner), actor },
    draft: { ...draft, coin, fixed: { coin, units } },
    ...{ idempotency: claim, askInvoice: askInvoice(ctx) },
    render: (view) => {
      const detail = paymentDetail(view, ctx.settings.paymentPageUrl);
      const { id, status, amount, currency, payment_address, payment_url, created_at, expires_at, mode, network } = detail;
      // The coin is fixed, and with it the amount and the address.
      const fixed = { amount: amount!, currency: currency!, payment_address: payment_address! };
      return reply({
        ...{ id, transaction_id: id, status, ...fixed, payment_url, created_at, expires_at, mode, network: network! },
      });
    },
  });
}

type ListCall = ApiCall<string, typeof ListQuery, TObject, typeof List>;

const listItem = (item: Awaited<ReturnType<typeof listPayments>>['items'][number]) => ({
  transaction_id: item.id,
  id: item.id,
  status: item.status,
  amount_usd: formatUsd(item.amountUsdCents),
  ...apiNamesOf(item.coin),
  created_at: item.createdAt.toISOString(),
  completed_at: item.completedAt?.toISOString() ?? null,
  mode: item.mode,
  exception: item.exceptions[0] ?? null,
  invoice_id: item.invoiceId,
  description: item.description,
  ...heldDetail(item.coin, item.uncounted),
  customer: item.customer,
});

/** A page of payments, as both lists of payments filter them. */
export async function readPage({ ctx, owner, query }: Pick<ListCall, 'ctx' | 'owner' | 'query'>) {
  const limit = readLimit(query);
  const startingAfter = readPageCursor(query, 'starting_after');
  const endingBefore = readPageCursor(query, 'ending_before');
  if (startingAfter !== null && endingBefore !== null) {
    throw new Problem('parameter_invalid', { reason: 'it cannot be combined with starting_after' }, { param: 'ending_before' });
  }
  const statusText = readQuery(query, 'status');
  const status = PAYMENT_STATUSES.find((known) => known === statusText) ?? null;
  if (statusText !== null && status === null)
    throw new Problem('parameter_invalid', { reason: `it must be one of ${PAYMENT_STATUSES.join(', ')}` }, { param: 'status' });
  const coins = readCoinFilter(query);
  const paging = { ...mine(owner), limit, startingAfter, endingBefore };
  const filter = readListFilter(query, { status, coins });
  if (filter === null) {
    const page = await listPayments(ctx, { ...paging, status, coins });
    return { items: page.items, has_more: page.hasMore, total_count: Number(page.totalCount) };
  }
  const { items, hasMore, totalCount, isCapped } = await listFilteredPayments(ctx, { ...paging, filter });
  return { items, has_more: hasMore, total_count: totalCount, ...(isCapped && { total_count_capped: true }) };
}

/** Null if only status, coin and network are filtered: those are counted exactly. */
function readListFilter(query: ListCall['query'], { status, coins }: Pick<ListFilter, 'status' | 'coins'>): ListFilter | null {
  const invoiceId = readQuery(query, 'invoice_id');
  if (invoiceId !== null && (invoiceId === '' || invoiceId.length > 100))
    throw new Problem('parameter_invalid', { reason: 'it must be an invoice id of 1 to 100 characters' }, { param: 'invoice_id' });
  const metadata = readPairs(query, 'metadata');
  const customerId = readQuery(query, 'customer');
  const amountUsdCents = readQueryUsd(query, 'amount');
  const createdAfter = readQueryTime(query, 'created_after');
  const createdBefore = readQueryTime(query, 'created_before');
  if (createdAfter && createdBefore && createdAfter >= createdBefore)
    throw new Problem('parameter_invalid', { reason: 'it must be later than created_after' }, { param: 'created_before' });
  const isPlain = invoiceId === null && customerId === null && amountUsdCents === null && createdAfter === null && createdBefore === null;
  if (isPlain && Object.keys(metadata).length === 0) return null;
  return { status, coins, invoiceId, customerId, metadata, amountUsdCents, createdAfter, createdBefore };
}

export const PAYMENT_ROUTES: readonly ApiRoute[] = [
  apiRoute({
    isBodyChecked: false,
    id: 'createLegacy',
    method: 'POST',
    path: '/payments',
    access: 'secret',
    permission: 'payments',
    summary: 'Create a payment for a fixed coin amount',
    body: CreateLegacy,
    reply: LegacyCreated,
    created: true,
    handle: createLegacy,
  }),
  apiRoute({
    isBodyChecked: false,
    id: 'createSimple',
    method: 'POST',
    path: '/api/payment/create/simple',
    access: 'any',
    permission: 'payments',
    summary: 'Create a payment',
    body: CreateSimple,
    reply: Created,
    created: true,
    handle: createSimple,
  }),
  apiRoute({
    isBodyChecked: false,
    id: 'createAdvanced',
    method: 'POST',
    path: '/api/payment/create/advanced',
    access: 'any',
    permission: 'payments',
    summary: 'Create a payment with items and tax',
    body: CreateAdvanced,
    reply: Created,
    created: true,
    handle: createAdvanced,
  }),
  apiRoute({
    id: 'readPayment',
    method: 'GET',
    path: '/api/payment/:payment_id',
    access: 'secret',
    permission: 'payments',
    summary: 'Retrieve a payment',
    reply: DetailSchema,
    handle: async ({ ctx, owner, params, reply }) =>
      reply(paymentDetail(await getPayment(ctx, { ...mine(owner), paymentId: params.payment_id }), ctx.settings.paymentPageUrl)),
  }),
  apiRoute({
    id: 'readPayments',
    method: 'GET',
    path: '/api/payments',
    access: 'secret',
    permission: 'payments',
    summary: 'List payments, newest first',
    query: ListQuery,
    reply: List,
    handle: async ({ ctx, owner, query, reply }) => {
      const { items, ...page } = await readPage({ ctx, owner, query });
      return reply({ success: true, data: items.map(listItem), ...page });
    },
  }),
];
