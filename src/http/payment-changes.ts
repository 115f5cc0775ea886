/** Creating a payment in a named coin, and everything that changes a payment afterwards. */
import type { TObject } from 'typebox';
import { type Asset, COIN, type Coin, isAsset } from '#core/coin';
import { PAYMENT_EVENTS } from '#core/event';
import { type Fiat, isFiat } from '#core/fiat';
import { fiatDetail, paymentDetail, paymentUrl, transferDetail } from '#core/payment-detail';
import type { PaymentView } from '#core/payment-view';
import { Problem } from '#core/problem';
import { WAITING } from '#core/simulated';
import { askInvoice } from '#lightning';
import { advanceClock, cancelPayment, createPayment, type PaymentDraft, resolvePayment, setMetadata, simulatePayment } from '#payments';
import { getPayment, getPayments, listTransfers } from '#queries';
import { priceAt } from '#readiness';
import { readBody } from '#transport';
import { getEvent, listEvents } from '#webhooks';
import { eventTexts, paymentBodies, readExpand } from './expand.ts';
import { commonReadings, draftOf, readPage, worthOfUnits } from './payment-routes.ts';
import {
  checkMetadataKeys,
  readAssetName,
  readCoinNames,
  readCoinUnits,
  readFiatPrice,
  readLimit,
  readMinor,
  readOneCoin,
  readPageCursor,
  readQuery,
  readReturnUrl,
} from './read.ts';
import { type Answer, type ApiCall, type ApiRoute, apiRoute, madeBy, mine, type ReadingCall, readerOfCaller } from './route.ts';
import {
  AdvanceClock,
  Cancel,
  ClockReply,
  CreatePayment,
  CreateTransaction,
  DetailSchema,
  Resolve,
  Simulate,
  TransactionCreated,
  TransferList,
  TransfersQuery,
  UpdateMetadata,
} from './schema.ts';
import { PaymentList, PaymentQuery, PaymentReply, PaymentsQuery } from './schema-refunds.ts';
import { EventList, EventQuery, EventReply, EventsQuery } from './schema-webhooks.ts';

type Common = Parameters<typeof commonReadings>[1];

/** `simulates`: whether opening the page of a test payment pays it; otherwise the page waits until somebody picks a scenario. */
type InCoin = Parameters<typeof draftOf>[1] & { simulates: boolean };
/**
 * The payment in the coin of the test identifier, or in the one that is named. Of an asset on several networks, the customer chooses one on
 * the page. Errors: parameter_invalid (param `payment_address`).
 */
function draftInCoin(coins: readonly Coin[], read: Parameters<typeof draftOf>[0], { simulates, ...more }: InCoin): PaymentDraft {
  const { asset } = COIN[coins[0]!];
  const identified = read.scenario?.coin;
  if (identified === undefined && coins.length > 1) return { ...draftOf(read, { ...more, asset }), coin: null };
  const coin = identified ?? coins[0]!;
  if (coins.includes(coin)) {
    const draft = draftOf(read, more);
    return { ...draft, coin, scenario: draft.scenario ?? (simulates ? null : { coin, name: WAITING }) };
  }
  throw new Problem('parameter_invalid', { reason: `it is a ${coin} identifier, but crypto is ${asset}` }, { param: 'payment_address' });
}

