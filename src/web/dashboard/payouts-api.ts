/** Payouts to third parties: the request, and batches from a CSV file. What refunds have too is in outgoing-api.ts. */
import Type from 'typebox';
import { COIN } from '#core/coin';
import { formatUnits, formatUsd } from '#core/money';
import { REFUND_STATES } from '#core/refund';
import { LONGEST_DESCRIPTION, LONGEST_REFERENCE, literals } from '#http';
import {
  approveOutgoing,
  batchBody,
  cancelBatch,
  getBatch,
  getOutgoing,
  importPayouts,
  listBatches,
  listOutgoing,
  MOST_FILE_BYTES,
  makePayoutFile,
  type Payout,
  readPayoutCoins,
  requestPayout,
} from '#outgoing';
import { AnyCoinField, CoinName, Instant, NoFields, Nullable, PlainText, pageOf, paging } from './fields.ts';
import { outgoingRoutes, readAmount, TransactionBody, timeText, transactionBody } from './outgoing-api.ts';
import { type DashboardRoute, type MemberCall, memberRoute, ownerOfCall } from './route.ts';

export const PayoutBody = Type.Object({
  ...{ id: PlainText, reference: Nullable(PlainText), state: literals(REFUND_STATES), currency: AnyCoinField, amount: PlainText },
  ...{ amount_usd: PlainText, address: Nullable(PlainText), description: Nullable(PlainText), requested_by: PlainText },
  /** The file that it was imported with. */
  batch: Nullable(PlainText),
  /** While it is requested: who approved it first. */
  approved_by: Nullable(PlainText),
  ...{ transaction: TransactionBody, failure: Nullable(PlainText) },
  /** The signing file that it is part of, unless that was canceled. */
  file: Nullable(PlainText),
  ...{ created_at: Instant, approved_at: Nullable(Instant), sent_at: Nullable(Instant), ended_at: Nullable(Instant) },
});
export const payoutBody = (call: Pick<MemberCall, 'ctx' | 'mode'>, payout: Payout) => ({
  ...{ id: payout.id, reference: payout.reference, state: payout.state, currency: payout.coin },
  ...{ amount: formatUnits(payout.coin, payout.units), amount_usd: formatUsd(payout.usdCents), address: payout.address },
  ...{ description: payout.description, requested_by: payout.requestedBy, batch: payout.batchId, approved_by: payout.approvedBy },
  ...{ transaction: transactionBody(call, payout), failure: payout.failure, file: payout.fileId },
  ...{ created_at: payout.createdAt.toISOString(), approved_at: timeText(payout.approvedAt), sent_at: timeText(payout.sentAt) },
  ended_at: timeText(payout.endedAt),
});
const One = Type.Object({ success: Type.Boolean(), payout: PayoutBody });
const readOne = async (call: MemberCall, id: string) => ({
  success: true,
  payout: payoutBody(call, await getOutgoing(call.ctx, { ...ownerOfCall(call), kind: 'payout', id })),
});

const Sum = {
  ...{ payouts: Type.Integer(), amount_usd: PlainText },
  totals: Type.Array(Type.Object({ currency: AnyCoinField, amount: PlainText })),
};
const BatchBody = Type.Object({
  ...{ id: PlainText, name: PlainText, requested_by: PlainText, created_at: Instant },
  /** Without what is canceled. */
  ...Sum,
  /** What nobody approved yet, or only a first member. */
  open: Type.Object(Sum),
  states: Type.Partial(Type.Object(Object.fromEntries(REFUND_STATES.map((state) => [state, Type.Integer()])))),
});
const OneBatch = Type.Object({ success: Type.Boolean(), batch: BatchBody });
const readOneBatch = async (call: MemberCall, id: string) => ({
  success: true,
  batch: batchBody(await getBatch(call.ctx, { ...ownerOfCall(call), id })),
});
const render = (payout: Payout) => ({ status: 200, body: Buffer.from(payout.id) });

