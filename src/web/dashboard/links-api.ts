/** Payment links, and the settings that the button builder needs. */
import Type from 'typebox';
import { LinkItem, linkBody, literals } from '#http';
import { getMerchant } from '#merchants';
import { getLink, listLinks } from '#payments';
import { EMBED_PATH } from '../checkout/embedding.ts';
import { svgOf } from '../checkout/parts.ts';
import { Nullable, PlainText, pageIn, pageOf, paging } from './fields.ts';
import { type DashboardRoute, forMembers, memberRoute, ownerOfCall } from './route.ts';

export const LINKS: readonly DashboardRoute[] = [
  memberRoute({
    method: 'GET',
    path: '/links',
    action: 'links.read',
    query: Type.Object({ ...paging, state: Type.Optional(literals(['active', 'archived'] as const)) }),
    reply: pageOf(LinkItem),
    handle: async (call) => {
      const { query } = call;
      const state = query.state === 'active' || query.state === 'archived' ? query.state : null;
      const page = await listLinks(call.ctx, { ...ownerOfCall(call), ...pageIn(query), state });
      return { success: true, data: page.items.map((link) => linkBody(call.ctx, link)), has_more: page.hasMore };
    },
  }),
  forMembers('createPaymentLink', { path: '/links', action: 'links.write', as: 'link' }),
  forMembers('updatePaymentLink', { path: '/links/:id', action: 'links.write', as: 'link' }),
  memberRoute({
    method: 'GET',
    path: '/links/:id',
    action: 'links.read',
    /** `qr_svg`: its URL as a QR code. */
    reply: Type.Object({ success: Type.Boolean(), link: LinkItem, qr_svg: PlainText }),
    handle: async (call) => {
      const link = linkBody(call.ctx, await getLink(call.ctx, { ...ownerOfCall(call), linkId: call.params.id }));
      return { success: true, link, qr_svg: svgOf(link.url, `QR code of the payment link ${link.name}`) };
    },
  }),
  memberRoute({
    method: 'GET',
    path: '/embed',
    action: 'links.read',
    reply: Type.Object({ success: Type.Boolean(), script_url: PlainText, origins: Type.Array(PlainText), accent: Nullable(PlainText) }),
    handle: async (call) => {
      const { settings } = await getMerchant(call.ctx, ownerOfCall(call));
      const script_url = new URL(EMBED_PATH, call.ctx.settings.paymentPageUrl).href;
      return { success: true, script_url, origins: [...settings.origins], accent: settings.accent };
    },
  }),
];
