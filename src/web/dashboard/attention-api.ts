/** The queue of payments that need a decision: list, count for the navigation, bulk decisions. */
import Type from 'typebox';
import { EXCEPTIONS } from '../../core/payment.ts';
import { Problem } from '../../core/problem.ts';
import { literals } from '../../http/schema-fields.ts';
import { type AttentionReason, countAttention, listAttention, ORDER_MISSING, REFUND_REQUEST } from '../../payments/attention.ts';
import { Nullable, PlainText, pageOf, paging } from './fields.ts';
import { LISTED, listedPayment, resolveOne } from './payments-api.ts';
import { type DashboardRoute, memberRoute, needRecent, ownerOfCall } from './route.ts';

const Waiting = Type.Object({ ...LISTED, order_missing: Nullable(PlainText) });
const REASONS = [...EXCEPTIONS, REFUND_REQUEST, ORDER_MISSING] as const satisfies readonly AttentionReason[];

export const ATTENTION: readonly DashboardRoute[] = [
  memberRoute({
    method: 'GET',
    path: '/attention',
    action: 'payments.read',
    query: Type.Object({ ...paging, exception: Type.Optional(literals(REASONS)) }),
    reply: pageOf(Waiting),
    handle: async (call) => {
      const { query } = call;
      const page = await listAttention(call.ctx, {
        ...ownerOfCall(call),
        limit: Number(query.limit ?? 25),
        startingAfter: query.starting_after ?? null,
        exception: REASONS.find((name) => name === query.exception) ?? null,
      });
      return {
        success: true,
        data: page.items.map((item) => ({ ...listedPayment(item), order_missing: item.orderMissing })),
        has_more: page.hasMore,
      };
    },
  }),
  memberRoute({
    method: 'GET',
    path: '/attention/count',
    action: 'payments.read',
    reply: Type.Object({ success: Type.Boolean(), count: Type.Integer(), more: Type.Boolean() }),
    handle: async (call) => {
      const { count, isMore } = await countAttention(call.ctx, { ...ownerOfCall(call), most: 99 });
      return { success: true, count, more: isMore };
    },
  }),
  memberRoute({
    method: 'POST',
    path: '/attention/resolve',
    action: 'payments.resolve',
    body: Type.Object({
      ids: Type.Array(Type.String({ maxLength: 60 }), { minItems: 1, maxItems: 50 }),
      action: literals(['accept', 'reject', 'refund_sent', 'reviewed'] as const),
    }),
    reply: Type.Object({
      success: Type.Boolean(),
      results: Type.Array(Type.Object({ id: PlainText, done: Type.Boolean(), problem: Nullable(PlainText) })),
    }),
    handle: async (call) => {
      if (call.body.action !== 'reviewed') needRecent(call);
      const results: { id: string; done: boolean; problem: string | null }[] = [];
      // One transaction each, so that an error on one payment does not undo the others. At most fifty.
      for (const id of new Set(call.body.ids)) {
        try {
          await resolveOne(call, id, { action: call.body.action });
          results.push({ id, done: true, problem: null });
        } catch (error) {
          if (!(error instanceof Problem) || error.status >= 500) throw error;
          results.push({ id, done: false, problem: error.message });
        }
      }
      return { success: true, results };
    },
  }),
];
