/** How closely the rows of all tables stand; kept in this browser for each person. */
import { createStore } from './store.ts';

export type Density = 'comfortable' | 'compact';

const keyOf = (userId: string): string => `florin-density-${userId}`;
let person: string | null = null;
export const density = createStore<Density>('comfortable');

// Its rule is in style.css: one for every table, so that no row is drawn anew.
const apply = () => {
  document.documentElement.dataset.density = density.get();
};

/** What whoever is signed in chose here before. */
export function readDensity(userId: string): void {
  person = userId;
  try {
    density.set(localStorage.getItem(keyOf(userId)) === 'compact' ? 'compact' : 'comfortable');
  } catch {
    // A browser that keeps nothing: the usual one stays.
  }
  apply();
}

export function setDensity(value: Density): void {
  density.set(value);
  // The button answers at once; a thousand rows take their new places in the frame after.
  requestAnimationFrame(() => setTimeout(apply));
  try {
    if (person !== null) localStorage.setItem(keyOf(person), value);
  } catch {
    // It holds until the page is left.
  }
}
