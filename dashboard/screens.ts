/** All screens below /dashboard/:mode. A new screen is a file that exports `Screen`, and an entry here; `nav` adds it to the navigation. */
import type { Action } from './generated/api.ts';
import type { Group, ScreenEntry } from './screen.ts';

/** The groups of the navigation, in their order. */
export const GROUPS = {
  overview: 'Overview',
  payments: 'Payments',
  money: 'Money',
  developers: 'Developers',
  settings: 'Settings',
  operator: 'Operator',
  account: 'Account',
} as const satisfies Readonly<Record<Group, string>>;

export const SCREENS: readonly ScreenEntry[] = [
  {
    path: 'home',
    nav: { label: 'Home', icon: 'home', group: 'overview' },
    action: 'home.read',
    load: () => import('./screens/home/home.tsx'),
  },
  {
    path: 'payments',
    nav: { label: 'Payments', icon: 'payments', group: 'payments' },
    action: 'payments.read',
    load: () => import('./screens/payments/payments.tsx'),
  },
  { path: 'payments/$id', action: 'payments.read', load: () => import('./screens/payment/payment.tsx') },
  {
    path: 'customers',
    nav: { label: 'Customers', icon: 'person', group: 'payments' },
    action: 'payments.read',
    load: () => import('./screens/customers/customers.tsx'),
  },
  { path: 'customers/$id', action: 'payments.read', load: () => import('./screens/customers/customer.tsx') },
  {
    path: 'attention',
    nav: { label: 'Needs attention', icon: 'alert', group: 'overview', counts: 'attention' },
    action: 'payments.read',
    load: () => import('./screens/attention.tsx'),
  },
  {
    path: 'keys',
    nav: { label: 'API keys', icon: 'key', group: 'developers' },
    action: 'keys.read',
    load: () => import('./screens/keys/list.tsx'),
  },
  { path: 'keys/$id', action: 'keys.read', load: () => import('./screens/keys/key.tsx') },
  {
    path: 'webhooks',
    nav: { label: 'Webhooks', icon: 'send', group: ['developers', 'settings'] },
    action: 'webhooks.read',
    load: () => import('./screens/webhooks/endpoints.tsx'),
  },
  { path: 'webhooks/$id', action: 'webhooks.read', load: () => import('./screens/webhooks/overview.tsx') },
  { path: 'webhooks/$id/deliveries', action: 'webhooks.read', load: () => import('./screens/webhooks/deliveries.tsx') },
  { path: 'webhooks/$id/recover', action: 'webhooks.read', load: () => import('./screens/webhooks/recover.tsx') },
  { path: 'webhooks/$id/settings', action: 'webhooks.read', load: () => import('./screens/webhooks/settings.tsx') },
  {
    path: 'links',
    nav: { label: 'Links & buttons', icon: 'link', group: 'payments' },
    action: 'links.read',
    load: () => import('./screens/links/links.tsx'),
  },
  {
    path: 'shops',
    nav: { label: 'Shops', icon: 'shop', group: 'payments' },
    action: 'keys.read',
    load: () => import('./screens/shops/shops.tsx'),
  },
  { path: 'shops/authorize', action: 'keys.read', load: () => import('./screens/shops/authorize.tsx') },
  { path: 'shops/$id', action: 'keys.read', load: () => import('./screens/shops/shop.tsx') },
  {
    path: 'wallets',
    nav: { label: 'Wallets', icon: 'wallet', group: 'money' },
    action: 'wallets.read',
    load: () => import('./screens/wallets/wallets.tsx'),
  },
  { path: 'wallets/$id', action: 'wallets.change', load: () => import('./screens/wallets/import.tsx') },
  {
    path: 'sweeps',
    nav: { label: 'Sweeps', icon: 'sweep', group: 'money' },
    action: 'sweeps.read',
    load: () => import('./screens/sweeps/sweeps.tsx'),
  },
  {
    path: 'refunds',
    nav: { label: 'Refunds', icon: 'refund', group: 'money' },
    action: 'payments.read',
    load: () => import('./screens/refunds/refunds.tsx'),
  },
  {
    path: 'payouts',
    nav: { label: 'Payouts', icon: 'payout', group: 'money' },
    action: 'payouts.read',
    load: () => import('./screens/payouts/payouts.tsx'),
  },
  {
    path: 'reports',
    nav: { label: 'Reports', icon: 'report', group: 'overview' },
    action: 'payments.export',
    load: () => import('./screens/reports.tsx'),
  },
  {
    path: 'business',
    nav: { label: 'Business', icon: 'shop', group: 'settings' },
    action: 'settings.read',
    load: () => import('./screens/settings/business.tsx'),
  },
  {
    path: 'checkout',
    nav: { label: 'Checkout', icon: 'phone', group: 'settings' },
    action: 'settings.read',
    load: () => import('./screens/settings/checkout.tsx'),
  },
  {
    path: 'team',
    nav: { label: 'Team', icon: 'people', group: 'settings' },
    action: 'team.read',
    load: () => import('./screens/team.tsx'),
  },
  {
    path: 'usage',
    nav: { label: 'Plan & usage', icon: 'gauge', group: 'settings' },
    action: 'usage.read',
    load: () => import('./screens/usage.tsx'),
  },
  {
    path: 'events',
    nav: { label: 'Events', icon: 'bolt', group: 'developers' },
    action: 'events.read',
    load: () => import('./screens/events.tsx'),
  },
  { path: 'events/$id', action: 'events.read', load: () => import('./screens/event.tsx') },
  {
    path: 'requests',
    nav: { label: 'Request log', icon: 'log', group: 'developers' },
    action: 'requests.read',
    load: () => import('./screens/requests.tsx'),
  },
  { path: 'requests/$id', action: 'requests.read', load: () => import('./screens/request.tsx') },
  {
    path: 'security',
    nav: { label: 'Security', icon: 'shield', group: 'account' },
    action: 'account.use',
    withoutFactor: true,
    load: () => import('./screens/security/security.tsx'),
  },
  {
    path: 'notifications',
    nav: { label: 'Notifications', icon: 'bell', group: 'account' },
    action: 'account.use',
    load: () => import('./screens/notifications/notifications.tsx'),
  },
  {
    path: 'language',
    nav: { label: 'Language', icon: 'globe', group: 'account' },
    action: 'account.use',
    withoutFactor: true,
    load: () => import('./screens/language.tsx'),
  },
  {
    path: 'audit',
    nav: { label: 'Audit log', icon: 'clock', group: 'settings' },
    action: 'audit.read',
    load: () => import('./screens/audit/audit.tsx'),
  },
  {
    path: 'operator',
    nav: { label: 'Operator', icon: 'settings', group: 'operator' },
    action: 'account.use',
    operator: true,
    load: () => import('./screens/operator.tsx'),
  },
];

type Who = { actions: readonly Action[]; is_operator: boolean; must_set_second_factor: boolean } | null;
/** The screens that a member can open. */
export const shownScreens = (screens: readonly ScreenEntry[], who: Who): ScreenEntry[] =>
  screens.filter(
    (screen) =>
      who?.actions.includes(screen.action) &&
      (!screen.operator || who.is_operator) &&
      (!who.must_set_second_factor || screen.withoutFactor),
  );
