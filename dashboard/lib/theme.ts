/** Light, dark, or system theme, stored in this browser. */
import { createStore } from './store.ts';

export type Theme = 'system' | 'light' | 'dark';
const KEY = 'florin-theme';
const stored = (): Theme => {
  try {
    const value = localStorage.getItem(KEY);
    return value === 'light' || value === 'dark' ? value : 'system';
  } catch {
    // No storage in this browser: follow the system.
    return 'system';
  }
};
export const theme = createStore<Theme>(stored());

const apply = () => {
  if (theme.get() === 'system') delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme.get();
};
export function setTheme(value: Theme): void {
  theme.set(value);
  apply();
  try {
    localStorage.setItem(KEY, value);
  } catch {
    // Without storage, the choice lasts until the page is closed.
  }
}
apply();
