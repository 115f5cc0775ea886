/** Light, dark, or as the system has it; kept in this browser. */
import { createStore } from './store.ts';

export type Theme = 'system' | 'light' | 'dark';
const KEY = 'florin-theme';
const stored = (): Theme => {
  try {
    const value = localStorage.getItem(KEY);
    return value === 'light' || value === 'dark' ? value : 'system';
  } catch {
    // A browser that keeps nothing: the system decides.
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
    // It holds until the page is left.
  }
}
apply();
