/** The operations on a payment. Each one writes facts through `lockAndSettle`; none of them sets a status. */

import { createHash } from 'node:crypto';
import { isDeepStrictEqual } from 'node:util';
import { decodeAddress } from '#addresses';
import type { Context } from '#context';
import { askedOf } from '#core/asked-price';
import { COIN, COINS, type Coin, canBePriced, coinText, isToken, LIGHTNING, type Mode, NETWORKS, onChainCoin } from '#core/coin';
import { addMs, DAY_MS, earliest, MINUTE_MS } from '#core/dates';
import { formatUnits, lightningUnits } from '#core/money';
import { type Decision, hasWrongCoin, ORDER_MISSING, type Quote, REFUND_REQUEST, type Transfer } from '#core/payment';
import type { CustomerView, IdempotencyClaim, PaymentView, RenderedReply, ReplayableReply } from '#core/payment-view';
import { CONNECT_FIRST, Problem } from '#core/problem';
import { reservedUnits } from '#core/refund';
import { rolesOf, settle } from '#core/settle';
import { SCENARIOS, type Scenario, scenariosOf, testIdentifier, WAITING } from '#core/simulated';
import { isFinal } from '#core/status';
import { asTexts } from '#core/stored-json';
import { playToJson } from '#core/stored-payment';
import { cutText } from '#core/text';
import { isDust, isGone, lockEnd, mayChangeCoin } from '#core/transfer';
import { checkPayerEmail } from '#customers';
import { isAnswered, runOnce, type Tx } from '#db';
import { advanceDeliveries } from '#deliveries';
import { getMerchantNow, isOffered, type Merchant, readMerchant } from '#merchants';
import { type AnyActor, memberOf, writeAudit } from '#people';
import { amountTooSmall, askIn, checkLightningAmount, isCarried, marketPrice, priceAt, readUnreachable } from '#readiness';
import {
  type DecisionResult,
  dropMetadataPairs,
  eraseAgain,
  lockAndDecide,
  lockAndSettle,
  mailReceipts,
  mayOwe,
  metadataPairs,
  nextScenarios,
  type PaymentRecord,
  queueTexts,
  tipsOf,
} from '#settling';
import { nextAddress } from '#wallets';
import { createOne, createTogether, type NewPayment, type PaymentDraft, prepareCreate } from './create-payments.ts';
import { getPaymentForCustomer } from './customer-view.ts';
import { LINK_METADATA, payLink } from './links.ts';

export type { PaymentDraft } from './create-payments.ts';

type Render = (view: PaymentView) => RenderedReply;
/** Runs in the transaction of a decision, with the payment before and after it, and records who decided. */
type Also = (tx: Tx, change: { before: PaymentView; after: PaymentView }) => Promise<void>;
type Owner = { merchantId: string; mode: Mode; paymentId: string };
/** The shop that a caller says it acts for. */
type NamedShop = { shop?: string | undefined };
/** A decision of a member, a key or a shop; the audit log says whose. */
type DecisionParameters = Owner & NamedShop & { actor: AnyActor; render: Render };
/** The decisions in the audit log. */
export const DECISIONS = ['cancel', 'accept', 'reject', 'refund_sent', 'reviewed', 'archived', 'unarchived', 'simulate'] as const;
/** What the audit log says about a decision. */
const auditDecision =
  ({ merchantId, mode, paymentId, actor }: Owner & { actor: AnyActor }, decision: (typeof DECISIONS)[number]): Also =>
  (tx, { before, after }) =>
    writeAudit(tx, {
      ...{ merchantId, mode, actor, action: `payment.${decision}`, object: paymentId },
      before: { status: before.settlement.status },
      after: { status: after.settlement.status, decision, number: after.facts.decisions.length },
    });

/** Keys write metadata and play scenarios all the time; when a member does, the audit log says so. */
const alsoOfMember = (actor: AnyActor | undefined, audit: (by: AnyActor) => Also) =>
  actor && memberOf(actor) !== null ? { also: audit(actor) } : {};

/**
 * Creates a payment. The reply is rendered inside the transaction and stored with it if there is an Idempotency-Key.
 * Errors: plan_limit_exceeded, idempotency_*; when a coin is named: coin_not_configured, price_unavailable, chain_unavailable, amount_too_small,
 * amount_too_large; when it replaces a payment: payment_not_found, payment_replaced, shop_mismatch.
 */
export async function createPayment(
  ctx: Context,
  input: {
    merchantId: string;
    mode: Mode;
    createdWith: 'secret' | 'public';
    /** The API key that made the request, if any. */
    keyId?: string | null;
    /** Who cancels the payment that this one replaces; null: it has ended. */
    actor?: AnyActor | null;
    draft: PaymentDraft;
    idempotency: IdempotencyClaim | null;
    render: Render;
    /** Runs in its transaction, and records who created the payment. */
    also?: (tx: Tx, created: PaymentView) => Promise<void>;
    /** Where a coin can be named that is paid with an invoice. */
    askInvoice?: AskInvoice;
  },
): Promise<ReplayableReply> {
  const item = await prepareCreate(ctx, input);
  const { coin } = input.draft;
  const { replaces } = input.draft.request;
  if (coin === null && !input.also && !replaces) return createTogether(ctx, item);
  // The merchant may have been read before the coin was set up, a moment ago.
  if (coin !== null && item.mode === 'live' && !canTake(item.merchant, coin) && !canTake(await getMerchantNow(ctx, input), coin)) {
    throw new Problem('coin_not_configured', { coin }, { param: 'currency' });
  }
  const invoice = coin === LIGHTNING && item.mode === 'live' && input.askInvoice ? await firstInvoice(ctx, item, input.askInvoice) : null;
  return runOnce(ctx.db, input.idempotency, async (tx) => {
    if (replaces) await replacePayment(ctx, tx, { item, replaces, actor: input.actor ?? null });
    const choose = async (chosen: Coin) =>
      (await decideOne(ctx, tx, item.id, (record) => chooseFor(ctx, tx, record, chosen, { invoice }))).after.view;
    const view = await createOne(ctx, tx, item, coin === null ? null : () => choose(coin));
    await input.also?.(tx, view);
    return input.render(view);
  });
}

/**
 * Names the new payment in the one that it takes the place of, which is canceled unless money has arrived for it or it ended before.
 * Errors: payment_not_found, payment_replaced, shop_mismatch.
 */
