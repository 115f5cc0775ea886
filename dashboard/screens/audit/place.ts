/** Where the dashboard shows what a line of the audit log is about. */

/** Screens of one thing, by the prefix of its id. */
const THINGS: Readonly<Record<string, string>> = { pay: 'payments', key: 'keys', we: 'webhooks', req: 'requests' };
/** Where the rest is shown, by the part of the action before its dot. */
const PARTS: Readonly<Record<string, string>> = {
  link: 'links',
  chain: 'wallets',
  lightning: 'wallets',
  wallet: 'wallets',
  shop: 'shops',
  sweep: 'sweeps',
  payout: 'payouts',
  refund: 'refunds',
  member: 'team',
  invite: 'team',
  team: 'team',
  approvals: 'team',
  settings: 'business',
  plan: 'usage',
  payments: 'reports',
};

type Line = { action: string; object: string; after?: Readonly<Record<string, unknown>> | null };

/** Below the mode of the line; null: on no screen. `me` is the reader, whose own account has a screen; others are on the team screen. */
export function placeOf({ action, object, after }: Line, me: string | undefined): string | null {
  const part = action.split('.')[0]!;
  if (part === 'delivery') return typeof after?.endpoint === 'string' ? `webhooks/${after.endpoint}/deliveries` : 'webhooks';
  // It is gone.
  if (action === 'endpoint.delete') return 'webhooks';
  const screen = THINGS[object.split('_')[0]!];
  if (screen !== undefined) return `${screen}/${object}`;
  return PARTS[part] ?? (object === me ? 'security' : object.startsWith('usr_') ? 'team' : null);
}
