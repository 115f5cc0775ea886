/** The plan, what of it is used this month, and when it starts anew. */
import Type from 'typebox';
import { PLANS } from '../../core/plan.ts';
import { getUsage } from '../../merchants/usage.ts';
import { literals, memberRoute, Nullable, type Route, Text, Timestamp } from './route.ts';

export const USAGE: readonly Route[] = [
  memberRoute({
    method: 'GET',
    path: '/usage',
    action: 'usage.read',
    reply: Type.Object({
      success: Type.Boolean(),
      plan: literals(PLANS),
      used: Type.Integer(),
      /** Null: as many as there are. */
      per_month: Nullable(Type.Integer()),
      per_minute: Nullable(Type.Integer()),
      webhooks: Type.Boolean(),
      month_start: Timestamp,
      resets_at: Timestamp,
      merchant_id: Text,
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
];
