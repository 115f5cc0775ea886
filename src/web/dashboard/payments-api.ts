/** Payments: the list with its filters and its search, the detail with its timeline, and decisions; customers. */

import Type, { type Static } from 'typebox';
import { boundsOf } from '#books';
import type { Context } from '#context';
import { ALL_COINS, COIN, COINS, isAsset, isCoin, isToken, LIGHTNING, TOKEN_ASSETS } from '#core/coin';
import { readDay } from '#core/dates';
import { e8ToCents, formatDecimal, formatUnits, formatUsd, readAmountText } from '#core/money';
import { explorerUrl } from '#core/networks';
import { EXCEPTIONS, PAYMENT_STATUSES, TRANSFER_ROLES, TRANSFER_STATES, UNCOUNTED_STATES, type Uncounted } from '#core/payment';
import { paymentDetail, paymentUrl, receivedDetail } from '#core/payment-detail';
import type { PaymentView, ReplayableReply } from '#core/payment-view';
import { Problem } from '#core/problem';
import { type Action, mayDo } from '#core/roles';
import { hostOfUrl } from '#core/text';
import { listCustomers, readCustomer } from '#customers';
import { type DeliveryOutcome, listOutcomes } from '#deliveries';
import {
  CustomerItem,
  customerBody,
  DetailSchema,
  draftOf,
  ItemSchema,
  literals,
  readFiatCode,
  readMetadata,
  readMinor,
  readPrice,
  readReturnUrl,
  WarningSchema,
} from '#http';
import { askInvoice } from '#lightning';
import { getMerchant } from '#merchants';
import { lookForReturn } from '#outgoing';
import { archivePayment, createPayment, resolvePayment, reviewPayment } from '#payments';
import { writeAudit } from '#people';
import {
  countByStatus,
  type Filter,
  type FoundItem,
  findPayments,
  getPaymentOnChain,
  listMoments,
  readAttention,
  type SearchMoment,
} from '#queries';
import { priceAt, warningsFor } from '#readiness';
import { svgOf } from '../checkout/parts.ts';
import {
  ActorKindField,
  AnyCoinField,
  CoinName,
  CustomerField,
  ExceptionName,
  Instant,
  lookedBackBody,
  lookedPageOf,
  ModeName,
  Nullable,
  PlainText,
  pageIn,
  paging,
  StatusName,
} from './fields.ts';
import { countsRoute, type DashboardRoute, forMembers, type MemberCall, memberRoute, needRecent, ownerOfCall } from './route.ts';
import { shopFilterOf } from './shop-page-api.ts';

