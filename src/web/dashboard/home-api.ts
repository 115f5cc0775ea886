/** The first screen: totals of a range and of the previous one, days, funnel, failures, health, onboarding, and member preferences. */
import Type from 'typebox';
import type { Context } from '#context';
import { ALL_COINS, isToken } from '#core/coin';
import { DAY_MS, readDay } from '#core/dates';
import { formatUsd } from '#core/money';
import { Problem } from '#core/problem';
import { asBoolean, asList, asObject, asText, asTexts, type StoredJson } from '#core/stored-json';
import { toPrintableLine } from '#core/text';
import { listHealth } from '#deliveries';
import { literals } from '#http';
import { getMerchant, isOffered } from '#merchants';
import { countAttention, daysOf, REASONS, readDayRows, type Totals, totalsOf } from '#queries';
import { ONBOARDING, readCoinHealth, readOnboarding, WEBHOOK_STATES } from '#readiness';
import { FUNNEL } from '#settling';
import { AnyCoinField, CoinName, Done, Instant, Nullable, PlainText, Readiness, readinessBody } from './fields.ts';
import { type DashboardRoute, memberRoute, ownerOfCall } from './route.ts';

/** A day in the time zone of the merchant. */
export const DayName = Type.String({ pattern: '^20[0-9]{2}-[0-9]{2}-[0-9]{2}$' });
const LONGEST_DAYS = 366;
const textOf = (ms: number): string => new Date(ms).toISOString().slice(0, 10);

/** The requested range, and the previous one of the same length. Errors: parameter_invalid. */
function rangeOf({ from, until }: { from: string; until: string }): {
  from: string;
  until: string;
  days: number;
  before: { from: string; until: string };
} {
  const [start, end] = [Date.parse(readDay(from, 'from')), Date.parse(readDay(until, 'until'))];
  const days = Math.round((end - start) / DAY_MS) + 1;
  if (days < 1 || days > LONGEST_DAYS)
    throw new Problem('parameter_invalid', { reason: `it must be 1 to ${LONGEST_DAYS} days after from` }, { param: 'until' });
  return { from, until, days, before: { from: textOf(start - days * DAY_MS), until: textOf(start - DAY_MS) } };
}

const TotalsShape = Type.Object({
  volume_usd: PlainText,
  reversed_usd: PlainText,
  completed: Type.Integer(),
  opened: Type.Integer(),
  paid: Type.Integer(),
  seconds_to_pay: Nullable(Type.Integer()),
});
const totalsShape = (totals: Totals) => ({
  volume_usd: formatUsd(totals.usdCents),
  reversed_usd: formatUsd(totals.reversedUsdCents),
  completed: totals.completed,
  opened: totals.funnel.opened,
  paid: totals.funnel.paid,
  seconds_to_pay: totals.completed === 0 ? null : Math.round(totals.seconds / totals.completed),
});

const View = Type.Object({ name: Type.String({ minLength: 1, maxLength: 60 }), query: Type.String({ maxLength: 2000 }) });
const Columns = Type.Array(Type.String({ maxLength: 40 }), { maxItems: 40 });
const Onboarding = Type.Object({ dismissed: Type.Optional(Type.Boolean()), polls: Type.Optional(Type.Boolean()) });

