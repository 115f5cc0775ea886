/** The search over everything: by an ID what has it; by any other text payments and customers. */
import Type, { type Static } from 'typebox';
import { Problem } from '#core/problem';
import { type Action, mayDo } from '#core/roles';
import { getCustomer, listCustomers } from '#customers';
import { CustomerItem, customerBody, LinkItem, linkBody } from '#http';
import { getOutgoing } from '#outgoing';
import { getLink } from '#payments';
import { findPayments, NO_FILTER } from '#queries';
import { forMode, getSweep, sweepBody } from '#signing';
import { getEvent } from '#webhooks';
import { EventBody, eventBody } from './events-api.ts';
import { FoundPayment, foundPayment } from './payments-api.ts';
import { PayoutBody, payoutBody } from './payouts-api.ts';
import { RefundBody, shownRefund } from './refunds-api.ts';
import { type DashboardRoute, type MemberCall, memberRoute, ownerOfCall, readerOfCall } from './route.ts';
import { SweepBody } from './sweeps-api.ts';

/** The most payments, and the most customers, of a reply. */
const MOST = 6;

const Found = Type.Object({
  payments: Type.Array(FoundPayment),
  customers: Type.Array(CustomerItem),
  refunds: Type.Array(RefundBody),
  payouts: Type.Array(PayoutBody),
  sweeps: Type.Array(SweepBody),
  links: Type.Array(LinkItem),
  events: Type.Array(EventBody),
});
type Found = Static<typeof Found>;
const NOTHING: Found = { payments: [], customers: [], refunds: [], payouts: [], sweeps: [], links: [], events: [] };

const paymentsWith = async (call: MemberCall, search: string) => {
  const filter = { ...NO_FILTER, search };
  const { items } = await findPayments(call.ctx, { ...ownerOfCall(call), limit: MOST, startingAfter: null, filter });
  return items.map((item) => foundPayment(call, item));
};
const customersWith = async (call: MemberCall, search: string) =>
  (await listCustomers(call.ctx, { ...ownerOfCall(call), limit: MOST, startingAfter: null, search })).items.map(customerBody);

/** By the prefix of an ID: what a role needs to find it, and the one finder that is asked. Errors: those with status 404. */
const FINDERS: Readonly<Record<string, { action: Action; find(call: MemberCall, id: string): Promise<Partial<Found> | null> }>> = {
  pay: { action: 'payments.read', find: async (call, id) => ({ payments: await paymentsWith(call, id) }) },
  cus: {
    action: 'payments.read',
    find: async (call, id) => ({ customers: [customerBody(await getCustomer(call.ctx, { ...ownerOfCall(call), id }))] }),
  },
  ref: {
    action: 'payments.read',
    find: async (call, id) => ({ refunds: [shownRefund(call, await getOutgoing(call.ctx, { ...ownerOfCall(call), kind: 'refund', id }))] }),
  },
  po: {
    action: 'payouts.read',
    find: async (call, id) => ({ payouts: [payoutBody(call, await getOutgoing(call.ctx, { ...ownerOfCall(call), kind: 'payout', id }))] }),
  },
  swp: {
    action: 'sweeps.read',
    find: async (call, id) => ({
      sweeps: [sweepBody((await getSweep(forMode(call.ctx, call.mode), { ...ownerOfCall(call), id })).sweep)],
    }),
  },
  lnk: {
    action: 'links.read',
    find: async (call, id) => ({ links: [linkBody(call.ctx, await getLink(call.ctx, { ...ownerOfCall(call), linkId: id }))] }),
  },
  evt: {
    action: 'events.read',
    find: async (call, id) => ({ events: [eventBody(call.mode, await getEvent(call.ctx, { ...readerOfCall(call), eventId: id }))] }),
  },
};
const ID = /^([a-z]{2,3})_[0-9A-Za-z]{24}$/;

/** What is hidden from the role of the member is not found. Null: nothing has this ID. */
async function findById(call: MemberCall, id: string): Promise<Partial<Found> | null> {
  const finder = FINDERS[ID.exec(id)?.[1] ?? ''];
  if (finder === undefined || !mayDo(call.member.role, finder.action)) return null;
  return finder.find(call, id).catch((error: unknown) => {
    if (error instanceof Problem && error.status === 404) return null;
    throw error;
  });
}

/** An invoice may have an ID of the shop's that looks like one of ours. */
async function find(call: MemberCall, text: string): Promise<Partial<Found>> {
  const found = await findById(call, text);
  if (found) return found;
  const [payments, customers] = await Promise.all([paymentsWith(call, text), customersWith(call, text)]);
  return { payments, customers };
}

export const SEARCH: readonly DashboardRoute[] = [
  memberRoute({
    method: 'GET',
    path: '/search',
    // Every role has it; what else a kind takes is above.
    action: 'payments.read',
    query: Type.Object({ q: Type.String({ minLength: 1, maxLength: 200, pattern: '\\S' }) }),
    reply: Type.Object({ success: Type.Boolean(), ...Found.properties }),
    handle: async (call) => ({ success: true, ...NOTHING, ...(await find(call, call.query.q.trim())) }),
  }),
];