async function replacePayment(
  ctx: Context,
  tx: Tx,
  { item, replaces, actor }: { item: NewPayment; replaces: string; actor: AnyActor | null },
): Promise<void> {
  const { id, mode, merchant, draft } = item;
  const of = { merchantId: merchant.id, mode, paymentId: replaces };
  let isCanceled = false;
  const unknown = new Problem('payment_not_found', { id: replaces }, { param: 'replaces' });
  const decided = await lockAndDecide(ctx, tx, replaces, async (record) => {
    if (record.merchantId !== of.merchantId || record.mode !== mode) throw unknown;
    const { replacedBy, metadata, facts, transfers } = record;
    if (replacedBy !== null) throw new Problem('payment_replaced', { id: replaces, by: replacedBy }, { param: 'replaces' });
    if (metadata.shop !== undefined && draft.metadata.shop !== undefined) checkShop(record, draft.metadata.shop, 'replaces');
    await tx`update payments set replaced_by = ${id} where id = ${replaces}`;
    const linked = { ...record, replacedBy: id };
    isCanceled = actor !== null && facts.status === 'pending' && transfers.length === 0;
    return isCanceled ? decide(tx, linked, 'cancel', []) : linked;
  });
  if (!decided) throw unknown;
  if (isCanceled) await auditDecision({ ...of, actor: actor! }, 'cancel')(tx, { before: decided.before.view, after: decided.after.view });
}

/** Errors: shop_mismatch. A payment that names no shop is not that of the shop. */
export function checkShop(
  { facts: { id }, metadata }: Pick<PaymentRecord, 'facts' | 'metadata'>,
  shop: string | undefined,
  param = 'shop',
): void {
  if (shop !== undefined && metadata.shop !== shop) throw new Problem('shop_mismatch', { id, shop: cutText(shop, 200) }, { param });
}

/** Whether the merchant has a wallet for the coin, and has turned it on if it is a token; or has set up Lightning. */
const canTake = ({ walletCoins, settings, lightning }: Merchant, coin: Coin): boolean =>
  coin === LIGHTNING ? lightning !== null : walletCoins.includes(coin) && (!isToken(coin) || isOffered(settings, coin));

/** What a payer is asked for, and where to pay it, if that is known. */
type QuoteTerms = { rateE8: bigint | null; units: bigint; sources: readonly string[]; until: Date; address: string | null };
/** A Lightning invoice for such terms. `store` records it in the transaction that shows it. */
type NewInvoice = { terms: QuoteTerms; bolt11: string; expiresAt: Date; store(tx: Tx): Promise<void> };
/** Gets a Lightning invoice, which takes a request to a node or a provider, while nothing is locked. Errors: chain_unavailable. */
type AskInvoice = (wanted: QuoteTerms & { paymentId: string; merchantId: string }) => Promise<Omit<NewInvoice, 'terms'>>;
type ChoiceOptions = { scenario?: string | null; byPayer?: boolean; invoice?: NewInvoice | null };

/**
 * The invoice of a payment that is created with Lightning. It is asked for first: if there is none, nothing is created, and one that is not
 * stored was never shown. A repeat that has its answer needs none. Errors: those of `createPayment` when a coin is named.
 */
async function firstInvoice(ctx: Context, item: NewPayment, askInvoice: AskInvoice): Promise<NewInvoice | null> {
  if (item.idempotency && (await isAnswered(ctx.db, item.idempotency))) return null;
  const { id: paymentId, mode, merchant, draft, ruleSet } = item;
  const { rules } = ruleSet;
  const lockMs = (draft.fixed ? rules.windowSeconds : Math.min(rules.rateLockSeconds, rules.windowSeconds)) * 1000;
  const { units, ...priced } = draft.fixed
    ? { rateE8: null, units: draft.fixed.units, sources: [] }
    : priceQuote(ctx, { mode, request: draft.request, facts: { rules, targetUsdCents: draft.amountUsdCents } }, LIGHTNING);
  checkLightningAmount(ctx, { lightning: merchant.lightning, units, usdCents: draft.amountUsdCents, request: draft.request });
  const terms = { ...priced, units, until: addMs(ctx.clock.now(), lockMs), address: null };
  return { terms, ...(await askInvoice({ ...terms, paymentId, merchantId: merchant.id })) };
}

/** The terms of a quote of the coin; null when there is an open one. The row is locked. */
async function termsFor(
  ctx: Context,
  tx: Tx,
  record: PaymentRecord,
  coin: Coin,
  { byPayer = false }: ChoiceOptions,
): Promise<QuoteTerms | null> {
  const { facts, now } = record;
  const settlement = settle(facts, record.transfers, tipsOf(record), now);
  if (facts.status !== 'pending' || now >= settlement.expiresAt) {
    throw new Problem('payment_status_conflict', {
      status: facts.status === 'pending' ? 'expired' : facts.status,
      action: 'choosing a coin',
    });
  }
  if (settlement.coin !== coin && !mayChangeCoin(facts, record.transfers)) throw new Problem('coin_fixed', { coin: settlement.coin ?? '' });
  const { asset, shop } = record.request;
  if (shop?.coins && !shop.coins.includes(coin)) throw new Problem('coin_not_configured', { coin }, { param: 'currency' });
  if (asset !== null && COIN[coin].asset !== asset) throw new Problem('coin_fixed', { coin: asset });
  if (facts.fixed && facts.fixed.coin !== coin) throw new Problem('coin_fixed', { coin: facts.fixed.coin });
  const last = facts.quotes.at(-1);
  // A coin that was disabled after it was chosen can still be paid.
  if (
    byPayer &&
    !facts.fixed &&
    last?.coin !== coin &&
    !(record.mode === 'test' && asset !== null) &&
    !isOffered((await readMerchant(tx, { merchantId: record.merchantId })).settings, coin, record.mode)
  )
    throw new Problem('coin_not_configured', { coin }, { param: 'currency' });
  // A rate that is still valid is shown again: switching to another coin and back does not fetch a new one.
  const standing = facts.quotes.findLast((q) => q.coin === coin && lockEnd(facts, q) > now);
  if (standing && standing === last) return null;
  if (facts.fixed) return { rateE8: null, units: facts.fixed.units, sources: [], until: settlement.expiresAt, address: null };
  if (standing) return { ...standing, sources: await sourcesOf(tx, facts.id, facts.quotes.indexOf(standing)) };
  const until = earliest(addMs(now, facts.rules.rateLockSeconds * 1000), settlement.expiresAt);
  return { ...priceQuote(ctx, record, coin), until, address: null };
}

/**
 * Adds a quote of the coin. Returns the record with it, or null when there is an open one. Allocates the deposit address at the first
 * choice. The row is locked.
 */