export const HOME: readonly DashboardRoute[] = [
  memberRoute({
    method: 'GET',
    path: '/home',
    action: 'home.read',
    query: Type.Object({ from: DayName, until: DayName }),
    reply: Type.Object({
      success: Type.Boolean(),
      days: Type.Array(
        Type.Object({
          day: PlainText,
          created: Type.Integer(),
          completed: Type.Integer(),
          volume_usd: PlainText,
          reversed_usd: PlainText,
          coins: Type.Array(Type.Object({ currency: AnyCoinField, completed: Type.Integer(), volume_usd: PlainText })),
        }),
      ),
      now: TotalsShape,
      before: TotalsShape,
      funnel: Type.Array(Type.Object({ step: literals(FUNNEL), payments: Type.Integer() })),
      failures: Type.Array(Type.Object({ reason: literals(REASONS), payments: Type.Integer() })),
      attention: Type.Object({ count: Type.Integer(), more: Type.Boolean() }),
      ever: Type.Boolean({ description: 'Whether there was ever a payment.' }),
    }),
    handle: async (call) => {
      const range = rangeOf(call.query);
      const of = ownerOfCall(call);
      const { sql } = call.ctx.db;
      const [rows, attention, [known]] = await Promise.all([
        readDayRows(sql, { ...of, from: range.before.from, until: range.until }),
        countAttention(call.ctx, { ...of, most: 99 }),
        sql<{ ever: boolean }[]>`
          select exists (select 1 from payment_counters where merchant_id = ${of.merchantId} and mode = ${of.mode}) as ever`,
      ]);
      const now = rows.filter((row) => row.day >= range.from);
      const totals = totalsOf(now);
      return {
        success: true,
        days: daysOf(now, range).map((day) => ({
          day: day.day,
          created: day.created,
          completed: day.completed,
          volume_usd: formatUsd(day.usdCents),
          reversed_usd: formatUsd(day.reversedUsdCents),
          coins: ALL_COINS.flatMap((coin) => {
            const sum = day.coins.get(coin);
            return sum ? [{ currency: coin, completed: sum.completed, volume_usd: formatUsd(sum.usdCents) }] : [];
          }),
        })),
        now: totalsShape(totals),
        before: totalsShape(totalsOf(rows.filter((row) => row.day < range.from))),
        funnel: FUNNEL.map((step) => ({ step, payments: totals.funnel[step] })),
        failures: REASONS.flatMap((reason) => {
          const payments = totals.ended[reason] ?? 0;
          return payments > 0 ? [{ reason, payments }] : [];
        }).sort((a, b) => b.payments - a.payments),
        attention: { count: attention.count, more: attention.isMore },
        ever: known!.ever,
      };
    },
  }),
  memberRoute({
    method: 'GET',
    path: '/home/health',
    action: 'home.read',
    reply: Type.Object({
      success: Type.Boolean(),
      webhooks: Type.Object({
        endpoints: Type.Integer(),
        off: Type.Integer(),
        delivered: Type.Integer(),
        failed: Type.Integer(),
        oldest_pending_at: Nullable(Instant),
      }),
      coins: Type.Array(
        Type.Object({
          currency: CoinName,
          chain: literals(['ok', 'limited', 'held', 'behind', 'starting', 'none', 'simulated'] as const),
          height: Nullable(Type.Integer()),
          lag_seconds: Nullable(Type.Integer()),
          reasons: Type.Array(PlainText),
          price_fault: Nullable(PlainText),
        }),
      ),
    }),
    handle: async (call) => {
      const [endpoints, health, { settings }] = await Promise.all([
        listHealth(call.ctx, ownerOfCall(call)),
        readCoinHealth(call.ctx, { mode: call.mode }),
        getMerchant(call.ctx, ownerOfCall(call)),
      ]);
      const coins = health.filter(({ coin }) => !isToken(coin) || isOffered(settings, coin, call.mode));
      const oldest = endpoints
        .flatMap(({ oldestWaitingAt }) => (oldestWaitingAt ? [oldestWaitingAt.getTime()] : []))
        .sort((a, b) => a - b)[0];
      const delivered = endpoints.reduce((sum, endpoint) => sum + endpoint.delivered, 0);
      return {
        success: true,
        webhooks: {
          endpoints: endpoints.length,
          off: endpoints.filter(({ offSince }) => offSince !== null).length,
          delivered,
          failed: endpoints.reduce((sum, endpoint) => sum + endpoint.attempts, 0) - delivered,
          oldest_pending_at: oldest === undefined ? null : new Date(oldest).toISOString(),
        },
        coins: coins.map((one) => ({
          currency: one.coin,
          chain: one.chain,
          height: one.height === null ? null : Number(one.height),
          lag_seconds: one.lagSeconds,
          reasons: one.reasons,
          price_fault: one.priceFault,
        })),
      };
    },
  }),
  memberRoute({
    method: 'GET',
    path: '/home/onboarding',
    action: 'home.read',
    reply: Type.Object({
      success: Type.Boolean(),
      steps: Type.Array(Type.Object({ step: literals(ONBOARDING), done: Type.Boolean() })),
      dismissed: Type.Boolean(),
      webhook: literals(WEBHOOK_STATES),
      /** Coins that can be paid now in live mode. */
      payable: Type.Array(AnyCoinField),
      /** What keeps coins from being detected and priced. */
      sources: Type.Array(Readiness),
    }),
    handle: async (call) => {
      const of = { merchantId: call.member.merchantId, userId: call.signedIn.userId };
      const own = await readPreferences(call.ctx, of);
      const { dismissed, polls } = own.onboarding;
      const { done, webhook, payable, sources } = await readOnboarding(call.ctx, { ...of, mode: call.mode, polls });
      return {
        success: true,
        steps: ONBOARDING.map((step) => ({ step, done: done[step] })),
        ...{ dismissed, webhook },
        payable: payable.map(({ coin }) => coin),
        sources: sources.map(readinessBody),
      };
    },
  }),
  memberRoute({
    method: 'GET',
    path: '/preferences',
    action: 'account.use',
    reply: Type.Object({ success: Type.Boolean(), views: Type.Array(View), columns: Nullable(Columns) }),
    handle: async (call) => {
      const own = await readPreferences(call.ctx, { merchantId: call.member.merchantId, userId: call.signedIn.userId });
      return { success: true, views: own.views, columns: own.columns };
    },
  }),
  // Preferences are personal, so changes are not written to the audit log.
  memberRoute({
    method: 'POST',
    path: '/preferences',
    action: 'account.use',
    body: Type.Object({
      views: Type.Optional(Type.Array(View, { maxItems: 30 })),
      columns: Type.Optional(Columns),
      onboarding: Type.Optional(Onboarding),
    }),
    reply: Done,
    handle: async (call) => {
      const { views, columns, onboarding } = call.body;
      const of = { merchantId: call.member.merchantId, userId: call.signedIn.userId };
      await setPreferences(call.ctx, {
        ...of,
        ...(views && { views: views.map((view) => ({ ...view, name: toPrintableLine(view.name) || 'View' })) }),
        ...(columns && { columns }),
        ...(onboarding && { onboarding }),
      });
      return { success: true };
    },
  }),
];

