/** All routes of the API. A new area is a file of routes and a line here. */
import { LOOK_UPS } from './crypto.ts';
import { CUSTOMER_ROUTES } from './customer-routes.ts';
import { LINK_ROUTES } from './link-routes.ts';
import { PAYMENT_CHANGES, PAYMENT_EVENT_ROUTES, TEST_MODE } from './payment-changes.ts';
import { PAYMENT_ROUTES } from './payment-routes.ts';
import { PAYOUT_ROUTES, REFUND_ROUTES } from './refund-routes.ts';
import { REQUEST_LOG } from './request-log.ts';
import type { ApiRoute } from './route.ts';
import { WEBHOOK_ROUTES } from './webhook-routes.ts';

/** The groups of routes, in the order in which documents list them. */
export const GROUPS: readonly { name: string; about: string; owns: RegExp }[] = [
  {
    name: 'Payments',
    about: 'Create payments, read them, and decide about unusual ones.',
    owns: /^\/(payments|api\/payment|v1\/transactions|v1\/payments)/,
  },
  { name: 'Payment links', about: 'Pages that create a payment for each customer who opens them.', owns: /^\/v1\/payment_links/ },
  { name: 'Customers', about: 'Who your payments are for.', owns: /^\/v1\/customers/ },
  { name: 'Refunds', about: 'Return money to customers. You sign each refund with your own keys.', owns: /^\/v1\/refunds/ },
  { name: 'Payouts', about: 'Send money to others, such as suppliers. You sign each payout with your own keys.', owns: /^\/v1\/payouts/ },
  { name: 'Market and chain', about: 'Prices, balances, fees and on-chain transactions.', owns: /^\/api\/crypto/ },
  { name: 'Events', about: 'What happened to your payments, refunds and payouts.', owns: /^\/v1\/events/ },
  { name: 'Webhooks', about: 'Endpoints that receive events, and the log of deliveries.', owns: /^\/v1\/webhook/ },
  { name: 'Test mode', about: 'Simulate customers and time.', owns: /^\/v1\/test/ },
  { name: 'Requests', about: 'The log of requests made with your API keys.', owns: /^\/v1\/requests/ },
];
export const routeGroup = (route: ApiRoute): string => GROUPS.find(({ owns }) => owns.test(route.path))!.name;

/** Paths outside /v1 are also served under /v1: the same route for limits and idempotency. */
export const ROUTES: readonly ApiRoute[] = [
  ...PAYMENT_ROUTES,
  ...LOOK_UPS,
  ...PAYMENT_CHANGES,
  ...LINK_ROUTES,
  ...CUSTOMER_ROUTES,
  ...REFUND_ROUTES,
  ...PAYOUT_ROUTES,
  ...PAYMENT_EVENT_ROUTES,
  ...WEBHOOK_ROUTES,
  ...REQUEST_LOG,
  ...TEST_MODE,
];

/** As documents list them: the one way to create a payment first, and the oldest ones last. */
export const DOCUMENTED_ROUTES: readonly ApiRoute[] = ROUTES.toSorted((a, b) => rankOf(a) - rankOf(b));
function rankOf({ path }: ApiRoute): number {
  if (path.startsWith('/v1/payments')) return 0;
  return path === '/payments' || path === '/v1/transactions/create' ? 2 : 1;
}

/** The path of a route as documents write it. */
export const documentedPath = (route: ApiRoute): string => route.path.replace(/:(\w+)/g, '{$1}');
/** Each operation with its anchor in the interactive reference, which groups operations by tag. */
export const listOperations = (): { summary: string; address: string; anchor: string }[] =>
  ROUTES.map((route) => {
    const [path, tag] = [documentedPath(route), routeGroup(route).toLowerCase().replaceAll(' ', '-')];
    return { summary: route.summary, address: `${route.method} ${path}`, anchor: `tag/${tag}/${route.method}${path}` };
  });