async function addQuote(
  ctx: Context,
  tx: Tx,
  record: PaymentRecord,
  coin: Coin,
  options: ChoiceOptions = {},
): Promise<PaymentRecord | null> {
  const { facts, now } = record;
  const { invoice = null } = options;
  const terms = await termsFor(ctx, tx, record, coin, options);
  if (terms === null) return null;
  // What was asked of the back end is what its invoice is for.
  const quote = invoice ? { ...invoice.terms, until: earliest(invoice.terms.until, invoice.expiresAt) } : terms;
  await invoice?.store(tx);
  const address = invoice?.bolt11 ?? terms.address ?? (await addressFor(ctx, tx, record, coin, options.scenario ?? null));
  await tx`
    insert into quotes (payment_id, number, merchant_id, coin, address, rate_e8, units, sources, from_at, until_at)
    values (${facts.id}, ${facts.quotes.length + 1}, ${record.merchantId}, ${coin}, ${address},
      ${quote.rateE8 === null ? null : quote.rateE8.toString()}, ${quote.units.toString()}, ${tx.json(quote.sources as never)}, ${now}, ${quote.until})`;
  await queueTexts(tx, [facts.id]);
  const added = { coin, address, rateE8: quote.rateE8, units: quote.units, from: now, until: quote.until };
  return { ...record, facts: { ...facts, quotes: [...facts.quotes, added] } };
}

/** Chooses the coin, as a decision. All is read again: the tip of its chain was not read with the record. */
const chooseFor = async (...args: Parameters<typeof addQuote>): Promise<DecisionResult> =>
  (await addQuote(...args)) === null ? 'nothing' : 'read again';

async function sourcesOf(tx: Tx, paymentId: string, index: number): Promise<readonly string[]> {
  const [row] = await tx<{ sources: unknown }[]>`select sources from quotes where payment_id = ${paymentId} and number = ${index + 1}`;
  return asTexts(row?.sources);
}

type Priced = Pick<PaymentRecord, 'mode'> & {
  request: Pick<PaymentRecord['request'], 'fiat'>;
  facts: Pick<PaymentRecord['facts'], 'rules' | 'targetUsdCents'>;
};
function priceQuote(ctx: Context, record: Priced, coin: Coin): { rateE8: bigint; units: bigint; sources: readonly string[] } {
  const pricing = record.facts.rules;
  const quotable = marketPrice(ctx, { mode: record.mode, coin, source: pricing.priceSource });
  if (!('price' in quotable)) {
    throw new Problem('price_unavailable', { coin, reason: quotable.reason }, { param: 'currency', retryAfterSeconds: 30 });
  }
  const { priceE8, sources } = quotable.price;
  const { units, rateE8 } = askIn(coin, { targetUsdCents: record.facts.targetUsdCents, fiat: record.request.fiat, pricing }, priceE8);
  if (!isCarried(coin, units)) {
    throw amountTooSmall(coin, { usdCents: record.facts.targetUsdCents, units, priceE8: rateE8 });
  }
  return { rateE8, units, sources };
}

/**
 * The payment's only address in the family of the coin, the same on all of its networks: the existing one, or the wallet's next. A test payment shows its identifier instead:
 * of the scenario that starts with this choice, else of the one it was created with.
 */
async function addressFor(ctx: Context, tx: Tx, record: PaymentRecord, coin: Coin, scenario: string | null): Promise<string> {
  if (record.mode === 'test') {
    const shown = record.facts.quotes.find((quote) => quote.coin === coin)?.address;
    const planned = plannedFor(record, coin);
    const named = scenario ?? (planned === WAITING ? null : planned) ?? 'success';
    return shown ?? testIdentifier(coin, named);
  }
  const [given] = await tx<{ address: string }[]>`
    select address from deposit_addresses where payment_id = ${record.facts.id} and family = ${COIN[coin].family}`;
  if (given) return given.address;
  const away = (await readUnreachable(ctx, tx)).get(coin);
  if (away !== undefined) {
    const isConnected = ctx.chains.get(COIN[coin].chain)?.follows ?? false;
    const details = { coin, reason: away.reason, ...(!isConnected && { advice: CONNECT_FIRST }) };
    throw new Problem('chain_unavailable', details, { param: 'currency', ...(isConnected && { retryAfterSeconds: 30 }) });
  }
  const next = await nextAddress(ctx, tx, { merchantId: record.merchantId, coin, createdWith: record.createdWith });
  await tx`
    insert into deposit_addresses (family, key, address, payment_id, merchant_id, wallet_id, index, created_at)
    values (${next.family}, ${next.key}, ${next.address}, ${record.facts.id}, ${record.merchantId}, ${next.walletId}, ${next.index.toString()}, ${record.realNow})`;
  return next.address;
}

/**
 * The payer chooses a coin, or requests a new rate for the chosen one. An open quote is returned unchanged. In test mode the
 * choice starts the given scenario, or the one the payment was created with; otherwise the page waits until one is picked.
 * Errors: payment_not_found, payment_status_conflict, coin_fixed, coin_not_configured, price_unavailable, chain_unavailable; over Lightning
 * amount_too_small, amount_too_large.
 */
export async function chooseCoin(
  ctx: Context,
  {
    paymentId,
    coin,
    scenario,
    askInvoice,
    later,
  }: {
    paymentId: string;
    coin: Coin;
    scenario?: string | null;
    askInvoice?: AskInvoice;
    /** Takes what is done once the page is shown: nothing waits for a slow node. */
    later?: (work: () => Promise<void>) => void;
  },
): Promise<CustomerView> {
  let invoice: NewInvoice | null = null;
  if (coin === LIGHTNING && askInvoice) {
    const wanted = await ctx.db.begin((tx) => wantInvoice(ctx, tx, paymentId));
    if (wanted) invoice = { terms: wanted, ...(await askInvoice(wanted)) };
  }
  await ctx.db.begin((tx) =>
    decideOne(ctx, tx, paymentId, async (record) => {
      const given = scenario ? scenarioNamed(scenario) : null;
      const options = { scenario: given, byPayer: true, invoice };
      if (record.mode === 'live' || record.plays.length > 0) return chooseFor(ctx, tx, record, coin, options);
      const name = given ?? plannedFor(record, coin) ?? WAITING;
      const fresh = (await addQuote(ctx, tx, record, coin, options)) ?? record;
      const started = await startScenario(tx, fresh, name, coin);
      return started === 'nothing' && fresh !== record ? fresh : started;
    }),
  );
  const view = await getPaymentForCustomer(ctx, { paymentId });
  if (askInvoice && later && mayPayBeside(view)) later(() => addBeside(ctx, { paymentId, askInvoice }));
  return view;
}

