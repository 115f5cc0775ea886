/** Who may do what in the dashboard: one table. */
export const ROLES = ['owner', 'admin', 'developer', 'finance', 'support', 'viewer'] as const;
export type MemberRole = (typeof ROLES)[number];

const EVERYBODY = ROLES;
/** Action -> roles. Every route of the dashboard names one of these. */
export const ACTIONS = {
  'account.use': EVERYBODY,
  'payments.read': EVERYBODY,
  'payments.cancel': ['owner', 'admin', 'finance'],
  'payments.resolve': ['owner', 'admin', 'finance'],
  'keys.read': ['owner', 'admin', 'developer'],
  'keys.manage': ['owner', 'admin', 'developer'],
  'events.read': ['owner', 'admin', 'developer', 'support'],
  'requests.read': ['owner', 'admin', 'developer', 'support'],
} as const satisfies Record<string, readonly MemberRole[]>;
export type Action = keyof typeof ACTIONS;

export const mayDo = (role: MemberRole, action: Action): boolean => (ACTIONS[action] as readonly MemberRole[]).includes(role);
export const actionsOf = (role: MemberRole): Action[] => (Object.keys(ACTIONS) as Action[]).filter((action) => mayDo(role, action));