async function createTransaction({
  ctx,
  owner,
  actor,
  parsed: body,
  claim,
  reply,
}: ReadingCall<typeof TransactionCreated>): Promise<Answer> {
  const { given, read } = readBody(CreateTransaction, body, (given) => ({
    ...commonReadings(owner, given as Common),
    price: {
      params: ['amount', 'currency_fiat'],
      read: () => readFiatPrice(ctx, { mode: owner.mode, body, amount: given.amount, currency: given.currency_fiat }),
    },
    coins: { params: ['crypto', 'network'], read: () => readCoinNames(given.crypto, given.network, { toPay: true }) },
    returnUrl: {
      params: ['return_url'],
      read: () => (given.return_url === undefined ? null : readReturnUrl(given.return_url, owner.mode)),
    },
  }));
  const draft = draftInCoin(read.coins, read, {
    ...read.price,
    returnUrl: read.returnUrl,
    simulates: owner.mode === 'live' || (given.simulate ?? true),
  });
  try {
    return await createPayment(ctx, {
      ...{ ...madeBy(owner), actor },
      ...{ draft, idempotency: claim, askInvoice: askInvoice(ctx) },
      render: (view) => {
        const { id, amount_usd, amount, currency, payment_address, expires_at, created_at, status, mode, quote_expires_at, network } =
          paymentDetail(view, ctx.settings.paymentPageUrl);
        return reply({
          success: true,
          transaction_id: id,
          id,
          payment_url: paymentUrl(ctx.settings.paymentPageUrl, view.facts.id),
          amount_usd,
          // Null until the customer chooses one of several networks, like the address, the network and the time of the quote.
          amount,
          currency: currency!,
          payment_address,
          ...(view.request.fiat
            ? fiatDetail(view.request.fiat)
            : { amount_fiat: amount_usd, currency_fiat: 'USD' as const, fiat_rate: null, fiat_rate_source: null, fiat_rate_at: null }),
          created_at,
          expires_at,
          quote_expires_at,
          status,
          mode,
          network,
        });
      },
    });
  } catch (error) {
    // This body calls the coin `crypto`.
    if (error instanceof Problem && error.param === 'currency') throw error.with({ param: 'crypto' });
    throw error;
  }
}

/** What an amount is in: a currency that the customer pays the worth of, or a coin. */
type Unit = { fiat: Fiat } | { asset: Asset };
function readUnit(text: string): Unit {
  const upper = text.toUpperCase();
  if (isFiat(upper)) return { fiat: upper };
  // A code of three letters that is not a coin is a currency that Florin has no rate for.
  if (/^[A-Z]{3}$/.test(upper) && !isAsset(upper)) throw new Problem('fiat_unsupported', {}, { param: 'currency' });
  return { asset: readAssetName(text, 'currency') };
}

/** POST /v1/payments: a price, or a fixed coin amount, as `currency` says. */
async function create({ ctx, owner, actor, parsed: body, claim, reply }: ReadingCall<typeof DetailSchema>): Promise<Answer> {
  const { given, read } = readBody(CreatePayment, body, (given) => {
    const unit = () => readUnit(given.currency);
    const crypto = () => (given.crypto === undefined ? null : readAssetName(given.crypto, 'crypto'));
    return {
      ...commonReadings(owner, given as Common),
      unit: { params: ['currency'], read: unit },
      coins: {
        params: ['currency', 'crypto', 'network'],
        read: (): readonly Coin[] | null => {
          const [{ asset = null }, chosen] = [unit() as { asset?: Asset }, crypto()];
          if (asset !== null && chosen !== null)
            throw new Problem('parameter_invalid', { reason: `it cannot be combined with an amount in ${asset}` }, { param: 'crypto' });
          if (asset !== null) return [readOneCoin(asset, given.network, { toPay: true })];
          if (chosen !== null) return readCoinNames(chosen, given.network, { toPay: true });
          if (given.network !== undefined) throw new Problem('parameter_missing', {}, { param: 'crypto' });
          return null;
        },
      },
      returnUrl: {
        params: ['return_url'],
        read: () => (given.return_url === undefined ? null : readReturnUrl(given.return_url, owner.mode)),
      },
    };
  });
  const { unit, coins, returnUrl } = read;
  const simulates = owner.mode === 'live' || given.simulate === true;
  const draftIn = (): PaymentDraft => {
    if ('asset' in unit) {
      const coin = coins![0]!;
      const units = readCoinUnits(body, 'amount', given.amount, coin);
      const amountUsdCents = worthOfUnits(ctx, owner, { coin, units });
      return { ...draftInCoin([coin], read, { amountUsdCents, returnUrl, simulates }), fixed: { coin, units } };
    }
    const minor = readMinor(body, 'amount', given.amount, unit.fiat);
    const price = priceAt(ctx, { mode: owner.mode, currency: unit.fiat, minor, params: { amount: 'amount', currency: 'currency' } });
    return coins === null ? draftOf(read, { ...price, returnUrl }) : draftInCoin(coins, read, { ...price, returnUrl, simulates });
  };
  const draft = draftIn();
  const render = (view: PaymentView) => reply(paymentDetail(view, ctx.settings.paymentPageUrl));
  try {
    return await createPayment(ctx, { ...madeBy(owner), actor, draft, idempotency: claim, render, askInvoice: askInvoice(ctx) });
  } catch (error) {
    if (!(error instanceof Problem)) throw error;
    if (error.param === 'amount_usd') throw error.with({ param: 'amount' });
    // The coin has a field of its own beside a price.
    throw error.param === 'currency' && given.crypto !== undefined ? error.with({ param: 'crypto' }) : error;
  }
}