/** The terms for which a live payment needs a new invoice; null: it has one that can still be paid, or needs none. */
async function wantInvoice(ctx: Context, tx: Tx, paymentId: string) {
  let wanted: Parameters<AskInvoice>[0] | null = null;
  await decideOne(ctx, tx, paymentId, async (record) => {
    const terms = record.mode === 'live' ? await termsFor(ctx, tx, record, LIGHTNING, { byPayer: true }) : null;
    if (terms?.address !== null) return 'nothing';
    const { merchantId, request, facts } = record;
    const { lightning } = await readMerchant(tx, { merchantId });
    checkLightningAmount(ctx, { lightning, units: terms.units, usdCents: facts.targetUsdCents, request });
    wanted = { ...terms, paymentId, merchantId };
    return 'nothing';
  });
  return wanted as Parameters<AskInvoice>[0] | null;
}

/** Whether a customer who chose bitcoin on-chain could also pay an invoice. */
const mayPayBeside = ({ settlement, coins }: CustomerView): boolean =>
  settlement.coin === BITCOIN && coins.some(({ coin, unavailable }) => coin === LIGHTNING && unavailable === null);
const BITCOIN = onChainCoin(LIGHTNING);

/**
 * Adds an invoice to the bitcoin that a payer chose: for the same amount, and as long as its rate. Does nothing if the payer chose anything
 * else meanwhile, or money arrived. Errors: those of `chooseCoin`.
 */
async function addBeside(ctx: Context, { paymentId, askInvoice }: { paymentId: string; askInvoice: AskInvoice }): Promise<void> {
  const wanted = await ctx.db.begin((tx) => wantBeside(ctx, tx, paymentId));
  if (!wanted) return;
  const invoice = { terms: wanted, ...(await askInvoice(wanted)) };
  await ctx.db.begin((tx) =>
    decideOne(ctx, tx, paymentId, async (record) => {
      const chosen = chosenBitcoin(record);
      if (chosen?.units !== wanted.bitcoin.units || chosen.until > wanted.until) return 'nothing';
      const both = await addQuote(ctx, tx, record, LIGHTNING, { byPayer: true, invoice });
      // What the payer chose stays the last.
      return both && (await addQuote(ctx, tx, both, chosen.coin, { byPayer: true })) ? 'read again' : 'nothing';
    }),
  );
}

/** The open quote of bitcoin on-chain that an invoice can be added to; null: there is none, or it has one. */
function chosenBitcoin({ facts, mode, transfers, now }: PaymentRecord): Quote | null {
  const last = facts.quotes.at(-1);
  if (!last || last.coin !== BITCOIN || facts.fixed || mode !== 'live') return null;
  if (facts.status !== 'pending' || transfers.length > 0 || lockEnd(facts, last) < addMs(now, MINUTE_MS)) return null;
  return facts.quotes.some((quote) => quote.coin === LIGHTNING && lockEnd(facts, quote) > now) ? null : last;
}

type WantedBeside = Parameters<AskInvoice>[0] & { bitcoin: Quote };
async function wantBeside(ctx: Context, tx: Tx, paymentId: string): Promise<WantedBeside | null> {
  let wanted: WantedBeside | null = null;
  await decideOne(ctx, tx, paymentId, async (record) => {
    const bitcoin = chosenBitcoin(record);
    if (!bitcoin) return 'nothing';
    const { merchantId, facts, request } = record;
    const { lightning } = await readMerchant(tx, { merchantId });
    const units = lightningUnits(bitcoin.coin, bitcoin.units);
    checkLightningAmount(ctx, { lightning, units, usdCents: facts.targetUsdCents, request });
    const sources = await sourcesOf(tx, paymentId, facts.quotes.length - 1);
    wanted = { rateE8: bitcoin.rateE8, units, sources, until: bitcoin.until, address: null, paymentId, merchantId, bitcoin };
    return 'nothing';
  });
  return wanted;
}

/** A test payment created with a coin starts what was planned when its page is visited. Does nothing for other payments. */
export async function visitPayment(ctx: Context, { paymentId }: { paymentId: string }): Promise<void> {
  const [row] = await ctx.db.sql<{ waits: boolean }[]>`
    select mode = 'test' and coin is not null and status = 'pending'
      and not exists (select 1 from simulations s where s.payment_id = p.id) as waits
    from payments p where id = ${paymentId}`;
  if (!row?.waits) return;
  await ctx.db.begin((tx) =>
    decideOne(ctx, tx, paymentId, async (record) => {
      const coin = record.facts.quotes.at(-1)?.coin;
      if (!coin || record.plays.length > 0 || record.facts.status !== 'pending') return 'nothing';
      return startScenario(tx, record, plannedFor(record, coin) ?? 'success', coin);
    }),
  );
}

/** Starts a scenario of a test payment; sets its coin if unset. Errors: scenario_started, payment_status_conflict, payment_not_found. */
export async function simulatePayment(
  ctx: Context,
  {
    merchantId,
    paymentId,
    scenario,
    coin,
    idempotency,
    render,
    actor,
  }: {
    merchantId: string;
    paymentId: string;
    scenario: string;
    coin: Coin | null;
    idempotency: IdempotencyClaim | null;
    render: Render;
    actor?: AnyActor;
  },
): Promise<ReplayableReply> {
  const name = scenarioNamed(scenario);
  const of = { merchantId, mode: 'test' as const, paymentId };
  const also = alsoOfMember(actor, (by) => auditDecision({ ...of, actor: by }, 'simulate'));
  return change(ctx, { ...of, idempotency, render, ...also }, async (tx, record) => {
    if (record.plays.length > 0) throw new Problem('scenario_started');
    const given = coin ?? record.facts.quotes.at(-1)?.coin ?? record.scenario?.coin;
    const chosen = given ?? COINS.find((one) => scenariosOf(one).includes(name)) ?? 'BTC';
    const fresh = (await addQuote(ctx, tx, record, chosen, { scenario: name })) ?? record;
    return startScenario(tx, fresh, name, chosen);
  });
}

/**
 * What the tester picks in the drawer: the first scenario, or what the payer does next, such as paying the missing amount.
 * Errors: test_key_required, parameter_invalid, scenario_started when it cannot follow, payment_not_found.
 */