const CoinAmount = Type.Object({ currency: AnyCoinField, amount: PlainText, amount_usd: Nullable(PlainText) });
/** What every list shows of a payment. */
export const LISTED = {
  id: PlainText,
  mode: ModeName,
  status: StatusName,
  amount_usd: PlainText,
  /** The price as it was agreed, where that is not in US dollars. */
  amount_fiat: Nullable(PlainText),
  currency_fiat: Nullable(PlainText),
  invoice_id: Nullable(PlainText),
  description: Nullable(PlainText),
  created_at: Instant,
  refund_requested_at: Nullable(Instant),
  /** Most serious first. */
  exceptions: Type.Array(ExceptionName),
  currency: Nullable(AnyCoinField),
  /** All that the chain credits to the payment: in `currency`, and its worth in all coins. */
  amount_received: Nullable(PlainText),
  amount_received_usd: Nullable(PlainText),
  /** The part of it that does not count. */
  uncounted: Type.Array(Type.Object({ ...CoinAmount.properties, state: literals(UNCOUNTED_STATES) })),
};
export const listedPayment = (
  item: Pick<
    FoundItem,
    | 'id'
    | 'mode'
    | 'status'
    | 'amountUsdCents'
    | 'amountFiat'
    | 'currencyFiat'
    | 'invoiceId'
    | 'description'
    | 'createdAt'
    | 'refundRequestedAt'
    | 'exceptions'
    | 'coin'
    | 'receivedUnits'
    | 'receivedUsdCents'
    | 'uncounted'
  >,
) => ({
  id: item.id,
  mode: item.mode,
  status: item.status,
  amount_usd: formatUsd(item.amountUsdCents),
  amount_fiat: item.amountFiat,
  currency_fiat: item.currencyFiat,
  invoice_id: item.invoiceId,
  description: item.description,
  created_at: item.createdAt.toISOString(),
  refund_requested_at: item.refundRequestedAt?.toISOString() ?? null,
  exceptions: item.exceptions,
  currency: item.coin,
  ...receivedOf(item),
  uncounted: uncountedOf(item.uncounted),
});
/** Null where the row does not show it. */
function receivedOf({
  coin,
  receivedUnits: units,
  receivedUsdCents,
  uncounted,
}: Pick<FoundItem, 'coin' | 'receivedUnits' | 'receivedUsdCents' | 'uncounted'>) {
  const received = receivedDetail(coin, { units, usdCents: receivedUsdCents ?? 0n, uncounted });
  return {
    amount_received: coin && received.amount_received,
    amount_received_usd: receivedUsdCents === null ? null : received.amount_received_usd,
  };
}
const coinAmount = ({ coin, units, usdE8 }: Pick<Uncounted, 'coin' | 'units' | 'usdE8'>) => ({
  currency: coin,
  amount: formatUnits(coin, units),
  amount_usd: usdE8 === null ? null : formatUsd(e8ToCents(usdE8)),
});
const uncountedOf = (uncounted: readonly Uncounted[]) => uncounted.map((one) => ({ ...coinAmount(one), state: one.state }));
export const FoundPayment = Type.Object({
  ...LISTED,
  payment_url: PlainText,
  customer: Nullable(CustomerField),
  completed_at: Nullable(Instant),
  archived_at: Nullable(Instant),
  /** Where the matching text is: `id`, `invoice_id`, `metadata.order`, `email`, `transaction_id` and so on. */
  match: Nullable(Type.Object({ field: PlainText, text: PlainText })),
});
export const foundPayment = ({ ctx }: Pick<MemberCall, 'ctx'>, item: FoundItem): Static<typeof FoundPayment> => ({
  ...listedPayment(item),
  payment_url: paymentUrl(ctx.settings.paymentPageUrl, item.id),
  customer: item.customer,
  completed_at: item.completedAt?.toISOString() ?? null,
  archived_at: item.archivedAt?.toISOString() ?? null,
  match: item.match,
});
const TimelineEntry = Type.Object({
  at: Instant,
  kind: literals(['created', 'opened', 'coin_chosen', 'transfer_seen', 'transfer_confirmed', 'decision', 'event', 'delivery'] as const),
  what: Nullable(PlainText),
  currency: Nullable(AnyCoinField),
  amount: Nullable(PlainText),
  ref: Nullable(PlainText),
  actor: Nullable(PlainText),
  actor_kind: ActorKindField,
  /** The block that confirmed a transfer. */
  block_height: Nullable(Type.Integer()),
  /** US dollars per coin, and the price sources that agreed on it. */
  rate: Nullable(PlainText),
  rate_sources: Type.Array(PlainText),
  /** The API key that created the payment or decided, for members who may read keys. */
  key: Nullable(Type.Object({ id: PlainText, name: PlainText, hint: PlainText })),
  /** The result of sending the event named by `what` to an endpoint. */
  delivery: Nullable(
    Type.Object({
      id: PlainText,
      /** Null when it was deleted. */
      endpoint_id: Nullable(PlainText),
      host: PlainText,
      state: literals(['delivered', 'failed', 'failing'] as const),
      attempt_count: Type.Integer(),
      failure: Nullable(PlainText),
    }),
  ),
});
const Day = Type.Optional(Type.String({ format: 'date', maxLength: 10 }));
const Usd = Type.Optional(Type.String({ pattern: '^[0-9]{1,9}([.][0-9]{1,2})?$' }));
const decided = { success: Type.Boolean(), payment: DetailSchema };

