/** All areas of the dashboard's API. A new area is a file of routes and a line here. */
import { ACCOUNT } from './account.ts';
import { ATTENTION } from './attention.ts';
import { HOME } from './home.ts';
import { PAYMENT_ACTS } from './payment-acts.ts';
import { PAYMENTS } from './payments.ts';
import { REPORTS } from './reports.ts';
import type { Route } from './route.ts';

export const DASHBOARD_ROUTES: readonly Route[] = [...ACCOUNT, ...PAYMENTS, ...PAYMENT_ACTS, ...ATTENTION, ...HOME, ...REPORTS];
