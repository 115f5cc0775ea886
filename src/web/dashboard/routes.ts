/** All areas of the dashboard's API. A new area is a file of routes and a line here. */
import { ACCOUNT } from './account.ts';
import { ATTENTION } from './attention.ts';
import { AUDIT } from './audit.ts';
import { EVENTS } from './events.ts';
import { HOME } from './home.ts';
import { KEYS } from './keys.ts';
import { LINKS } from './links.ts';
import { NOTICES } from './notices.ts';
import { OPERATOR } from './operator.ts';
import { PAYMENT_ACTS } from './payment-acts.ts';
import { PAYMENTS } from './payments.ts';
import { REPORTS } from './reports.ts';
import { REQUESTS } from './requests.ts';
import type { Route } from './route.ts';
import { SECURITY } from './security.ts';
import { SETTINGS } from './settings.ts';
import { TEAM } from './team.ts';
import { USAGE } from './usage.ts';
import { WALLETS } from './wallets.ts';
import { WEBHOOKS } from './webhooks.ts';

export const DASHBOARD_ROUTES: readonly Route[] = [
  ...ACCOUNT,
  ...ATTENTION,
  ...AUDIT,
  ...HOME,
  ...LINKS,
  ...NOTICES,
  ...OPERATOR,
  ...PAYMENT_ACTS,
  ...PAYMENTS,
  ...REPORTS,
  ...SECURITY,
  ...SETTINGS,
  ...TEAM,
  ...USAGE,
  ...WALLETS,
  ...WEBHOOKS,
  ...EVENTS,
  ...KEYS,
  ...REQUESTS,
];
