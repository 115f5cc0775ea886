/** Payment links, and the settings that the button builder needs. */
import Type, { type Static } from 'typebox';
import { formatFiat } from '#core/fiat';
import { printableLine } from '#core/text';
import { literals, readFiatCode, readMinor, readReturnUrl, WarningSchema } from '#http';
import { getMerchant } from '#merchants';
import { archiveLink, changeLink, createLink, getLink, type LinkTerms, listLinks, type PaymentLink, priceAt, warningsFor } from '#payments';
import { writeAudit } from '#people';
import { EMBED_PATH } from '../checkout/embedding.ts';
import { svgOf } from '../checkout/parts.ts';
import { Instant, ModeName, Nullable, PlainText, pageIn, pageOf, paging } from './fields.ts';
import { type DashboardRoute, type MemberCall, memberRoute, needRecent, ownerOfCall } from './route.ts';

const State = literals(['active', 'archived'] as const);
export const LinkBody = Type.Object({
  id: PlainText,
  mode: ModeName,
  name: PlainText,
  amount_usd: Nullable(PlainText),
  /** In `currency`; null: the customer chooses. */
  amount: Nullable(PlainText),
  currency: PlainText,
  reusable: Type.Boolean(),
  return_url: Nullable(PlainText),
  ask_email: Type.Boolean(),
  state: State,
  payments: Type.Integer(),
  payment_id: Nullable(PlainText),
  url: PlainText,
  created_at: Instant,
});
export const linkBody = (call: MemberCall, link: PaymentLink): Static<typeof LinkBody> => ({
  id: link.id,
  mode: link.mode,
  name: link.name,
  amount_usd: link.amountMinor === null || link.currency !== 'USD' ? null : formatFiat('USD', link.amountMinor),
  amount: amountOf(link),
  currency: link.currency,
  reusable: link.reusable,
  return_url: link.returnUrl,
  ask_email: link.asksEmail,
  state: link.state,
  payments: Number(link.payments),
  payment_id: link.paymentId,
  url: `${call.ctx.settings.paymentPageUrl}/link/${link.id}`,
  created_at: link.createdAt.toISOString(),
});
const amountOf = ({ currency, amountMinor }: LinkTerms): string | null => (amountMinor === null ? null : formatFiat(currency, amountMinor));
const Terms = Type.Object({
  name: Type.String({ minLength: 1, maxLength: 200 }),
  /** In US dollars; `amount` is in `currency`. With neither the customer chooses. */
  amount_usd: Type.Optional(Type.String({ maxLength: 20 })),
  amount: Type.Optional(Type.String({ maxLength: 20 })),
  currency: Type.Optional(Type.String({ minLength: 3, maxLength: 3 })),
  reusable: Type.Boolean(),
  return_url: Type.Optional(Type.String({ maxLength: 2_000 })),
  /** The customer has to enter an email address. */
  ask_email: Type.Optional(Type.Boolean()),
});
function termsOf(
  call: MemberCall,
  { name, amount_usd, amount, currency: code = 'USD', reusable, return_url, ask_email: asksEmail = false }: Static<typeof Terms>,
): LinkTerms {
  const currency = readFiatCode(code, 'currency');
  const given = amount ?? amount_usd;
  const param = amount === undefined ? 'amount_usd' : 'amount';
  const amountMinor = given === undefined || given === '' ? null : readMinor(call.parsed, param, given, currency);
  const terms = {
    name: printableLine(name, 'name'),
    currency,
    amountMinor,
    reusable,
    returnUrl: return_url === undefined || return_url === '' ? null : readReturnUrl(return_url, call.mode),
    asksEmail,
  };
  // A price that cannot be converted or is too large is refused now, not when a customer opens the link.
  worthOf(call, terms, param);
  return terms;
}
/** The amount in US cents at the current rate; null if the customer chooses. Errors: price_unavailable, amount_too_large. */
function worthOf(call: MemberCall, { currency, amountMinor: minor }: LinkTerms, param: string): bigint | null {
  if (minor === null) return null;
  return priceAt(call.ctx, { mode: call.mode, currency, minor, params: { amount: param, currency: 'currency' } }).amountUsdCents;
}
/** The terms as the audit log shows them. */
const written = (link: LinkTerms) => ({
  name: link.name,
  amount: link.amountMinor === null ? null : `${amountOf(link)} ${link.currency}`,
  reusable: link.reusable,
  return_url: link.returnUrl,
  ask_email: link.asksEmail,
});
const one = Type.Object({ success: Type.Boolean(), link: LinkBody });
const created = Type.Object({ ...one.properties, warnings: Type.Array(WarningSchema) });

export const LINKS: readonly DashboardRoute[] = [
  memberRoute({
    method: 'GET',
    path: '/links',
    action: 'links.read',
    query: Type.Object({ ...paging, state: Type.Optional(State) }),
    reply: pageOf(LinkBody),
    handle: async (call) => {
      const { query } = call;
      const page = await listLinks(call.ctx, {
        ...ownerOfCall(call),
        ...pageIn(query),
        state: query.state === 'active' || query.state === 'archived' ? query.state : null,
      });
      return { success: true, data: page.items.map((link) => linkBody(call, link)), has_more: page.hasMore };
    },
  }),
  memberRoute({
    method: 'POST',
    path: '/links',
    action: 'links.write',
    body: Terms,
    reply: created,
    handle: async (call) => {
      const link = termsOf(call, call.body);
      const made = await createLink(call.ctx, {
        ...ownerOfCall(call),
        link,
        also: (tx, object) =>
          writeAudit(tx, { ...ownerOfCall(call), actor: call.actor, action: 'link.created', object, after: written(link) }),
      });
      const warnings = await warningsFor(call.ctx, { ...ownerOfCall(call), amountUsdCents: worthOf(call, link, 'amount') });
      return { success: true, link: linkBody(call, made), warnings: [...warnings] };
    },
  }),
  memberRoute({
    method: 'POST',
    path: '/links/:id',
    action: 'links.write',
    body: Terms,
    reply: one,
    handle: async (call) => {
      const link = termsOf(call, call.body);
      const linkId = call.params.id;
      const changed = await changeLink(call.ctx, {
        ...{ ...ownerOfCall(call), linkId, link },
        also: async (tx, before) => {
          // Customers follow it after they have paid.
          if (call.mode === 'live' && link.returnUrl !== before.returnUrl) needRecent(call);
          await writeAudit(tx, {
            ...{ ...ownerOfCall(call), actor: call.actor, action: 'link.changed', object: linkId },
            before: written(before),
            after: written(link),
          });
        },
      });
      return { success: true, link: linkBody(call, changed) };
    },
  }),
  memberRoute({
    method: 'GET',
    path: '/links/:id',
    action: 'links.read',
    /** `qr_svg`: its URL as a QR code. */
    reply: Type.Object({ ...one.properties, qr_svg: PlainText }),
    handle: async (call) => {
      const link = linkBody(call, await getLink(call.ctx, { ...ownerOfCall(call), linkId: call.params.id }));
      return { success: true, link, qr_svg: svgOf(link.url, `QR code of the payment link ${link.name}`) };
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
        ...{ ...ownerOfCall(call), linkId: call.params.id, archived },
        also: (tx) =>
          writeAudit(tx, {
            ...ownerOfCall(call),
            actor: call.actor,
            action: archived ? 'link.archived' : 'link.activated',
            object: call.params.id,
          }),
      });
      return { success: true, link: linkBody(call, link) };
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