type Entry = Static<typeof TimelineEntry>;
const entry = ({ at, kind, what, coin, units, ref, actor, actorKind, blockHeight, rateE8, sources, key }: SearchMoment): Entry =>
  ({
    at: at.toISOString(),
    kind,
    what,
    currency: coin,
    amount: coin && units !== null ? formatUnits(coin, units) : null,
    ref,
    actor,
    actor_kind: actorKind,
    block_height: blockHeight === null ? null : Number(blockHeight),
    rate: rateE8 === null ? null : formatDecimal(rateE8, 8, 2),
    rate_sources: sources,
    key,
    delivery: null,
  }) as Entry;
const deliveryEntry = ({ at, eventType, id, endpointId, url, state, attemptCount, failure }: DeliveryOutcome): Entry =>
  ({
    ...entry({ ...NOTHING, at, kind: 'event', what: eventType }),
    kind: 'delivery',
    delivery: { id, endpoint_id: endpointId, host: hostOfUrl(url) ?? url, state, attempt_count: attemptCount, failure },
  }) as Entry;
const NOTHING = {
  coin: null,
  units: null,
  ref: null,
  actor: null,
  actorKind: null,
  blockHeight: null,
  rateE8: null,
  sources: [],
  key: null,
};

export const FILTERS = {
  status: Type.Optional(StatusName),
  /** A coin, or an asset on all its networks. */
  currency: Type.Optional(literals([...ALL_COINS, ...TOKEN_ASSETS])),
  exception: Type.Optional(literals([...EXCEPTIONS, 'any'] as const)),
  at_least: Usd,
  at_most: Usd,
  from: Day,
  until: Day,
  refund: Type.Optional(Type.Literal('requested')),
  archived: Type.Optional(literals(['only', 'with'] as const)),
  search: Type.Optional(Type.String({ minLength: 1, maxLength: 1000 })),
  /** The payments of one connected shop. */
  shop: Type.Optional(Type.String({ pattern: '^(shp|we)_[0-9A-Za-z]{1,40}$' })),
  /** The payments of one customer. */
  customer: Type.Optional(Type.String({ pattern: '^cus_[0-9A-Za-z]{1,40}$' })),
};
const Filters = Type.Object(FILTERS);
async function daysIn(
  ctx: Context,
  { merchantId, from, until }: { merchantId: string; from: string | undefined; until: string | undefined },
) {
  if (from === undefined && until === undefined) return { start: null, end: null };
  const { settings } = await getMerchant(ctx, { merchantId });
  const days = { from: from === undefined ? null : readDay(from, 'from'), until: until === undefined ? null : readDay(until, 'until') };
  return boundsOf(ctx, { ...days, timeZone: settings.timeZone });
}
const cents = (text: string | undefined): bigint | null => (text === undefined ? null : readAmountText(text.replace(/^0+(?=\d)/, ''), 2));

/** `from` and `until` are days in the time zone of the merchant, both included. */
export async function filterOf(call: MemberCall & { query: Static<typeof Filters> }): Promise<Filter> {
  const { ctx, query, member } = call;
  const { start, end } = await daysIn(ctx, { merchantId: member.merchantId, from: query.from, until: query.until });
  const search = query.search?.trim() || null;
  return {
    status: PAYMENT_STATUSES.find((status) => status === query.status) ?? null,
    coins:
      query.currency === undefined
        ? null
        : ALL_COINS.filter((coin) => coin === query.currency || (isToken(coin) && COIN[coin].asset === query.currency)),
    exception: [...EXCEPTIONS, 'any' as const].find((name) => name === query.exception) ?? null,
    atLeast: cents(query.at_least),
    atMost: cents(query.at_most),
    from: start,
    until: end,
    refundRequested: query.refund === 'requested',
    shop: query.shop === undefined ? null : await shopFilterOf(call, query.shop),
    customerId: query.customer ?? null,
    // A search finds archived payments too, and a customer has them.
    archived:
      query.archived === 'only'
        ? 'only'
        : query.archived === 'with' || search !== null || query.customer !== undefined
          ? 'with'
          : 'without',
    search,
  };
}

