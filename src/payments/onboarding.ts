/** The steps to the first live payment, and which of them are done: a step that stops working is open again. */
import type { Context } from '../context.ts';
import type { Mode } from '../core/coin.ts';
import { getMerchant } from '../merchants/merchants.ts';
import { type CoinReadiness, type MissingCode, readPayableCoins } from './readiness.ts';

export const ONBOARDING = ['test_payment', 'business', 'wallet', 'source', 'webhook', 'second_factor', 'go_live'] as const;
export type OnboardingStep = (typeof ONBOARDING)[number];
export const WEBHOOK_STATES = ['none', 'untested', 'failing', 'delivered'] as const;
export type WebhookState = (typeof WEBHOOK_STATES)[number];

const OF_WALLETS: readonly MissingCode[] = ['wallet_missing', 'wallet_paused', 'wallet_network', 'currency_off'];
const OF_SOURCES: readonly MissingCode[] = ['source_missing', 'source_starting', 'source_silent', 'source_behind', 'price_missing'];
const lacks = (coin: CoinReadiness, codes: readonly MissingCode[]): boolean => coin.missing.some(({ code }) => codes.includes(code));
const of = (coin: CoinReadiness, codes: readonly MissingCode[]): CoinReadiness => ({
  ...coin,
  missing: coin.missing.filter(({ code }) => codes.includes(code)),
});

export type Onboarding = {
  done: Record<OnboardingStep, boolean>;
  /** In the requested mode. */
  webhook: WebhookState;
  /** Coins that can be paid now in live mode. */
  payable: CoinReadiness[];
  /** What the step `source` still needs, for the coins with a wallet; for all coins if there is no wallet yet. */
  sources: CoinReadiness[];
};

/** `polls`: the merchant polls payments instead of receiving webhooks. */
export async function readOnboarding(
  ctx: Context,
  { merchantId, userId, mode, polls }: { merchantId: string; userId: string; mode: Mode; polls: boolean },
): Promise<Onboarding> {
  const [merchant, coins, [row], states] = await Promise.all([
    getMerchant(ctx, { merchantId }),
    readPayableCoins(ctx, { merchantId, mode: 'live' }),
    ctx.db.sql<{ tested: boolean; paid: boolean; factor: boolean }[]>`
      select exists (select 1 from payment_counters where merchant_id = ${merchantId} and mode = 'test') as tested,
        exists (select 1 from payment_counts where merchant_id = ${merchantId} and mode = 'live' and status = 'completed' and payments > 0)
          or exists (select 1 from payment_count_deltas
            where merchant_id = ${merchantId} and mode = 'live' and status = 'completed' and payments > 0) as paid,
        exists (select 1 from users where id = ${userId} and two_factor_enabled)
          or exists (select 1 from passkeys where user_id = ${userId}) as factor`,
    readWebhookStates(ctx, { merchantId }),
  ]);
  const withWallet = coins.filter((coin) => !lacks(coin, OF_WALLETS));
  const [hears, hearsLive] = [mode, 'live' as const].map((one) => polls || states[one] === 'delivered') as [boolean, boolean];
  const payable = coins.filter((coin) => coin.payable);
  const sources = (withWallet.length > 0 ? withWallet : coins).map((coin) => of(coin, OF_SOURCES));
  return {
    done: {
      test_payment: row!.tested,
      business: merchant.settings.supportContact !== null,
      wallet: withWallet.length > 0,
      source: sources.some(({ missing }) => missing.length === 0),
      webhook: hears,
      second_factor: row!.factor,
      go_live: row!.paid && payable.length > 0 && hearsLive,
    },
    ...{ webhook: states[mode], payable, sources },
  };
}

/** For each mode, the best of its endpoints: the last delivery succeeded, deliveries fail, or nothing was sent. */
async function readWebhookStates(ctx: Context, { merchantId }: { merchantId: string }): Promise<Record<Mode, WebhookState>> {
  const rows = await ctx.db.sql<{ mode: Mode; state: WebhookState }[]>`
    select e.mode, case when e.failures > 0 or e.state <> 'enabled' then 'failing' when d.delivered then 'delivered' else 'untested' end as state
    from endpoints e cross join lateral (
      select exists (select 1 from attempt_hours where endpoint_id = e.id and outcome = 'delivered')
        or exists (select 1 from deliveries where endpoint_id = e.id and state = 'delivered') as delivered
    ) d
    where e.merchant_id = ${merchantId} and e.state <> 'deleted'`;
  const best = (mode: Mode): WebhookState =>
    (['delivered', 'failing', 'untested'] as const).find((state) => rows.some((row) => row.mode === mode && row.state === state)) ?? 'none';
  return { live: best('live'), test: best('test') };
}
