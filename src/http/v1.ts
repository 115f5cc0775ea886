/** The endpoints of /v1: the fiat creation, decisions over a payment, events, and test mode. */

import { EVENT_TYPES, UPDATED_EVENT } from '../core/event.ts';
import { Problem } from '../core/problem.ts';
import { paymentDetail, paymentUrl } from '../payments/detail.ts';
import { advanceClock, cancelPayment, createPayment, resolvePayment, setMetadata, simulatePayment } from '../payments/payments.ts';
import { getEvent, listEvents } from '../webhooks/events.ts';
import { draftOf, mine, render, renderDetail } from './payments.ts';
import { checkMetadataKeys, readLimit, readQuery, readReturnUrl, readUsd } from './read.ts';
import type { Answer, Call } from './routes.ts';
import { AdvanceClock, CreateTransaction, checkBody, Resolve, Simulate, UpdateMetadata } from './schema.ts';

type Common = Parameters<typeof draftOf>[1];

export async function createTransaction({ ctx, owner, body, claim }: Call): Promise<Answer> {
  const given = checkBody(CreateTransaction, body);
  if (given.currency_fiat !== 'USD') throw new Problem('fiat_unsupported', {}, { param: 'currency_fiat' });
  const amountUsdCents = readUsd(body, 'amount', given.amount);
  const draft = draftOf(owner, given as Common, {
    amountUsdCents,
    returnUrl: given.return_url === undefined ? null : readReturnUrl(given.return_url, owner.mode),
  });
  if (draft.scenario && draft.scenario.coin !== given.crypto) {
    throw new Problem(
      'parameter_invalid',
      { reason: `it is one of ${draft.scenario.coin}, crypto says ${given.crypto}` },
      { param: 'payment_address' },
    );
  }
  try {
    return await createPayment(ctx, {
      ...mine(owner),
      createdWith: owner.kind,
      draft: { ...draft, coin: given.crypto },
      idempotency: claim,
      render: (view) => {
        const { id, amount_usd, amount, currency, payment_address, expires_at, created_at, status, mode, quote_expires_at } = paymentDetail(
          view,
          ctx.settings.paymentPageUrl,
        );
        return render(201, {
          success: true,
          transaction_id: id,
          id,
          payment_url: paymentUrl(ctx.settings.paymentPageUrl, view.facts.id),
          amount_usd,
          amount,
          currency,
          payment_address,
          amount_fiat: amount_usd,
          currency_fiat: 'USD',
          created_at,
          expires_at,
          quote_expires_at,
          status,
          mode,
        });
      },
    });
  } catch (error) {
    // This body calls the coin `crypto`.
    if (error instanceof Problem && error.param === 'currency')
      throw new Problem(error.code, detailsOf(error, given.crypto), {
        param: 'crypto',
        cause: error,
        ...(error.retryAfterSeconds !== null && { retryAfterSeconds: error.retryAfterSeconds }),
      });
    throw error;
  }
}
const detailsOf = (problem: Problem, coin: string) => ({
  coin,
  reason: /: (.*)\.$/.exec(problem.message)?.[1] ?? '',
  minimum: /amount, (.*)\.$/.exec(problem.message)?.[1] ?? '',
});

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

const TYPES: readonly string[] = [...EVENT_TYPES, UPDATED_EVENT];
export async function readEvents({ ctx, owner, query }: Call): Promise<Answer> {
  const type = readQuery(query, 'type');
  if (type !== null && !TYPES.includes(type))
    throw new Problem('parameter_invalid', { reason: `one of ${TYPES.join(', ')} is expected` }, { param: 'type' });
  const page = await listEvents(ctx, {
    ...mine(owner),
    limit: readLimit(query),
    startingAfter: readQuery(query, 'starting_after'),
    type,
    paymentId: readQuery(query, 'payment_id'),
  });
  // The stored bytes are the events: they are put together, not written anew.
  const data = page.items.map((item) => Buffer.from(item.body).toString()).join(',');
  return { status: 200, body: Buffer.from(`{"success":true,"data":[${data}],"has_more":${page.hasMore}}`) };
}
export async function readEvent({ ctx, owner, params }: Call): Promise<Answer> {
  return { status: 200, body: (await getEvent(ctx, { ...mine(owner), eventId: params.id! })).body };
}

export async function simulate({ ctx, owner, params, body, claim }: Call): Promise<Answer> {
  const given = checkBody(Simulate, body);
  return simulatePayment(ctx, {
    merchantId: owner.merchantId,
    paymentId: params.id!,
    scenario: given.scenario,
    coin: given.currency ?? null,
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
