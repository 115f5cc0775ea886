/** Plans and their limits. 0 means unlimited. */
export const PLANS = ['starter', 'professional', 'enterprise'] as const;
export type Plan = (typeof PLANS)[number];
export type PlanLimits = { perMinute: number; perMonth: number; webhooks: boolean };
export const DEFAULT_PLANS: Readonly<Record<Plan, PlanLimits>> = {
  starter: { perMinute: 60, perMonth: 100, webhooks: false },
  professional: { perMinute: 600, perMonth: 10_000, webhooks: true },
  enterprise: { perMinute: 6_000, perMonth: 0, webhooks: true },
};
/** Shown instead of a limit when there is none. */
export const UNLIMITED = 2_147_483_647;
