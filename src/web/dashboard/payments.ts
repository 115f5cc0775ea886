/** Payments: the list with its filters and one search, the detail with its timeline, and decisions. */
import Type, { type Static } from 'typebox';
import { isCoin } from '../../core/coin.ts';
import { formatUnits, formatUsd } from '../../core/money.ts';
import { PAYMENT_STATUSES } from '../../core/payment.ts';
import { Detail } from '../../http/schema.ts';
import { writeAudit } from '../../merchants/members.ts';
import { paymentDetail } from '../../payments/detail.ts';
import { cancelPayment, resolvePayment } from '../../payments/payments.ts';
import { getPayment } from '../../payments/queries.ts';
import { findPayments, listMoments, type Moment } from '../../payments/search.ts';
import type { PaymentView } from '../../payments/view.ts';
import {
  type Call,
  Coin,
  Empty,
  Exception,
  literals,
  ModeName,
  memberRoute,
  Nullable,
  ownerOf,
  pageOf,
  paging,
  type Route,
  Status,
  Text,
  Timestamp,
} from './route.ts';

const Item = Type.Object({
  id: Text,
  mode: ModeName,
  status: Status,
  exception: Nullable(Exception),
  amount_usd: Text,
  amount_received: Nullable(Text),
  currency: Nullable(Coin),
  invoice_id: Nullable(Text),
  description: Nullable(Text),
  created_at: Timestamp,
  completed_at: Nullable(Timestamp),
});
const TimelineEntry = Type.Object({
  at: Timestamp,
  kind: literals(['created', 'coin_chosen', 'transfer_seen', 'transfer_confirmed', 'decision', 'event'] as const),
  what: Nullable(Text),
  currency: Nullable(Coin),
  amount: Nullable(Text),
  ref: Nullable(Text),
  actor: Nullable(Text),
});
const Day = Type.Optional(Type.String({ format: 'date-time', maxLength: 40 }));
const decided = { success: Type.Boolean(), payment: Detail };

const entry = ({ at, kind, what, coin, units, ref, actor }: Moment): Static<typeof TimelineEntry> =>
  ({
    at: at.toISOString(),
    kind,
    what,
    currency: coin,
    amount: coin && units !== null ? formatUnits(coin, units) : null,
    ref,
    actor,
  }) as Static<typeof TimelineEntry>;

/** The decision as replied, and as it is written into the audit log in its own transaction. */
const deciding = (call: Call, decision: string) => ({
  ...ownerOf(call),
  paymentId: call.params.id!,
  idempotency: null,
  render: (view: PaymentView) => ({
    status: 200,
    body: Buffer.from(JSON.stringify({ success: true, payment: paymentDetail(view, call.ctx.settings.paymentPageUrl) })),
  }),
  also: (tx: Parameters<typeof writeAudit>[0], { before, after }: { before: PaymentView; after: PaymentView }) =>
    writeAudit(tx, {
      ...ownerOf(call),
      actor: call.actor,
      action: `payment.${decision}`,
      object: call.params.id!,
      before: { status: before.settlement.status },
      after: { status: after.settlement.status, decision },
    }),
});

export const PAYMENTS: readonly Route[] = [
  memberRoute({
    method: 'GET',
    path: '/payments',
    action: 'payments.read',
    query: Type.Object({
      ...paging,
      status: Type.Optional(Status),
      currency: Type.Optional(Coin),
      from: Day,
      until: Day,
      search: Type.Optional(Type.String({ minLength: 1, maxLength: 1000 })),
    }),
    reply: pageOf(Item),
    handle: async (call) => {
      const { query } = call;
      const page = await findPayments(call.ctx, {
        ...ownerOf(call),
        limit: Number(query.limit ?? 25),
        startingAfter: query.starting_after ?? null,
        filter: {
          status: PAYMENT_STATUSES.find((status) => status === query.status) ?? null,
          coin: typeof query.currency === 'string' && isCoin(query.currency) ? query.currency : null,
          from: query.from === undefined ? null : new Date(query.from),
          until: query.until === undefined ? null : new Date(query.until),
          search: query.search?.trim() || null,
        },
      });
      return {
        success: true,
        data: page.items.map((item) => ({
          id: item.id,
          mode: item.mode,
          status: item.status,
          exception: item.exceptions[0] ?? null,
          amount_usd: formatUsd(item.amountUsdCents),
          amount_received: item.coin ? formatUnits(item.coin, item.receivedUnits) : null,
          currency: item.coin,
          invoice_id: item.invoiceId,
          description: item.description,
          created_at: item.createdAt.toISOString(),
          completed_at: item.completedAt?.toISOString() ?? null,
        })),
        has_more: page.hasMore,
      };
    },
  }),
  memberRoute({
    method: 'GET',
    path: '/payments/:id',
    action: 'payments.read',
    reply: Type.Object({ success: Type.Boolean(), payment: Detail, timeline: Type.Array(TimelineEntry) }),
    handle: async (call) => {
      const of = { ...ownerOf(call), paymentId: call.params.id! };
      const [view, moments] = await Promise.all([getPayment(call.ctx, of), listMoments(call.ctx, of)]);
      return { success: true, payment: paymentDetail(view, call.ctx.settings.paymentPageUrl), timeline: moments.map(entry) };
    },
  }),
  memberRoute({
    method: 'POST',
    path: '/payments/:id/cancel',
    action: 'payments.cancel',
    body: Empty,
    reply: Type.Object(decided),
    handle: (call) => cancelPayment(call.ctx, deciding(call, 'cancel')),
  }),
  memberRoute({
    method: 'POST',
    path: '/payments/:id/resolve',
    action: 'payments.resolve',
    body: Type.Object({ action: literals(['accept', 'reject'] as const) }),
    reply: Type.Object(decided),
    handle: (call) => {
      const action = call.body.action === 'accept' ? 'accept' : 'reject';
      return resolvePayment(call.ctx, { ...deciding(call, action), action, transfers: null });
    },
  }),
];
