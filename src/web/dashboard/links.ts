/** Payment links, and what the button builder needs to know of this install. */
import Type, { type Static } from 'typebox';
import { formatUsd } from '../../core/money.ts';
import { readReturnUrl, readUsd } from '../../http/read.ts';
import { Warning } from '../../http/schema.ts';
import { writeAudit } from '../../merchants/members.ts';
import { getMerchant } from '../../merchants/merchants.ts';
import { archiveLink, createLink, listLinks, type PaymentLink } from '../../payments/links.ts';
import { warningsFor } from '../../payments/readiness.ts';
import { EMBED_PATH } from '../checkout/embedding.ts';
import { type Call, literals, ModeName, memberRoute, Nullable, ownerOf, pageOf, paging, type Route, Text, Timestamp } from './route.ts';

const State = literals(['active', 'archived'] as const);
const Link = Type.Object({
  id: Text,
  mode: ModeName,
  name: Text,
  amount_usd: Nullable(Text),
  reusable: Type.Boolean(),
  return_url: Nullable(Text),
  state: State,
  payments: Type.Integer(),
  payment_id: Nullable(Text),
  url: Text,
  created_at: Timestamp,
});
const linkBody = (call: Call, link: PaymentLink): Static<typeof Link> =>
  ({
    id: link.id,
    mode: link.mode,
    name: link.name,
    amount_usd: link.amountUsdCents === null ? null : formatUsd(link.amountUsdCents),
    reusable: link.reusable,
    return_url: link.returnUrl,
    state: link.state,
    payments: Number(link.payments),
    payment_id: link.paymentId,
    url: `${call.ctx.settings.paymentPageUrl}/link/${link.id}`,
    created_at: link.createdAt.toISOString(),
  }) as Static<typeof Link>;
const one = Type.Object({ success: Type.Boolean(), link: Link });
const created = Type.Object({ ...one.properties, warnings: Type.Array(Warning) });

export const LINKS: readonly Route[] = [
  memberRoute({
    method: 'GET',
    path: '/links',
    action: 'links.read',
    query: Type.Object({ ...paging, state: Type.Optional(State) }),
    reply: pageOf(Link),
    handle: async (call) => {
      const { query } = call;
      const page = await listLinks(call.ctx, {
        ...ownerOf(call),
        limit: Number(query.limit ?? 25),
        startingAfter: query.starting_after ?? null,
        state: query.state === 'active' || query.state === 'archived' ? query.state : null,
      });
      return { success: true, data: page.items.map((link) => linkBody(call, link)), has_more: page.hasMore };
    },
  }),
  memberRoute({
    method: 'POST',
    path: '/links',
    action: 'links.write',
    body: Type.Object({
      name: Type.String({ minLength: 1, maxLength: 200 }),
      amount_usd: Type.Optional(Type.String({ maxLength: 20 })),
      reusable: Type.Boolean(),
      return_url: Type.Optional(Type.String({ maxLength: 2_000 })),
    }),
    reply: created,
    handle: async (call) => {
      const { name, amount_usd, reusable, return_url } = call.body;
      const link = {
        name: name.trim() || name,
        amountUsdCents: amount_usd === undefined || amount_usd === '' ? null : readUsd(call.parsed, 'amount_usd', amount_usd),
        reusable,
        returnUrl: return_url === undefined || return_url === '' ? null : readReturnUrl(return_url, call.mode),
      };
      const made = await createLink(call.ctx, {
        ...ownerOf(call),
        link,
        also: (tx, object) =>
          writeAudit(tx, {
            ...{ ...ownerOf(call), actor: call.actor, action: 'link.created', object },
            after: { name: link.name, amount_usd: link.amountUsdCents === null ? null : formatUsd(link.amountUsdCents), reusable },
          }),
      });
      const warnings = await warningsFor(call.ctx, { ...ownerOf(call), amountUsdCents: link.amountUsdCents });
      return { success: true, link: linkBody(call, made), warnings: [...warnings] };
    },
  }),
  memberRoute({
    method: 'POST',
    path: '/links/:id/state',
    action: 'links.write',
    body: Type.Object({ archived: Type.Boolean() }),
    reply: one,
    handle: async (call) => {
      const { archived } = call.body;
      const link = await archiveLink(call.ctx, {
        ...{ ...ownerOf(call), linkId: call.params.id!, archived },
        also: (tx) =>
          writeAudit(tx, {
            ...ownerOf(call),
            actor: call.actor,
            action: archived ? 'link.archived' : 'link.activated',
            object: call.params.id!,
          }),
      });
      return { success: true, link: linkBody(call, link) };
    },
  }),
  memberRoute({
    method: 'GET',
    path: '/embed',
    action: 'links.read',
    reply: Type.Object({ success: Type.Boolean(), script_url: Text, origins: Type.Array(Text), accent: Nullable(Text) }),
    handle: async (call) => {
      const { settings } = await getMerchant(call.ctx, ownerOf(call));
      const script_url = new URL(EMBED_PATH, call.ctx.settings.paymentPageUrl).href;
      return { success: true, script_url, origins: [...settings.origins], accent: settings.accent };
    },
  }),
];
