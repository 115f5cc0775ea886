/**
 * What a reader may see of facts that several tables repeat: payouts, which are also in events, deliveries, logged requests and notices,
 * and the secrets of webhooks. Every function that reads one of these tables asks for it, so that no door is forgotten. Pure.
 */
import { type MemberRole, mayDo } from './roles.ts';

export type Sight = {
  /** Payouts and everything that says something about one. Payouts can be salaries. */
  payouts: boolean;
  /** Signatures of deliveries, what receivers answered, and all of a webhook's URL. Who has these can forge or repeat an event. */
  secrets: boolean;
};
/** For the operator, and for callers that are checked elsewhere. */
export const FULL_SIGHT: Sight = { payouts: true, secrets: true };
export const sightOf = (role: MemberRole): Sight => ({ payouts: mayDo(role, 'payouts.read'), secrets: mayDo(role, 'webhooks.secrets') });

/** IDs of payouts. */
export const PAYOUT_PREFIX = 'po_';
/** Regular expressions for JavaScript and PostgreSQL alike. The path of a request about payouts or webhooks, in any case: */
export const PAYOUT_PATH = 'payout|po_[0-9a-z]{24}';
export const WEBHOOK_PATH = 'webhook';
/** A query or a body that contains a payout: its ID, its fields, or an event about it, also as text within JSON. */
export const PAYOUT_TEXT = 'po_[0-9A-Za-z]{24}|payout_|type(\\\\*"\\s*:\\s*\\\\*"|=)payout[.]';
/** A body that contains the URL of an endpoint. Payments have no field of this name. */
export const WEBHOOK_TEXT = '"url"';

/** The ID of an event or a delivery does not tell whether it is about a payout. */
const mayNamePayout = new RegExp(`${PAYOUT_PATH}|(?:evt|del)_[0-9a-z]{24}`, 'i');
/** The path that a key was last used for, which may contain the ID of a payout, or of an event or a delivery about one. */
export const shownPath = (path: string | null, { payouts }: Sight): string | null =>
  path === null || payouts || !mayNamePayout.test(path) ? path : null;

const REST = '…';
/** The URL of an endpoint. Tokens are in any part of it but the host. */
export function shownUrl(text: string, { secrets }: Sight): string {
  if (secrets) return text;
  const url = URL.parse(text);
  if (url === null) return REST;
  return `${url.protocol}//${url.host}/${url.pathname === '/' && url.search === '' && url.hash === '' ? '' : REST}`;
}

/** Headers of deliveries that say nothing about the secret. A list of those, so that the signature of another form is not forgotten. */
const PLAIN_HEADERS = ['content-type', 'user-agent', 'webhook-id', 'webhook-timestamp'];
export const shownHeaders = (headers: Readonly<Record<string, string>>, { secrets }: Sight): Record<string, string> =>
  secrets ? { ...headers } : Object.fromEntries(Object.entries(headers).filter(([name]) => PLAIN_HEADERS.includes(name.toLowerCase())));