type Decision = Pick<ApiCall<'/:id', TObject, TObject, typeof DetailSchema>, 'ctx' | 'owner' | 'actor' | 'params' | 'claim' | 'reply'>;
/** What is decided about a payment, by whom, and the reply. */
const deciding = ({ ctx, owner, actor, params, claim, reply }: Decision) => ({
  ...{ ...mine(owner), actor, paymentId: params.id, idempotency: claim },
  render: (view: PaymentView) => reply(paymentDetail(view, ctx.settings.paymentPageUrl)),
});
export const PAYMENT_CHANGES: readonly ApiRoute[] = [
  apiRoute({
    isBodyChecked: false,
    id: 'createPayment',
    method: 'POST',
    path: '/v1/payments',
    access: 'secret',
    permission: 'payments',
    summary: 'Create a payment with an amount in any currency or coin',
    body: CreatePayment,
    reply: DetailSchema,
    created: true,
    handle: create,
  }),
  apiRoute({
    isBodyChecked: false,
    id: 'createTransaction',
    method: 'POST',
    path: '/v1/transactions/create',
    access: 'secret',
    permission: 'payments',
    summary: 'Create a payment in a named coin',
    body: CreateTransaction,
    reply: TransactionCreated,
    created: true,
    handle: createTransaction,
  }),
  apiRoute({
    id: 'listPayments',
    method: 'GET',
    path: '/v1/payments',
    access: 'secret',
    permission: 'payments',
    summary: 'List whole payments, newest first',
    query: PaymentsQuery,
    reply: PaymentList,
    handle: async ({ ctx, owner, query, reply }) => {
      const expand = readExpand(query, 'refunds');
      const { items, ...page } = await readPage({ ctx, owner, query });
      const views = await getPayments(ctx, { ...mine(owner), ids: items.map(({ id }) => id) });
      return reply({ success: true, data: await paymentBodies({ ctx, owner }, views, { expand }), ...page });
    },
  }),
  apiRoute({
    id: 'retrievePayment',
    method: 'GET',
    path: '/v1/payments/:id',
    access: 'secret',
    permission: 'payments',
    summary: 'Retrieve a payment, with its refunds if you want',
    query: PaymentQuery,
    reply: PaymentReply,
    handle: async ({ ctx, owner, params, query, reply }) => {
      const expand = readExpand(query, 'refunds');
      const view = await getPayment(ctx, { ...mine(owner), paymentId: params.id });
      return reply((await paymentBodies({ ctx, owner }, [view], { expand }))[0]!);
    },
  }),
  apiRoute({
    id: 'updatePayment',
    method: 'POST',
    path: '/v1/payments/:id',
    access: 'secret',
    permission: 'payments',
    summary: 'Update the metadata of a payment',
    body: UpdateMetadata,
    reply: DetailSchema,
    handle: async (call) => {
      const { metadata, shop } = call.body;
      checkMetadataKeys(metadata);
      return setMetadata(call.ctx, { ...deciding(call), metadata, shop });
    },
  }),
  apiRoute({
    id: 'cancel',
    method: 'POST',
    path: '/v1/payments/:id/cancel',
    access: 'secret',
    permission: 'resolve',
    summary: 'Cancel a pending payment',
    body: Cancel,
    reply: DetailSchema,
    handle: async (call) => cancelPayment(call.ctx, { ...deciding(call), shop: call.body.shop, onlyIfUnpaid: call.body.only_if_unpaid }),
  }),
  apiRoute({
    id: 'resolve',
    method: 'POST',
    path: '/v1/payments/:id/resolve',
    access: 'secret',
    permission: 'resolve',
    summary: 'Decide about money that arrived: accept, reject, or mark as refunded',
    body: Resolve,
    reply: DetailSchema,
    handle: async (call) => {
      const { action, transfers = null, shop } = call.body;
      return resolvePayment(call.ctx, { ...deciding(call), action, shop, transfers });
    },
  }),
  apiRoute({
    id: 'readTransfers',
    method: 'GET',
    path: '/v1/payments/:id/transfers',
    access: 'secret',
    permission: 'payments',
    summary: 'List the transfers of a payment',
    query: TransfersQuery,
    reply: TransferList,
    handle: async ({ ctx, owner, params, query, reply }) => {
      const { transfers, hasMore } = await listTransfers(ctx, {
        ...mine(owner),
        paymentId: params.id,
        limit: readLimit(query),
        startingAfter: readPageCursor(query, 'starting_after'),
      });
      return reply({ success: true, data: transfers.map(transferDetail), has_more: hasMore });
    },
  }),
];

