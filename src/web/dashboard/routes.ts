/** All areas of the dashboard's API. A new area is a file of routes and a line here. */
import { ACCOUNT } from './account-api.ts';
import { ATTENTION } from './attention-api.ts';
import { AUDIT } from './audit-api.ts';
import { EVENTS } from './events-api.ts';
import { HOME } from './home-api.ts';
import { KEYS } from './keys-api.ts';
import { LINKS } from './links-api.ts';
import { NOTICES } from './notices-api.ts';
import { OPERATOR } from './operator-api.ts';
import { PAYMENT_ACTS } from './payment-acts-api.ts';
import { PAYMENTS } from './payments-api.ts';
import { PAYOUTS } from './payouts-api.ts';
import { REFUNDS } from './refunds-api.ts';
import { REPORTS } from './reports-api.ts';
import { REQUESTS } from './requests-api.ts';
import type { Route } from './route.ts';
import { SECURITY } from './security-api.ts';
import { SETTINGS } from './settings-api.ts';
import { SHOP_PAGE } from './shop-page-api.ts';
import { SHOPS } from './shops-api.ts';
import { SWEEPS } from './sweeps-api.ts';
import { TEAM } from './team-api.ts';
import { USAGE } from './usage-api.ts';
import { WALLETS } from './wallets-api.ts';
import { WEBHOOKS } from './webhooks-api.ts';

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
  ...PAYOUTS,
  ...REFUNDS,
  ...REPORTS,
  ...SECURITY,
  ...SETTINGS,
  ...SHOPS,
  ...SHOP_PAGE,
  ...SWEEPS,
  ...TEAM,
  ...USAGE,
  ...WALLETS,
  ...WEBHOOKS,
  ...EVENTS,
  ...KEYS,
  ...REQUESTS,
];
