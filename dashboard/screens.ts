/** All screens below /dashboard/:mode. A new screen is a file that exports `Screen`, and a line here; `nav` puts it into the navigation. */
import type { ComponentType } from 'react';
import type { Action } from './generated/api.ts';
import type { IconName } from './ui/icon.tsx';

export type ScreenEntry = {
  /** Below the mode; `$id` is a parameter. */
  path: string;
  nav?: { label: string; icon: IconName; group: 'Business' | 'Developers' | 'Settings' };
  /** Without it neither the entry nor the screen is shown. */
  action: Action;
  load: () => Promise<{ Screen: ComponentType }>;
};

export const SCREENS: readonly ScreenEntry[] = [
  {
    path: 'payments',
    nav: { label: 'Payments', icon: 'payments', group: 'Business' },
    action: 'payments.read',
    load: () => import('./screens/payments.tsx'),
  },
  { path: 'payments/$id', action: 'payments.read', load: () => import('./screens/payment.tsx') },
  {
    path: 'keys',
    nav: { label: 'API keys', icon: 'key', group: 'Developers' },
    action: 'keys.read',
    load: () => import('./screens/keys/list.tsx'),
  },
  { path: 'keys/$id', action: 'keys.read', load: () => import('./screens/keys/key.tsx') },
  {
    path: 'events',
    nav: { label: 'Events', icon: 'bolt', group: 'Developers' },
    action: 'events.read',
    load: () => import('./screens/events.tsx'),
  },
  { path: 'events/$id', action: 'events.read', load: () => import('./screens/event.tsx') },
  {
    path: 'requests',
    nav: { label: 'Request log', icon: 'log', group: 'Developers' },
    action: 'requests.read',
    load: () => import('./screens/requests.tsx'),
  },
  { path: 'requests/$id', action: 'requests.read', load: () => import('./screens/request.tsx') },
  {
    path: 'security',
    nav: { label: 'Security', icon: 'shield', group: 'Settings' },
    action: 'account.use',
    load: () => import('./screens/security.tsx'),
  },
];
