/** For operators: the health of the install, and its merchants with their plans. */
import Type from 'typebox';
import { type Context, perContext } from '#context';
import { COIN, chainCode, chainOf, isToken, leadingCoins, settingOf } from '#core/coin';
import { formatDecimal } from '#core/money';
import { PLANS } from '#core/plan';
import { readDeliveryQueue } from '#deliveries';
import { literals, readServiceReadiness } from '#http';
import { baseTiers, listMerchants, loweredFrom, setPlan } from '#merchants';
import { readMailQueue } from '#notices';
import { diagnose, type Finding, findNewer, florinVersion, readInstall, readOrigin } from '#operate';
import { listOperators, removeOperator } from '#people';
import { readGuards } from '#readiness';
import { CoinName, Done, Instant, NoFields, Nullable, PlainText, pageIn, pageOf, paging } from './fields.ts';
import { type DashboardRoute, memberRoute } from './route.ts';

const operator = { action: 'account.use', operator: true } as const;
const Texts = Type.Array(PlainText);
/** The reasons of a coin, without the prefix `BTC: `. */
const about = (coin: string, reasons: readonly string[]): string[] =>
  reasons.flatMap((reason) => (reason.startsWith(`${coin}: `) ? [reason.slice(coin.length + 2)] : []));

type PeersOf = { connected: number; bytes_in: number; bytes_out: number; since: string };
const describePeers = (peers: PeersOf | undefined): PeersOf | null =>
  peers ? { connected: peers.connected, bytes_in: peers.bytes_in, bytes_out: peers.bytes_out, since: peers.since } : null;

/** The checks under way: several operators who ask at once get the same answer, and no source is asked twice. */
const checksOf = perContext(() => ({ running: null as Promise<Finding[]> | null }));
function runChecks(ctx: Context): Promise<Finding[]> {
  const checks = checksOf(ctx);
  checks.running ??= diagnose(ctx)
    .then(({ findings }) => findings)
    .finally(() => {
      checks.running = null;
    });
  return checks.running;
}

