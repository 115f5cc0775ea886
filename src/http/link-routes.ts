/** The endpoints of payment links. */
import type { Static } from 'typebox';
import { formatFiat } from '#core/fiat';
import { Problem } from '#core/problem';
import { printableLine } from '#core/text';
import { changeLink, createLink, getLink, LINK_STATES, type LinkTerms, listLinks, type PaymentLink } from '#payments';
import { memberOf } from '#people';
import { type Query, readFiatCode, readLimit, readMinor, readPageCursor, readQuery, readReturnUrl } from './read.ts';
import { type ApiCall, type ApiRoute, apiRoute, mine } from './route.ts';
import { CreateLink, LinkCreated, type LinkItem, LinkList, LinkReply, LinksQuery, UpdateLink } from './schema-links.ts';

export const linkBody = ({ settings }: ApiCall['ctx'], link: PaymentLink): Static<typeof LinkItem> => ({
  id: link.id,
  mode: link.mode,
  name: link.name,
  amount: link.amountMinor === null ? null : formatFiat(link.currency, link.amountMinor),
  currency: link.currency,
  reusable: link.reusable,
  return_url: link.returnUrl,
  ask_email: link.asksEmail,
  state: link.state,
  payments: Number(link.payments),
  payment_id: link.paymentId,
  url: `${settings.paymentPageUrl}/link/${link.id}`,
  created_at: link.createdAt.toISOString(),
});

type Call = Pick<ApiCall, 'owner' | 'parsed'>;
/** The terms that a body names. `currency`: of an amount that comes without one. */
function readTerms({ owner, parsed }: Call, given: Static<typeof UpdateLink>, currency: PaymentLink['currency']): Partial<LinkTerms> {
  const { name, amount, reusable, return_url, ask_email } = given;
  const code = given.currency === undefined ? currency : readFiatCode(given.currency, 'currency');
  return {
    currency: code,
    ...(name !== undefined && { name: printableLine(name, 'name') }),
    ...(amount !== undefined && { amountMinor: amount === null ? null : readMinor(parsed, 'amount', amount, code) }),
    ...(reusable !== undefined && { reusable }),
    ...(return_url !== undefined && { returnUrl: return_url === null ? null : readReturnUrl(return_url, owner.mode) }),
    ...(ask_email !== undefined && { asksEmail: ask_email }),
  };
}

/** Errors: parameter_invalid. */
function readState(query: Query): PaymentLink['state'] | null {
  const given = readQuery(query, 'state');
  const state = LINK_STATES.find((known) => known === given) ?? null;
  if (given !== null && state === null)
    throw new Problem('parameter_invalid', { reason: `it must be one of ${LINK_STATES.join(', ')}` }, { param: 'state' });
  return state;
}

export const LINK_ROUTES: readonly ApiRoute[] = [
  apiRoute({
    id: 'createPaymentLink',
    method: 'POST',
    path: '/v1/payment_links',
    access: 'secret',
    permission: 'payments',
    summary: 'Create a payment link',
    body: CreateLink,
    reply: LinkCreated,
    created: true,
    handle: async (call) =>
      createLink(call.ctx, {
        ...mine(call.owner),
        link: {
          ...{ currency: 'USD', amountMinor: null, reusable: true, returnUrl: null, asksEmail: false, name: '' },
          ...readTerms(call, call.body, 'USD'),
        },
        actor: call.actor,
        idempotency: call.claim,
        render: (link, warnings) => call.reply({ success: true, ...linkBody(call.ctx, link), warnings: [...warnings] }),
      }),
  }),
  apiRoute({
    id: 'readPaymentLinks',
    method: 'GET',
    path: '/v1/payment_links',
    access: 'secret',
    permission: 'payments',
    summary: 'List payment links, newest first',
    query: LinksQuery,
    reply: LinkList,
    handle: async ({ ctx, owner, query, reply }) => {
      const { items, hasMore } = await listLinks(ctx, {
        ...mine(owner),
        limit: readLimit(query),
        startingAfter: readPageCursor(query, 'starting_after'),
        state: readState(query),
      });
      return reply({ success: true, data: items.map((link) => linkBody(ctx, link)), has_more: hasMore });
    },
  }),
  apiRoute({
    id: 'readPaymentLink',
    method: 'GET',
    path: '/v1/payment_links/:id',
    access: 'secret',
    permission: 'payments',
    summary: 'Retrieve a payment link',
    reply: LinkReply,
    handle: async ({ ctx, owner, params, reply }) =>
      reply({ success: true, ...linkBody(ctx, await getLink(ctx, { ...mine(owner), linkId: params.id })) }),
  }),
  apiRoute({
    id: 'updatePaymentLink',
    method: 'POST',
    path: '/v1/payment_links/:id',
    access: 'secret',
    permission: 'payments',
    summary: 'Update or archive a payment link',
    body: UpdateLink,
    reply: LinkReply,
    handle: async (call) => {
      const { ctx, owner, params, body, actor } = call;
      const { currency } = await getLink(ctx, { ...mine(owner), linkId: params.id });
      const state = body.state === undefined ? {} : { state: body.state };
      return changeLink(ctx, {
        ...{ ...mine(owner), linkId: params.id, change: { ...readTerms(call, body, currency), ...state } },
        actor,
        idempotency: call.claim,
        allow: (before, after) => {
          // Customers follow it after they have paid.
          if (memberOf(actor) !== null && owner.mode === 'live' && after.returnUrl !== before.returnUrl) call.needRecent();
        },
        render: (link) => call.reply({ success: true, ...linkBody(ctx, link) }),
      });
    },
  }),
];
