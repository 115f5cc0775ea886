/** The payout endpoints. */
import { COIN, type Coin } from '../core/coin.ts';
import { Problem } from '../core/problem.ts';
import { REFUND_STATES } from '../core/refund.ts';
import { type AskedAmount, cancelPayout, getPayout, listPayouts, type Payout, payoutDetail, requestPayout } from '../money-out/payouts.ts';
import { readBody } from './body.ts';
import type { ParsedBody } from './json.ts';
import { readLimit, readOneCoin, readPageCursor, readQuery, readUnits, readUsd } from './read.ts';
import { type Answer, type ApiRoute, apiRoute, mine, type ReadingCall, readingRoute } from './route.ts';
import { Empty } from './schema.ts';
import { CreatePayout, PayoutList, PayoutReply, PayoutsQuery } from './schema-payouts.ts';

const payoutReply = (payout: Payout) => ({ success: true, ...payoutDetail(payout) });

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
  readingRoute({
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
      const given = readQuery(query, 'status');
      const state = REFUND_STATES.find((known) => known === given) ?? null;
      if (given !== null && state === null)
        throw new Problem('parameter_invalid', { reason: `it must be one of ${REFUND_STATES.join(', ')}` }, { param: 'status' });
      const { payouts, hasMore } = await listPayouts(ctx, {
        ...{ ...mine(owner), limit: readLimit(query), startingAfter: readPageCursor(query, 'starting_after'), state },
        ...{ reference: readQuery(query, 'payout_reference'), batchId: readQuery(query, 'batch_id') },
      });
      return reply({ success: true, data: payouts.map(payoutDetail), has_more: hasMore });
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
    handle: async ({ ctx, owner, params, reply }) => reply(payoutReply(await getPayout(ctx, { ...mine(owner), id: params.id }))),
  }),
  apiRoute({
    id: 'cancelPayout',
    method: 'POST',
    path: '/v1/payouts/:id/cancel',
    access: 'secret',
    permission: 'payouts',
    summary: 'Cancel a payout that was not approved',
    body: Empty,
    reply: PayoutReply,
    handle: async ({ ctx, owner, actor, params, claim, reply }) =>
      cancelPayout(ctx, {
        ...mine(owner),
        id: params.id,
        actor,
        idempotency: claim,
        render: (payout) => reply(payoutReply(payout)),
      }),
  }),
];
