/** What each role may do, in words: the sentences on the team page, and `docs/reference/roles.md`. Made from the table of roles and the routes. */
import {
  ACTIONS,
  type Action,
  grantable,
  KEY_PERMISSION_NAMES,
  KEY_PERMISSIONS,
  type MemberRole,
  mayDo,
  mayDoAll,
  ROLES,
} from '../src/core/roles.ts';
import { DASHBOARD_ROUTES } from '../src/web/dashboard/serve.ts';

/** One sentence or two for each role. A test compares what they claim with the table. */
export const ROLE_MEANS: Readonly<Record<MemberRole, string>> = {
  owner: 'Full access, including managing owners.',
  admin: 'Full access, except approving refunds and payouts, sweeps, managing owners and finance members, and confirming wallet changes.',
  developer:
    'Manages API keys, webhooks and payment links. Can create payments. Can’t see payouts, decide about money, refund or pay out, and neither can their API keys.',
  finance:
    'Decides about payments, approves refunds and payouts, moves money and exports data. Can’t see API keys, events or the request log.',
  support: 'Can create payments, edit their details, request refunds and resend webhooks. Can’t see payouts.',
  viewer: 'Can see payments, refunds, links, wallets, webhooks and settings, and change nothing. Can’t see payouts.',
};

type Row = readonly [words: string, ...actions: Action[]];
const GROUPS: readonly { title: string; rows: readonly Row[] }[] = [
  {
    title: 'Payments',
    rows: [
      ['See the figures on Home', 'home.read'],
      ['See payments, refunds and what needs attention', 'payments.read'],
      ['Create payments and change their metadata', 'payments.create', 'payments.edit'],
      ['Simulate what happens to a test payment', 'payments.simulate'],
      [
        'Cancel and archive payments, and accept or reject late or unusual money',
        'payments.cancel',
        'payments.archive',
        'payments.resolve',
      ],
      ['Export payments, reports and the books', 'payments.export'],
    ],
  },
  {
    title: 'Refunds and payouts',
    rows: [
      ['Request refunds and renew their claim links', 'refunds.request'],
      ['Approve refunds, mark them as sent, and cancel them', 'refunds.approve'],
      ['See and request payouts', 'payouts.read', 'payouts.request'],
      ['Approve payouts, mark them as sent, and cancel them', 'payouts.approve'],
    ],
  },
  {
    title: 'Wallets and moving money',
    rows: [
      ['See wallets', 'wallets.read'],
      ['Add, change and pause wallets', 'wallets.change'],
      ['Confirm a wallet change early, and turn the waiting period off', 'wallets.confirm', 'wallets.wait'],
      ['See sweeps', 'sweeps.read'],
      ['Make and upload signing files, and ask to change a destination', 'sweeps.use'],
      ['Confirm a new destination early', 'sweeps.confirm'],
    ],
  },
  {
    title: 'Selling',
    rows: [
      ['See payment links and buttons', 'links.read'],
      ['Create and change payment links', 'links.write'],
    ],
  },
  {
    title: 'Developers',
    rows: [
      ['See API keys and connected shops', 'keys.read'],
      ['Create, roll and revoke API keys, and connect shops', 'keys.manage'],
      ['See webhook endpoints and deliveries', 'webhooks.read'],
      ['Send test events and resend deliveries', 'webhooks.send'],
      ['Add, change and delete endpoints', 'webhooks.manage'],
      ['See and roll signing secrets', 'webhooks.secrets'],
      ['See events and the request log', 'events.read', 'requests.read'],
    ],
  },
  {
    title: 'Business and team',
    rows: [
      ['See the settings', 'settings.read'],
      ['Change the settings and choose stablecoins', 'settings.write'],
      ['See the team', 'team.read'],
      ['Invite, change and remove members', 'team.manage'],
      ['Do so with owners and finance members, and change the limit above which two members approve', 'approvals.manage'],
      ['See the plan and its usage', 'usage.read'],
      ['See the audit log', 'audit.read'],
      ['Manage your own account and notifications', 'account.use'],
    ],
  },
];

/** Fails if an action has no row, or if a row would be true for only some of its actions. */
function checkRows(): void {
  const rows = GROUPS.flatMap(({ rows }) => rows);
  const listed = rows.flatMap(([, ...actions]) => actions);
  const missing = (Object.keys(ACTIONS) as Action[]).filter((action) => listed.filter((one) => one === action).length !== 1);
  if (missing.length > 0) throw new Error(`scripts/roles-page.ts needs one row for ${missing.join(', ')}`);
  for (const [words, first, ...more] of rows)
    if (more.some((action) => ROLES.some((role) => mayDo(role, action) !== mayDo(role, first!))))
      throw new Error(`"${words}" is different actions for different roles: split the row`);
}

