/** A value outside of React that components may watch. */
import { useSyncExternalStore } from 'react';

export type Store<T> = { get(): T; set(value: T): void; subscribe(listener: () => void): () => void };

export function createStore<T>(value: T): Store<T> {
  const listeners = new Set<() => void>();
  let current = value;
  return {
    get: () => current,
    set: (next) => {
      current = next;
      for (const listener of listeners) listener();
    },
    subscribe: (listener) => {
      listeners.add(listener);
      return () => void listeners.delete(listener);
    },
  };
}
export const useStore = <T>(store: Store<T>): T => useSyncExternalStore(store.subscribe, store.get);
