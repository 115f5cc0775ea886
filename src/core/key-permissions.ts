/** What a secret key may do. A key can do at most what the role of the member who creates it allows. */
import { type Action, type MemberRole, mayDo } from './roles.ts';

/**
 * `about` says what a key with the permission can do. A member may give it to a key if the role of the member includes all of `takes`.
 * Every route of the API names one of these.
 */
export const KEY_PERMISSIONS = {
  payments: {
    about: 'Create payments, change their metadata, and read payments, refunds and events.',
    takes: ['payments.read', 'payments.create', 'payments.edit', 'events.read'],
  },
  resolve: { about: 'Cancel payments, and accept or reject late or unusual money.', takes: ['payments.cancel', 'payments.resolve'] },
  refunds: { about: 'Request and cancel refunds, and read their claim links.', takes: ['refunds.request'] },
  payouts: { about: 'Request, read and cancel payouts, and receive their events.', takes: ['payouts.read', 'payouts.request'] },
  webhooks: {
    about: 'Manage webhook endpoints and their secrets, and read and resend deliveries.',
    takes: ['webhooks.read', 'webhooks.send', 'webhooks.manage', 'webhooks.secrets'],
  },
  lookups: { about: 'Look up prices, network fees, balances and transactions.', takes: [] },
} as const satisfies Record<string, { about: string; takes: readonly Action[] }>;
export type KeyPermission = keyof typeof KEY_PERMISSIONS;
export const KEY_PERMISSION_NAMES = Object.keys(KEY_PERMISSIONS) as KeyPermission[];

/** Whether a role includes all of the actions. */
export const mayDoAll = (role: MemberRole, actions: readonly Action[]): boolean => actions.every((action) => mayDo(role, action));
/** What a member with the role may give a key; nothing, if the role has no access to keys. */
export const grantable = (role: MemberRole): KeyPermission[] =>
  KEY_PERMISSION_NAMES.filter((name) => mayDoAll(role, ['keys.manage', ...KEY_PERMISSIONS[name].takes]));
/** Permissions in their usual order, each once. */
export const inOrder = (names: readonly string[]): KeyPermission[] => KEY_PERMISSION_NAMES.filter((name) => names.includes(name));