/** What is decided about a payment, by whom, and the reply. */
const deciding = (call: MemberCall, paymentId: string) => ({
  ...ownerOfCall(call),
  paymentId,
  actor: call.actor,
  idempotency: null,
  render: (view: PaymentView) => ({
    status: 200,
    body: Buffer.from(JSON.stringify({ success: true, payment: paymentDetail(view, call.ctx.settings.paymentPageUrl) })),
  }),
});

/**
 * A member's decision on one payment. Deciding whether money counts requires recent authentication; removing a payment from the
 * list does not. Errors: recent_authentication_required, those of `resolvePayment`.
 */
export async function resolveOne(
  call: MemberCall,
  id: string,
  { action, txid }: { action: 'accept' | 'reject' | 'refund_sent' | 'reviewed'; txid?: string },
): Promise<ReplayableReply> {
  if (action === 'reviewed') return reviewPayment(call.ctx, deciding(call, id));
  needRecent(call);
  const of = { ...ownerOfCall(call), paymentId: id };
  const allows = action === 'refund_sent' && txid !== undefined ? await lookForReturn(call.ctx, { ...of, txid }) : undefined;
  return resolvePayment(call.ctx, { ...deciding(call, id), action, transfers: null, txid: txid ?? null, ...(allows && { allows }) });
}

export const DASHBOARD_PAYMENTS: readonly DashboardRoute[] = [
  memberRoute({
    method: 'GET',
    path: '/payments',
    action: 'payments.read',
    query: Type.Object({
      ...paging,
      ...FILTERS,
    }),
    reply: lookedPageOf(FoundPayment),
    handle: async (call) => {
      const { query } = call;
      const page = await findPayments(call.ctx, {
        ...ownerOfCall(call),
        ...pageIn(query),
        filter: await filterOf(call),
      });
      return {
        success: true,
        data: page.items.map((item) => foundPayment(call, item)),
        has_more: page.hasMore,
        looked_back_to: lookedBackBody(page.lookedBackTo),
      };
    },
  }),
  countsRoute({ path: '/payments/counts', action: 'payments.read', states: PAYMENT_STATUSES, count: countByStatus }),
  memberRoute({
    method: 'GET',
    path: '/payments/:id',
    action: 'payments.read',
    reply: Type.Object({
      success: Type.Boolean(),
      payment: DetailSchema,
      timeline: Type.Array(TimelineEntry),
      attention: Type.Boolean(),
      archived_at: Nullable(Instant),
      /** How much less than the amount due still counts as paid. */
      tolerance: Type.Object({ percent: PlainText, cap_usd: PlainText }),
      refund_request: Nullable(Type.Object({ currency: CoinName, address: PlainText, email: Nullable(PlainText), requested_at: Instant })),
      explorers: Type.Record(Type.String(), Type.String(), { description: 'Of on-chain transactions, by their id.' }),
      uncounted: LISTED.uncounted,
      /** Everything a decision concerns: what counts and what does not, by coin. */
      arrived: Type.Array(CoinAmount),
      /** The state of each transfer of the payment, in their order, and its role in the payment. */
      standings: Type.Array(
        Type.Object({
          state: literals(TRANSFER_STATES),
          role: literals(TRANSFER_ROLES),
          confirmations: Type.Integer(),
          confirmations_required: Nullable(Type.Integer()),
        }),
      ),
    }),
    handle: async (call) => {
      const of = { ...ownerOfCall(call), paymentId: call.params.id };
      const may = (action: Action) => mayDo(call.member.role, action);
      const [{ view, standings, arrived }, moments, outcomes, more] = await Promise.all([
        getPaymentOnChain(call.ctx, of),
        listMoments(call.ctx, of),
        may('webhooks.read') ? listOutcomes(call.ctx, of) : [],
        readAttention(call.ctx, of),
      ]);
      const timeline = [...moments.map((m) => entry(may('keys.read') ? m : { ...m, key: null })), ...outcomes.map(deliveryEntry)];
      const explorers = view.transfers.flatMap(({ coin, txid, conflict }) =>
        [txid, conflict?.txid ?? null].flatMap((id) => {
          const url = call.mode === 'live' ? explorerUrl(coin, call.ctx.settings.networks[COIN[coin].chain], id) : null;
          return url && id ? [[id, url]] : [];
        }),
      );
      return {
        success: true,
        payment: paymentDetail(view, call.ctx.settings.paymentPageUrl),
        timeline: timeline.toSorted((a, b) => Date.parse(a.at) - Date.parse(b.at)),
        attention: more.attention,
        archived_at: more.archivedAt?.toISOString() ?? null,
        tolerance: {
          percent: formatDecimal(BigInt(view.facts.rules.toleranceBasisPoints), 2, 0),
          cap_usd: formatUsd(view.facts.rules.toleranceCapUsdCents),
        },
        refund_request: more.refundRequest && {
          currency: more.refundRequest.coin,
          address: more.refundRequest.address,
          email: more.refundRequest.email,
          requested_at: more.refundRequest.at.toISOString(),
        },
        explorers: Object.fromEntries(explorers),
        uncounted: uncountedOf(view.settlement.uncounted),
        arrived: arrived.map(coinAmount),
        standings: standings.map(({ state, role, confirmations, confirmationsRequired }) => ({
          state,
          role,
          confirmations,
          confirmations_required: confirmationsRequired,
        })),
      };
    },
  }),
  forMembers('cancel', { path: '/payments/:id/cancel', action: 'payments.cancel', as: 'payment' }),
  memberRoute({
    method: 'POST',
    path: '/payments/:id/archive',
    action: 'payments.archive',
    body: Type.Object({ archived: Type.Boolean() }),
    reply: Type.Object(decided),
    handle: (call) => archivePayment(call.ctx, { ...deciding(call, call.params.id), archived: call.body.archived }),
  }),
  memberRoute({
    method: 'POST',
    path: '/payments/:id/resolve',
    action: 'payments.resolve',
    body: Type.Object({
      action: literals(['accept', 'reject', 'refund_sent', 'reviewed'] as const),
      txid: Type.Optional(Type.String({ pattern: '^[\\x21-\\x7e]{1,200}$' })),
    }),
    reply: Type.Object(decided),
    handle: (call) => resolveOne(call, call.params.id, call.body),
  }),
];

