/** Creating a payment in a named coin, and everything that changes a payment afterwards. */
import { PAYMENT_EVENTS } from '#core/event';
import { Problem } from '#core/problem';
import {
  advanceClock,
  cancelPayment,
  createPayment,
  fiatDetail,
  listTransfers,
  paymentDetail,
  paymentUrl,
  resolvePayment,
  setMetadata,
  simulatePayment,
  transferDetail,
} from '#payments';
import { getEvent, listEvents } from '#webhooks';
import { readBody } from './body.ts';
import { commonReadings, draftOf } from './payment-routes.ts';
import {
  checkMetadataKeys,
  readCoinNames,
  readFiatPrice,
  readLimit,
  readOneCoin,
  readPageCursor,
  readQuery,
  readReturnUrl,
} from './read.ts';
import { type Answer, type ApiRoute, apiRoute, madeBy, mine, type ReadingCall, readerOfKey, readingRoute } from './route.ts';
import {
  AdvanceClock,
  Cancel,
  ClockReply,
  CreateTransaction,
  DetailSchema,
  Resolve,
  Simulate,
  TransactionCreated,
  TransferList,
  TransfersQuery,
  UpdateMetadata,
} from './schema.ts';
import { EventList, EventReply, EventsQuery } from './schema-webhooks.ts';

type Common = Parameters<typeof commonReadings>[1];

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
    coins: { params: ['crypto', 'network'], read: () => readCoinNames(given.crypto, given.network) },
    returnUrl: {
      params: ['return_url'],
      read: () => (given.return_url === undefined ? null : readReturnUrl(given.return_url, owner.mode)),
    },
  }));
  // An asset on several networks without `network`: the customer chooses one on the page.
  const isOpen = read.coins.length > 1 && read.scenario === null;
  const draft = draftOf(read, { ...read.price, returnUrl: read.returnUrl, ...(isOpen && { asset: given.crypto }) });
  const identified = draft.scenario?.coin;
  if (identified !== undefined && !read.coins.includes(identified)) {
    throw new Problem(
      'parameter_invalid',
      { reason: `it is a ${identified} identifier, but crypto is ${given.crypto}` },
      { param: 'payment_address' },
    );
  }
  const coin = identified ?? (isOpen ? null : read.coins[0]!);
  try {
    return await createPayment(ctx, {
      ...{ ...madeBy(owner), actor },
      draft: { ...draft, coin },
      idempotency: claim,
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

export const PAYMENT_CHANGES: readonly ApiRoute[] = [
  readingRoute({
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
    id: 'updatePayment',
    method: 'POST',
    path: '/v1/payments/:id',
    access: 'secret',
    permission: 'payments',
    summary: 'Update the metadata of a payment',
    body: UpdateMetadata,
    reply: DetailSchema,
    handle: async ({ ctx, owner, params, body: { metadata, shop }, claim, reply }) => {
      checkMetadataKeys(metadata);
      return setMetadata(ctx, {
        ...mine(owner),
        paymentId: params.id,
        metadata,
        shop,
        idempotency: claim,
        render: (view) => reply(paymentDetail(view, ctx.settings.paymentPageUrl)),
      });
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
    handle: async ({ ctx, owner, actor, params, body: { shop, only_if_unpaid: onlyIfUnpaid }, claim, reply }) =>
      cancelPayment(ctx, {
        ...mine(owner),
        ...{ actor, shop, onlyIfUnpaid },
        paymentId: params.id,
        idempotency: claim,
        render: (view) => reply(paymentDetail(view, ctx.settings.paymentPageUrl)),
      }),
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
    handle: async ({ ctx, owner, actor, params, body: { action, transfers, shop }, claim, reply }) =>
      resolvePayment(ctx, {
        ...mine(owner),
        actor,
        paymentId: params.id,
        action,
        shop,
        transfers: transfers ?? null,
        idempotency: claim,
        render: (view) => reply(paymentDetail(view, ctx.settings.paymentPageUrl)),
      }),
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

/** The stored bytes are sent unchanged, so that lists and deliveries contain the same text. */
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
      const page = await listEvents(ctx, {
        ...readerOfKey(owner),
        limit: readLimit(query),
        startingAfter: readPageCursor(query, 'starting_after'),
        type,
        paymentId: readQuery(query, 'payment_id'),
      });
      const data = page.items.map((item) => Buffer.from(item.body).toString()).join(',');
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
    reply: EventReply,
    handle: async ({ ctx, owner, params }) => ({
      status: 200,
      body: (await getEvent(ctx, { ...readerOfKey(owner), eventId: params.id })).body,
    }),
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
    handle: async ({ ctx, owner, params, body: { scenario, currency, network }, claim, reply }) =>
      simulatePayment(ctx, {
        merchantId: owner.merchantId,
        paymentId: params.id,
        scenario,
        coin: currency === undefined ? null : readOneCoin(currency, network),
        idempotency: claim,
        render: (view) => reply(paymentDetail(view, ctx.settings.paymentPageUrl)),
      }),
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
