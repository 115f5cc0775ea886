/** The endpoints of /v1: the fiat create, decisions on payments, events, and test mode. */

import { PAYMENT_EVENTS } from '../core/event.ts';
import { Problem } from '../core/problem.ts';
import { type LoggedRequest, listRequests } from '../keys/requests.ts';
import { fiatDetail, paymentDetail, paymentUrl, transferDetail } from '../payments/detail.ts';
import { advanceClock, cancelPayment, createPayment, resolvePayment, setMetadata, simulatePayment } from '../payments/payments.ts';
import { listTransfers } from '../payments/queries.ts';
import { getEvent, listEvents } from '../webhooks/events.ts';
import { checkBody, readBody } from './body.ts';
import { commonReadings, draftOf, madeBy, mine, render, renderDetail } from './payments.ts';
import { readFiatPrice } from './price.ts';
import { checkMetadataKeys, readCoinNames, readLimit, readOneCoin, readQuery, readReturnUrl } from './read.ts';
import type { Answer, Call } from './route.ts';
import { AdvanceClock, CreateTransaction, Resolve, Simulate, UpdateMetadata } from './schema.ts';

type Common = Parameters<typeof commonReadings>[1];

export async function createTransaction({ ctx, owner, body, claim }: Call): Promise<Answer> {
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
      ...madeBy(owner),
      draft: { ...draft, coin },
      idempotency: claim,
      render: (view) => {
        const { id, amount_usd, amount, currency, payment_address, expires_at, created_at, status, mode, quote_expires_at, network } =
          paymentDetail(view, ctx.settings.paymentPageUrl);
        return render(201, {
          success: true,
          transaction_id: id,
          id,
          payment_url: paymentUrl(ctx.settings.paymentPageUrl, view.facts.id),
          amount_usd,
          amount,
          currency,
          payment_address,
          ...(view.request.fiat
            ? fiatDetail(view.request.fiat)
            : { amount_fiat: amount_usd, currency_fiat: 'USD', fiat_rate: null, fiat_rate_source: null, fiat_rate_at: null }),
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

export async function readTransfers({ ctx, owner, params, query }: Call): Promise<Answer> {
  const { transfers, hasMore } = await listTransfers(ctx, {
    ...mine(owner),
    paymentId: params.id!,
    limit: readLimit(query),
    startingAfter: readQuery(query, 'starting_after'),
  });
  return render(200, { success: true, data: transfers.map(transferDetail), has_more: hasMore });
}

export const cancel = ({ ctx, owner, params, claim }: Call): Promise<Answer> =>
  cancelPayment(ctx, { ...mine(owner), paymentId: params.id!, idempotency: claim, render: renderDetail(ctx) });

export async function resolve({ ctx, owner, params, body, claim }: Call): Promise<Answer> {
  const given = checkBody(Resolve, body);
  return resolvePayment(ctx, {
    ...mine(owner),
    paymentId: params.id!,
    action: given.action,
    transfers: given.transfers ?? null,
    idempotency: claim,
    render: renderDetail(ctx),
  });
}

export async function updatePayment({ ctx, owner, params, body, claim }: Call): Promise<Answer> {
  const given = checkBody(UpdateMetadata, body);
  checkMetadataKeys(given.metadata);
  return setMetadata(ctx, {
    ...mine(owner),
    paymentId: params.id!,
    metadata: given.metadata,
    idempotency: claim,
    render: renderDetail(ctx),
  });
}

const TYPES: readonly string[] = PAYMENT_EVENTS;
export async function readEvents({ ctx, owner, query }: Call): Promise<Answer> {
  const type = readQuery(query, 'type');
  if (type !== null && !TYPES.includes(type))
    throw new Problem('parameter_invalid', { reason: `it must be one of ${TYPES.join(', ')}` }, { param: 'type' });
  const page = await listEvents(ctx, {
    ...mine(owner),
    limit: readLimit(query),
    startingAfter: readQuery(query, 'starting_after'),
    type,
    paymentId: readQuery(query, 'payment_id'),
  });
  // The stored bytes are sent unchanged, so that lists and deliveries contain the same text.
  const data = page.items.map((item) => Buffer.from(item.body).toString()).join(',');
  return { status: 200, body: Buffer.from(`{"success":true,"data":[${data}],"has_more":${page.hasMore}}`) };
}
export async function readEvent({ ctx, owner, params }: Call): Promise<Answer> {
  return { status: 200, body: (await getEvent(ctx, { ...mine(owner), eventId: params.id! })).body };
}

/** A logged request as the API and the dashboard show it. */
export const requestBody = (request: LoggedRequest) => ({
  id: request.id,
  mode: request.mode,
  created_at: request.at.toISOString(),
  method: request.method,
  path: request.path,
  query: request.query,
  status: request.status,
  error_code: request.errorCode,
  key_id: request.keyId,
  duration_ms: request.durationMs,
  has_idempotency_key: request.hasIdempotencyKey,
  ip: request.ip,
  request_body: request.body,
  response_body: request.responseBody,
  ignored_parameters: request.ignored ?? [],
  omitted: request.omitted,
});
export async function readRequests({ ctx, owner, query }: Call): Promise<Answer> {
  const outcome = readQuery(query, 'outcome');
  if (outcome !== null && outcome !== 'failed')
    throw new Problem('parameter_invalid', { reason: 'it must be "failed"' }, { param: 'outcome' });
  const status = readQuery(query, 'status');
  if (status !== null && !/^[1-5]\d\d$/.test(status))
    throw new Problem('parameter_invalid', { reason: 'it must be an HTTP status such as 404' }, { param: 'status' });
  const page = await listRequests(ctx, {
    whole: true,
    ...mine(owner),
    limit: readLimit(query),
    startingAfter: readQuery(query, 'starting_after'),
    filter: {
      failed: outcome === 'failed',
      status: status === null ? null : Number(status),
      path: readQuery(query, 'path'),
      keyId: readQuery(query, 'key_id'),
      requestId: readQuery(query, 'request_id'),
    },
  });
  return render(200, { success: true, data: page.items.map(requestBody), has_more: page.hasMore });
}

export async function simulate({ ctx, owner, params, body, claim }: Call): Promise<Answer> {
  const given = checkBody(Simulate, body);
  return simulatePayment(ctx, {
    merchantId: owner.merchantId,
    paymentId: params.id!,
    scenario: given.scenario,
    coin: given.currency === undefined ? null : readOneCoin(given.currency, given.network),
    idempotency: claim,
    render: renderDetail(ctx),
  });
}

export async function advance({ ctx, owner, body, claim }: Call): Promise<Answer> {
  const given = checkBody(AdvanceClock, body);
  return advanceClock(ctx, {
    merchantId: owner.merchantId,
    paymentId: given.payment_id ?? null,
    seconds: given.seconds,
    idempotency: claim,
    render: ({ now, offsetSeconds }) => render(200, { success: true, now: now.toISOString(), offset_seconds: Number(offsetSeconds) }),
  });
}
