/** The row height of all tables, stored in this browser for each user. */
import { createStore } from './store.ts';

export type Density = 'comfortable' | 'compact';

const keyOf = (userId: string): string => `florin-density-${userId}`;
let person: string | null = null;
export const density = createStore<Density>('comfortable');

// The rule is in style.css and applies to all tables, so rows are not rendered again.
const apply = () => {
  document.documentElement.dataset.density = density.get();
};

/** Applies what the signed-in user chose in this browser. */
export function readDensity(userId: string): void {
  person = userId;
  try {
    density.set(localStorage.getItem(keyOf(userId)) === 'compact' ? 'compact' : 'comfortable');
  } catch {
    // No storage in this browser: keep the default.
  }
  apply();
}

export function setDensity(value: Density): void {
  density.set(value);
  // Updates the button first. Moving a thousand rows can wait for the next frame.
  requestAnimationFrame(() => setTimeout(apply));
  try {
    if (person !== null) localStorage.setItem(keyOf(person), value);
  } catch {
    // Without storage, the choice lasts until the page is closed.
  }
}
