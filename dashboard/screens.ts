/** All screens below /dashboard/:mode. A new screen is a file that exports `Screen`, and a line here; `nav` puts it into the navigation. */
import type { ComponentType } from 'react';
import type { Action } from './generated/api.ts';
import type { IconName } from './ui/icon.tsx';

export type ScreenEntry = {
  /** Below the mode; `$id` is a parameter. */
  path: string;
  nav?: { label: string; icon: IconName; group: 'Business' | 'Developers' | 'Settings'; counts?: 'attention' };
  /** Without it neither the entry nor the screen is shown. */
  action: Action;
  load: () => Promise<{ Screen: ComponentType }>;
};

export const SCREENS: readonly ScreenEntry[] = [
  {
    path: 'home',
    nav: { label: 'Home', icon: 'home', group: 'Business' },
    action: 'home.read',
    load: () => import('./screens/home/home.tsx'),
  },
  {
    path: 'payments',
    nav: { label: 'Payments', icon: 'payments', group: 'Business' },
    action: 'payments.read',
    load: () => import('./screens/payments/payments.tsx'),
  },
  { path: 'payments/$id', action: 'payments.read', load: () => import('./screens/payment/payment.tsx') },
  {
    path: 'attention',
    nav: { label: 'Needs attention', icon: 'alert', group: 'Business', counts: 'attention' },
    action: 'payments.read',
    load: () => import('./screens/attention.tsx'),
  },
  {
    path: 'reports',
    nav: { label: 'Reports', icon: 'report', group: 'Business' },
    action: 'payments.export',
    load: () => import('./screens/reports.tsx'),
  },
  {
    path: 'security',
    nav: { label: 'Security', icon: 'shield', group: 'Settings' },
    action: 'account.use',
    load: () => import('./screens/security.tsx'),
  },
];
