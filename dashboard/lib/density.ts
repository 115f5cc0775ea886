/** How closely the rows of all tables stand; kept in this browser for each person. */
import { createStore } from './store.ts';

export type Density = 'comfortable' | 'compact';

const keyOf = (userId: string): string => `florin-density-${userId}`;
let person: string | null = null;
export const density = createStore<Density>('comfortable');

const apply = (value: Density) => {
  density.set(value);
  // Its rule is in style.css: one for every table, so that no row is drawn anew.
  document.documentElement.dataset.density = value;
};

/** What whoever is signed in chose here before. */
export function readDensity(userId: string): void {
  person = userId;
  try {
    apply(localStorage.getItem(keyOf(userId)) === 'compact' ? 'compact' : 'comfortable');
  } catch {
    // A browser that keeps nothing.
    apply('comfortable');
  }
}

export function setDensity(value: Density): void {
  apply(value);
  try {
    if (person !== null) localStorage.setItem(keyOf(person), value);
  } catch {
    // It holds until the page is left.
  }
}
