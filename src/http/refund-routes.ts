/** The endpoints of refunds and payouts. */
import type { TSchema } from 'typebox';
import { COIN, type Coin } from '#core/coin';
import { Problem } from '#core/problem';
import { REFUND_STATES } from '#core/refund';
import {
  type AskedRefund,
  cancelOutgoing,
  getOutgoing,
  listOutgoing,
  type OutgoingKind,
  type Payout,
  payoutDetail,
  proveRefund,
  type Refund,
  renewClaimLink,
  requestPayout,
  requestRefund,
} from '#outgoing';
import { type ParsedBody, readBody } from '#transport';
import { readExpand, refundBodies, refundBody } from './expand.ts';
import { type Query, readFiatCode, readLimit, readMinor, readOneCoin, readPageCursor, readQuery, readUnits, readUsd } from './read.ts';
import { type Answer, type ApiCall, type ApiRoute, apiRoute, mine, type ReadingCall, type ReplyOf } from './route.ts';
import { Empty } from './schema.ts';
import {
  CreatePayout,
  CreateRefund,
  ExpandPayment,
  PayoutList,
  PayoutReply,
  PayoutsQuery,
  RefundList,
  RefundPreimage,
  RefundReply,
  RefundsQuery,
} from './schema-refunds.ts';

const refundReply = (call: Pick<ApiCall, 'ctx' | 'owner'>, refund: Refund) => ({ success: true, ...refundBody(call, refund) });
const payoutReply = (payout: Payout) => ({ success: true, ...payoutDetail(payout) });

/** Cancels a refund or a payout. `render` makes the reply. */
const cancelRoute = <Kind extends OutgoingKind, Reply extends TSchema>(
  kind: Kind,
  reply: Reply,
  render: (call: Pick<ApiCall, 'ctx' | 'owner'>, canceled: Extract<Refund | Payout, { kind: Kind }>) => ReplyOf<Reply>,
) =>
  apiRoute({
    id: kind === 'refund' ? 'cancelRefund' : 'cancelPayout',
    method: 'POST',
    path: `/v1/${kind as OutgoingKind}s/:id/cancel`,
    access: 'secret',
    permission: `${kind as OutgoingKind}s`,
    summary: `Cancel a ${kind} that was not approved`,
    body: Empty,
    reply,
    handle: async (call) =>
      cancelOutgoing(call.ctx, {
        ...{ ...mine(call.owner), kind, id: call.params.id, actor: call.actor, idempotency: call.claim },
        render: (canceled) => call.reply(render(call, canceled)),
      }),
  });

type AmountFields = { amount_usd?: unknown; amount?: unknown; currency_fiat?: string };
function readAsked(body: ParsedBody, { amount_usd, amount, currency_fiat }: AmountFields): AskedRefund {
  if (amount_usd !== undefined) {
    if (amount !== undefined || currency_fiat !== undefined)
      throw new Problem('parameter_invalid', { reason: 'it cannot be combined with amount and currency_fiat' }, { param: 'amount_usd' });
    return { kind: 'fiat', currency: 'USD', minor: readMinor(body, 'amount_usd', amount_usd, 'USD') };
  }
  if (currency_fiat !== undefined) {
    if (amount === undefined) throw new Problem('parameter_missing', {}, { param: 'amount' });
    const currency = readFiatCode(currency_fiat);
    return { kind: 'fiat', currency, minor: readMinor(body, 'amount', amount, currency) };
  }
  if (amount === undefined) return { kind: 'all' };
  // The coin of the payment decides how many decimals the amount may have. What no coin allows is refused at once.
  readUnits(body, 'amount', amount, 18);
  return { kind: 'coin', units: (coin) => readUnits(body, 'amount', amount, COIN[coin].decimals) };
}

/** Errors: parameter_missing. */
function checkCoin({ currency, network }: { currency?: unknown; network?: unknown }): void {
  if (network !== undefined && currency === undefined) throw new Problem('parameter_missing', {}, { param: 'currency' });
}

