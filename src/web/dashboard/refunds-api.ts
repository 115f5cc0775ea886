/** Refunds of payments: what can be refunded, the request, and the claim link. What payouts have too is in outgoing-api.ts. */
import Type from 'typebox';
import { COIN, type Coin } from '#core/coin';
import { FIATS } from '#core/fiat';
import { formatUnits, formatUsd } from '#core/money';
import { REFUND_EMAIL_SOURCES, REFUND_RATES, REFUND_STATES } from '#core/refund';
import { mayDo } from '#core/roles';
import { readCustomersOf } from '#customers';
import { literals } from '#http';
import {
  type AskedRefund,
  claimUrl,
  getOutgoing,
  listOutgoing,
  makeRefundFile,
  type Refund,
  readReadyCoins,
  readRefundable,
  renewClaimLink,
  requestRefund,
} from '#outgoing';
import { readAttention } from '#payments';
import { AnyCoinField, CustomerField, Instant, Nullable, PlainText, pageOf, paging } from './fields.ts';
import { outgoingRoutes, readAmount, TransactionBody, timeText, transactionBody } from './outgoing-api.ts';
import { type DashboardRoute, type MemberCall, memberRoute, ownerOfCall } from './route.ts';

export const RefundBody = Type.Object({
  ...{
    id: PlainText,
    payment_id: PlainText,
    state: literals(REFUND_STATES),
    currency: AnyCoinField,
    amount: PlainText,
    amount_usd: PlainText,
  },
  ...{ address: Nullable(PlainText), reason: Nullable(PlainText), requested_by: PlainText },
  /** Where its claim link was mailed, and who entered that. */
  email: Nullable(Type.Object({ address: PlainText, from: literals(REFUND_EMAIL_SOURCES) })),
  /**
   * Null unless the customer still has to enter an address. `is_unsent`: the link before was ended, and a member has to send this one.
   * `is_mailed`: the address in `email` got it.
   */
  claim: Nullable(Type.Object({ url: PlainText, expires_at: Instant, is_unsent: Type.Boolean(), is_mailed: Type.Boolean() })),
  /** Whether the customer can no longer enter an address. */
  claim_expired: Type.Boolean(),
  /** While it is requested: who approved it first. */
  approved_by: Nullable(PlainText),
  transaction: TransactionBody,
  failure: Nullable(PlainText),
  /** The signing file that it is part of, unless that was canceled. */
  file: Nullable(PlainText),
  ...{ created_at: Instant, approved_at: Nullable(Instant), sent_at: Nullable(Instant), ended_at: Nullable(Instant) },
});
export function shownRefund({ ctx, mode, member }: Pick<MemberCall, 'ctx' | 'mode' | 'member'>, refund: Refund) {
  const { coin, address, claimUntil } = refund;
  return {
    ...{ id: refund.id, payment_id: refund.paymentId, state: refund.state, currency: coin, amount: formatUnits(coin, refund.units) },
    ...{ amount_usd: formatUsd(refund.usdCents), address, reason: refund.reason, requested_by: refund.requestedBy },
    email: refund.email === null ? null : { address: refund.email, from: refund.emailFrom! },
    // A person with the link enters the address that is paid.
    claim:
      mayDo(member.role, 'refunds.request') && address === null && claimUntil !== null && refund.state === 'requested'
        ? {
            ...{ url: claimUrl(ctx, refund), expires_at: claimUntil.toISOString() },
            ...{ is_unsent: refund.linkEndedAt !== null, is_mailed: refund.linkMailed },
          }
        : null,
    claim_expired: address === null && claimUntil !== null && refund.state === 'requested' && ctx.clock.now() >= claimUntil,
    approved_by: refund.approvedBy,
    transaction: transactionBody({ ctx, mode }, refund),
    failure: refund.failure,
    file: refund.fileId,
    ...{ created_at: refund.createdAt.toISOString(), approved_at: timeText(refund.approvedAt), sent_at: timeText(refund.sentAt) },
    ended_at: timeText(refund.endedAt),
  };
}
const One = Type.Object({ success: Type.Boolean(), refund: RefundBody });
const readOne = async (call: MemberCall, id: string) => ({
  success: true,
  refund: shownRefund(call, await getOutgoing(call.ctx, { ...ownerOfCall(call), kind: 'refund', id })),
});
const render = (refund: Refund) => ({ status: 200, body: Buffer.from(refund.id) });

/** Errors: parameter_invalid. */
function askedOf({ amount, unit }: { amount?: string; unit?: 'coin' | 'usd' }): AskedRefund {
  if (amount === undefined) return { kind: 'all' };
  if (unit === 'usd') return { kind: 'fiat', currency: 'USD', minor: readAmount(amount, 2) };
  return { kind: 'coin', units: (coin: Coin) => readAmount(amount, COIN[coin].decimals) };
}

/** An amount in the currency of the price of the payment. */
const WorthBody = Type.Object({ amount: PlainText, currency: literals(FIATS) });

