/** Whether a merchant can accept payments now: for each coin, what is still missing, in words, and how to fix it. */
import { type Context, perContext } from '#context';
import type { AskedPrice } from '#core/asked-price';
import { COIN, COINS, type Coin, chainOf, isToken, kindOf, LIGHTNING, type Mode, nativeOf, settingOf } from '#core/coin';
import { fiatDecimals } from '#core/fiat';
import { centsToE8, divideCeil, E8, formatUnits, formatUsd, quoteUnits, worthUsdE8 } from '#core/money';
import type { PaymentRequest } from '#core/payment-view';
import { Problem } from '#core/problem';
import { getMerchant, isOffered, type Merchant, readMerchants, readUsed } from '#merchants';
import { notifyMembers } from '#notices';
import { readHolds, readUnreachable, type Unreachable } from './coin-health.ts';
import { askIn, marketPrice } from './price.ts';

// The steps to the first live payment, and which of them are done: a step that stops working is open again.

export const ONBOARDING = ['test_payment', 'business', 'wallet', 'source', 'webhook', 'second_factor', 'go_live'] as const;
type OnboardingStep = (typeof ONBOARDING)[number];
export const WEBHOOK_STATES = ['none', 'untested', 'failing', 'delivered'] as const;
type WebhookState = (typeof WEBHOOK_STATES)[number];

const OF_WALLETS: readonly MissingCode[] = ['wallet_missing', 'wallet_paused', 'wallet_network', 'currency_off'];
const OF_SOURCES: readonly MissingCode[] = [
  'source_missing',
  'source_starting',
  'source_silent',
  'source_unreachable',
  'source_behind',
  'price_missing',
];
const lacks = (coin: CoinReadiness, codes: readonly MissingCode[]): boolean => coin.missing.some(({ code }) => codes.includes(code));
const of = (coin: CoinReadiness, codes: readonly MissingCode[]): CoinReadiness => ({
  ...coin,
  missing: coin.missing.filter(({ code }) => codes.includes(code)),
});