/** Errors: parameter_invalid. */
function readPage(query: Query) {
  const given = readQuery(query, 'status');
  const state = REFUND_STATES.find((known) => known === given) ?? null;
  if (given !== null && state === null)
    throw new Problem('parameter_invalid', { reason: `it must be one of ${REFUND_STATES.join(', ')}` }, { param: 'status' });
  return { state, limit: readLimit(query), startingAfter: readPageCursor(query, 'starting_after') };
}

async function createRefund({ ctx, owner, actor, parsed: body, claim, reply }: ReadingCall<typeof RefundReply>): Promise<Answer> {
  const { given, read } = readBody(CreateRefund, body, (given) => ({
    asked: { params: ['amount_usd', 'amount', 'currency_fiat'], read: () => readAsked(body, given) },
    coin: { params: ['currency', 'network'], read: () => checkCoin(given) },
  }));
  return requestRefund(ctx, {
    ...mine(owner),
    paymentId: given.payment_id,
    shop: given.shop,
    wanted: given.currency === undefined ? null : { asset: given.currency, chain: given.network ?? null },
    asked: read.asked,
    rate: given.rate ?? 'payment',
    address: given.address ?? null,
    reason: given.reason || null,
    email: given.email,
    actor,
    idempotency: claim,
    render: (refund) => reply(refundReply({ ctx, owner }, refund)),
  });
}

export const REFUND_ROUTES: readonly ApiRoute[] = [
  apiRoute({
    isBodyChecked: false,
    id: 'createRefund',
    method: 'POST',
    path: '/v1/refunds',
    access: 'secret',
    permission: 'refunds',
    summary: 'Request a refund of a payment',
    body: CreateRefund,
    reply: RefundReply,
    created: true,
    handle: createRefund,
  }),
  apiRoute({
    id: 'readRefunds',
    method: 'GET',
    path: '/v1/refunds',
    access: 'secret',
    permission: 'payments',
    summary: 'List refunds, newest first',
    query: RefundsQuery,
    reply: RefundList,
    handle: async ({ ctx, owner, query, reply }) => {
      const expand = readExpand(query, 'payment');
      const paymentId = readQuery(query, 'payment_id');
      const { found, hasMore } = await listOutgoing(ctx, { ...mine(owner), kind: 'refund', ...readPage(query), paymentId });
      return reply({ success: true, data: await refundBodies({ ctx, owner }, found, { expand }), has_more: hasMore });
    },
  }),
  apiRoute({
    id: 'readRefund',
    method: 'GET',
    path: '/v1/refunds/:id',
    access: 'secret',
    permission: 'payments',
    summary: 'Retrieve a refund',
    query: ExpandPayment,
    reply: RefundReply,
    handle: async ({ ctx, owner, params, query, reply }) => {
      const expand = readExpand(query, 'payment');
      const [body] = await refundBodies({ ctx, owner }, [await getOutgoing(ctx, { ...mine(owner), kind: 'refund', id: params.id })], {
        expand,
      });
      return reply({ success: true, ...body! });
    },
  }),
  apiRoute({
    id: 'renewClaimLink',
    method: 'POST',
    path: '/v1/refunds/:id/claim_link',
    access: 'secret',
    permission: 'refunds',
    summary: 'Replace the claim link of a refund',
    body: Empty,
    reply: RefundReply,
    handle: async ({ ctx, owner, actor, params, claim, reply }) =>
      renewClaimLink(ctx, {
        ...mine(owner),
        id: params.id,
        actor,
        idempotency: claim,
        render: (refund) => reply(refundReply({ ctx, owner }, refund)),
      }),
  }),
  apiRoute({
    id: 'proveRefund',
    method: 'POST',
    path: '/v1/refunds/:id/preimage',
    access: 'secret',
    permission: 'refunds',
    summary: 'Enter the preimage of the Lightning invoice that you paid',
    body: RefundPreimage,
    reply: RefundReply,
    handle: async ({ ctx, owner, actor, params, body, claim, reply }) =>
      proveRefund(ctx, {
        ...mine(owner),
        ...{ id: params.id, preimage: body.preimage, actor, idempotency: claim },
        render: (refund) => reply(refundReply({ ctx, owner }, refund)),
      }),
  }),
  cancelRoute('refund', RefundReply, refundReply),
];

