/** All areas of the dashboard's API. A new area is a file of routes and a line here. */
import { ACCOUNT } from './account.ts';
import { AUDIT } from './audit.ts';
import { LINKS } from './links.ts';
import { NOTICES } from './notices.ts';
import { OPERATOR } from './operator.ts';
import { PAYMENTS } from './payments.ts';
import type { Route } from './route.ts';
import { SECURITY } from './security.ts';
import { SETTINGS } from './settings.ts';
import { TEAM } from './team.ts';
import { USAGE } from './usage.ts';
import { WALLETS } from './wallets.ts';
import { WEBHOOKS } from './webhooks.ts';

export const DASHBOARD_ROUTES: readonly Route[] = [
  ...ACCOUNT,
  ...LINKS,
  ...PAYMENTS,
  ...SETTINGS,
  ...WALLETS,
  ...WEBHOOKS,
  ...AUDIT,
  ...NOTICES,
  ...OPERATOR,
  ...SECURITY,
  ...TEAM,
  ...USAGE,
];