// What members do with payments other than resolving them: create one, start a test scenario, change metadata.

const Amount = Type.String({ maxLength: 20 });

export const PAYMENT_ACTS: readonly DashboardRoute[] = [
  memberRoute({
    method: 'POST',
    path: '/payments',
    action: 'payments.create',
    body: Type.Object({
      amount_usd: Type.Optional(Amount),
      /** In `currency_fiat`, like items and tax. */
      amount: Type.Optional(Amount),
      currency_fiat: Type.Optional(Type.String({ minLength: 3, maxLength: 3 })),
      items: Type.Optional(Type.Array(Type.Object({ ...ItemSchema.properties, unit_price: Amount }), { minItems: 1, maxItems: 100 })),
      tax: Type.Optional(Amount),
      /** A token without its network: the customer chooses it. */
      currency: Type.Optional(literals([...COINS, LIGHTNING, ...TOKEN_ASSETS])),
      expires_in: Type.Optional(Type.Integer({ minimum: 600, maximum: 86_400 })),
      description: Type.Optional(Type.String({ maxLength: 1000 })),
      invoice_id: Type.Optional(Type.String({ minLength: 1, maxLength: 100 })),
      return_url: Type.Optional(Type.String({ minLength: 1, maxLength: 2048 })),
      metadata: Type.Optional(Type.Record(Type.String(), Type.String({ maxLength: 500 }))),
      customer: Type.Optional(
        Type.Object({ email: Type.Optional(Type.String({ maxLength: 200 })), name: Type.Optional(Type.String({ maxLength: 100 })) }),
      ),
    }),
    reply: Type.Object({
      success: Type.Boolean(),
      id: PlainText,
      payment_url: PlainText,
      amount_usd: PlainText,
      amount: PlainText,
      currency_fiat: PlainText,
      qr: PlainText,
      warnings: Type.Array(WarningSchema),
    }),
    handle: async (call) => {
      const { body: given, parsed, ctx } = call;
      const currency = readFiatCode(given.currency_fiat ?? 'USD');
      const items = given.items?.map((item, i) => ({
        productId: item.product_id,
        name: item.name,
        quantity: BigInt(item.quantity),
        unitPriceMinor: readMinor(parsed, `items[${i}].unit_price`, item.unit_price, currency, { zero: true }),
      }));
      const taxMinor = items ? readMinor(parsed, 'tax', given.tax ?? '0', currency, { zero: true }) : null;
      const minor = items?.reduce((sum, item) => sum + item.quantity * item.unitPriceMinor, taxMinor!);
      if (minor === 0n) throw new Problem('amount_invalid', {}, { param: 'items' });
      const price =
        minor === undefined
          ? readPrice(ctx, { mode: call.mode, body: parsed, given })
          : priceAt(ctx, { mode: call.mode, currency, minor, params: { amount: 'items', currency: 'currency_fiat' } });
      const coin = given.currency === LIGHTNING || isCoin(given.currency) ? given.currency : null;
      const asset = coin === null && isAsset(given.currency) ? given.currency : undefined;
      const read = {
        ...{ common: given as never, replaces: null, scenario: null },
        metadata: readMetadata(given.metadata, 'secret'),
        customer: readCustomer(given.customer),
      };
      const draft = draftOf(read, {
        ...price,
        returnUrl: given.return_url === undefined ? null : readReturnUrl(given.return_url, call.mode),
        ...(items && { items, taxMinor: taxMinor! }),
        ...(asset !== undefined && { asset }),
      });
      const warnings = given.currency ? [] : await warningsFor(ctx, { ...ownerOfCall(call), amountUsdCents: price.amountUsdCents });
      return createPayment(ctx, {
        ...ownerOfCall(call),
        createdWith: 'secret',
        draft: { ...draft, coin },
        ...{ idempotency: null, askInvoice: askInvoice(ctx) },
        render: (view) => {
          const url = paymentUrl(ctx.settings.paymentPageUrl, view.facts.id);
          const { amount_usd, amount_fiat = amount_usd, currency_fiat = 'USD' } = paymentDetail(view, ctx.settings.paymentPageUrl);
          const svg = svgOf(url, 'QR code of the payment link');
          const qr = `data:image/svg+xml;base64,${Buffer.from(svg).toString('base64')}`;
          const body = { success: true, id: view.facts.id, payment_url: url, amount_usd, amount: amount_fiat, currency_fiat, qr, warnings };
          return { status: 201, body: Buffer.from(JSON.stringify(body)) };
        },
        also: (tx, view: PaymentView) =>
          writeAudit(tx, {
            ...ownerOfCall(call),
            actor: call.actor,
            action: 'payment.create',
            object: view.facts.id,
            after: { amount_usd: paymentDetail(view, '').amount_usd as string, invoice_id: view.invoiceId },
          }),
      });
    },
  }),
  forMembers('simulate', { path: '/payments/:id/simulate', action: 'payments.simulate', as: 'payment' }),
  forMembers('updatePayment', { path: '/payments/:id/metadata', action: 'payments.edit', as: 'payment' }),
];

/** The list of customers with its search, and one of them. Their payments and refunds are filters of those lists. */
export const CUSTOMERS: readonly DashboardRoute[] = [
  memberRoute({
    method: 'GET',
    path: '/customers',
    action: 'payments.read',
    query: Type.Object({ ...paging, search: Type.Optional(Type.String({ minLength: 1, maxLength: 200 })) }),
    reply: lookedPageOf(CustomerItem),
    handle: async (call) => {
      const page = await listCustomers(call.ctx, {
        ...ownerOfCall(call),
        ...pageIn(call.query),
        search: call.query.search?.trim() || null,
      });
      return {
        success: true,
        data: page.items.map(customerBody),
        has_more: page.hasMore,
        looked_back_to: lookedBackBody(page.lookedBackTo),
      };
    },
  }),
  forMembers('readCustomer', { path: '/customers/:id', action: 'payments.read', as: 'customer' }),
];