export async function simulateOnPage(ctx: Context, { paymentId, scenario }: { paymentId: string; scenario: string }): Promise<void> {
  const name = scenarioNamed(scenario);
  const { merchantId, facts } = await getPaymentForCustomer(ctx, { paymentId });
  if (facts.mode !== 'test') throw new Problem('test_key_required');
  await change(ctx, { merchantId, mode: 'test', paymentId, idempotency: null, render: NOTHING }, async (tx, record) => {
    const possible = nextScenarios(record, settle(record.facts, record.transfers, tipsOf(record), record.now));
    const coin = record.facts.quotes.at(-1)?.coin;
    if (!coin || !possible.includes(name)) throw new Problem('scenario_started');
    const quoted = record.facts.status === 'pending' ? await addQuote(ctx, tx, record, coin, { scenario: name }) : null;
    return startScenario(tx, quoted ?? record, name, coin);
  });
}

/** What was planned for a coin when the test payment was created. */
const plannedFor = ({ scenario }: PaymentRecord, coin: Coin): Scenario | typeof WAITING | null =>
  scenario?.coin !== coin ? null : scenario.name === WAITING ? WAITING : scenarioNamed(scenario.name);

function scenarioNamed(text: string): Scenario {
  const found = SCENARIOS.find((name) => name === text);
  if (!found) throw new Problem('parameter_invalid', { reason: `it must be one of ${SCENARIOS.join(', ')}` }, { param: 'scenario' });
  return found;
}

/**
 * The first scenario replaces waiting; later ones follow it, for the remaining amount. Returns the test payment with it, or `nothing` if it
 * was already waiting.
 */
async function startScenario(
  tx: Tx,
  record: PaymentRecord,
  scenario: Scenario | typeof WAITING,
  coin: Coin,
): Promise<PaymentRecord | 'nothing'> {
  const { facts, now } = record;
  const quote = facts.quotes.findLast((q) => q.coin === coin)!;
  const possible = scenariosOf(coin);
  if (scenario !== WAITING && !possible.includes(scenario))
    throw new Problem(
      'parameter_invalid',
      { reason: `with ${coinText(coin)} it must be one of ${possible.join(', ')}` },
      { param: 'scenario' },
    );
  if (record.plays.length === 0) {
    const started = await tx`
      insert into simulations (payment_id, merchant_id, coin, scenario, units, started_at)
      values (${facts.id}, ${record.merchantId}, ${coin}, ${scenario}, ${quote.units.toString()}, ${now})
      on conflict (payment_id) do update set coin = excluded.coin, scenario = excluded.scenario, units = excluded.units,
        started_at = excluded.started_at
      where simulations.scenario = ${WAITING}
        and (simulations.coin, simulations.scenario, simulations.units) is distinct from (excluded.coin, excluded.scenario, excluded.units)`;
    if (started.count === 0) return 'nothing';
    return scenario === WAITING ? record : { ...record, plays: [{ coin, scenario, units: quote.units, startedAt: now }] };
  }
  const { coin: shown, remainingUnits } = settle(facts, record.transfers, tipsOf(record), now);
  const units = shown === coin && remainingUnits > 0n ? remainingUnits : quote.units;
  const play = { coin, scenario, units, startedAt: now };
  await tx`update simulations set more = more || ${tx.json([playToJson(play)] as never)} where payment_id = ${facts.id}`;
  return { ...record, plays: [...record.plays, play] };
}

/**
 * The merchant cancels. Possible while pending, even with partial funds; with `onlyIfUnpaid` only if nothing has arrived. Errors:
 * payment_not_found, payment_status_conflict, payment_has_money, shop_mismatch.
 */
export async function cancelPayment(
  ctx: Context,
  input: DecisionParameters & { onlyIfUnpaid?: boolean | undefined; idempotency: IdempotencyClaim | null },
): Promise<ReplayableReply> {
  return change(ctx, { ...input, also: auditDecision(input, 'cancel') }, (tx, record) => {
    if (input.onlyIfUnpaid && record.transfers.length > 0) throw new Problem('payment_has_money', { id: record.facts.id });
    if (record.facts.status !== 'pending') {
      throw new Problem('payment_status_conflict', { status: record.facts.status, action: 'canceling' });
    }
    return decide(tx, record, 'cancel', []);
  });
}

/** The payer cancels, if the merchant allows it and nothing has arrived. Errors: payment_not_found, payment_status_conflict. */
export async function cancelByPayer(ctx: Context, { paymentId }: { paymentId: string }): Promise<void> {
  const { merchantId, facts, merchant } = await getPaymentForCustomer(ctx, { paymentId });
  if (!merchant.payerCancel) throw new Problem('payment_status_conflict', { status: facts.status, action: 'canceling by the payer' });
  await change(ctx, { merchantId, mode: facts.mode, paymentId, idempotency: null, render: NOTHING }, (tx, record) => {
    // If money is on its way, or was reversed, the merchant has to decide.
    if (record.facts.status !== 'pending' || record.transfers.length > 0)
      throw new Problem('payment_status_conflict', { status: record.facts.status, action: 'canceling by the payer' });
    return decide(tx, record, 'cancel', [], { byPayer: true });
  });
}

/** How long after its end a payment can be restarted: prices and stock change from day to day. */
const REPEATABLE_MS = DAY_MS;

/**
 * Whether a payment ended without any money, so that it can be requested again. Not for a fixed coin amount, which was valid only at
 * the time, and not after a decision of the merchant, which is final.
 */
export function mayRepeat({ facts, transfers, settlement, now, merchant, request }: CustomerView): boolean {
  // A shop counts only the payments that it requested.
  if (!merchant.payerCancel || facts.fixed !== null || transfers.length > 0 || request.shop) return false;
  if (facts.decisions.some(({ byPayer }) => byPayer !== true)) return false;
  const ended = facts.decisions.at(-1)?.at ?? settlement.expiresAt;
  const isOver = facts.status === 'expired' || facts.status === 'cancelled' || (facts.status === 'pending' && now >= settlement.expiresAt);
  return isOver && now.getTime() - ended.getTime() < REPEATABLE_MS;
}

/**
 * The payer restarts a payment that ended without money: creates a new, identical one, the same for everyone who restarts it. A payment
 * from a link is created through the link again. It counts as created with a public key, because the merchant did not request it.
 * Errors: payment_not_repeatable, link_not_found, plan_limit_exceeded.
 */
