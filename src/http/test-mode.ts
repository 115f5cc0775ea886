/** What exists in test mode only: scenarios and the clock. */
import { paymentDetail } from '../payments/detail.ts';
import { advanceClock, simulatePayment } from '../payments/payments.ts';
import { readOneCoin } from './read.ts';
import { type ApiRoute, apiRoute } from './route.ts';
import { AdvanceClock, ClockReply, DetailSchema, Simulate } from './schema.ts';

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
