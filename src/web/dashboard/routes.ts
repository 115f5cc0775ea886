/** All areas of the dashboard's API. A new area is a file of routes and a line here. */
import { ACCOUNT } from './account-api.ts';
import { ATTENTION } from './attention-api.ts';
import { AUDIT } from './audit-api.ts';
import { EVENT_ROUTES } from './events-api.ts';
import { HOME } from './home-api.ts';
import { KEYS } from './keys-api.ts';
import { LINKS } from './links-api.ts';
import { NOTICES } from './notices-api.ts';
import { OPERATOR_ROUTES } from './operator-api.ts';
import { PAYMENT_ACTS } from './payment-acts-api.ts';
import { DASHBOARD_PAYMENTS } from './payments-api.ts';
import { DASHBOARD_PAYOUTS } from './payouts-api.ts';
import { DASHBOARD_REFUNDS } from './refunds-api.ts';
import { REPORTS } from './reports-api.ts';
import { REQUESTS } from './requests-api.ts';
import type { DashboardRoute } from './route.ts';
import { SECURITY } from './security-api.ts';
import { SETTINGS } from './settings-api.ts';
import { SHOP_PAGE } from './shop-page-api.ts';
import { SHOPS } from './shops-api.ts';
import { SWEEPS } from './sweeps-api.ts';
import { TEAM } from './team-api.ts';
import { USAGE } from './usage-api.ts';
import { WALLETS } from './wallets-api.ts';
import { DASHBOARD_WEBHOOKS } from './webhooks-api.ts';

export const DASHBOARD_ROUTES: readonly DashboardRoute[] = [
  ...ACCOUNT,
  ...ATTENTION,
  ...AUDIT,
  ...HOME,
  ...LINKS,
  ...NOTICES,
  ...OPERATOR_ROUTES,
  ...PAYMENT_ACTS,
  ...DASHBOARD_PAYMENTS,
  ...DASHBOARD_PAYOUTS,
  ...DASHBOARD_REFUNDS,
  ...REPORTS,
  ...SECURITY,
  ...SETTINGS,
  ...SHOPS,
  ...SHOP_PAGE,
  ...SWEEPS,
  ...TEAM,
  ...USAGE,
  ...WALLETS,
  ...DASHBOARD_WEBHOOKS,
  ...EVENT_ROUTES,
  ...KEYS,
  ...REQUESTS,
];
