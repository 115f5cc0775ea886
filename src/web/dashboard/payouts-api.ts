/** Payouts to third parties: the request, and batches from a CSV file. What refunds have too is in outgoing-api.ts. */
import Type from 'typebox';
import { REFUND_STATES } from '#core/refund';
import { literals, PayoutItem } from '#http';
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
  type Payout,
  payoutDetail,
} from '#outgoing';
import { makePayoutFile, readPayoutCoins } from '#signing';
import { AnyCoinField, Instant, NoFields, PlainText, pageIn, pageOf, paging } from './fields.ts';
import { Approval, OUTGOING_FIELDS, outgoingFields, outgoingRoutes } from './outgoing-api.ts';
import { type DashboardRoute, forMembers, type MemberCall, memberRoute, ownerOfCall } from './route.ts';

export const PayoutBody = Type.Object({ ...PayoutItem.properties, ...OUTGOING_FIELDS });
export const payoutBody = (call: Pick<MemberCall, 'ctx' | 'mode'>, payout: Payout) => ({
  ...{ ...payoutDetail(payout), ...outgoingFields(call, payout) },
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

const READS: readonly DashboardRoute[] = [
  memberRoute({
    method: 'GET',
    path: '/payouts',
    action: 'payouts.read',
    query: Type.Object({ ...paging, batch: Type.Optional(PlainText), state: Type.Optional(literals(REFUND_STATES)) }),
    reply: pageOf(PayoutBody),
    handle: async (call) => {
      const { batch, state } = call.query;
      const filter = { kind: 'payout', batchId: batch ?? null, state: state ?? null } as const;
      const { found, hasMore } = await listOutgoing(call.ctx, { ...ownerOfCall(call), ...pageIn(call.query), ...filter });
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
      const { batches, hasMore } = await listBatches(call.ctx, { ...ownerOfCall(call), ...pageIn(call.query) });
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
  forMembers('createPayout', { path: '/payouts', action: 'payouts.request', as: 'payout' }),
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
    body: Approval,
    reply: OneBatch,
    handle: async (call) => {
      const signs = call.body.sign ?? false;
      await approveOutgoing(call.ctx, { ...ownerOfCall(call), kind: 'payout', batchId: call.params.id, actor: call.actor, signs });
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