const READS: readonly DashboardRoute[] = [
  memberRoute({
    method: 'GET',
    path: '/refunds',
    action: 'payments.read',
    query: Type.Object({
      ...paging,
      payment: Type.Optional(PlainText),
      customer: Type.Optional(PlainText),
      state: Type.Optional(literals(REFUND_STATES)),
    }),
    reply: pageOf(Type.Object({ ...RefundBody.properties, customer: Nullable(CustomerField) })),
    handle: async (call) => {
      const { limit, starting_after, payment, customer, state } = call.query;
      const owner = ownerOfCall(call);
      const { found: refunds, hasMore } = await listOutgoing(call.ctx, {
        ...{ ...owner, kind: 'refund' },
        ...{ limit: Number(limit ?? 25), startingAfter: starting_after ?? null },
        ...{ paymentId: payment ?? null, customerId: customer ?? null, state: state ?? null },
      });
      const customers = await readCustomersOf(call.ctx, { ...owner, paymentIds: refunds.map(({ paymentId }) => paymentId) });
      const data = refunds.map((refund) => ({ ...shownRefund(call, refund), customer: customers.get(refund.paymentId) ?? null }));
      return { success: true, data, has_more: hasMore };
    },
  }),
  memberRoute({
    method: 'GET',
    path: '/payments/:id/refundable',
    action: 'payments.read',
    /** What can still be refunded, by coin, first in that of the payment; none: nothing arrived. */
    reply: Type.Object({
      success: Type.Boolean(),
      available: Type.Array(Type.Object({ currency: AnyCoinField, amount: PlainText, worth: Nullable(WorthBody) })),
      /** The address that somebody with the link of the payment page left for emails. */
      left_email: Nullable(PlainText),
      /** Whether customers get emails. */
      mails: Type.Boolean(),
    }),
    handle: async (call) => {
      const of = { ...ownerOfCall(call), paymentId: call.params.id };
      const [found, { refundRequest }] = await Promise.all([readRefundable(call.ctx, of), readAttention(call.ctx, of)]);
      return {
        success: true,
        available: found.map(({ coin, units, worth }) => ({ currency: coin, amount: formatUnits(coin, units), worth })),
        left_email: refundRequest?.email ?? null,
        mails: call.ctx.mail !== null && call.mode === 'live',
      };
    },
  }),
];

/** Where the claim link goes. Empty: nowhere. Without it, where the customer asked for. */
const ClaimEmail = Type.Optional(Type.String({ maxLength: 200 }));
const emailOf = (email: string | undefined): string | null | undefined => (email === undefined ? undefined : email.trim() || null);

const ACTS: readonly DashboardRoute[] = [
  memberRoute({
    method: 'POST',
    path: '/payments/:id/refunds',
    action: 'refunds.request',
    body: Type.Object({
      /** Without it, the coin of the payment. */
      currency: Type.Optional(AnyCoinField),
      /** Without it, everything that can still be refunded. */
      amount: Type.Optional(Type.String({ maxLength: 60 })),
      unit: Type.Optional(literals(['coin', 'usd'] as const)),
      rate: Type.Optional(literals(REFUND_RATES)),
      /** Without it, the customer enters one on the claim page. */
      address: Type.Optional(Type.String({ minLength: 1, maxLength: 200 })),
      reason: Type.Optional(Type.String({ maxLength: 200 })),
      email: ClaimEmail,
    }),
    reply: One,
    handle: async (call) => {
      const { currency, address, reason, rate, email } = call.body;
      const made = await requestRefund(call.ctx, {
        ...{ ...ownerOfCall(call), paymentId: call.params.id, asked: askedOf(call.body), rate: rate ?? 'payment' },
        wanted: currency === undefined ? null : { asset: COIN[currency].asset, chain: COIN[currency].chain },
        ...{ address: address?.trim() || null, reason: reason?.trim() || null, email: emailOf(email) },
        ...{ actor: call.actor, idempotency: null, render },
      });
      return readOne(call, Buffer.from(made.body).toString());
    },
  }),
  memberRoute({
    method: 'POST',
    path: '/refunds/:id/claim-link',
    action: 'refunds.request',
    body: Type.Object({ email: ClaimEmail }),
    reply: One,
    handle: async (call) => {
      const of = { ...ownerOfCall(call), id: call.params.id };
      await renewClaimLink(call.ctx, { ...of, email: emailOf(call.body.email), actor: call.actor, idempotency: null, render });
      return readOne(call, of.id);
    },
  }),
];

export const DASHBOARD_REFUNDS: readonly DashboardRoute[] = [
  ...READS,
  ...ACTS,
  ...outgoingRoutes({
    ...{ kind: 'refund', reads: 'payments.read', one: One, readOne, readCoins: readReadyCoins },
    makeFile: async (ctx, wanted) => {
      const { refunds, ...made } = await makeRefundFile(ctx, wanted);
      return { ...made, paid: refunds };
    },
  }),
];