/** Whether everything that a member can do with these actions asks to confirm the identity. */
function isConfirmed(actions: readonly Action[]): boolean {
  const acts = DASHBOARD_ROUTES.filter((route) => !route.open && route.method !== 'GET' && actions.includes(route.action));
  return acts.length > 0 && acts.every((route) => !route.open && route.recent);
}

const PEOPLE: Readonly<Record<MemberRole, string>> = {
  ...{ owner: 'owners', admin: 'admins', developer: 'developers', finance: 'finance members', support: 'support members' },
  viewer: 'viewers',
};
const namesOf = (roles: readonly MemberRole[]): string =>
  new Intl.ListFormat('en-US').format(roles.map((role) => PEOPLE[role])).replace(/, and /, ' and ');
const peopleWith = (...actions: Action[]): string => namesOf(ROLES.filter((role) => mayDoAll(role, actions)));
const capital = (text: string): string => `${text[0]!.toUpperCase()}${text.slice(1)}`;

const groupText = ({ title, rows }: (typeof GROUPS)[number]): string => `### ${title}

| | ${ROLES.map(capital).join(' | ')} |
|---|${ROLES.map(() => '---').join('|')}|
${rows
  .map(
    ([words, ...actions]) =>
      `| ${words}${isConfirmed(actions) ? '\u00a0*' : ''} | ${ROLES.map((role) => (mayDo(role, actions[0]!) ? 'Yes' : 'No')).join(' | ')} |`,
  )
  .join('\n')}
`;

/** The permissions of secret keys, with the members who can give them. */
const keysText = (): string => `## What API keys may do and read

A secret key is not a member. It has [permissions](../guides/api-keys.md), at most those that the role of the member who creates it includes, and keeps them when that role changes. It never opens the dashboard, and it approves nothing: members do that. A read-only key changes nothing. A public key only creates payments.

| Permission | What a key with it may do | Who can give it to a key |
|---|---|---|
${KEY_PERMISSION_NAMES.map((name) => `| \`${name}\` | ${KEY_PERMISSIONS[name].about} | ${namesOf(ROLES.filter((role) => grantable(role).includes(name)))} |`).join('\n')}

What is hidden from members is hidden from keys too. A key without \`payouts\` finds no payout in events, webhook deliveries or the request log. A key without \`webhooks\` reads no endpoint and no delivery, and its request log has no requests about them.
`;

/** The page. */
export function rolesPage(): string {
  checkRows();
  return `# Roles

Every member of a business has one role, which decides what the member sees and does in the dashboard. ${capital(peopleWith('team.manage'))} give roles under **Team**; only owners do so with owners and finance members, because these approve refunds and payouts. When a member is removed or gets another role, what they set going and may no longer do ends with it: invites, requested changes of wallets and destinations, and first approvals. A person who works for several businesses has a role in each of them.

${ROLES.map((role) => `- **${capital(role)}.** ${ROLE_MEANS[role].replaceAll('’', "'")}`).join('\n')}

A role is the same in test mode and in live mode. A change takes effect with the member's next click. Who operates the install is not a role: operators also open the **Operator** page, whatever their role, once they have set up two-factor authentication.

## What each role may do

Actions with * always ask you to confirm your identity if you signed in more than ten minutes ago. Some others ask when what you do is risky, such as accepting money, exporting data or changing the URL of a webhook endpoint.

${GROUPS.map(groupText).join('\n')}
## What is hidden from whom

A page that your role does not include says which role you need. What your role may not see is hidden on all other pages too: it is missing from lists and searches, and opening it says that it does not exist.

| What | Who sees it | Where it is hidden from the others |
|---|---|---|
| Payouts, which can be salaries: recipient, address, amount, reference, description | ${peopleWith('payouts.read')} | Payouts, events, webhook deliveries, the request log, notifications and their emails, the last use of an API key |
| Signatures of webhooks, what your server answered, and everything in a webhook URL but its host | ${peopleWith('webhooks.secrets')} | Webhook endpoints, deliveries. Requests about webhooks are missing from the request log |
| Links for customers to enter the address of their refund | ${peopleWith('refunds.request')} | Refunds |
| The link to the API key that created a payment or decided about it | ${peopleWith('keys.read')} | The timeline of a payment |

Signing secrets, API keys and passwords are redacted in the request log for everyone. Nobody sees an API key again after it was created.

You cannot send to a server of yours what you may not read. Only ${peopleWith('payouts.read', 'webhooks.manage')} add events of payouts to a webhook endpoint, or change the URL of an endpoint that has them. Resending a delivery needs the same access as reading it.

${keysText()}`;
}