export async function repeatPayment(ctx: Context, { paymentId }: { paymentId: string }): Promise<string> {
  const view = await getPaymentForCustomer(ctx, { paymentId });
  if (!mayRepeat(view)) throw new Problem('payment_not_repeatable', { id: paymentId });
  // The shop was first.
  if (view.replacedBy !== null) return view.replacedBy;
  const { merchantId, facts, request, invoiceId, metadata, customer, scenario } = view;
  const idempotency = { claim: createHash('sha256').update(`repeat ${paymentId}`).digest(), fingerprint: Buffer.from(paymentId) };
  const linkId = metadata[LINK_METADATA];
  // The same price in its own currency, at the current rate.
  const asked = askedOf(request, facts.targetUsdCents);
  if (linkId !== undefined) return (await payLink(ctx, { linkId, chosen: asked, customer, replaces: paymentId, idempotency })).paymentId;
  const { amountUsdCents, fiat } = priceAt(ctx, { mode: facts.mode, ...asked, params: { amount: 'amount', currency: 'currency_fiat' } });
  const made = await createPayment(ctx, {
    merchantId,
    mode: facts.mode,
    createdWith: 'public',
    draft: {
      amountUsdCents,
      fixed: null,
      coin: null,
      request: { ...request, fiat, replaces: paymentId },
      invoiceId,
      metadata: { ...metadata },
      customer,
      expiresInSeconds: facts.rules.windowSeconds,
      scenario,
    },
    idempotency,
    render: ({ facts: { id } }) => ({ status: 201, body: Buffer.from(id) }),
  });
  return Buffer.from(made.body).toString();
}
const NOTHING: Render = () => ({ status: 200, body: Buffer.alloc(0) });

/**
 * The merchant's decision on held money: `accept` makes the listed transfers count, `reject` and `refund_sent` record what
 * was done and leave the status unchanged. Errors: payment_not_found, payment_status_conflict, nothing_received, worth_unknown, parameter_invalid,
 * money_refunded, refund_open, shop_mismatch.
 */
export async function resolvePayment(
  ctx: Context,
  input: DecisionParameters & {
    action: 'accept' | 'reject' | 'refund_sent';
    transfers: readonly string[] | null;
    /** The transaction of a refund, as stated by the merchant. */
    txid?: string | null;
    /** Throws if what was recorded cannot be true. */
    allows?: (tx: Tx) => Promise<void>;
    idempotency: IdempotencyClaim | null;
  },
): Promise<ReplayableReply> {
  const audit = auditDecision(input, input.action);
  const also: Also = async (tx, seen) => {
    await input.allows?.(tx);
    await audit(tx, seen);
  };
  return change(ctx, { ...input, also }, async (tx, record) => {
    const { status, exceptions } = record.facts;
    // Before the payment ends, only money in a wrong coin waits for the merchant. Refusing it would refuse all that is still to come.
    const isEarly = status === 'pending' && input.action === 'accept' && hasWrongCoin(exceptions);
    if (status !== 'expired' && status !== 'failed' && status !== 'cancelled' && !isEarly) {
      throw new Problem('payment_status_conflict', { status, action: `${input.action.replace('_', ' ')}` });
    }
    const tips = tipsOf(record);
    const held = record.transfers.filter((t) => !isDust(t) && !isGone(t, tips));
    if (held.length === 0) throw new Problem('nothing_received');
    // What went back to the payer cannot count, unless the merchant lists it.
    const roles = rolesOf(record.facts, record.transfers, tips);
    const left = input.action === 'accept' ? held.filter((t) => roles.get(t) !== 'refunded') : held;
    // What nobody can value is left out where something else can be accepted.
    const valued = input.action === 'accept' ? left.filter(({ coin }) => canBePriced(coin)) : left;
    const meant = valued.length > 0 ? valued : left;
    if (input.transfers === null && meant.length === 0) throw new Problem('nothing_received');
    const named = input.transfers ?? meant.map((t) => t.ref);
    const unknown = named.findIndex((ref) => !held.some((t) => t.ref === ref));
    if (unknown >= 0 || named.length === 0) {
      throw new Problem(
        'parameter_invalid',
        { reason: 'it must be the ref of a transfer of this payment' },
        { param: unknown >= 0 ? `transfers[${unknown}]` : 'transfers' },
      );
    }
    const worthless = input.action === 'accept' ? held.find((t) => named.includes(t.ref) && !canBePriced(t.coin)) : undefined;
    if (worthless) throw new Problem('worth_unknown', { coin: worthless.coin });
    if (input.action === 'accept') checkStillHere(record, new Set(named));
    if (input.action === 'refund_sent')
      await checkNotOnItsWay(
        tx,
        record,
        held.filter((t) => named.includes(t.ref)),
      );
    return decide(tx, record, input.action, named, { txid: input.txid ?? null });
  });
}

/**
 * Money that refunds return cannot count: what counts and what is accepted must be covered by what arrived without them. An approved
 * refund may have been sent. Errors: money_refunded.
 */
function checkStillHere(record: PaymentRecord, named: ReadonlySet<string>): void {
  const refunds = record.refunds.filter(({ state }) => state !== 'requested' && state !== 'failed');
  if (refunds.length === 0) return;
  const tips = tipsOf(record);
  const roles = rolesOf(record.facts, record.transfers, tips);
  const sum = (which: (t: Transfer) => boolean): bigint => record.transfers.reduce((total, t) => (which(t) ? total + t.units : total), 0n);
  for (const coin of new Set(refunds.map((sum) => sum.coin))) {
    const units = reservedUnits(refunds, coin);
    const isHere = (t: Transfer): boolean => t.coin === coin && !isGone(t, tips);
    const arrived = sum((t) => isHere(t) && (named.has(t.ref) || roles.get(t) !== 'refunded'));
    const counts = sum((t) => isHere(t) && (named.has(t.ref) || roles.get(t) === 'counted'));
    const accepts = record.transfers.some((t) => isHere(t) && named.has(t.ref));
    if (accepts && counts > arrived - units)
      throw new Problem('money_refunded', { refunded: `${formatUnits(coin, units)} ${coinText(coin)}` });
  }
}

/** Money that a refund is about to return was not sent back in another way: it would be returned twice. Errors: refund_open. */
async function checkNotOnItsWay(tx: Tx, record: PaymentRecord, transfers: readonly Transfer[]): Promise<void> {
  const [open] = await tx<{ id: string; state: string }[]>`
    select id, state from outgoing_payments
    where payment_id = ${record.facts.id} and coin = any(${transfers.map(({ coin }) => coin)}::text[])
      and (state in ('approved', 'signed', 'failed') or (state = 'sent' and file_id is not null))
    order by number limit 1`;
  if (open) throw new Problem('refund_open', open);
}

