/** Refunds of payments: request, approve, record as sent, cancel. */
import Type, { type Static } from 'typebox';
import { COIN, type Coin, feeCoinOf } from '#core/coin';
import { FIATS } from '#core/fiat';
import { formatUnits, formatUsd, readAmountText } from '#core/money';
import { explorerUrl } from '#core/networks';
import { Problem } from '#core/problem';
import { REFUND_EMAIL_SOURCES, REFUND_RATES, REFUND_STATES } from '#core/refund';
import { mayDo } from '#core/roles';
import { readCustomersOf } from '#customers';
import { literals } from '#http';
import {
  type AskedRefund,
  approveRefund,
  cancelRefund,
  claimUrl,
  countOutgoing,
  getRefund,
  listRefunds,
  makeRefundFile,
  markRefundSent,
  type Refund,
  readReadyCoins,
  readRefundable,
  renewClaimLink,
  requestRefund,
} from '#outgoing';
import { readAttention } from '#payments';
import { SWEEP_SPEEDS, type Sweep } from '#signing';
import { AnyCoinField, CustomerField, Instant, NoFields, Nullable, PlainText, pageOf, paging } from './fields.ts';
import { countsRoute, type DashboardRoute, type MemberCall, memberRoute, ownerOfCall } from './route.ts';

/** The transaction that paid a refund or a payout. */
export const TransactionBody = Nullable(Type.Object({ id: PlainText, explorer_url: Nullable(PlainText) }));
export function transactionBody({ ctx, mode }: Pick<MemberCall, 'ctx' | 'mode'>, { coin, txid }: { coin: Coin; txid: string | null }) {
  if (txid === null) return null;
  return { id: txid, explorer_url: mode === 'live' ? explorerUrl(coin, ctx.settings.networks[COIN[coin].chain], txid) : null };
}

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
export const timeText = (time: Date | null): string | null => time?.toISOString() ?? null;
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
const one = (call: MemberCall, refund: Refund) => ({ success: true, refund: shownRefund(call, refund) });
const render = (refund: Refund) => ({ status: 200, body: Buffer.from(refund.id) });

/** An amount as a member types it. Errors: parameter_invalid. */
export function readAmount(text: string, decimals: number): bigint {
  const units = readAmountText(text.trim(), decimals);
  if (units !== null && units > 0n) return units;
  throw new Problem('parameter_invalid', { reason: 'it must be an amount such as 0.01' }, { param: 'amount' });
}
/** Errors: parameter_invalid. */
function askedOf({ amount, unit }: { amount?: string; unit?: 'coin' | 'usd' }): AskedRefund {
  if (amount === undefined) return { kind: 'all' };
  if (unit === 'usd') return { kind: 'fiat', currency: 'USD', minor: readAmount(amount, 2) };
  return { kind: 'coin', units: (coin: Coin) => readAmount(amount, COIN[coin].decimals) };
}

/** A signing file of approved refunds or payouts. */
export const WantedFile = Type.Object({ currency: AnyCoinField, speed: Type.Optional(literals(SWEEP_SPEEDS)) });
/** `paid`: how many refunds or payouts are in the file. `left`: those that are approved and not in it. */
export const MadeFile = Type.Object({
  ...{ success: Type.Boolean(), file: PlainText, paid: Type.Integer(), fee: PlainText, fee_currency: AnyCoinField },
  left: Type.Array(Type.Object({ id: PlainText, reason: PlainText })),
});
/** Errors: live_mode_only. */
export function wantedFile({ mode, member: { merchantId }, actor, body }: MemberCall & { body: Static<typeof WantedFile> }) {
  if (mode !== 'live') throw new Problem('live_mode_only');
  return { merchantId, coin: body.currency, speed: body.speed ?? 'normal', actor };
}
export const madeFile = ({ sweep, left }: { sweep: Sweep; left: Static<typeof MadeFile>['left'] }, paid: readonly string[]) => ({
  ...{ success: true, file: sweep.id, paid: paid.length, left },
  ...{ fee: formatUnits(feeCoinOf(sweep.coin), sweep.feeUnits), fee_currency: feeCoinOf(sweep.coin) },
});

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
      const { refunds, hasMore } = await listRefunds(call.ctx, {
        ...owner,
        ...{ limit: Number(limit ?? 25), startingAfter: starting_after ?? null },
        ...{ paymentId: payment ?? null, customerId: customer ?? null, state: state ?? null },
      });
      const customers = await readCustomersOf(call.ctx, { ...owner, paymentIds: refunds.map(({ paymentId }) => paymentId) });
      const data = refunds.map((refund) => ({ ...shownRefund(call, refund), customer: customers.get(refund.paymentId) ?? null }));
      return { success: true, data, has_more: hasMore };
    },
  }),
  countsRoute({
    ...{ path: '/refunds/counts', action: 'payments.read', states: REFUND_STATES },
    count: (ctx, owner) => countOutgoing(ctx, { ...owner, list: 'refunds' }),
  }),
  memberRoute({
    method: 'GET',
    path: '/refunds/:id',
    action: 'payments.read',
    reply: One,
    handle: async (call) => one(call, await getRefund(call.ctx, { ...ownerOfCall(call), id: call.params.id })),
  }),
  memberRoute({
    method: 'GET',
    path: '/refund-files/coins',
    action: 'payments.read',
    /** Coins with approved refunds that a signing file can pay. */
    reply: Type.Object({ success: Type.Boolean(), coins: Type.Array(AnyCoinField) }),
    handle: async (call) => ({ success: true, coins: call.mode === 'live' ? await readReadyCoins(call.ctx, ownerOfCall(call)) : [] }),
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
      return one(call, await getRefund(call.ctx, { ...ownerOfCall(call), id: Buffer.from(made.body).toString() }));
    },
  }),
  memberRoute({
    method: 'POST',
    path: '/refund-files',
    action: 'sweeps.use',
    recent: true,
    body: WantedFile,
    reply: MadeFile,
    handle: async (call) => {
      const { refunds, ...made } = await makeRefundFile(call.ctx, wantedFile(call));
      return madeFile(made, refunds);
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
      return one(call, await getRefund(call.ctx, of));
    },
  }),
  memberRoute({
    method: 'POST',
    path: '/refunds/:id/approve',
    action: 'refunds.approve',
    recent: true,
    body: NoFields,
    reply: One,
    handle: async (call) => one(call, await approveRefund(call.ctx, { ...ownerOfCall(call), id: call.params.id, actor: call.actor })),
  }),
  memberRoute({
    method: 'POST',
    path: '/refunds/:id/sent',
    action: 'refunds.approve',
    recent: true,
    body: Type.Object({ txid: Type.String({ minLength: 1, maxLength: 100 }) }),
    reply: One,
    handle: async (call) => {
      const { txid } = call.body;
      return one(call, await markRefundSent(call.ctx, { ...ownerOfCall(call), id: call.params.id, txid, actor: call.actor }));
    },
  }),
  memberRoute({
    method: 'POST',
    path: '/refunds/:id/cancel',
    action: 'refunds.approve',
    recent: true,
    body: NoFields,
    reply: One,
    handle: async (call) => {
      const of = { ...ownerOfCall(call), id: call.params.id };
      await cancelRefund(call.ctx, { ...of, actor: call.actor, idempotency: null, render });
      return one(call, await getRefund(call.ctx, of));
    },
  }),
];

export const DASHBOARD_REFUNDS: readonly DashboardRoute[] = [...READS, ...ACTS];
