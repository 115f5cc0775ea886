/** How far a merchant is on the way to taking payments. */
import type { Context } from '../context.ts';
import { getMerchant } from './merchants.ts';

export const ONBOARDING = ['test_payment', 'business', 'wallet', 'webhook', 'second_factor', 'go_live'] as const;
export type OnboardingStep = (typeof ONBOARDING)[number];

/** Which steps are done; each is one look at an index. */
export async function readOnboarding(
  ctx: Context,
  { merchantId, userId }: { merchantId: string; userId: string },
): Promise<Record<OnboardingStep, boolean>> {
  const merchant = await getMerchant(ctx, { merchantId });
  const [row] = await ctx.db.sql<{ tested: boolean; live: boolean; webhook: boolean; factor: boolean }[]>`
    select exists (select 1 from payment_counters where merchant_id = ${merchantId} and mode = 'test') as tested,
      exists (select 1 from payment_counters where merchant_id = ${merchantId} and mode = 'live') as live,
      exists (select 1 from endpoints where merchant_id = ${merchantId} and state <> 'deleted') as webhook,
      exists (select 1 from users where id = ${userId} and two_factor_enabled)
        or exists (select 1 from passkeys where user_id = ${userId}) as factor`;
  return {
    test_payment: row!.tested,
    business: merchant.settings.supportContact !== null,
    wallet: merchant.walletCoins.length > 0,
    webhook: row!.webhook,
    second_factor: row!.factor,
    go_live: row!.live,
  };
}