// Preferences of a member for the dashboard: saved searches, columns, and what was dismissed. They affect nobody else.

type Preferences = {
  /** Saved searches of payments. */
  views: readonly { name: string; query: string }[];
  /** Columns of the list of payments; null: the usual ones. */
  columns: readonly string[] | null;
  onboarding: { dismissed: boolean; polls: boolean };
};
type Of = { merchantId: string; userId: string };

/** Grows when the meaning of a field changes. What was stored without a version has the first form. */
const VERSION = 1;

/** Names and values as they are stored, only those that are given. Columns are a list of names, so they have no version. */
export const preferencesToJson = ({
  views,
  columns,
  onboarding,
}: Partial<Omit<Preferences, 'onboarding'>> & { onboarding?: Partial<Preferences['onboarding']> }): { name: string; value: unknown }[] => [
  ...(views ? [{ name: 'payments.views', value: views.map(({ name, query }): StoredJson => ({ v: VERSION, name, query })) }] : []),
  ...(columns ? [{ name: 'payments.columns', value: columns }] : []),
  ...(onboarding ? [{ name: 'onboarding', value: { v: VERSION, ...onboarding } }] : []),
];

/** A view that cannot be read is left out. */
export function preferencesFromJson(rows: readonly { name: string; value: unknown }[]): Preferences {
  const stored = new Map(rows.map(({ name, value }) => [name, value]));
  const columns = stored.get('payments.columns');
  const onboarding = asObject(stored.get('onboarding'));
  return {
    views: asList(stored.get('payments.views')).flatMap((entry) => {
      const view = asObject(entry);
      const [name, query] = [asText(view.name), asText(view.query)];
      return name === null || query === null ? [] : [{ name, query }];
    }),
    columns: Array.isArray(columns) ? asTexts(columns) : null,
    onboarding: { dismissed: asBoolean(onboarding.dismissed) ?? false, polls: asBoolean(onboarding.polls) ?? false },
  };
}

async function readPreferences(ctx: Context, { merchantId, userId }: Of): Promise<Preferences> {
  const rows = await ctx.db.sql<{ name: string; value: unknown }[]>`
    select name, value from preferences where merchant_id = ${merchantId} and user_id = ${userId}`;
  return preferencesFromJson(rows);
}

/** Stores the preferences that are given; the others stay as they are. */
async function setPreferences(ctx: Context, { merchantId, userId, ...given }: Of & Parameters<typeof preferencesToJson>[0]): Promise<void> {
  const { sql } = ctx.db;
  await sql`
    insert into preferences (merchant_id, user_id, name, value)
    select ${merchantId}, ${userId}, r.name, r.value from jsonb_to_recordset(${sql.json(preferencesToJson(given) as never)}) as r (name text, value jsonb)
    on conflict (merchant_id, user_id, name) do update set value = excluded.value`;
}