// The events of payments.

const TYPES: readonly string[] = PAYMENT_EVENTS;

/** The stored text is sent unchanged, so that lists and deliveries contain the same text. */
export const PAYMENT_EVENT_ROUTES: readonly ApiRoute[] = [
  apiRoute({
    id: 'readEvents',
    method: 'GET',
    path: '/v1/events',
    access: 'secret',
    permission: 'payments',
    summary: 'List events, newest first',
    query: EventsQuery,
    reply: EventList,
    handle: async ({ ctx, owner, query }) => {
      const type = readQuery(query, 'type');
      if (type !== null && !TYPES.includes(type))
        throw new Problem('parameter_invalid', { reason: `it must be one of ${TYPES.join(', ')}` }, { param: 'type' });
      const expand = readExpand(query, 'payment');
      const page = await listEvents(ctx, {
        ...readerOfCaller(owner),
        limit: readLimit(query),
        startingAfter: readPageCursor(query, 'starting_after'),
        type,
        paymentId: readQuery(query, 'payment_id'),
      });
      const data = (await eventTexts({ ctx, owner }, page.items, { expand })).join(',');
      return { status: 200, body: Buffer.from(`{"success":true,"data":[${data}],"has_more":${page.hasMore}}`) };
    },
  }),
  apiRoute({
    id: 'readEvent',
    method: 'GET',
    path: '/v1/events/:id',
    access: 'secret',
    permission: 'payments',
    summary: 'Retrieve an event',
    query: EventQuery,
    reply: EventReply,
    handle: async ({ ctx, owner, params, query }) => {
      const expand = readExpand(query, 'payment');
      const event = await getEvent(ctx, { ...readerOfCaller(owner), eventId: params.id });
      return { status: 200, body: (await eventTexts({ ctx, owner }, [event], { expand }))[0]! };
    },
  }),
];

// What exists in test mode only: scenarios and the clock.

export const TEST_MODE: readonly ApiRoute[] = [
  apiRoute({
    id: 'simulate',
    method: 'POST',
    path: '/v1/test/payments/:id/simulate',
    access: 'secret_test',
    permission: 'payments',
    summary: 'Start a scenario on a test payment',
    body: Simulate,
    reply: DetailSchema,
    handle: async (call) => {
      const { scenario, currency, network } = call.body;
      const coin = currency === undefined ? null : readOneCoin(currency, network, { toPay: true });
      return simulatePayment(call.ctx, { ...deciding(call), scenario, coin });
    },
  }),
  apiRoute({
    id: 'advance',
    method: 'POST',
    path: '/v1/test/clock/advance',
    access: 'secret_test',
    permission: 'payments',
    summary: 'Move the test clock forward',
    body: AdvanceClock,
    reply: ClockReply,
    handle: async ({ ctx, owner, body: { payment_id: paymentId, seconds }, claim, reply }) =>
      advanceClock(ctx, {
        merchantId: owner.merchantId,
        paymentId: paymentId ?? null,
        seconds,
        idempotency: claim,
        render: ({ now, offsetSeconds }) => reply({ success: true, now: now.toISOString(), offset_seconds: Number(offsetSeconds) }),
      }),
  }),
];