/** Records a decision. Returns the payment with it. */
async function decide(
  tx: Tx,
  record: PaymentRecord,
  kind: Decision['kind'],
  transfers: readonly string[],
  { txid = null, byPayer = false }: { txid?: string | null; byPayer?: boolean } = {},
): Promise<PaymentRecord> {
  await tx`
    insert into decisions (payment_id, number, merchant_id, kind, transfers, txid, by_payer, at)
    values (${record.facts.id}, ${record.facts.decisions.length + 1}, ${record.merchantId}, ${kind}, ${transfers as string[]}, ${txid}, ${byPayer}, ${record.now})`;
  const decision: Decision = { kind, at: record.now, transfers, byPayer };
  return { ...record, facts: { ...record.facts, decisions: [...record.facts.decisions, decision] } };
}

/** Marks every reason of the payment as handled; new ones return it to the queue. The row is locked. */
const markReviewed = (tx: Tx, { paymentId }: { paymentId: string }) => tx`
  update payments set reviewed = exceptions || ${[REFUND_REQUEST, ORDER_MISSING]}::text[]
  where id = ${paymentId} and reviewed is distinct from exceptions || ${[REFUND_REQUEST, ORDER_MISSING]}::text[]`;

/**
 * A member has reviewed the exceptions of an ended payment, and nothing is left to do: it leaves the queue until there is a new
 * exception. Errors: payment_not_found, payment_status_conflict.
 */
export async function reviewPayment(ctx: Context, input: DecisionParameters): Promise<ReplayableReply> {
  return change(ctx, { ...input, idempotency: null, also: auditDecision(input, 'reviewed') }, async (tx, record) => {
    const { status, id } = record.facts;
    if (!isFinal(status)) throw new Problem('payment_status_conflict', { status, action: 'marking as handled' });
    const reviewed = await markReviewed(tx, { paymentId: id });
    return reviewed.count === 0 ? 'nothing' : 'read again';
  });
}

/**
 * Archives a payment, which hides it from the lists, or unarchives it. Its records stay unchanged, and new activity unarchives it
 * automatically. Errors: payment_not_found, payment_status_conflict, payment_needs_attention.
 */
export async function archivePayment(ctx: Context, input: DecisionParameters & { archived: boolean }): Promise<ReplayableReply> {
  const also = auditDecision(input, input.archived ? 'archived' : 'unarchived');
  return change(ctx, { ...input, idempotency: null, also }, async (tx, record) => {
    const { status, id } = record.facts;
    if (!input.archived) {
      const taken = await tx`update payments set archived_at = null where id = ${id} and archived_at is not null`;
      return taken.count === 0 ? 'nothing' : record;
    }
    if (!isFinal(status)) throw new Problem('payment_status_conflict', { status, action: 'archiving' });
    const [row] = await tx<{ attention: boolean; archived: boolean }[]>`
      select attention, archived_at is not null as archived from payments where id = ${id}`;
    if (row!.attention) throw new Problem('payment_needs_attention', { id });
    if (row!.archived) return 'nothing';
    await tx`update payments set archived_at = clock_timestamp() where id = ${id}`;
    return record;
  });
}

/** Changes the order number that lists show and find. Errors: payment_not_found. */
export async function setInvoiceId(
  ctx: Context,
  input: Owner & { invoiceId: string | null; render: Render; also: Also },
): Promise<ReplayableReply> {
  return change(ctx, { ...input, idempotency: null }, async (tx, record) => {
    const { invoiceId } = input;
    if (record.invoiceId === invoiceId) return 'nothing';
    await tx`update payments set invoice_id = ${invoiceId} where id = ${record.facts.id}`;
    await queueTexts(tx, [record.facts.id]);
    return { ...record, invoiceId };
  });
}

/** Merges metadata; null or an empty string removes a key. The limits apply to the result. Errors: payment_not_found, metadata_invalid, shop_mismatch. */
export async function setMetadata(
  ctx: Context,
  input: Owner &
    NamedShop & {
      metadata: Readonly<Record<string, string | null>>;
      idempotency: IdempotencyClaim | null;
      render: Render;
      actor?: AnyActor;
    },
): Promise<ReplayableReply> {
  const { merchantId, mode, paymentId: object, actor } = input;
  const also = alsoOfMember(actor, (by) => (tx, { before, after }) => {
    const change = { before: { metadata: before.metadata }, after: { metadata: after.metadata } };
    return writeAudit(tx, { merchantId, mode, actor: by, action: 'payment.metadata', object, ...change });
  });
  return change(ctx, { ...input, ...also }, async (tx, record) => {
    const merged = new Map(Object.entries(record.metadata));
    for (const [key, value] of Object.entries(input.metadata)) {
      if (value === null || value === '') merged.delete(key);
      else merged.set(key, value);
    }
    const metadata = Object.fromEntries(merged);
    const reason = metadataFault(metadata);
    if (reason) throw new Problem('metadata_invalid', { reason }, { param: 'metadata' });
    if (isDeepStrictEqual(metadata, record.metadata)) return 'nothing';
    await dropMetadataPairs(tx, [record.facts.id]);
    await tx`update payments set metadata = ${tx.json(metadata)} where id = ${record.facts.id}`;
    await tx`${metadataPairs(tx, tx`(select * from payments where id = ${record.facts.id})`)}`;
    await queueTexts(tx, [record.facts.id]);
    // A shop that says it again asks again, whatever was handled before.
    const reviewed = record.marks.reviewed.filter((name) => name !== ORDER_MISSING || metadata[name] === record.metadata[name]);
    return { ...record, metadata, marks: { ...record.marks, reviewed } };
  });
}

/** Why the metadata as a whole cannot be stored; null when it can: at most 50 pairs and 8 kB of UTF-8 in total. */
export function metadataFault(metadata: Readonly<Record<string, string>>): string | null {
  const pairs = Object.entries(metadata);
  if (pairs.length > 50) return 'at most 50 pairs are kept';
  const bytes = pairs.reduce((sum, [key, value]) => sum + Buffer.byteLength(key) + Buffer.byteLength(value), 0);
  return bytes > 8_192 ? 'keys and values together are larger than 8 kB' : null;
}

/**
 * The spelling in which an address to pay is stored, on-chain for what arrived over Lightning. Live: of the coin's network. Test: of any of its
 * networks, or a test address such as `test_btc_payer`. Errors: address_invalid.
 */