const READS: readonly DashboardRoute[] = [
  memberRoute({
    method: 'GET',
    path: '/payouts',
    action: 'payouts.read',
    query: Type.Object({ ...paging, batch: Type.Optional(PlainText), state: Type.Optional(literals(REFUND_STATES)) }),
    reply: pageOf(PayoutBody),
    handle: async (call) => {
      const { limit, starting_after, batch, state } = call.query;
      const page = { limit: Number(limit ?? 25), startingAfter: starting_after ?? null };
      const filter = { kind: 'payout', batchId: batch ?? null, state: state ?? null } as const;
      const { found, hasMore } = await listOutgoing(call.ctx, { ...ownerOfCall(call), ...page, ...filter });
      return { success: true, data: found.map((payout) => payoutBody(call, payout)), has_more: hasMore };
    },
  }),
  memberRoute({
    method: 'GET',
    path: '/payout-batches',
    action: 'payouts.read',
    query: Type.Object(paging),
    reply: pageOf(BatchBody),
    handle: async (call) => {
      const { limit, starting_after } = call.query;
      const page = { limit: Number(limit ?? 25), startingAfter: starting_after ?? null };
      const { batches, hasMore } = await listBatches(call.ctx, { ...ownerOfCall(call), ...page });
      return { success: true, data: batches.map(batchBody), has_more: hasMore };
    },
  }),
  memberRoute({
    method: 'GET',
    path: '/payout-batches/:id',
    action: 'payouts.read',
    reply: OneBatch,
    handle: (call) => readOneBatch(call, call.params.id),
  }),
];

const ACTS: readonly DashboardRoute[] = [
  memberRoute({
    method: 'POST',
    path: '/payouts',
    action: 'payouts.request',
    body: Type.Object({
      ...{ currency: CoinName, amount: Type.String({ maxLength: 60 }), unit: literals(['coin', 'usd'] as const) },
      address: Type.String({ minLength: 1, maxLength: 200 }),
      /** Required here, so that a repeated request is refused. */
      reference: Type.String({ pattern: '\\S', maxLength: LONGEST_REFERENCE }),
      description: Type.Optional(Type.String({ maxLength: LONGEST_DESCRIPTION })),
    }),
    reply: One,
    handle: async (call) => {
      const { currency: coin, unit, amount, address, reference, description } = call.body;
      const asked =
        unit === 'usd'
          ? ({ kind: 'usd', cents: readAmount(amount, 2) } as const)
          : ({ kind: 'coin', units: readAmount(amount, COIN[coin].decimals) } as const);
      const made = await requestPayout(call.ctx, {
        ...{ ...ownerOfCall(call), actor: call.actor, idempotency: null, render },
        asked: { coin, asked, address: address.trim(), reference: reference.trim(), description: description?.trim() || null },
      });
      return readOne(call, Buffer.from(made.body).toString());
    },
  }),
  memberRoute({
    method: 'POST',
    path: '/payout-batches',
    action: 'payouts.request',
    // JSON escapes line breaks and quotation marks.
    bodyLimit: 2 * MOST_FILE_BYTES,
    body: Type.Object({ name: Type.String({ minLength: 1, maxLength: 300 }), content: PlainText }),
    /** `is_known`: the same file was imported before. */
    reply: Type.Object({ ...OneBatch.properties, is_known: Type.Boolean() }),
    handle: async (call) => {
      const { name, content } = call.body;
      const { id, isKnown } = await importPayouts(call.ctx, { ...ownerOfCall(call), name, content, actor: call.actor });
      return { ...(await readOneBatch(call, id)), is_known: isKnown };
    },
  }),
  memberRoute({
    method: 'POST',
    path: '/payout-batches/:id/approve',
    action: 'payouts.approve',
    recent: true,
    body: NoFields,
    reply: OneBatch,
    handle: async (call) => {
      await approveOutgoing(call.ctx, { ...ownerOfCall(call), kind: 'payout', batchId: call.params.id, actor: call.actor });
      return readOneBatch(call, call.params.id);
    },
  }),
  memberRoute({
    method: 'POST',
    path: '/payout-batches/:id/cancel',
    action: 'payouts.approve',
    recent: true,
    body: NoFields,
    reply: OneBatch,
    handle: async (call) => {
      await cancelBatch(call.ctx, { ...ownerOfCall(call), batchId: call.params.id, actor: call.actor });
      return readOneBatch(call, call.params.id);
    },
  }),
];

export const DASHBOARD_PAYOUTS: readonly DashboardRoute[] = [
  ...READS,
  ...ACTS,
  ...outgoingRoutes({
    ...{ kind: 'payout', reads: 'payouts.read', one: One, readOne, readCoins: readPayoutCoins },
    makeFile: async (ctx, wanted) => {
      const { payouts, ...made } = await makePayoutFile(ctx, wanted);
      return { ...made, paid: payouts };
    },
  }),
];