type Onboarding = {
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
  const lightning: CoinReadiness[] =
    merchant.lightning === null ? [] : [{ coin: LIGHTNING, payable: !merchant.lightning.isAway, missing: [] }];
  const payable = [...coins, ...lightning].filter((coin) => coin.payable);
  const sources = (withWallet.length > 0 ? withWallet : coins).map((coin) => of(coin, OF_SOURCES));
  return {
    done: {
      test_payment: row!.tested,
      business: merchant.settings.supportContact !== null,
      wallet: withWallet.length > 0 || lightning.length > 0,
      source: sources.some(({ missing }) => missing.length === 0) || lightning.some(({ payable }) => payable),
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

export const MISSING = [
  'wallet_missing',
  'wallet_paused',
  'wallet_network',
  'currency_off',
  'source_missing',
  'source_starting',
  'source_silent',
  'source_unreachable',
  'source_behind',
  'token_held',
  'price_missing',
  'plan_limit_reached',
  'completion_held',
] as const;
type MissingCode = (typeof MISSING)[number];
/** `lines` are settings to paste unchanged; `fix` says where. */
type MissingForPayments = { code: MissingCode; message: string; fix: string; lines: readonly string[]; docUrl: string };
export type CoinReadiness = {
  coin: Coin;
  /** A customer can pay with it now. Entries in `missing` then only keep payments from completing. */
  payable: boolean;
  missing: readonly MissingForPayments[];
};

type Unreachables = ReadonlyMap<Coin, Unreachable>;

/** Every native coin and every token that is switched on, with everything that is missing. Test payments need nothing. */
export async function readPayableCoins(ctx: Context, { merchantId, mode }: { merchantId: string; mode: Mode }): Promise<CoinReadiness[]> {
  const [found] = await readReadinessOfAll(ctx, { merchantIds: [merchantId] });
  if (!found) throw new Problem('merchant_not_found', { id: merchantId }, { param: 'merchant' });
  return mode === 'test' ? found.coins.map(({ coin }) => ({ coin, payable: true, missing: [] })) : found.coins;
}

/** The same for several merchants, in as many statements as for one. */
export async function readReadinessOfAll(
  ctx: Context,
  { merchantIds }: { merchantIds: readonly string[] },
): Promise<{ merchant: Merchant; coins: CoinReadiness[] }[]> {
  const [merchants, unreachable, holds, used] = await Promise.all([
    readMerchants(ctx.db.sql, { merchantIds }),
    readUnreachable(ctx, ctx.db.sql),
    readHolds(ctx),
    readUsed(ctx, { merchantIds }),
  ]);
  return merchants.map((merchant) => {
    const { perMonth } = ctx.settings.plans[merchant.plan];
    const usedUp = perMonth > 0 && (used.get(merchant.id) ?? 0) >= perMonth ? perMonth : null;
    const listed = COINS.filter((coin) => !isToken(coin) || isOffered(merchant.settings, coin));
    return { merchant, coins: listed.map((coin) => readinessOf(ctx, { merchant, coin, unreachable, held: holds.get(coin)!, usedUp })) };
  });
}

function readinessOf(
  ctx: Context,
  {
    merchant,
    coin,
    unreachable,
    held,
    usedUp,
  }: { merchant: Merchant; coin: Coin; unreachable: Unreachables; held: readonly string[]; usedUp: number | null },
): CoinReadiness {
  const tell = (code: MissingCode, about = ''): MissingForPayments => explain(ctx, { code, coin, about, merchant });
  const isOwn = merchant.walletCoins.includes(coin);
  // Its own network is read once there is a wallet.
  const away = isOwn || !ctx.chains.get(COIN[coin].chain)?.onDemand ? unreachable.get(coin) : undefined;
  const price = ctx.prices.quotable(COIN[coin].asset);
  const blocking = [
    ...(isOwn ? [] : [tell(merchant.pausedCoins.includes(coin) ? 'wallet_paused' : 'wallet_missing')]),
    ...(isOwn && merchant.walletNetworks[COIN[coin].family] !== ctx.settings.networks[COIN[coin].chain] ? [tell('wallet_network')] : []),
    ...(isOffered(merchant.settings, coin) ? [] : [tell('currency_off')]),
    ...(away ? [tell(away.code, away.reason)] : []),
    ...('price' in price ? [] : [tell('price_missing', price.reason)]),
    ...(usedUp === null ? [] : [tell('plan_limit_reached', usedUp.toLocaleString('en-US'))]),
  ];
  // An unreachable source also holds completion, but that is not reported twice.
  const missing = away || held.length === 0 ? blocking : [...blocking, tell('completion_held', held.join('; '))];
  return { coin, payable: blocking.length === 0, missing };
}

/** Whether the network relays such a small amount. */
export const isCarried = (coin: Coin, units: bigint): boolean => units >= leastUnits(coin);
const leastUnits = (coin: Coin): bigint => COIN[coin].dustUnits * 10n;
const leastCents = (coin: Coin, priceE8: bigint): bigint => divideCeil(worthUsdE8(coin, leastUnits(coin), priceE8), centsToE8(1n));
/** The smallest price that a coin carries, in the currency of a price. */
export function leastPrice(coin: Coin, priceE8: bigint, fiat: PaymentRequest['fiat']): AskedPrice {
  const cents = leastCents(coin, priceE8);
  if (fiat === null) return { currency: 'USD', minor: cents };
  const minor = divideCeil(cents * fiat.rateE8 * 10n ** BigInt(fiatDecimals(fiat.currency)), 100n * E8);
  return { currency: fiat.currency, minor };
}
/**
 * Why a price is refused that none of the merchant's coins carries: its page could not be paid. Null otherwise: a coin that is away or has
 * no price now may carry it later.
 */
export function refuseUncarried(
  ctx: Context,
  {
    merchant,
    mode,
    amountUsdCents,
    request: { fiat, asset, shop, items },
  }: { merchant: Merchant; mode: Mode; amountUsdCents: bigint; request: Pick<PaymentRequest, 'fiat' | 'asset' | 'shop' | 'items'> },
): Problem | null {
  if (mode === 'test') return null;
  let easiest: { coin: Coin; priceE8: bigint; units: bigint; cents: bigint } | null = null;
  for (const coin of merchant.walletCoins) {
    if (
      !isOffered(merchant.settings, coin) ||
      (asset !== null && COIN[coin].asset !== asset) ||
      (shop?.coins && !shop.coins.includes(coin))
    )
      continue;
    const pricing = merchant.settings;
    const found = marketPrice(ctx, { mode, coin, source: pricing.priceSource });
    if (!('price' in found)) return null;
    const { units, rateE8: priceE8 } = askIn(coin, { targetUsdCents: amountUsdCents, fiat, pricing }, found.price.priceE8);
    if (isCarried(coin, units)) return null;
    const cents = leastCents(coin, priceE8);
    if (!easiest || cents < easiest.cents) easiest = { coin, priceE8, units, cents };
  }
  if (!easiest || mayUseLightning(ctx, { merchant, amountUsdCents, request: { fiat, asset, ...(shop && { shop }) } })) return null;
  const param = items !== null ? 'items' : fiat === null ? 'amount_usd' : 'amount';
  return amountTooSmall(easiest.coin, { usdCents: amountUsdCents, ...easiest }).with({ param });
}
type InvoiceAmount = { lightning: Merchant['lightning']; units: bigint; usdCents: bigint };
/** What keeps a merchant's node or provider from making an invoice for an amount; null: nothing. Nothing is known of one that is gone. */
export function lightningLimit(
  ctx: Context,
  { lightning, units: msat, usdCents }: InvoiceAmount,
): { code: 'small' | 'large'; limit: string } | null {
  if (!lightning) return null;
  const { leastMsat, mostMsat, ownsNode } = lightning;
  const shown = (limit: bigint): string => `${formatUnits(LIGHTNING, limit)} ${COIN[LIGHTNING].asset}`;
  if (msat < leastMsat) return { code: 'small', limit: shown(leastMsat) };
  if (msat > mostMsat) return { code: 'large', limit: shown(mostMsat) };
  const { lightningMaxUsdCents: most } = ctx.settings;
  return !ownsNode && usdCents > most ? { code: 'large', limit: `${formatUsd(most)} USD` } : null;
}
/** Errors: amount_too_small (param `currency`), amount_too_large (param `amount` or `items`). */
export function checkLightningAmount(ctx: Context, amount: InvoiceAmount & { request: Pick<PaymentRequest, 'items'> }): void {
  const found = lightningLimit(ctx, amount);
  if (found?.code === 'small') {
    const asked = `${formatUsd(amount.usdCents)} USD (${formatUnits(LIGHTNING, amount.units)} ${COIN[LIGHTNING].asset})`;
    throw new Problem('amount_too_small', { coin: LIGHTNING, amount: asked, minimum: found.limit }, { param: 'currency' });
  }
  if (found) {
    const param = amount.request.items !== null ? 'items' : 'amount';
    throw new Problem('amount_too_large', { maximum: `${found.limit} over Lightning` }, { param });
  }
}
/** Whether an invoice can carry what no other coin does. */
function mayUseLightning(
  ctx: Context,
  { merchant, amountUsdCents: usdCents, request: { fiat, asset, shop } }: Pricing & { merchant: Merchant },
): boolean {
  const { lightning, settings: pricing } = merchant;
  if (!lightning || shop?.coins || (asset !== null && asset !== COIN[LIGHTNING].asset)) return false;
  const found = marketPrice(ctx, { mode: 'live', coin: LIGHTNING, source: pricing.priceSource });
  if (!('price' in found)) return true;
  const { units } = askIn(LIGHTNING, { targetUsdCents: usdCents, fiat, pricing }, found.price.priceE8);
  return isCarried(LIGHTNING, units) && lightningLimit(ctx, { lightning, units, usdCents }) === null;
}
type Pricing = { amountUsdCents: bigint; request: Pick<PaymentRequest, 'fiat' | 'asset' | 'shop'> };
/** Describes the smallest payment in the coin, at the current price. */
export function amountTooSmall(coin: Coin, { usdCents, units, priceE8 }: { usdCents: bigint; units: bigint; priceE8: bigint }): Problem {
  const least = leastUnits(coin);
  const worth = formatUsd(leastCents(coin, priceE8));
  return new Problem(
    'amount_too_small',
    {
      coin,
      amount: `${formatUsd(usdCents)} USD (${formatUnits(coin, units)} ${COIN[coin].asset})`,
      minimum: `${formatUnits(coin, least)} ${COIN[coin].asset} (about ${worth} USD)`,
    },
    { param: 'currency' },
  );
}

/** What connects a source: a node, or the peers of the network. */
const sourceLines = (coin: Coin): string[] =>
  kindOf(coin) === 'ethereum'
    ? [
        isToken(coin) ? '# your own node, or two providers' : '# your own node',
        `${settingOf(coin)}_NODE_URL=http://127.0.0.1:${chainOf(coin).rpcPort}`,
        ...(isToken(coin) ? [] : PROVEN_PROVIDER),
      ]
    : [
        '# your own node',
        `${coin}_NODE_URL=http://USER:PASSWORD@127.0.0.1:${chainOf(coin).rpcPort}`,
        '# or the peers of its network, without a node (mainnet)',
        `#${coin}_P2P=auto`,
      ];
/** A provider alone completes no payment. */
const PROVEN_PROVIDER = [
  '# or a provider, with a beacon server that proves what it says',
  '#ETH_NODE_URL=https://PROVIDER',
  '#ETH_BEACON_URL=https://BEACON_SERVER',
  '#ETH_CHECKPOINT=ROOT_OF_A_FINALIZED_BLOCK',
] as const;
const PASTE = 'Add this to the service’s settings (.env) and restart it:';
const DOCTOR = 'Run `./florin doctor` on the server to see the cause.';
const sentence = (text: string): string => text.charAt(0).toUpperCase() + text.slice(1).replace(/\.?$/, '.');

function explain(
  ctx: Context,
  { code, coin, about, merchant }: { code: MissingCode; coin: Coin; about: string; merchant: Merchant },
): MissingForPayments {
  const { name } = COIN[coin];
  // The guide of a chain is named after its native coin, and so is the wallet, which all chains of a family share.
  const native = nativeOf(coin);
  const wallet = COIN[COIN[coin].family].name;
  const source = isToken(native) ? chainOf(coin).name : COIN[native].name;
  const guide = isToken(native) ? 'guides/stablecoins' : `guides/${COIN[native].name.toLowerCase()}`;
  const walletGuide = `guides/${wallet.toLowerCase()}`;
  const told = (message: string, fix: string, page: string, lines: readonly string[] = []): MissingForPayments => ({
    ...{ code, message, fix, lines },
    docUrl: `${ctx.settings.publicUrl}/docs/${page}`,
  });
  switch (code) {
    case 'wallet_missing':
      return told(
        `No ${wallet} wallet is set up.`,
        'Add the public key of your wallet account under Wallets.',
        `${walletGuide}#add-a-wallet`,
      );
    case 'wallet_paused':
      return told(`The ${wallet} wallet is paused.`, 'Resume it under Wallets.', 'guides/going-live#money');
    case 'wallet_network': {
      const [has, wanted] = [merchant.walletNetworks[COIN[coin].family] ?? '', ctx.settings.networks[COIN[coin].chain]];
      const fix = `Import a ${wanted} key under Wallets, or change the network of the service:`;
      return told(`The ${wallet} wallet is for ${has}, but this service uses ${wanted}.`, fix, guide, [
        `${settingOf(coin)}_NETWORK=${has}`,
      ]);
    }
    case 'currency_off':
      return told(`${name} is turned off in your checkout settings.`, 'Turn it on under Checkout.', 'guides/going-live#money');
    case 'source_missing':
      return told(
        `No ${source} source is connected, so payments cannot be detected.`,
        `A source is ${kindOf(coin) === 'ethereum' ? (isToken(native) ? 'your own node or two providers' : 'your own node, or a provider with a beacon server') : 'your own node, or the peers of its network'}. ${PASTE}`,
        `${guide}#connect-a-node`,
        sourceLines(native),
      );
    case 'source_starting':
      return told(`The ${source} source has not answered yet.`, DOCTOR, `${guide}#connect-a-node`);
    case 'source_silent':
      return told(`The ${source} source has not answered for over a minute.`, DOCTOR, `${guide}#connect-a-node`);
    case 'source_unreachable':
      return told(
        `Florin can’t reach the ${source} network: ${about}.`,
        `Check that this server may open connections to the internet on any port. ${DOCTOR}`,
        `${guide}#connect-a-node`,
      );
    case 'source_behind':
      return told(`The ${source} source is not in sync: ${about}.`, `Wait until it has caught up. ${DOCTOR}`, `${guide}#connect-a-node`);
    case 'token_held':
      return told(sentence(`it is not offered: ${about}`), DOCTOR, 'guides/stablecoins#contracts');
    case 'price_missing':
      return told(
        `There is no current ${name} price: ${about}.`,
        `Two price sources must agree, or PRICES must set the price. ${DOCTOR}`,
        'guides/prices#sources',
      );
    case 'plan_limit_reached':
      return told(
        `The ${about} live payments of your plan are used up for this month.`,
        'Upgrade under Plan & usage, or wait until next month.',
        'guides/going-live#service',
      );
    case 'completion_held':
      return told(
        sentence(`${name} payments are received, but do not complete right now: ${about}`),
        DOCTOR,
        'guides/sources#several-sources',
      );
  }
}

/** Whether each coin's chain is read, as of a second ago; the same for all merchants. Creates wait for it only after a pause. */
const FRESH_MS = 1_000;
const OLDEST_MS = 5_000;
type Kept = { atMs: number; read: Promise<Unreachables> };
const keptOf = perContext(() => ({ known: null as Kept | null, next: null as Promise<Unreachables> | null }));
function recentUnreachable(ctx: Context): Promise<Unreachables> {
  const kept = keptOf(ctx);
  const atMs = ctx.clock.monotonicMs();
  const ageMs = kept.known ? atMs - kept.known.atMs : Number.POSITIVE_INFINITY;
  if (ageMs < FRESH_MS) return kept.known!.read;
  if (!kept.next) {
    const read = readUnreachable(ctx, ctx.db.sql);
    kept.next = read;
    read
      .then(
        () => {
          kept.known = { atMs, read };
        },
        // The waiting callers get the error; the next create tries again.
        () => {},
      )
      .finally(() => {
        kept.next = null;
      });
  }
  return ageMs < OLDEST_MS ? kept.known!.read : kept.next;
}

type Payable = { coin: Coin; priceE8: bigint };
const payableCoins = (ctx: Context, merchant: Merchant, unreachable: Unreachables): Payable[] =>
  [...COINS, LIGHTNING].flatMap((coin) => {
    const payable =
      coin === LIGHTNING
        ? merchant.lightning?.isAway === false
        : readinessOf(ctx, { merchant, coin, unreachable, held: [], usedUp: null }).payable;
    const found = ctx.prices.quotable(COIN[coin].asset);
    return payable && 'price' in found ? [{ coin, priceE8: found.price.priceE8 }] : [];
  });
/** Computed once for all creates that share a read of their merchant. */
const payableOf = perContext(() => new WeakMap<Merchant, Payable[]>());

/** Something the caller should know although the request succeeds. */
export type PaymentWarning = { code: 'no_payable_currency'; message: string; doc_url: string };
const NONE: readonly PaymentWarning[] = [];

/**
 * Warnings for the reply to a create when the payment could not be paid now, as of about a second ago. Members get a notice when no
 * currency is ready. This adds no statement to a create.
 */
export async function warningsFor(
  ctx: Context,
  { merchantId, mode, amountUsdCents }: { merchantId: string; mode: Mode; amountUsdCents: bigint | null },
): Promise<readonly PaymentWarning[]> {
  if (mode === 'test') return NONE;
  const [merchant, unreachable] = await Promise.all([getMerchant(ctx, { merchantId }), recentUnreachable(ctx)]);
  const known = payableOf(ctx);
  let payable = known.get(merchant);
  if (!payable) {
    payable = payableCoins(ctx, merchant, unreachable);
    known.set(merchant, payable);
  }
  const limits = payable.map(({ coin, priceE8 }) => {
    if (amountUsdCents === null) return null;
    const units = quoteUnits(coin, amountUsdCents, priceE8);
    if (!isCarried(coin, units)) return 'small';
    const limit = coin === LIGHTNING && lightningLimit(ctx, { lightning: merchant.lightning, units, usdCents: amountUsdCents });
    return limit ? limit.code : null;
  });
  if (limits.includes(null)) return NONE;
  const warn = (message: string): PaymentWarning[] => [
    { code: 'no_payable_currency', message, doc_url: `${ctx.settings.publicUrl}/docs/guides/going-live#no-payable-currency` },
  ];
  if (limits.includes('large'))
    return warn('Customers cannot pay this: the amount is too large for Lightning, and nothing else can carry it.');
  if (payable.length > 0) return warn('Customers cannot pay this: the amount is too small for every currency you accept.');
  await reportUnpayable(ctx, { merchantId });
  return warn('Customers cannot pay this yet: none of your currencies is ready. The dashboard shows what is missing under Home.');
}

/** A customer or a create found no payable currency. */
export async function reportUnpayable(ctx: Context, { merchantId }: { merchantId: string }): Promise<void> {
  const why = async (): Promise<string> => {
    const coins = await readPayableCoins(ctx, { merchantId, mode: 'live' });
    const withWallet = coins.filter(({ missing }) => missing.every(({ code }) => code !== 'wallet_missing'));
    if (withWallet.length === 0) return 'No wallet is set up.';
    return withWallet.flatMap(({ missing }) => missing.slice(0, 1).map(({ message }) => message)).join(' ');
  };
  await reportOutage(ctx, { merchantId, why });
}

/** Ends outages of merchants whose customers can pay again. Run by the worker. */
export async function endOutages(ctx: Context): Promise<void> {
  const merchantIds = await listOutages(ctx, { limit: MOST_OUTAGES });
  if (merchantIds.length === 0) return;
  const [merchants, unreachable] = await Promise.all([readMerchants(ctx.db.sql, { merchantIds }), readUnreachable(ctx, ctx.db.sql)]);
  const over = merchants.filter((merchant) => payableCoins(ctx, merchant, unreachable).length > 0);
  await closeOutages(ctx, { merchantIds: over.map(({ id }) => id) });
}
const MOST_OUTAGES = 500;

// Times when a merchant's customers find no currency they can pay with: members are notified once for each.

/** An outage soon after another one causes no second notice. */
const QUIET_HOURS = 1;
/** This process records an outage once in this time, regardless of how many customers it affects. */
const REPORT_MS = 10_000;
const MOST_REMEMBERED = 10_000;
const reportedAt = perContext(() => new Map<string, number>());

/** A customer or a create found no payable currency. The first time, members get a notice with the reason. */
async function reportOutage(ctx: Context, { merchantId, why }: { merchantId: string; why: () => Promise<string> }): Promise<void> {
  const reported = reportedAt(ctx);
  const nowMs = ctx.clock.monotonicMs();
  if (nowMs - (reported.get(merchantId) ?? Number.NEGATIVE_INFINITY) < REPORT_MS) return;
  if (reported.size >= MOST_REMEMBERED) reported.clear();
  reported.set(merchantId, nowMs);
  try {
    const reason = await why();
    await ctx.db.begin(async (tx) => {
      const [begun] = await tx<{ notify: boolean }[]>`
        insert into payment_outages as o (merchant_id, notified_at) values (${merchantId}, now())
        on conflict (merchant_id) do update set ended_at = null,
          notified_at = case when o.notified_at < now() - make_interval(hours => ${QUIET_HOURS}) then now() else o.notified_at end
          where o.ended_at is not null
        returning notified_at = now() as notify`;
      if (begun?.notify) await notifyMembers(ctx, tx, [{ merchantId, mode: 'live', kind: 'payments_unavailable', detail: { reason } }]);
    });
  } catch (error) {
    reported.delete(merchantId);
    throw error;
  }
}

/** Merchants with an ongoing outage, a bounded number of them. */
async function listOutages(ctx: Context, { limit }: { limit: number }): Promise<string[]> {
  const rows = await ctx.db.sql<{ merchantId: string }[]>`
    select merchant_id as "merchantId" from payment_outages where ended_at is null order by merchant_id limit ${limit}`;
  return rows.map(({ merchantId }) => merchantId);
}

/** Customers of these merchants can pay again. */
async function closeOutages(ctx: Context, { merchantIds }: { merchantIds: readonly string[] }): Promise<void> {
  if (merchantIds.length === 0) return;
  await ctx.db.sql`
    update payment_outages set ended_at = clock_timestamp()
    where merchant_id = any(${merchantIds as string[]}::text[]) and ended_at is null`;
  for (const merchantId of merchantIds) reportedAt(ctx).delete(merchantId);
}
