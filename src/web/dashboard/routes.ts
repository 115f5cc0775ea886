/** All areas of the dashboard's API. A new area is a file of routes and a line here. */
import { ACCOUNT } from './account.ts';
import { LINKS } from './links.ts';
import { PAYMENTS } from './payments.ts';
import type { Route } from './route.ts';
import { SETTINGS } from './settings.ts';
import { WALLETS } from './wallets.ts';
import { WEBHOOKS } from './webhooks.ts';

export const DASHBOARD_ROUTES: readonly Route[] = [...ACCOUNT, ...PAYMENTS, ...WEBHOOKS, ...WALLETS, ...LINKS, ...SETTINGS];
