/** The plan, its usage this month, and when it resets. */
import Type from 'typebox';
import { PLANS } from '../../core/plan.ts';
import { literals } from '../../http/schema-fields.ts';
import { getUsage, listHourlyCalls } from '../../merchants/usage.ts';
import { Instant, Nullable, PlainText } from './fields.ts';
import { type DashboardRoute, memberRoute, ownerOfCall } from './route.ts';

export const USAGE: readonly DashboardRoute[] = [
  memberRoute({
    method: 'GET',
    path: '/usage',
    action: 'usage.read',
    reply: Type.Object({
      success: Type.Boolean(),
      plan: literals(PLANS),
      used: Type.Integer(),
      /** Null: unlimited. */
      per_month: Nullable(Type.Integer()),
      per_minute: Nullable(Type.Integer()),
      webhooks: Type.Boolean(),
      month_start: Instant,
      resets_at: Instant,
      merchant_id: PlainText,
    }),
    handle: async ({ ctx, member }) => {
      const { plan, limits, used, monthStart, resetsAt } = await getUsage(ctx, member);
      return {
        success: true,
        plan,
        used,
        per_month: limits.perMonth === 0 ? null : limits.perMonth,
        per_minute: limits.perMinute === 0 ? null : limits.perMinute,
        webhooks: limits.webhooks,
        month_start: monthStart.toISOString(),
        resets_at: resetsAt.toISOString(),
        merchant_id: member.merchantId,
      };
    },
  }),
  memberRoute({
    method: 'GET',
    path: '/usage/hours',
    action: 'usage.read',
    reply: Type.Object({
      success: Type.Boolean(),
      hours: Type.Array(
        Type.Object({
          hour: Instant,
          requests: Type.Integer(),
          failed: Type.Integer(),
          /** Of the key with the most requests. */
          busiest_key: Type.Integer(),
        }),
      ),
    }),
    handle: async (call) => ({
      success: true,
      hours: (await listHourlyCalls(call.ctx, ownerOfCall(call))).map(({ hour, calls, failed, busiest }) => ({
        hour: hour.toISOString(),
        requests: Number(calls),
        failed: Number(failed),
        busiest_key: Number(busiest),
      })),
    }),
  }),
];