export const OPERATOR_ROUTES: readonly DashboardRoute[] = [
  memberRoute({
    method: 'GET',
    path: '/operator',
    ...operator,
    reply: Type.Object({
      success: Type.Boolean(),
      version: PlainText,
      /** Whether there is a list of releases to look at. */
      lists_releases: Type.Boolean(),
      schema: PlainText,
      backed_up_at: Nullable(Instant),
      ready: Type.Boolean(),
      reasons: Texts,
      mail_set_up: Type.Boolean(),
      coins: Type.Array(
        Type.Object({
          /** Names the chain. */
          coin: CoinName,
          /** The chain, as people read it. */
          name: PlainText,
          network: PlainText,
          followed: Type.Boolean(),
          /** It is followed as soon as a wallet needs it. */
          on_demand: Type.Boolean(),
          /** The connections to the coin's own network, and the bytes since they began. */
          peers: Nullable(Type.Object({ connected: Type.Integer(), bytes_in: Type.Number(), bytes_out: Type.Number(), since: Instant })),
          height: Nullable(Type.Integer()),
          lag_seconds: Nullable(Type.Integer()),
          /** Current problems. */
          reasons: Texts,
          /** Whether these reasons put payments on hold. */
          held: Type.Boolean(),
          warnings: Texts,
          sources: Type.Array(
            Type.Object({
              name: PlainText,
              state: PlainText,
              reason: Nullable(PlainText),
              height: Nullable(Type.Integer()),
              software: Nullable(PlainText),
            }),
          ),
          price: Nullable(PlainText),
          price_sources: Texts,
          price_at: Nullable(Instant),
          price_reason: Nullable(PlainText),
        }),
      ),
      queues: Type.Array(
        Type.Object({ name: PlainText, waiting: Type.Integer(), oldest_seconds: Nullable(Type.Integer()), note: Nullable(PlainText) }),
      ),
    }),
    handle: async ({ ctx }) => {
      const [readiness, guards, deliveries, mails, install] = await Promise.all([
        readServiceReadiness(ctx),
        readGuards(ctx),
        readDeliveryQueue(ctx),
        readMailQueue(ctx),
        readInstall(ctx),
      ]);
      const followers = readiness.followers as Record<string, { height: number; lag_seconds: number }>;
      const peers = readiness.peers as Record<string, PeersOf>;
      return {
        success: true,
        version: florinVersion(),
        lists_releases: ctx.settings.releasesUrl !== null && ctx.settings.releasesKey !== null,
        schema: install.schema,
        backed_up_at: install.backedUpAt?.toISOString() ?? null,
        ready: readiness.ready,
        reasons: readiness.reasons,
        mail_set_up: ctx.mail !== null,
        // The networks of tokens are listed once they have a source.
        coins: leadingCoins()
          .filter((coin) => !isToken(coin) || ctx.chains.has(COIN[coin].chain))
          .map((coin) => {
            const code = chainCode(coin);
            const guard = guards.find((one) => one.coin === coin);
            const chain = ctx.chains.get(COIN[coin].chain);
            const quotable = ctx.prices.quotable(COIN[coin].asset);
            const price = 'price' in quotable ? quotable.price : ctx.prices.look(COIN[coin].asset);
            return {
              coin,
              name: isToken(coin) ? chainOf(coin).name : COIN[coin].asset,
              network: ctx.settings.networks[COIN[coin].chain],
              followed: chain?.follows === true && (!chain.onDemand || followers[code] !== undefined || peers[code] !== undefined),
              on_demand: chain?.onDemand ?? false,
              peers: describePeers(peers[code]),
              height: followers[code]?.height ?? null,
              lag_seconds: followers[code]?.lag_seconds ?? null,
              reasons: [...about(code, readiness.reasons), ...about(code, readiness.holds)],
              held: about(code, readiness.holds).length > 0,
              warnings: [
                ...about(code, readiness.warnings),
                ...(baseTiers(ctx, coin).some((tier) => loweredFrom(coin, tier) !== null)
                  ? [`${settingOf(coin)}_CONFIRMATIONS is lower than the default table`]
                  : []),
              ],
              sources: (guard?.sources ?? []).map(({ name, state, reason, height, software }) => ({
                name,
                state,
                reason,
                height,
                software,
              })),
              price: price && formatDecimal(price.priceE8, 8, 2),
              price_sources: [...(price?.sources ?? [])],
              price_at: price?.asOf.toISOString() ?? null,
              price_reason: 'price' in quotable ? null : quotable.reason,
            };
          }),
        queues: [
          {
            name: 'Webhook deliveries',
            waiting: deliveries.due,
            oldest_seconds: Math.round(deliveries.oldestSeconds),
            note:
              deliveries.endpointsOff > 0
                ? `${deliveries.endpointsOff} ${deliveries.endpointsOff === 1 ? 'endpoint' : 'endpoints'} disabled`
                : null,
          },
          { name: 'Payments to settle', waiting: install.paymentsDue, oldest_seconds: null, note: null },
          {
            name: 'Emails',
            waiting: mails.waiting,
            oldest_seconds: null,
            note: mails.failed > 0 ? `${mails.failed} failed in the last day` : null,
          },
        ],
      };
    },
  }),
  memberRoute({
    method: 'POST',
    path: '/operator/check',
    ...operator,
    body: NoFields,
    reply: Type.Object({
      success: Type.Boolean(),
      /** What `./florin doctor` prints. `ok` is false where the operator has to act; `fix` is advice where it is true. */
      findings: Type.Array(Type.Object({ check: PlainText, ok: Type.Boolean(), detail: PlainText, fix: Nullable(PlainText) })),
    }),
    handle: async ({ ctx }) => ({ success: true, findings: await runChecks(ctx) }),
  }),
  memberRoute({
    method: 'POST',
    path: '/operator/releases',
    ...operator,
    body: NoFields,
    reply: Type.Object({
      success: Type.Boolean(),
      /** Why the list cannot be read or believed. */
      problem: Nullable(PlainText),
      published: Nullable(PlainText),
      newer: Type.Array(Type.Object({ version: PlainText, date: PlainText, security: Type.Boolean(), breaking: Type.Boolean() })),
      upgrade: Nullable(PlainText),
    }),
    handle: async ({ ctx }) => {
      const from = { version: florinVersion(), installedBy: readOrigin().installed_by, file: null, outgoing: ctx.outgoing };
      try {
        const { published, newer, upgrade } = await findNewer(ctx.settings, from);
        return { success: true, problem: null, published, newer, upgrade };
      } catch (error) {
        return { success: true, problem: (error as Error).message, published: null, newer: [], upgrade: null };
      }
    },
  }),
  memberRoute({
    method: 'GET',
    path: '/operator/merchants',
    ...operator,
    query: Type.Object(paging),
    reply: pageOf(
      Type.Object({
        id: PlainText,
        name: PlainText,
        plan: literals(PLANS),
        created_at: Instant,
        used: Type.Integer(),
        members: Type.Integer(),
        per_month: Nullable(Type.Integer()),
      }),
    ),
    handle: async ({ ctx, query }) => {
      const { merchants, hasMore } = await listMerchants(ctx, {
        ...pageIn(query),
      });
      return {
        success: true,
        has_more: hasMore,
        data: merchants.map(({ id, name, plan, createdAt, used, members }) => ({
          id,
          name,
          plan,
          created_at: createdAt.toISOString(),
          used: Number(used),
          members: Number(members),
          per_month: ctx.settings.plans[plan].perMonth || null,
        })),
      };
    },
  }),
  memberRoute({
    method: 'GET',
    path: '/operator/operators',
    ...operator,
    reply: Type.Object({
      success: Type.Boolean(),
      operators: Type.Array(
        Type.Object({
          id: PlainText,
          name: PlainText,
          email: PlainText,
          has_second_factor: Type.Boolean(),
          /** Without one they cannot sign in. */
          merchants: Type.Integer(),
        }),
      ),
    }),
    handle: async ({ ctx }) => ({
      success: true,
      operators: (await listOperators(ctx)).map(({ hasSecondFactor, ...one }) => ({ ...one, has_second_factor: hasSecondFactor })),
    }),
  }),
  memberRoute({
    method: 'DELETE',
    path: '/operator/operators/:id',
    ...operator,
    recent: true,
    body: NoFields,
    reply: Done,
    handle: async ({ ctx, params, actor }) => {
      await removeOperator(ctx, { userId: params.id, actor });
      return { success: true };
    },
  }),
  memberRoute({
    method: 'POST',
    path: '/operator/merchants/:id/plan',
    ...operator,
    recent: true,
    body: Type.Object({ plan: literals(PLANS) }),
    reply: Done,
    handle: async ({ ctx, params, body, actor }) => {
      await setPlan(ctx, { merchantId: params.id, plan: PLANS.find((plan) => plan === body.plan)!, actor });
      return { success: true };
    },
  }),
];
