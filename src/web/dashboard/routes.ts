/** All areas of the dashboard's API. A new area is a file of routes and a line here. */
import { ACCOUNT } from './account.ts';
import { EVENTS } from './events.ts';
import { KEYS } from './keys.ts';
import { PAYMENTS } from './payments.ts';
import { REQUESTS } from './requests.ts';
import type { Route } from './route.ts';

export const DASHBOARD_ROUTES: readonly Route[] = [...ACCOUNT, ...PAYMENTS, ...KEYS, ...EVENTS, ...REQUESTS];
