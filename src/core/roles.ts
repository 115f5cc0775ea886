/** Who may do what: members by their roles in the dashboard, and secret keys by their permissions. One table each. */

export const ROLES = ['owner', 'admin', 'developer', 'finance', 'support', 'viewer'] as const;
export type MemberRole = (typeof ROLES)[number];

const EVERYONE = ROLES;
/** The roles of each action. Every dashboard route names one of these actions. */
export const ACTIONS = {
  'account.use': EVERYONE,
  'payments.read': EVERYONE,
  'home.read': EVERYONE,
  'payments.create': ['owner', 'admin', 'developer', 'finance', 'support'],
  'payments.export': ['owner', 'admin', 'finance'],
  'payments.edit': ['owner', 'admin', 'developer', 'finance', 'support'],
  'payments.simulate': ['owner', 'admin', 'developer'],
  'payments.cancel': ['owner', 'admin', 'finance'],
  'payments.resolve': ['owner', 'admin', 'finance'],
  'refunds.request': ['owner', 'admin', 'finance', 'support'],
  // Not admins: they request refunds and payouts.
  'refunds.approve': ['owner', 'finance'],
  // Not everyone: payouts can be salaries.
  'payouts.read': ['owner', 'admin', 'finance'],
  'payouts.request': ['owner', 'admin', 'finance'],
  'payouts.approve': ['owner', 'finance'],
  'payments.archive': ['owner', 'admin', 'finance'],
  'webhooks.read': EVERYONE,
  'webhooks.send': ['owner', 'admin', 'developer', 'support'],
  'webhooks.manage': ['owner', 'admin', 'developer'],
  'webhooks.secrets': ['owner', 'admin', 'developer'],
  'wallets.read': EVERYONE,
  'wallets.change': ['owner', 'admin'],
  'wallets.confirm': ['owner'],
  'wallets.wait': ['owner'],
  'sweeps.read': ['owner', 'finance'],
  'sweeps.use': ['owner', 'finance'],
  'sweeps.confirm': ['owner'],
  'links.read': EVERYONE,
  'links.write': ['owner', 'admin', 'developer', 'finance'],
  'settings.read': EVERYONE,
  'settings.write': ['owner', 'admin'],
  'team.read': EVERYONE,
  'team.manage': ['owner', 'admin'],
  // The roles that approve money, and the limit above which two members approve. Who may change a rule must not profit from it.
  'approvals.manage': ['owner'],
  'audit.read': ['owner', 'admin'],
  'usage.read': ['owner', 'admin', 'developer', 'finance'],
  'keys.read': ['owner', 'admin', 'developer'],
  'keys.manage': ['owner', 'admin', 'developer'],
  'events.read': ['owner', 'admin', 'developer', 'support'],
  'requests.read': ['owner', 'admin', 'developer', 'support'],
} as const satisfies Record<string, readonly MemberRole[]>;
export type Action = keyof typeof ACTIONS;

export const mayDo = (role: MemberRole, action: Action): boolean => (ACTIONS[action] as readonly MemberRole[]).includes(role);
/** Whether a member may give this role to others, and take it from them. */
export const mayGive = (giver: MemberRole, role: MemberRole): boolean =>
  mayDo(giver, mayDo(role, 'refunds.approve') || mayDo(role, 'payouts.approve') ? 'approvals.manage' : 'team.manage');
/** The roles of an action in words: owner, admin or finance. */
export const rolesWith = (action: Action): string => ACTIONS[action].join(', ').replace(/, (?=\w+$)/, ' or ');
export const actionsOf = (role: MemberRole): Action[] => (Object.keys(ACTIONS) as Action[]).filter((action) => mayDo(role, action));

// What a secret key may do. A key can do at most what the role of the member who creates it allows.

/**
 * `about` says what a key with the permission can do. A member may give it to a key if the role of the member includes all of `takes`.
 * Every route of the API names one of these.
 */
export const KEY_PERMISSIONS = {
  payments: {
    about: 'Create payments and payment links, change the metadata of payments, and read payments, refunds and events.',
    takes: ['payments.read', 'payments.create', 'payments.edit', 'events.read', 'links.read', 'links.write'],
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
/** What a role includes of what keys may do. */
export const permissionsOf = (role: MemberRole): KeyPermission[] =>
  KEY_PERMISSION_NAMES.filter((name) => mayDoAll(role, KEY_PERMISSIONS[name].takes));
/** What a member with the role may give a key; nothing, if the role has no access to keys. */
export const grantable = (role: MemberRole): KeyPermission[] => (mayDo(role, 'keys.manage') ? permissionsOf(role) : []);
/** Permissions in their usual order, each once. */
export const inOrder = (names: readonly string[]): KeyPermission[] => KEY_PERMISSION_NAMES.filter((name) => names.includes(name));
