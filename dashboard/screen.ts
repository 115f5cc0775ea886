/** What a screen is: its code, and its entry in the list of screens. */
import type { ComponentType } from 'react';
import type { Action } from './generated/api.ts';
import type { ReadAhead } from './lib/hooks.ts';
import type { IconName } from './ui/icon.tsx';

/** `account`: in the menu of the account, not in the navigation. */
export type Group = 'overview' | 'payments' | 'money' | 'developers' | 'settings' | 'operator' | 'account';
/** `begin` is called as soon as the code is loaded, before anything is drawn, so that the screen's data is requested early. */
export type ScreenModule = { Screen: ComponentType; begin?: (read: ReadAhead, search: Record<string, unknown>) => void };
export type ScreenEntry = {
  /** Below the mode; `$id` is a parameter. */
  path: string;
  nav?: { label: string; icon: IconName; group: Group | readonly Group[]; counts?: 'attention' };
  /** Members whose role lacks it see neither the entry nor the screen. */
  action: Action;
  /** Only for operators of the install. */
  operator?: true;
  /** About the member's own account: also for members who must set up two-factor authentication first. */
  withoutFactor?: true;
  load: () => Promise<ScreenModule>;
};