export function checkRefundAddress(ctx: Context, { mode, coin: arrived, address }: { mode: Mode; coin: Coin; address: string }): string {
  const coin = onChainCoin(arrived);
  if (mode === 'live') return decodeAddress(address, { coin, network: ctx.settings.networks[COIN[coin].chain] }).address;
  const prefix = testIdentifier(arrived, '');
  if (address.startsWith(prefix) && /^[a-z]{1,40}$/.test(address.slice(prefix.length))) return address;
  for (const network of NETWORKS) {
    try {
      return decodeAddress(address, { coin, network }).address;
    } catch {
      // Not an address of this network.
    }
  }
  throw new Problem(
    'address_invalid',
    { coin: COIN[coin].asset, reason: `use an address that can receive ${coinText(coin)}, or a test address such as ${prefix}payer` },
    { param: 'address' },
  );
}

/**
 * A payer sets a refund address: stored once, never changed, unverified. Nobody leaves one on a payment that is completed and owes nothing.
 * Errors: payment_not_found, payment_status_conflict, address_invalid, parameter_invalid.
 */
export async function leaveRefundAddress(
  ctx: Context,
  { paymentId, coin, address, email }: { paymentId: string; coin: Coin; address: string; email: string | null },
): Promise<void> {
  const [row] = await ctx.db.sql<{ merchantId: string; mode: Mode }[]>`
    select merchant_id as "merchantId", mode from payments where id = ${paymentId}`;
  if (!row) throw new Problem('payment_not_found', { id: paymentId });
  if (email !== null) checkPayerEmail(email);
  // The payer cannot correct it later.
  const stored = checkRefundAddress(ctx, { mode: row.mode, coin, address });
  await ctx.db.begin((tx) =>
    decideOne(ctx, tx, paymentId, async (record) => {
      const [owing] = await tx`select 1 from payments p where p.id = ${paymentId} and ${mayOwe(tx)}`;
      if (!owing) throw new Problem('payment_status_conflict', { status: record.facts.status, action: 'leaving a refund address' });
      const left = await tx`
        insert into refund_addresses (payment_id, merchant_id, coin, address, email)
        values (${paymentId}, ${row.merchantId}, ${coin}, ${stored}, ${email}) on conflict (payment_id) do nothing`;
      if (left.count === 0) return 'nothing';
      // What the merchant handled before is not this request.
      await tx`
        update payments set refund_requested_at = clock_timestamp(), reviewed = array_remove(reviewed, ${REFUND_REQUEST}) where id = ${paymentId}`;
      await queueTexts(tx, [paymentId]);
      await eraseAgain(tx, paymentId);
      await mailReceipts(ctx, tx, [paymentId]);
      return 'read again';
    }),
  );
}

/**
 * Moves the test clock of a merchant, or of one test payment, forward; windows, locks, confirmations and webhook retries follow.
 * At most 90 days per call. Errors: parameter_invalid, payment_not_found.
 */
export async function advanceClock(
  ctx: Context,
  {
    merchantId,
    paymentId,
    seconds,
    idempotency,
    render,
  }: {
    merchantId: string;
    paymentId: string | null;
    seconds: number;
    idempotency: IdempotencyClaim | null;
    render(result: { now: Date; offsetSeconds: bigint }): RenderedReply;
  },
): Promise<ReplayableReply> {
  if (!Number.isInteger(seconds) || seconds < 1 || seconds > 90 * 86_400) {
    throw new Problem('parameter_invalid', { reason: 'it must be a whole number from 1 to 7776000' }, { param: 'seconds' });
  }
  return runOnce(ctx.db, idempotency, async (tx) => {
    const moved = tx`merchant_id = ${merchantId} and mode = 'test' ${paymentId ? tx`and id = ${paymentId}` : tx``}`;
    // Locks payment rows before the clock row, as everywhere; only those with scheduled changes.
    const rows = await tx<{ id: string }[]>`
      select id from payments where ${moved} and (due_at is not null or ${paymentId !== null}) order by id for update`;
    if (paymentId && rows.length === 0) throw new Problem('payment_not_found', { id: paymentId }, { param: 'payment_id' });
    const [clock] = await tx<{ offsetSeconds: bigint }[]>`
      select offset_seconds as "offsetSeconds" from test_clocks where merchant_id = ${merchantId} for update`;
    const offsetSeconds = clock!.offsetSeconds + (paymentId ? 0n : BigInt(seconds));
    await tx`insert into clock_advances (merchant_id, payment_id, seconds) values (${merchantId}, ${paymentId}, ${seconds})`;
    if (!paymentId) await tx`update test_clocks set offset_seconds = ${offsetSeconds.toString()} where merchant_id = ${merchantId}`;
    await tx`
      update payments set due_at = due_at - make_interval(secs => ${seconds}::double precision) where ${moved} and due_at is not null`;
    await advanceDeliveries(tx, { merchantId, paymentId, seconds });
    // A small amount of due work is settled here, the rest by the next sweep.
    if (rows.length > 0 && rows.length <= 100)
      await lockAndSettle(
        ctx,
        tx,
        rows.map((row) => row.id),
      );
    const [instant] = await tx<{ now: Date }[]>`select clock_timestamp() as now`;
    return render({ now: addMs(instant!.now, Number(offsetSeconds) * 1000), offsetSeconds });
  });
}

/** Locks, checks and changes one payment of a merchant, at most once per Idempotency-Key, and renders the result. */
async function change(
  ctx: Context,
  {
    merchantId,
    mode,
    paymentId,
    shop,
    idempotency,
    render,
    also,
  }: Owner & NamedShop & { idempotency: IdempotencyClaim | null; render: Render; also?: Also },
  write: (tx: Tx, record: PaymentRecord) => Promise<DecisionResult>,
): Promise<ReplayableReply> {
  return runOnce(ctx.db, idempotency, async (tx) => {
    const { before, after } = await decideOne(ctx, tx, paymentId, (record) => {
      if (record.merchantId !== merchantId || record.mode !== mode) throw new Problem('payment_not_found', { id: paymentId });
      checkShop(record, shop);
      return write(tx, record);
    });
    await also?.(tx, { before: before.view, after: after.view });
    return render(after.view);
  });
}

async function decideOne(ctx: Context, tx: Tx, paymentId: string, write: (record: PaymentRecord) => Promise<DecisionResult>) {
  const decided = await lockAndDecide(ctx, tx, paymentId, write);
  if (!decided) throw new Problem('payment_not_found', { id: paymentId });
  return decided;
}