// The payout endpoints.

type AskedAmount = Parameters<typeof requestPayout>[1]['asked']['asked'];
function readAmount(body: ParsedBody, coin: Coin, { amount, amount_usd }: { amount?: unknown; amount_usd?: unknown }): AskedAmount {
  if (amount_usd === undefined) {
    if (amount === undefined) throw new Problem('parameter_missing', {}, { param: 'amount' });
    return { kind: 'coin', units: readUnits(body, 'amount', amount, COIN[coin].decimals) };
  }
  if (amount !== undefined)
    throw new Problem('parameter_invalid', { reason: 'it cannot be combined with amount' }, { param: 'amount_usd' });
  return { kind: 'usd', cents: readUsd(body, 'amount_usd', amount_usd) };
}

async function createPayout({ ctx, owner, actor, parsed: body, claim, reply }: ReadingCall<typeof PayoutReply>): Promise<Answer> {
  const { given, read } = readBody(CreatePayout, body, (given) => ({
    coin: { params: ['currency', 'network'], read: () => readOneCoin(given.currency, given.network) },
    asked: {
      params: ['amount', 'amount_usd', 'currency', 'network'],
      read: () => readAmount(body, readOneCoin(given.currency, given.network), given),
    },
  }));
  const { address, payout_reference: reference = null, description } = given;
  // A client that repeats a request without either would make a second payout, which looks like another one.
  if (reference === null && claim === null) throw new Problem('payout_reference_missing', {}, { param: 'payout_reference' });
  return requestPayout(ctx, {
    ...mine(owner),
    asked: { coin: read.coin, asked: read.asked, address, reference, description: description || null },
    actor,
    idempotency: claim,
    render: (payout) => reply(payoutReply(payout)),
  });
}

export const PAYOUT_ROUTES: readonly ApiRoute[] = [
  apiRoute({
    isBodyChecked: false,
    id: 'createPayout',
    method: 'POST',
    path: '/v1/payouts',
    access: 'secret',
    permission: 'payouts',
    summary: 'Request a payout to somebody',
    body: CreatePayout,
    reply: PayoutReply,
    created: true,
    handle: createPayout,
  }),
  apiRoute({
    id: 'readPayouts',
    method: 'GET',
    path: '/v1/payouts',
    access: 'secret',
    permission: 'payouts',
    summary: 'List payouts, newest first',
    query: PayoutsQuery,
    reply: PayoutList,
    handle: async ({ ctx, owner, query, reply }) => {
      const named = { reference: readQuery(query, 'payout_reference'), batchId: readQuery(query, 'batch_id') };
      const { found, hasMore } = await listOutgoing(ctx, { ...mine(owner), kind: 'payout', ...readPage(query), ...named });
      return reply({ success: true, data: found.map(payoutDetail), has_more: hasMore });
    },
  }),
  apiRoute({
    id: 'readPayout',
    method: 'GET',
    path: '/v1/payouts/:id',
    access: 'secret',
    permission: 'payouts',
    summary: 'Retrieve a payout',
    reply: PayoutReply,
    handle: async ({ ctx, owner, params, reply }) =>
      reply(payoutReply(await getOutgoing(ctx, { ...mine(owner), kind: 'payout', id: params.id }))),
  }),
  cancelRoute('payout', PayoutReply, (_call, payout) => payoutReply(payout)),
];
