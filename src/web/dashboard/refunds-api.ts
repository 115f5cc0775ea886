/** Refunds of payments: what can be refunded, the request, and the claim link. What payouts have too is in outgoing-api.ts. */
import Type from 'typebox';
import { FIATS } from '#core/fiat';
import { formatUnits } from '#core/money';
import { REFUND_EMAIL_SOURCES, REFUND_STATES } from '#core/refund';
import { mayDo } from '#core/roles';
import { readCustomersOf } from '#customers';
import { literals, RefundItem } from '#http';
import { claimUrl, getOutgoing, listOutgoing, type Refund, readRefundable, refundDetail, renewClaimLink } from '#outgoing';
import { readAttention } from '#queries';
import { makeRefundFile, readReadyCoins } from '#signing';
import { svgOf } from '../checkout/parts.ts';
import { AnyCoinField, CustomerField, Instant, Nullable, PlainText, pageIn, pageOf, paging } from './fields.ts';
import { OUTGOING_FIELDS, outgoingFields, outgoingRoutes } from './outgoing-api.ts';
import { type DashboardRoute, forMembers, type MemberCall, memberRoute, ownerOfCall } from './route.ts';

export const RefundBody = Type.Object({
  ...{ ...Type.Omit(RefundItem, ['claim_url', 'claim_expires_at']).properties, ...OUTGOING_FIELDS },
  /** Where its claim link was mailed, and who entered that. */
  email: Nullable(Type.Object({ address: PlainText, from: literals(REFUND_EMAIL_SOURCES) })),
  /**
   * Null unless the customer still has to enter an address. `is_unsent`: the link before was ended, and a member has to send this one.
   * `is_mailed`: the address in `email` got it.
   */
  claim: Nullable(Type.Object({ url: PlainText, expires_at: Instant, is_unsent: Type.Boolean(), is_mailed: Type.Boolean() })),
  /** Whether the customer can no longer enter an address. */
  claim_expired: Type.Boolean(),
  /** Whether an earlier Lightning invoice expired after it was approved, so that it may have been paid. */
  earlier_invoice: Type.Boolean(),
});
export function shownRefund(call: Pick<MemberCall, 'ctx' | 'mode' | 'member'>, refund: Refund) {
  const { ctx, member } = call;
  const { address, claimUntil } = refund;
  const { claim_url: _url, claim_expires_at: _until, ...detail } = refundDetail(ctx, refund);
  return {
    ...{ ...detail, ...outgoingFields(call, refund) },
    earlier_invoice: refund.hasEarlierInvoice,
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
  };
}
/** `invoice_qr`: a Lightning invoice that is to be paid now, as an image. */
const One = Type.Object({ success: Type.Boolean(), refund: RefundBody, invoice_qr: Nullable(PlainText) });
const readOne = async (call: MemberCall, id: string) => {
  const refund = await getOutgoing(call.ctx, { ...ownerOfCall(call), kind: 'refund', id });
  return { success: true, refund: shownRefund(call, refund), invoice_qr: invoiceCode(refund) };
};
function invoiceCode({ state, address, invoiceExpiresAt }: Refund): string | null {
  if (state !== 'approved' || address === null || invoiceExpiresAt === null) return null;
  const svg = svgOf(`lightning:${address.toUpperCase()}`, 'QR code of the invoice');
  return `data:image/svg+xml;base64,${Buffer.from(svg).toString('base64')}`;
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
      const { payment, customer, state } = call.query;
      const owner = ownerOfCall(call);
      const { found: refunds, hasMore } = await listOutgoing(call.ctx, {
        ...{ ...owner, kind: 'refund' },
        ...pageIn(call.query),
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
  forMembers('proveRefund', { path: '/refunds/:id/preimage', action: 'refunds.approve', recent: true, as: 'refund' }),
  forMembers('createRefund', { path: '/refunds', action: 'refunds.request', as: 'refund' }),
  memberRoute({
    method: 'POST',
    path: '/refunds/:id/claim-link',
    action: 'refunds.request',
    body: Type.Object({ email: ClaimEmail }),
    reply: One,
    handle: async (call) => {
      const of = { ...ownerOfCall(call), id: call.params.id };
      await renewClaimLink(call.ctx, {
        ...of,
        email: emailOf(call.body.email),
        actor: call.actor,
        idempotency: null,
        render: () => ({ status: 200, body: '' }),
      });
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
